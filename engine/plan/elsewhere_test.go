package plan

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

const farKind = `
package far

import "fescue.dev/cue/contract"

#Far: {
	apiVersion!: "far.example.com/v1", kind!: "Far", metadata!: {name!: string, namespace?: string, ...}
	spec: {in: *"team-a" | string, on: *true | bool}
	status?: contract.#Status
}
#FarController: contract.#Controller & {
	object!: #Far
	observed: _
	names: plural: "fars"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}]
	children: {if object.spec.on {config: template: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: "c", namespace: object.spec.in}}}}
}
`

// far is an object with a child in another namespace.
type far struct {
	t     *testing.T
	kind  *kind.Kind
	owner *unstructured.Unstructured
	view  *View
}

var configMapKind = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

func newFar(t *testing.T) *far {
	t.Helper()
	kinds, err := load.All(false, corpus.Folder(t, farKind))
	require.NoError(t, err)
	require.Equal(t, []schema.GroupVersionKind{configMapKind}, kinds.All()[0].Elsewhere)
	owner := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "far.example.com/v1", "kind": "Far", "metadata": map[string]any{"name": "a", "namespace": "default", "uid": "1"}, "spec": map[string]any{},
	}}
	v := &View{Types: map[schema.GroupVersionKind]ChildType{configMapKind: {Resource: configs, IsNamespaced: true}}, Normalized: children.NewNormalized()}
	return &far{t, kinds.All()[0], owner, v}
}

// converge carries out what is wanted, and stores the status. Children that are deleted stay, as with a finalizer.
func (f *far) converge() (*Outcome, []Step) {
	f.t.Helper()
	var steps []Step
	p, o := converge(f.kind, f.owner, f.view, time.Now(), func(todo *Comparison) *Changes {
		done := &Changes{Deleted: map[types.UID]bool{}}
		for _, s := range append(todo.Steps, todo.Prunes...) {
			steps = append(steps, s)
			if s.Verb == Delete {
				done.Deleted[s.Live.GetUID()] = true
				continue
			}
			stored := s.Wanted.DeepCopy()
			stored.SetUID("child")
			done.Stored = append(done.Stored, children.Of(s.Resource, stored))
		}
		f.view = f.view.with(done, time.Now())
		return done
	})
	status, err := Report(p, o)
	require.NoError(f.t, err)
	f.owner = f.owner.DeepCopy()
	f.owner.Object["status"] = status
	return o, steps
}

// A place is listed in the status before anything is created in it.
func TestPlacesAreListedFirst(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	require.True(t, NeedsFinalizer(f.kind, f.owner, f.view, time.Now()))
	f.owner.SetFinalizers(WithFinalizer(f.owner, true))
	o, steps := f.converge()
	require.Empty(t, steps)
	require.True(t, o.goesOn)
	require.Equal(t, []string{"team-a"}, children.Places(f.owner, configMapKind.GroupKind()))

	o, steps = f.converge()
	require.Len(t, steps, 1)
	require.False(t, o.goesOn)
	child := f.view.Children[0].Object
	require.Empty(t, child.GetOwnerReferences())
	require.Equal(t, "fars.far.example.com/default/a", child.GetAnnotations()[children.AnnotationOwner])
	require.True(t, children.IsOwnedBy(child, f.owner))

	// What someone makes of their own object in another namespace is no child, although it says so.
	forged := child.DeepCopy()
	forged.SetNamespace("team-b")
	children.Origin{Child: "config", IsElsewhere: true}.Record(forged)
	require.True(t, children.IsChildOf(forged, f.owner, f.kind))
	require.False(t, children.IsOwnedBy(forged, f.owner))
	f.view.Children = append(f.view.Children, children.Of(configs, forged))
	o, steps = f.converge()
	require.Empty(t, steps)
	require.Empty(t, o.Foreign)
}

// Anyone who may write in some namespace can write an owner reference to an object of the cluster. That makes no
// child of it where its status does not list the namespace, whatever else the object has of a child.
func TestForgedChildrenOfTheClusterAreNone(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer(`names: plural: "fars"`, "names: plural: \"fars\"\n\tscope: \"Cluster\"").Replace(farKind)
	kinds, err := load.All(false, corpus.Folder(t, text))
	require.NoError(t, err)
	f := newFar(t)
	f.kind = kinds.All()[0]
	f.owner.SetNamespace("")
	f.converge()
	_, steps := f.converge()
	require.Len(t, steps, 1)
	child := f.view.Children[0].Object
	require.True(t, metav1.IsControlledBy(child, f.owner))
	require.True(t, children.IsOwnedBy(child, f.owner))

	forged := child.DeepCopy()
	forged.SetNamespace("team-b")
	forged.SetUID("forged")
	children.Origin{Child: "config", IsElsewhere: true}.Record(forged)
	require.False(t, children.IsOwnedBy(forged, f.owner))
	f.owner.Object["spec"] = map[string]any{"in": "team-c"}
	f.view.Children = []children.Live{children.Of(configs, forged)}
	f.converge()
	_, steps = f.converge()
	require.Len(t, steps, 1, "the forged one is neither adopted nor deleted")
	require.Equal(t, "team-c", steps[0].Wanted.GetNamespace())
}

// A cache in which a child is missing makes nobody forget it: the place stays listed, and the object stays, until the
// API server itself has been asked.
func TestPlacesOutliveACacheThatIsBehind(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	f.owner.SetFinalizers(WithFinalizer(f.owner, true))
	f.converge()
	f.converge()
	all := f.view.Children
	behind := func(live bool) {
		next := *f.view
		next.Children, next.Live = nil, live
		if live {
			next.Children = all
		}
		f.view = &next
	}

	f.owner.Object["spec"] = map[string]any{"on": false}
	behind(false)
	o, steps := f.converge()
	require.True(t, o.isDoubted)
	require.Empty(t, steps)
	require.Equal(t, []string{"team-a"}, children.Places(f.owner, configMapKind.GroupKind()))
	behind(true)
	_, steps = f.converge()
	require.Equal(t, Delete, steps[0].Verb)
	require.Equal(t, []string{"team-a"}, children.Places(f.owner, configMapKind.GroupKind()), "until it is gone")

	f.owner.SetDeletionTimestamp(new(metav1.Now()))
	require.True(t, MustBeSure(f.kind, f.owner))
	behind(false)
	o, _ = f.converge()
	require.False(t, o.isOver)
	behind(true)
	o, _ = f.converge()
	require.False(t, o.isOver)
	require.Len(t, o.Leaving, 1)
	all = nil
	behind(true)
	o, _ = f.converge()
	require.True(t, o.isOver)
}

// An object that can be evaluated no more still takes its children with it.
func TestInvalidObjectLeavesNothingElsewhere(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	f.owner.SetFinalizers(WithFinalizer(f.owner, true))
	f.converge()
	f.converge()
	f.owner.Object["spec"] = map[string]any{"on": "invalid"}
	f.view.Live = true
	_, steps := f.converge()
	require.Empty(t, steps)
	require.Equal(t, []string{"team-a"}, children.Places(f.owner, configMapKind.GroupKind()))
	f.owner.SetDeletionTimestamp(new(metav1.Now()))
	o, steps := f.converge()
	require.Len(t, steps, 1)
	require.Equal(t, Delete, steps[0].Verb)
	require.False(t, o.isOver)
}

// The children of a type that the kind no longer owns are read before an object goes that has ended: a place leaves
// the status, and the finalizer the object, only if they could be.
func TestEndedObjectLeavesNothingOfFormerTypes(t *testing.T) {
	t.Parallel()
	before, _, _ := strings.Cut(farKind, "	owns:")
	text := before + `
	initial: "DONE"
	phases: DONE: terminal: true
	children: pod: template: {apiVersion: "v1", kind: "Pod"}
}
`
	kinds, err := load.All(false, corpus.Folder(t, text))
	require.NoError(t, err)
	f := newFar(t)
	f.owner.SetFinalizers(WithFinalizer(f.owner, true))
	f.converge()
	f.converge()
	require.NoError(t, unstructured.SetNestedField(f.owner.Object, "DONE", "status", "phase"))
	f.kind = kinds.All()[0]
	require.Empty(t, f.kind.Elsewhere)
	require.Empty(t, FormerTypes(f.kind, f.owner), "an object that has ended keeps what it has")
	f.owner.SetDeletionTimestamp(new(metav1.Now()))
	require.Equal(t, []schema.GroupVersionKind{configMapKind}, FormerTypes(f.kind, f.owner))

	f.view = &View{Live: true, Types: f.view.Types, Former: map[schema.GroupVersionKind]error{configMapKind: errors.New("denied")}}
	o, _ := f.converge()
	require.False(t, o.isOver)
	require.Equal(t, []string{"team-a"}, children.Places(f.owner, configMapKind.GroupKind()))
	f.view.Former[configMapKind] = nil
	o, _ = f.converge()
	require.True(t, o.isOver)
}

// A child that others control by now is reported, and left alone, whether the object wants it, drops it or is deleted. So is
// a recorded one that lost all marks.
func TestLostChildrenAreReported(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*far, *unstructured.Unstructured){
		"adopted": func(f *far, child *unstructured.Unstructured) {
			child.SetOwnerReferences([]metav1.OwnerReference{{Kind: "ConfigMap", Name: "other", UID: "other", Controller: new(true)}})
			f.view.Children = []children.Live{children.Of(configs, child)}
		},
		"without marks": func(f *far, child *unstructured.Unstructured) {
			child.SetLabels(nil)
			child.SetAnnotations(nil)
			f.view.Children, f.view.Unmarked = nil, []children.Live{children.Of(configs, child)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, isDeleted := range []bool{false, true} {
				f := newFar(t)
				f.owner.SetFinalizers(WithFinalizer(f.owner, true))
				f.converge()
				f.converge()
				require.Equal(t, []children.Known{{Type: configMapKind, Namespace: "team-a", Name: "c", UID: "child"}}, children.KnownElsewhere(f.owner))
				f.view.Live = true
				lose(f, f.view.Children[0].Object.DeepCopy())
				if isDeleted {
					f.owner.SetDeletionTimestamp(new(metav1.Now()))
				} else {
					f.owner.Object["spec"] = map[string]any{"on": false}
				}
				o, steps := f.converge()
				require.Empty(t, steps)
				require.Len(t, o.Foreign, 1)
				require.Equal(t, isDeleted, o.isOver)
			}
		})
	}
}

// A recorded child that lost its record of what it was created as gets it back before it is deleted, as one in the
// namespace of the object does. It was left where it was when the object wanted it elsewhere.
func TestRecordedChildWithoutItsRecordIsDeleted(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]map[string]any{
		"in another namespace": {"in": "team-b"},
		"no more":              {"on": false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFar(t)
			f.owner.SetFinalizers(WithFinalizer(f.owner, true))
			f.converge()
			f.converge()
			f.view.Live = true
			child := f.view.Children[0].Object.DeepCopy()
			unstructured.RemoveNestedField(child.Object, "metadata", "annotations", children.AnnotationCreatedAs)
			f.view.Children = []children.Live{children.Of(configs, child)}
			f.owner.Object["spec"] = want
			var verbs []Verb
			for range 3 {
				o, steps := f.converge()
				require.Empty(t, o.Foreign)
				for _, s := range steps {
					if s.Object().GetNamespace() == "team-a" {
						verbs = append(verbs, s.Verb)
					}
				}
			}
			require.Equal(t, []Verb{Adopt, Delete}, slices.Compact(verbs))
		})
	}
}

// Whoever may write the status of an object, and nothing else, cannot have an object of others taken for a child.
func TestUIDInTheStatusIsNotEnough(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	f.owner.SetFinalizers(WithFinalizer(f.owner, true))
	f.converge()
	other := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "other", "namespace": "team-a", "uid": "other"}}}
	list, _, err := unstructured.NestedSlice(f.owner.Object, "status", kind.ChildInventory, "elsewhere")
	require.NoError(t, err)
	list[0].(map[string]any)["children"] = map[string]any{"other": "other"}
	require.NoError(t, unstructured.SetNestedSlice(f.owner.Object, list, "status", kind.ChildInventory, "elsewhere"))
	require.Equal(t, []children.Known{{Type: configMapKind, Namespace: "team-a", Name: "other", UID: "other"}}, children.KnownElsewhere(f.owner))
	require.False(t, children.IsOwnedBy(other, f.owner))
	for name, mark := range map[string]func(*unstructured.Unstructured){
		"owner-uid": func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{children.LabelOwnerUID: "1"}) },
		"owner": func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{children.AnnotationOwner: "fars.far.example.com/default/a"})
		},
		"created-as": func(o *unstructured.Unstructured) { children.Origin{Child: "config", IsElsewhere: true}.Record(o) },
	} {
		marked := other.DeepCopy()
		mark(marked)
		require.True(t, children.IsOwnedBy(marked, f.owner), name)
		marked.SetUID("another")
		require.False(t, children.IsOwnedBy(marked, f.owner), name)
	}
	copied := other.DeepCopy()
	copied.SetLabels(map[string]string{children.LabelOwnerUID: "1"})
	copied.SetAnnotations(map[string]string{children.AnnotationCreatedAs: "ConfigMap/c@team-a/config"})
	require.False(t, children.IsOwnedBy(copied, f.owner), "its record names another object")
}
