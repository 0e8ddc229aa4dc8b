package operator

import (
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fescue-dev/fescue/admission"
	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/cue/kind"
)

// stopDelay is how long requests keep arriving at a deleted Pod: a second or two in a small
// cluster, longer where many network rules have to be rewritten.
const stopDelay = 10 * time.Second

// InstalledWebhooks returns what the webhooks add to an installation. The configurations have no
// caBundle: the leader owns that field, so that applying them again does not change it.
func InstalledWebhooks(kinds []*kind.Kind, o install.Options) *install.Webhooks {
	const service, port = crds.WebhookService, 9443
	called := o.ClusterName()
	mutating, validating := admission.Configurations(kinds, admission.Webhooks{
		Name:      called,
		Service:   &admissionregistrationv1.ServiceReference{Namespace: o.Namespace, Name: service},
		Namespace: o.Namespace, Namespaces: o.Namespaces, User: o.UserName(),
	})
	args := []string{
		fmt.Sprintf("--webhook-service=%s/%s", o.Namespace, service), fmt.Sprintf("--webhook-listen=:%d", port),
		fmt.Sprintf("--shutdown-delay-duration=%s", stopDelay),
	}
	if called != admission.DefaultName {
		args = append(args, "--webhook-configuration="+called,
			fmt.Sprintf("--webhook-secret=%s/%s", o.Namespace, DefaultSecret))
	}
	var converting []string
	for _, k := range kinds {
		if k.Versions.Converts() {
			converting = append(converting, k.Name())
		}
	}
	return &install.Webhooks{
		Port: port, Service: service, Secret: DefaultSecret,
		ReadsNamespaces: slices.ContainsFunc(kinds, (*kind.Kind).Injects),
		Converting:      converting,
		Args:            args, Configurations: []runtime.Object{mutating, validating},
	}
}
