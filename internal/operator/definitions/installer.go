package definitions

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine"
)

// Installer installs the CRD of each kind once, when the kind starts for the first time after this process was elected:
// so the CRDs are those of the process that acts, whatever other processes of another version start beside it. A nil
// Installer does nothing.
type Installer struct {
	client  dynamic.Interface
	by      string          // the identity of this process
	elected <-chan struct{} // closed when this process acts
	// webhook is what converts objects, if that is ready; nil if the webhooks are off.
	webhook func() (at crds.Webhook, ready bool)
	// dropped is told of the fields that objects of a kind lose.
	dropped func(*kind.Kind, crds.Dropped)

	mu        sync.Mutex
	installed sets.Set[*kind.Kind]
}

// NewInstaller returns one that writes with client, as by, once elected is closed. webhook returns what converts
// objects, and whether that is ready; it is nil if the webhooks are off. dropped is told of the fields that objects of
// a kind lose.
func NewInstaller(
	client dynamic.Interface, by string, elected <-chan struct{}, webhook func() (at crds.Webhook, ready bool),
	dropped func(*kind.Kind, crds.Dropped),
) *Installer {
	return &Installer{client: client, by: by, elected: elected, webhook: webhook, dropped: dropped,
		installed: sets.New[*kind.Kind]()}
}

// Waits reports whether this process installs CRDs, and was not elected yet.
func (i *Installer) Waits() bool {
	if i == nil {
		return false
	}
	select {
	case <-i.elected:
		return false
	default:
		return true
	}
}

// RecheckOnceElected has an engine ask again about its kinds as soon as this process acts, so that those without their
// CRD get it. It returns then, or when ctx ends.
func (i *Installer) RecheckOnceElected(ctx context.Context, e *engine.Engine) {
	if i == nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-i.elected:
		for _, k := range e.Kinds() {
			e.Recheck(k.Name())
		}
	}
}

// Install applies the CRD of a kind unless it has done so, or waits. The error is an engine.Absent if the API
// server has rejected the CRD.
func (i *Installer) Install(ctx context.Context, k *kind.Kind) error {
	if i == nil || i.Waits() || i.HasInstalled(k) {
		return nil
	}
	var at crds.Webhook
	if k.Versions.Converts() {
		if i.webhook == nil {
			return engine.Absent(
				fmt.Sprintf(
					"%s has conversions, which the API server asks a webhook for: start with --webhook-url or --webhook-service", k.Name()))
		}
		ready := false
		if at, ready = i.webhook(); !ready {
			return errors.New("its conversions are not served yet")
		}
	}
	dropped, err := crds.Apply(ctx, i.client, k, at, i.by)
	isTerminating := errors.Is(err, crds.ErrTerminating)
	if err != nil && !isTerminating {
		var answer apierrors.APIStatus
		if errors.As(err, &answer) && !apierrors.IsConflict(err) &&
			answer.Status().Code < http.StatusInternalServerError &&
			answer.Status().Code != http.StatusTooManyRequests {
			return engine.Absent(err.Error())
		}
		return err
	}
	for _, d := range dropped {
		i.dropped(k, d)
	}
	if isTerminating {
		return nil // the kind lets its objects go; when the CRD is gone, this is asked again
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.installed.Insert(k)
	return nil
}

// HasInstalled reports whether this process has installed the CRD of a kind.
func (i *Installer) HasInstalled(k *kind.Kind) bool {
	if i == nil {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.installed.Has(k)
}
