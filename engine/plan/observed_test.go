package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

var otherController = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "r", Controller: new(true)}}

// copied returns a copy of an object under another name, with all its metadata.
func copied(object *unstructured.Unstructured, name string) *unstructured.Unstructured {
	result := object.DeepCopy()
	result.SetName(name)
	result.SetUID(types.UID(name))
	result.SetCreationTimestamp(metav1.NewTime(now.Add(time.Hour)))
	return result
}

// changed returns an object after a change.
func changed(object *unstructured.Unstructured, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
	object = object.DeepCopy()
	change(object)
	return object
}

func withoutReferences(object *unstructured.Unstructured) *unstructured.Unstructured {
	return changed(object, func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) })
}

// Children that someone has copied or adopted are not the object's.
func TestObservedAreTheControlled(t *testing.T) {
	t.Parallel()
	w := newWorld(enginetest.Shipped(t, "Customcluster"), customcluster(2, "m"))
	w.converge(t, func(*Comparison) {})
	require.Len(t, unmoved(w.kind, w.owner, now).observe(w.view().Children).sets["pods"], 2)
	whole := copied(w.objects[0].Object, "copy")
	for name, foreign := range map[string]*unstructured.Unstructured{
		"a copy":                    whole,
		"a copy without references": withoutReferences(whole),
		"adopted":                   changed(whole, func(o *unstructured.Unstructured) { o.SetOwnerReferences(otherController) }),
	} {
		w.objects = append(w.objects[:2:2], children.Of(pods, foreign))
		require.Len(t, unmoved(w.kind, w.owner, now).observe(w.view().Children).sets["pods"], 2, name)
	}
}

// A behaviour observes the object that it would create under that name and type, and no copy of it,
// whatever became of its labels.
func TestObservedIsTheNamedChild(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "At")
	object := enginetest.At("2020-01-01T00:00:00Z", "RUNNING")
	running := childrenOf(k, object, pod("Running"))[0].Object
	ended := childrenOf(k, object, pod("Succeeded"))[0].Object
	for name, tc := range map[string]struct {
		live  []*unstructured.Unstructured
		phase string
	}{
		"a copy has ended":                    {[]*unstructured.Unstructured{running, copied(ended, "a-copy")}, "RUNNING"},
		"only a copy exists":                  {[]*unstructured.Unstructured{copied(ended, "a-copy")}, "RUNNING"},
		"a copy without references has ended": {[]*unstructured.Unstructured{withoutReferences(copied(ended, "a-copy")), running}, "RUNNING"},
		"a copy without a record has ended": {[]*unstructured.Unstructured{running, changed(copied(ended, "a-copy"), func(o *unstructured.Unstructured) {
			o.SetAnnotations(nil)
		})}, "RUNNING"},
		"the child has ended": {[]*unstructured.Unstructured{copied(running, "a-copy"), ended}, "DONE"},
		"the child has ended and has no labels": {[]*unstructured.Unstructured{changed(ended, func(o *unstructured.Unstructured) {
			o.SetLabels(nil)
		})}, "DONE"},
		"the child has ended and has no annotations": {[]*unstructured.Unstructured{changed(ended, func(o *unstructured.Unstructured) {
			o.SetAnnotations(nil)
		})}, "DONE"},
		"an object of another type has ended": {[]*unstructured.Unstructured{running, changed(ended, func(o *unstructured.Unstructured) {
			o.SetKind("Job")
			o.SetUID("other")
		})}, "RUNNING"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := &View{}
			for _, live := range tc.live {
				v.Children = append(v.Children, children.Of(pods, live))
			}
			p := Decide(k, &unstructured.Unstructured{Object: object}, v, now)
			require.Nil(t, p.Stalled)
			require.Equal(t, tc.phase, p.Phase)
		})
	}
}

// What looks like a child and was not created as one is neither changed nor deleted.
func TestForeignObjectsAreLeftAlone(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, odd)
	owner := func(which string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "odd.example.com/v1", "kind": "A", "spec": map[string]any{"case": which},
			"metadata": map[string]any{"name": "o", "namespace": "default", "uid": "owner"},
		}}
	}
	w := newWorld(k, owner("one"))
	w.do(w.compare(t).Steps)
	child := w.objects[0].Object
	for name, tc := range map[string]struct {
		live         *unstructured.Unstructured
		wanted       bool // whether the kind wants o-a
		steps, prune string
		isForeign    bool
	}{
		"a copy":                        {live: copied(child, "copy"), wanted: true, isForeign: true},
		"a copy when nothing is wanted": {live: copied(child, "copy"), prune: "delete o-a", isForeign: true},
		"a copy without references":     {live: withoutReferences(copied(child, "copy")), wanted: true, isForeign: true},
		"made by hand with labels and owner": {live: changed(withoutReferences(copied(child, "copy")), func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{children.AnnotationOwner: "as.odd.example.com/o"})
		}), wanted: true, isForeign: true},
		"the child when nothing is wanted": {prune: "delete o-a"},
		"a copy that someone adopted":      {live: changed(copied(child, "copy"), func(o *unstructured.Unstructured) { o.SetOwnerReferences(otherController) }), wanted: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(k, owner("none"))
			if tc.wanted {
				w.owner = owner("one")
			}
			w.objects = []children.Live{children.Of(configs, child)}
			if tc.live != nil {
				w.objects = append(w.objects, children.Of(configs, tc.live))
			}
			c := w.compare(t)
			require.Equal(t, tc.steps, describe(c.Steps))
			require.Equal(t, tc.prune, describe(c.Prunes))
			require.Equal(t, tc.isForeign, len(c.Foreign) == 1)
		})
	}
}

// A child that is not part of the plan gets its labels back, as one that is does.
func TestLabelsOfFormerChildrenAreRestored(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "At")
	w := newWorld(k, &unstructured.Unstructured{Object: enginetest.At("2020-01-01T00:00:00Z", "DONE")})
	child := childrenOf(k, w.owner.Object, pod("Succeeded"))[0].Object
	for name, damaged := range map[string]*unstructured.Unstructured{
		"no labels":     changed(child, func(o *unstructured.Unstructured) { o.SetLabels(nil) }),
		"no phase":      changed(child, func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{children.LabelOwnerUID: "1"}) }),
		"another owner": changed(child, func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{children.LabelOwnerUID: "2"}) }),
		"no reference":  withoutReferences(child),
	} {
		w.objects = []children.Live{children.Of(pods, damaged)}
		c := w.compare(t)
		require.Equal(t, "adopt a-pod", describe(c.Steps), name)
		w.do(c.Steps)
		require.True(t, children.IsManaged(w.objects[0].Object, child), name)
		require.Empty(t, w.compare(t).Steps, name)
	}
}
