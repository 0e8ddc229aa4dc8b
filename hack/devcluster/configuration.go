package main

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	admissionFile = "admission.yaml"
	// auditFile is the log of the requests that the audit policy selects.
	auditFile = "audit.log"
	// webhookClient is the name of the API server's client certificate for webhooks, of its key and
	// of the kubeconfig with both.
	webhookClient = "webhook-client"
)

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
	config := clientcmdapi.NewConfig()
	config.AuthInfos["*"] = &clientcmdapi.AuthInfo{ClientCertificate: c.path(webhookClient + ".crt"),
		ClientKey: c.path(webhookClient + ".key")}
	file := c.path(webhookClient + ".kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return err
	}
	return os.WriteFile(c.path(admissionFile), fmt.Appendf(nil, admission, file), 0o600)
}
