package crds

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fescue-dev/fescue/cue/kind"
)

const (
	// DefaultNamespace is where Fescue is installed by default.
	DefaultNamespace = "fescue-system"
	// WebhookService is the name of the Service that leads to the webhooks of an installation.
	WebhookService = "fescue-webhooks"
	// ConvertPath is the path of the webhook that converts objects between the versions of a kind.
	ConvertPath = "/convert"
)

// Webhook is how the API server reaches the webhook that converts objects. The zero value is a
// default installation.
type Webhook struct {
	// URL is the prefix of ConvertPath, as in https://10.0.0.1:9443; it is empty for a Service.
	URL string
	// Service leads to the webhook in the cluster; nil is that of a default installation.
	Service *apiextensionsv1.ServiceReference
	// CABundle is the PEM text of the certificates that the API server trusts; nil leaves this to
	// others, such as the running operator.
	CABundle []byte
}

// clientConfig returns how the API server calls the webhook.
func (w Webhook) clientConfig() *apiextensionsv1.WebhookClientConfig {
	client := &apiextensionsv1.WebhookClientConfig{CABundle: w.CABundle}
	if w.URL != "" {
		client.URL = new(w.URL + ConvertPath)
		return client
	}
	service := apiextensionsv1.ServiceReference{Namespace: DefaultNamespace, Name: WebhookService}
	if w.Service != nil {
		service = *w.Service
	}
	service.Path = new(ConvertPath)
	if service.Port == nil {
		service.Port = new(int32(443)) // the API server's default, so that nothing differs
	}
	client.Service = &service
	return client
}

// ClientConfig returns the clientConfig of a CRD that has the API server call the webhook.
func (w Webhook) ClientConfig() (map[string]any, error) {
	return runtime.DefaultUnstructuredConverter.ToUnstructured(w.clientConfig())
}

// Patch returns a merge patch that has a CRD call the webhook, instead of what it calls now.
func (w Webhook) Patch() (map[string]any, error) {
	client, err := w.ClientConfig()
	if err != nil {
		return nil, err
	}
	for _, address := range []string{"url", "service"} {
		if client[address] == nil {
			client[address] = nil // removes the other one: the API server accepts one of them
		}
	}
	return map[string]any{"spec": map[string]any{"conversion": map[string]any{
		"strategy": apiextensionsv1.WebhookConverter,
		"webhook":  map[string]any{"clientConfig": client, "conversionReviewVersions": reviewVersions()},
	}}}, nil
}

// reviewVersions are the versions of ConversionReview that the webhook reads.
func reviewVersions() []string { return []string{apiextensionsv1.SchemeGroupVersion.Version} }

// CallAt has the API server call the conversion webhook of a CRD somewhere else. It does nothing if the
// kind of the CRD has no conversion: by default, the API server only changes the apiVersion.
func CallAt(crd *unstructured.Unstructured, k *kind.Kind, w Webhook) error {
	if !k.Versions.Converts() {
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{ClientConfig: w.clientConfig(),
			ConversionReviewVersions: reviewVersions()},
	})
	if err != nil {
		return fmt.Errorf("CRD of %s: %w", kind.TypeName(k.GroupVersionKind), err)
	}
	return unstructured.SetNestedMap(crd.Object, content, "spec", "conversion")
}
