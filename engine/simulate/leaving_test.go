package simulate

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// leaseKind is in the same phase while it lives and before it goes, and shares a terminal one.
const leaseKind = `
package lease

import "fescue.dev/cue/contract"

#Lease: {
	apiVersion!: "leases.example.com/v1", kind!: "Lease", metadata!: {name!: string, ...}
	spec: {done: *false | bool, delay: *"5m" | string, extra: *true | bool}
	status?: {contract.#Status, phase?: "WAITING" | "DONE"}
}
#LeaseController: contract.#Controller & {
	object!: #Lease
	observed: _
	names: plural: "leases"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}]
	children: {
		base: template: {apiVersion: "v1", kind: "ConfigMap", data: leaving: "\(object.metadata.deletionTimestamp != _|_)"}
		if object.spec.extra {extra: template: {apiVersion: "v1", kind: "ConfigMap"}}
	}
	initial: "WAITING"
	onDelete: "WAITING"
	phases: {
		WAITING: {
			children: note: template: {apiVersion: "v1", kind: "ConfigMap"}
			next: [
				if object.spec.done {to: "DONE", when: true},
				if object.metadata.deletionTimestamp != _|_ {to: "DONE", after: object.spec.delay},
			]
		}
		DONE: terminal: true
	}
}
`

// leaving is a cluster with a Lease.
type leaving struct {
	*Cluster
	t *testing.T
	k *kind.Kind
}

func newLease(t *testing.T, spec map[string]any) *leaving {
	t.Helper()
	return newLeaseOf(t, leaseKind, spec)
}

// newLeaseOf returns a cluster with an object of another version of the kind.
func newLeaseOf(t *testing.T, source string, spec map[string]any) *leaving {
	t.Helper()
	k := enginetest.Kind(t, source)
	l := &leaving{New([]*kind.Kind{k}, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)), t, k}
	l.apply(spec)
	return l
}

func (l *leaving) apply(spec map[string]any) {
	l.t.Helper()
	require.NoError(l.t, l.Apply(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "leases.example.com/v1", "kind": "Lease", "metadata": map[string]any{"name": "a"}, "spec": spec,
	}}))
	require.NoError(l.t, l.Settle())
}

// lease returns the Lease; nil if it is gone.
func (l *leaving) lease() *unstructured.Unstructured {
	return l.find(l.k.GroupVersionKind, "default", "a")
}

func (l *leaving) config(name string) *unstructured.Unstructured {
	return l.find(l.k.Owns[0], "default", "a-"+name)
}

func (l *leaving) delete() {
	l.t.Helper()
	l.Delete(l.lease())
	require.NoError(l.t, l.Settle())
}

// The phase of an object that is deleted is entered again, also if the object is in it or has ended.
func TestOnDeleteEntersThePhase(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]map[string]any{"from the same phase": {}, "from a terminal phase": {"done": true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLease(t, spec)
			require.True(t, plan.HasFinalizer(l.k, l.lease()))
			if spec["done"] == true {
				require.Equal(t, "DONE", kind.PhaseOf(l.lease().Object))
				require.Equal(t, "True DONE", StateOf(l.lease(), nil).Conditions["Succeeded"])
				// It is frozen, and its deletion is nevertheless noticed.
				l.delete()
				require.Nil(t, l.lease(), "done holds at once")
				return
			}
			require.NoError(t, l.Wait(time.Hour))
			require.Equal(t, "false", l.config("base").Object["data"].(map[string]any)["leaving"])
			l.delete()
			require.NoError(t, l.Wait(4*time.Minute))
			require.Equal(t, "WAITING", kind.PhaseOf(l.lease().Object))
			require.Equal(t, "True WAITING: note: ready; waiting until 2030-01-01T01:05:00Z", StateOf(l.lease(), nil).Conditions["Deleting"])
			require.NoError(t, l.Wait(time.Minute))
			require.Nil(t, l.lease())
			require.Empty(t, l.Objects())
		})
	}
}

// While an object is being deleted, other children are corrected and dropped, and none is created.
func TestChildrenOfAnObjectThatLeaves(t *testing.T) {
	t.Parallel()
	l := newLease(t, map[string]any{})
	l.delete()
	require.Equal(t, "true", l.config("base").Object["data"].(map[string]any)["leaving"])
	l.Delete(l.config("base"))
	l.Delete(l.config("note"))
	require.NoError(t, l.Settle())
	require.Nil(t, l.config("base"))
	require.NotNil(t, l.config("note"))
	require.Equal(t, metav1.OwnerReference{
		APIVersion: "leases.example.com/v1", Kind: "Lease", Name: "a", UID: l.lease().GetUID(), Controller: new(true), BlockOwnerDeletion: new(false),
	}, l.config("note").GetOwnerReferences()[0])

	l.apply(map[string]any{"extra": false})
	require.Nil(t, l.config("extra"))
	l.apply(map[string]any{"done": true})
	require.Nil(t, l.lease())
	require.Empty(t, l.Objects())
}

// A set shrinks while its object is being deleted, and its other members stay.
func TestSetOfAnObjectThatLeaves(t *testing.T) {
	t.Parallel()
	l := newLeaseOf(t, strings.NewReplacer("kind: \"ConfigMap\"}]", "kind: \"ConfigMap\"}, {apiVersion: \"v1\", kind: \"Pod\"}]",
		"extra: *true | bool}", "extra: *true | bool, size: *3 | int}",
		"\tchildren: {\n", "\tchildren: {\n\t\tpods: {replicas: object.spec.size, strays: \"Ignore\", template: {apiVersion: \"v1\", kind: \"Pod\", spec: containers: [{name: \"a\", image: \"b\"}]}}\n",
	).Replace(leaseKind), map[string]any{})
	members := func() (names []string) {
		for _, object := range l.Objects() {
			if object.GetKind() == "Pod" && object.GetDeletionTimestamp() == nil {
				names = append(names, object.GetName())
			}
		}
		return names
	}
	all := members()
	require.Len(t, all, 3)
	l.delete()
	require.Equal(t, all, members())
	l.apply(map[string]any{"size": int64(1)})
	require.Len(t, members(), 1)
	require.Contains(t, all, members()[0])
	l.apply(map[string]any{"size": int64(2)})
	require.Len(t, members(), 1, "nothing is created")
}

// An object that the garbage collector took the children from does not take them back.
func TestOrphansOfAnObjectThatLeaves(t *testing.T) {
	t.Parallel()
	l := newLease(t, map[string]any{})
	orphan := l.config("base").DeepCopy()
	orphan.SetOwnerReferences(nil)
	l.Delete(l.lease())
	l.replace(l.config("base"), orphan, reconciled{})
	require.NoError(t, l.Wait(time.Hour))
	require.Nil(t, l.lease())
	require.Empty(t, l.config("base").GetOwnerReferences())
	require.Len(t, l.Objects(), 1)
}

// The phases that follow a deletion read the children that the garbage collector orphaned.
func TestOrphansAreRead(t *testing.T) {
	t.Parallel()
	l := newLeaseOf(t, strings.NewReplacer(
		`note: template: {apiVersion: "v1", kind: "ConfigMap"}`, `note: template: {apiVersion: "v1", kind: "ConfigMap", data: base: observed.base.metadata.name}`,
		`after: object.spec.delay`, `when: observed.note.data.base == "a-base"`,
	).Replace(leaseKind), map[string]any{})
	l.Delete(l.config("note")) // it is created again while the object goes
	orphan := l.config("base").DeepCopy()
	orphan.SetOwnerReferences(nil)
	l.Delete(l.lease())
	l.replace(l.config("base"), orphan, reconciled{})
	require.NoError(t, l.Settle())
	require.Nil(t, l.lease(), "it waits for what it does not see")
	require.Empty(t, l.config("base").GetOwnerReferences())
}
