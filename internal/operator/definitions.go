package operator

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine"
	"github.com/fescue-dev/fescue/internal/informers"
	"github.com/fescue-dev/fescue/internal/projection"
)

// definitions follows the CRDs of the kinds, one watch for each, because the right to watch
// CRDs is limited to names.
type definitions struct{ of sync.Map } // from *kind.Kind to *definition

// definition follows one CRD.
type definition struct {
	cache *informers.Cache
	// known is closed when the CRD was read, or may not be.
	known  chan struct{}
	once   sync.Once
	synced func() bool
}

// knownTimeout bounds how long a kind waits until its CRD was read.
const knownTimeout = 10 * time.Second

// readOfDefinitions is what is read of a CRD; its schemas are up to a megabyte.
var readOfDefinitions = projection.Of([]string{"metadata", "deletionTimestamp"}, []string{"metadata", "annotations", crds.HashAnnotation},
	[]string{"spec", "conversion"}, []string{"status", "conditions"})

// watchDefinition starts the watch of the CRD of a kind. The engine is told when the CRD changes in a
// way that matters.
func (p *operator) watchDefinition(k *kind.Kind) error {
	d := &definition{known: make(chan struct{})}
	var err error
	d.cache, err = p.informers.NewCache(informers.Selection{
		Resource: crds.Resource, Where: fields.OneTermEqualSelector(metav1.ObjectNameField, k.Name()).String(), Keep: readOfDefinitions,
	}, []string{metav1.NamespaceAll}, d.failed)
	if err != nil {
		return err
	}
	changed := func() { p.engine.Recheck(k.Name()) }
	conversions := p.webhooks.conversionsOfCRDs()
	registration, err := d.cache.Handle(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed(); conversions.signal() },
		UpdateFunc: func(before, after any) {
			a, okA := before.(*unstructured.Unstructured)
			b, okB := after.(*unstructured.Unstructured)
			if okA && okB && fmt.Sprint(problemOf(k, a)) != fmt.Sprint(problemOf(k, b)) {
				changed()
			}
			conversions.signal()
		},
		DeleteFunc: func(any) { changed() },
	})
	if err != nil {
		return err
	}
	d.synced = registration.HasSynced
	p.definitions.of.Store(k, d)
	p.informers.Start(d.cache)
	go func() {
		if registration.WaitForSync(p.caching) == nil {
			d.once.Do(func() { close(d.known) })
		}
	}()
	return nil
}

// get returns the CRD of a kind that is watched.
func (d *definitions) get(k *kind.Kind) *definition {
	of, _ := d.of.Load(k)
	return of.(*definition)
}

// failed notes that the operator has no right to read a CRD. Discovery has to do then.
func (d *definition) failed(err error) {
	if apierrors.IsForbidden(err) {
		d.once.Do(func() { close(d.known) })
	}
}

// missing returns what is missing of the CRD of a kind. It is an engine.Absent unless that could not
// be determined.
func (d *definitions) missing(ctx context.Context, k *kind.Kind, discover func(*kind.Kind) error) error {
	of := d.get(k)
	if err := of.await(ctx); err != nil {
		return err
	}
	if !of.synced() {
		return discover(k)
	}
	return problemOf(k, of.cache.Get(cache.ObjectName{Name: k.Name()}))
}

// await waits until the CRD was read, or may not be.
func (d *definition) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, knownTimeout)
	defer cancel()
	select {
	case <-d.known:
		return nil
	case <-ctx.Done():
		return errors.New("its CRD was not read yet")
	}
}

// crd returns the CRD of a kind; nil if there is none, or it may not be read.
func (d *definitions) crd(k *kind.Kind) *unstructured.Unstructured {
	of := d.get(k)
	if !of.synced() {
		return nil
	}
	return of.cache.Get(cache.ObjectName{Name: k.Name()})
}

// isOtherVersion reports whether the CRD of a kind belongs to another version of the kind.
func (d *definitions) isOtherVersion(k *kind.Kind) bool {
	crd := d.crd(k)
	return crd != nil && otherVersion(k, crd) != ""
}

// otherVersion returns the hash that a CRD has instead of that of a kind; it is empty if the kind may
// run with it. What is not a hash was written by hand, and is of no other version.
func otherVersion(k *kind.Kind, crd *unstructured.Unstructured) string {
	installed := crd.GetAnnotations()[crds.HashAnnotation]
	if _, err := hex.DecodeString(installed); err != nil || len(installed) != len(k.Hash) || installed == k.Hash {
		return ""
	}
	return installed
}

// problemOf returns why a kind cannot run with its CRD, which is nil if there is none.
func problemOf(k *kind.Kind, crd *unstructured.Unstructured) error {
	name := k.Name()
	if crd == nil {
		return notServed(k)
	}
	if err := crds.Accepted(crd); err != nil {
		return engine.Absent(err.Error())
	}
	if installed := otherVersion(k, crd); installed != "" {
		return engine.Absent(fmt.Sprintf("the CRD %s belongs to another version of the kind: its annotation %s is %s, and the kind of this process has %s; "+
			"if this process has the newer one, apply its CRD with 'fescue crd | kubectl apply --server-side -f -' or start with --install-crds, or else upgrade this process",
			name, crds.HashAnnotation, installed, k.Hash))
	}
	if strategy, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy"); k.Versions.Converts() && strategy != "Webhook" {
		return engine.Absent(fmt.Sprintf("the CRD %s does not have objects converted between the versions of the kind, so writing them could lose fields: "+
			"apply it again with 'fescue crd | kubectl apply --server-side -f -' or start with --install-crds", name))
	}
	return nil
}
