// Package definitions installs the CRDs of kinds, follows them, and says whether a kind can run with the CRD that the
// API server has: it may be missing, rejected, of another version of the kind, or without conversions.
package definitions

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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
	"github.com/fescue-dev/fescue/internal/parts"
)

// Definitions follows the CRDs of the kinds, one watch for each, because the right to watch CRDs is limited to names.
type Definitions struct {
	// Informers make the caches of CRDs, which end with the context that the informers were given.
	Informers *informers.Informers
	// Changed is told that the CRD of a kind has changed. If matters is true, Missing may have another answer since
	// then.
	Changed func(k *kind.Kind, matters bool)
	// Discover asks the API server for a kind whose CRD may not be read. Its error is an engine.Absent if the kind is
	// not served.
	Discover func(*kind.Kind) error

	of sync.Map // from *kind.Kind to *definition
}

// definition follows one CRD.
type definition struct {
	cache *informers.Cache
	// known is closed when the CRD was read, or may not be.
	known  chan struct{}
	once   sync.Once
	synced func() bool
	// deleted means that the CRD was there and is gone.
	deleted atomic.Bool
}

// knownTimeout bounds how long a kind waits until its CRD was read.
const knownTimeout = 10 * time.Second

// kept is what is read of a CRD; its schemas are up to a megabyte.
var kept = parts.Of([]string{"metadata", "deletionTimestamp"},
	[]string{"metadata", "annotations", crds.HashAnnotation},
	[]string{"spec", "conversion"}, []string{"status", "conditions"})

// Watch starts the watch of the CRD of a kind until ctx ends.
func (d *Definitions) Watch(ctx context.Context, k *kind.Kind) error {
	of := &definition{known: make(chan struct{})}
	var err error
	of.cache, err = d.Informers.NewCache(informers.Selection{
		Resource: crds.Resource, Where: fields.OneTermEqualSelector(metav1.ObjectNameField, k.Name()).String(),
		Keep: kept,
	}, []string{metav1.NamespaceAll}, of.failed)
	if err != nil {
		return err
	}
	registration, err := of.cache.Handle(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { of.deleted.Store(false); d.Changed(k, true) },
		UpdateFunc: func(before, after any) {
			a, okA := before.(*unstructured.Unstructured)
			b, okB := after.(*unstructured.Unstructured)
			d.Changed(k, okA && okB && fmt.Sprint(problemOf(k, a)) != fmt.Sprint(problemOf(k, b)))
		},
		DeleteFunc: func(any) { of.deleted.Store(true); d.Changed(k, true) },
	})
	if err != nil {
		return err
	}
	of.synced = registration.HasSynced
	d.of.Store(k, of)
	d.Informers.Start(of.cache)
	go func() {
		if registration.WaitForSync(ctx) == nil {
			of.once.Do(func() { close(of.known) })
		}
	}()
	return nil
}

// get returns the CRD of a kind that is watched.
func (d *Definitions) get(k *kind.Kind) *definition {
	of, _ := d.of.Load(k)
	return of.(*definition)
}

// failed notes that the operator has no right to read a CRD. Discovery has to do then.
func (d *definition) failed(err error) {
	if apierrors.IsForbidden(err) {
		d.once.Do(func() { close(d.known) })
	}
}

// Missing returns what is missing of the CRD of a kind that is watched. It is an engine.Absent unless that could not be
// determined.
func (d *Definitions) Missing(ctx context.Context, k *kind.Kind) error {
	if err := d.Await(ctx, k); err != nil {
		return err
	}
	of := d.get(k)
	if !of.synced() {
		return d.Discover(k)
	}
	return problemOf(k, of.cache.Get(cache.ObjectName{Name: k.Name()}))
}

// Await waits until the CRD of a kind was read, or may not be.
func (d *Definitions) Await(ctx context.Context, k *kind.Kind) error {
	ctx, cancel := context.WithTimeout(ctx, knownTimeout)
	defer cancel()
	select {
	case <-d.get(k).known:
		return nil
	case <-ctx.Done():
		return errors.New("its CRD was not read yet")
	}
}

// CRD returns the CRD of a kind, without its schemas; nil if there is none, or it may not be read.
func (d *Definitions) CRD(k *kind.Kind) *unstructured.Unstructured {
	of := d.get(k)
	if !of.synced() {
		return nil
	}
	return of.cache.Get(cache.ObjectName{Name: k.Name()})
}

// IsDeleted reports whether the CRD of a kind was there and is gone.
func (d *Definitions) IsDeleted(k *kind.Kind) bool { return d.get(k).deleted.Load() }

// IsOtherVersion reports whether the CRD of a kind belongs to another version of the kind.
func (d *Definitions) IsOtherVersion(k *kind.Kind) bool {
	crd := d.CRD(k)
	return crd != nil && crds.OtherVersion(k, crd) != ""
}

// problemOf returns why a kind cannot run with its CRD, which is nil if there is none.
func problemOf(k *kind.Kind, crd *unstructured.Unstructured) error {
	name := k.Name()
	if crd == nil {
		return NotServed(k)
	}
	if err := crds.Accepted(crd); err != nil {
		return engine.Absent(err.Error())
	}
	if installed := crds.OtherVersion(k, crd); installed != "" {
		return engine.Absent(
			fmt.Sprintf(
				"the CRD %s belongs to another version of the kind: its annotation %s is %s, and the kind of this process has %s; "+
					"if this process has the newer one, apply its CRD with 'fescue crd | kubectl apply --server-side -f -' or start with --install-crds, or else upgrade this process",
				name, crds.HashAnnotation, installed, k.Hash))
	}
	strategy, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy")
	if k.Versions.Converts() && strategy != "Webhook" {
		return engine.Absent(
			fmt.Sprintf(
				"the CRD %s does not have objects converted between the versions of the kind, so writing them could lose fields: "+
					"apply it again with 'fescue crd | kubectl apply --server-side -f -' or start with --install-crds",
				name))
	}
	return nil
}

// NotServed is the error for a kind that the API server does not serve.
func NotServed(k *kind.Kind) error {
	return engine.Absent(
		fmt.Sprintf(
			"the API server does not serve %s: install the CRDs with 'fescue crd | kubectl apply --server-side -f -' or start with --install-crds", k.Name()))
}
