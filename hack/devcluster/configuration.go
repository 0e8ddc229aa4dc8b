package main

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	tracingFile   = "tracing.yaml"
	admissionFile = "admission.yaml"
	// auditFile is the log of the requests that the audit policy selects.
	auditFile = "audit.log"
	// webhookClient is the name of the API server's client certificate for webhooks, of its key and
	// of the kubeconfig with both.
	webhookClient = "webhook-client"
	// collectorSocket is the socket on which COMMAND may run an OpenTelemetry collector.
	collectorSocket = "otlp.sock"
)

// tracing makes the API server send only the spans of requests that a client has sampled. See
// https://kubernetes.io/docs/concepts/cluster-administration/system-traces/.
const tracing = `apiVersion: apiserver.config.k8s.io/v1beta1
kind: TracingConfiguration
endpoint: %q
samplingRatePerMillion: 0
`

// admission gives the API server a client certificate for webhooks that require one. See
// https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/.
const admission = `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: MutatingAdmissionWebhook
  configuration: &webhooks
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: %q
- name: ValidatingAdmissionWebhook
  configuration: *webhooks
`

// writeConfiguration writes the files for the API server's flags.
func (c *controlPlane) writeConfiguration() error {
	if err := os.WriteFile(c.path(tracingFile), fmt.Appendf(nil, tracing, "unix://"+c.path(collectorSocket)), 0o600); err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.AuthInfos["*"] = &clientcmdapi.AuthInfo{ClientCertificate: c.path(webhookClient + ".crt"), ClientKey: c.path(webhookClient + ".key")}
	file := c.path(webhookClient + ".kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return err
	}
	return os.WriteFile(c.path(admissionFile), fmt.Appendf(nil, admission, file), 0o600)
}
