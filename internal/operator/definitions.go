package operator

import (
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/operator/definitions"
)

// wireDefinitions creates what follows the CRDs of the kinds and, with --install-crds, what installs them.
func (p *operator) wireDefinitions() {
	p.definitions = &definitions.Definitions{Informers: p.informers, Discover: p.discover, Changed: p.definitionChanged}
	if !p.options.InstallCRDs {
		return
	}
	var webhook func() (crds.Webhook, bool)
	if p.options.webhooks.enabled() {
		webhook = func() (crds.Webhook, bool) { return p.options.webhooks.conversion(), p.webhooks.isServing() }
	}
	p.installer = definitions.NewInstaller(p.acting.dynamic, p.election.Identity(), p.election.Elected(), webhook,
		p.warnOfDropped)
}

// definitionChanged tells those who act on the CRD of a kind that it has changed.
func (p *operator) definitionChanged(k *kind.Kind, matters bool) {
	if matters {
		p.engine.Recheck(k.Name())
	}
	p.webhooks.conversionsOfCRDs().signal()
}

// warnOfDropped reports fields that objects of a kind lose: in the log and, if Events may be recorded everywhere, by an
// Event of the CRD.
func (p *operator) warnOfDropped(k *kind.Kind, d crds.Dropped) {
	p.log.Warn("the new CRD drops fields", "crd", k.Name(), "message", d.String())
	if !p.informers.AllNamespaces() {
		return
	}
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	crd.SetName(k.Name())
	p.events.Eventf(crd, nil, corev1.EventTypeWarning, "FieldsDropped", "Installing", "%s", d)
}
