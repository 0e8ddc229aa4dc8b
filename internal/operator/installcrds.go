package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine"
)

// crdInstaller installs the CRD of each kind once, when the kind starts for the first time. A nil
// installer does nothing.
type crdInstaller struct {
	client dynamic.Interface
	// webhook is what converts objects, if that is ready; nil if the webhooks are off.
	webhook func() (at crds.Webhook, ready bool)
	// dropped is told of the fields that objects of a kind lose.
	dropped func(*kind.Kind, crds.Dropped)

	mu        sync.Mutex
	installed map[*kind.Kind]bool
}

// install applies the CRD of a kind unless it has done so. The error is an engine.Absent if the API
// server has rejected the CRD.
func (i *crdInstaller) install(ctx context.Context, k *kind.Kind) error {
	if i == nil {
		return nil
	}
	i.mu.Lock()
	isInstalled := i.installed[k]
	i.mu.Unlock()
	if isInstalled {
		return nil
	}
	var at crds.Webhook
	if k.Versions.Converts() {
		if i.webhook == nil {
			return engine.Absent(fmt.Sprintf("%s has conversions, which the API server asks a webhook for: start with --webhook-url or --webhook-service", k.Name()))
		}
		ready := false
		if at, ready = i.webhook(); !ready {
			return errors.New("its conversions are not served yet")
		}
	}
	dropped, err := crds.Apply(ctx, i.client, k, at)
	if err != nil {
		var answer apierrors.APIStatus
		if errors.As(err, &answer) && answer.Status().Code < http.StatusInternalServerError && answer.Status().Code != http.StatusTooManyRequests {
			return engine.Absent(err.Error())
		}
		return err
	}
	for _, d := range dropped {
		i.dropped(k, d)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.installed[k] = true
	return nil
}

// warnOfDropped reports fields that objects of a kind lose: in the log and, if Events may be recorded everywhere, by an Event
// of the CRD.
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
