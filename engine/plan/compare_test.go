package plan

import (
	"fmt"
	"maps"
	"regexp"
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
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

var (
	pods    = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	configs = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	podKind = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
)

// customcluster returns an object that wants this many Pods.
func customcluster(count int64, message string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "samplecontroller.fescue.dev/v1alpha1", "kind": "Customcluster",
		"metadata": map[string]any{"name": "c", "namespace": "default", "uid": "owner", "generation": int64(1)},
		"spec":     map[string]any{"count": count, "message": message},
	}}
}

// world is a cluster with one object in it, in which steps take effect at once.
type world struct {
	kind       *kind.Kind
	owner      *unstructured.Unstructured
	objects    []children.Live
	strays     []*unstructured.Unstructured
	foreign    []string // names of other owners' Pods
	normalized *children.Normalized
	created    int
	taken      map[Taken]bool // what the API server has rejected
}

func newWorld(k *kind.Kind, owner *unstructured.Unstructured) *world {
	return &world{kind: k, owner: owner, normalized: children.NewNormalized()}
}

func (w *world) view() *View {
	return &View{
		Children: slices.Clone(w.objects),
		Types: map[schema.GroupVersionKind]ChildType{
			podKind:                                {Resource: pods, IsNamespaced: true},
			{Version: "v1", Kind: "ConfigMap"}:     {Resource: configs, IsNamespaced: true},
			{Version: "v1", Kind: "Unserved"}:      {Err: ErrNotServed},
			{Group: "x", Version: "v1", Kind: "Y"}: {Resource: schema.GroupVersionResource{Group: "x", Version: "v1", Resource: "ys"}, IsNamespaced: true},
		},
		Normalized: w.normalized,
		taken:      w.taken,
	}
}

// withStrays returns the view with what a plan asks for.
func (w *world) withStrays(p *Plan) *View { return w.asked(p, w.view()) }

// asked returns a view with what a plan asks for.
func (w *world) asked(p *Plan, v *View) *View {
	unknown := p.unknownStrays(v)
	for i := range unknown {
		unknown[i].Objects = WithLabels(w.strays, unknown[i].Labels)
	}
	return v.withStrays(unknown, nil)
}

// compare returns the writes for the object.
func (w *world) compare(t *testing.T) *Comparison {
	p := Decide(w.kind, w.owner, w.view(), now)
	require.Nil(t, p.Stalled)
	todo := Compare(p, w.withStrays(p))
	if !w.kind.Corrected.Has(podKind) { // a cache keeps less than everything
		seen := projected(t, w.kind, w.withStrays(p))
		same := Decide(w.kind, w.owner, seen, now)
		require.Equal(t, []any{p.Children, p.Projection, p.Conditions, p.Prune, p.WakeAt}, []any{same.Children, same.Projection, same.Conditions, same.Prune, same.WakeAt})
		other := Compare(same, seen)
		require.Equal(t, describe(todo.Steps), describe(other.Steps))
		require.Equal(t, todo.States, other.States)
		require.Equal(t, names(todo.Foreign), names(other.Foreign))
		require.Equal(t, FingerprintOf(w.kind, w.owner, w.view().Children, nil), FingerprintOf(w.kind, w.owner, seen.Children, nil))
	}
	return todo
}

// do carries out steps.
func (w *world) do(steps []Step) {
	for _, s := range steps {
		switch s.Verb {
		case Create:
			if slices.Contains(w.foreign, s.Name) && !slices.ContainsFunc(w.objects, func(e children.Live) bool { return e.Object.GetName() == s.Name }) {
				if w.taken == nil {
					w.taken = make(map[Taken]bool)
				}
				w.taken[Taken{s.Resource, s.Object().GetNamespace(), s.Name}] = true
				continue
			}
			w.created++
			created := s.Wanted.DeepCopy()
			created.SetUID(types.UID(fmt.Sprint("created-", w.created)))
			created.SetCreationTimestamp(metav1.NewTime(now.Add(time.Duration(w.created) * time.Second)))
			w.objects = append(w.objects, children.Of(s.Resource, created))
		case Delete:
			w.remove(s.Live.GetUID())
		case Apply, Adopt:
			i := slices.IndexFunc(w.objects, func(e children.Live) bool { return e.Object.GetUID() == s.Live.GetUID() })
			w.objects[i] = children.Of(s.Resource, rewritten(s))
		}
	}
}

// rewritten returns an object after a step: with the labels and the reference that are
// wanted and, if the template was applied, with all its fields.
func rewritten(s Step) *unstructured.Unstructured {
	object := s.Live.DeepCopy()
	object.SetLabels(merged(object.GetLabels(), s.Wanted.GetLabels()))
	object.SetOwnerReferences(s.Wanted.GetOwnerReferences())
	annotations := s.Wanted.GetAnnotations()
	if s.Verb == Adopt {
		annotations = make(map[string]string)
		for _, name := range children.OwnAnnotations {
			annotations[name] = s.Wanted.GetAnnotations()[name]
		}
	} else {
		for field, value := range s.Wanted.DeepCopy().Object {
			if field != "metadata" {
				object.Object[field] = value
			}
		}
	}
	object.SetAnnotations(merged(object.GetAnnotations(), annotations))
	return object
}

// merged returns the entries of both maps; those of b replace those of a.
func merged(a, b map[string]string) map[string]string {
	all := make(map[string]string)
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

func (w *world) remove(uid types.UID) {
	w.objects = slices.DeleteFunc(w.objects, func(e children.Live) bool { return e.Object.GetUID() == uid })
	w.strays = slices.DeleteFunc(w.strays, func(s *unstructured.Unstructured) bool { return s.GetUID() == uid })
}

// ready sets all Pods to ready.
func (w *world) ready() {
	for i, e := range w.objects {
		w.objects[i].Object = withStatus(e.Object, "Running", true)
	}
}

func withStatus(object *unstructured.Unstructured, phase string, isReady bool) *unstructured.Unstructured {
	object = object.DeepCopy()
	status := metav1.ConditionFalse
	if isReady {
		status = metav1.ConditionTrue
	}
	object.Object["status"] = map[string]any{"phase": phase, "conditions": []any{map[string]any{"type": "Ready", "status": string(status)}}}
	return object
}

// converge carries out steps until there are none, with all Pods ready in between.
func (w *world) converge(t *testing.T, check func(*Comparison)) {
	for range 100 {
		w.ready()
		c := w.compare(t)
		require.NoError(t, c.Rejected)
		check(c)
		if len(c.Steps) == 0 && len(c.Prunes) == 0 {
			return
		}
		w.do(c.Steps)
		w.do(c.Prunes)
	}
	require.Fail(t, "never in sync")
}

func describe(steps []Step) string {
	texts := make([]string, len(steps))
	for i, s := range steps {
		texts[i] = string(s.Verb) + " " + withoutHash(s.Name)
	}
	return strings.Join(texts, ", ")
}

// withoutHash returns the name of a member without the hash of its template, which tests do not know.
func withoutHash(name string) string {
	return regexp.MustCompile(`-[0-9a-f]{5}-(\d+)$`).ReplaceAllString(name, "-$1")
}

// memberName returns the name that a member of the only set would have now.
func (w *world) memberName(number int) string {
	p := Decide(w.kind, w.owner, w.view(), now)
	object, err := children.Complete(w.kind, w.owner, p.Children[0], true)
	if err != nil {
		panic(err)
	}
	return children.MemberName(object, number)
}

func names(objects []children.Live) []string {
	var names []string
	for _, e := range objects {
		names = append(names, withoutHash(e.Object.GetName()))
	}
	slices.Sort(names)
	return names
}

func TestCompareOfSet(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "Customcluster")
	other := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "r", Controller: new(true)}}
	for name, tc := range map[string]struct {
		count int64
		live  func(w *world) // of three that are ready
		want  string
		state ChildState
	}{
		"as wanted":     {3, func(*world) {}, "", ChildState{name: "pods", set: true, wanted: 3, ready: 3, outdated: 0}},
		"more wanted":   {5, func(*world) {}, "create c-3, create c-4", ChildState{name: "pods", set: true, wanted: 5, ready: 3, outdated: 0}},
		"fewer wanted":  {1, func(*world) {}, "delete c-2, delete c-1", ChildState{name: "pods", set: true, wanted: 1, ready: 1, outdated: 0}},
		"none wanted":   {0, func(*world) {}, "delete c-2, delete c-1, delete c-0", ChildState{name: "pods", set: true, wanted: 0, ready: 0, outdated: 0}},
		"one is gone":   {3, func(w *world) { w.objects = w.objects[1:] }, "create c-3", ChildState{name: "pods", set: true, wanted: 3, ready: 2, outdated: 0}},
		"one not ready": {2, func(w *world) { w.objects[0].Object = withStatus(w.objects[0].Object, "Pending", false) }, "delete c-0", ChildState{name: "pods", set: true, wanted: 2, ready: 2, outdated: 0}},
		"one is being deleted": {3, func(w *world) {
			w.objects[0].Object = w.objects[0].Object.DeepCopy()
			w.objects[0].Object.SetDeletionTimestamp(new(metav1.NewTime(now)))
		}, "create c-3", ChildState{name: "pods", set: true, wanted: 3, ready: 2, outdated: 0}},
		"one has failed": {3, func(w *world) { w.objects[1].Object = withStatus(w.objects[1].Object, "Failed", false) }, "delete c-1, create c-3", ChildState{name: "pods", set: true, wanted: 3, ready: 2, outdated: 0}},
		"one lost its reference": {3, func(w *world) {
			w.objects[0].Object = w.objects[0].Object.DeepCopy()
			w.objects[0].Object.SetOwnerReferences(nil)
		}, "adopt c-0", ChildState{name: "pods", set: true, wanted: 3, ready: 3, outdated: 0}},
		"one was adopted": {3, func(w *world) {
			w.objects[0].Object = w.objects[0].Object.DeepCopy()
			w.objects[0].Object.SetOwnerReferences(other)
		}, "create c-3", ChildState{name: "pods", set: true, wanted: 3, ready: 2, outdated: 0}},
		"strays": {3, func(w *world) {
			for name, labels := range map[string]map[string]string{"mine": {"controller": "c"}, "yours": {"controller": "d"}, "owned": {"controller": "c"}} {
				stray := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name, "uid": name, "namespace": "default"}}}
				stray.SetLabels(labels)
				if name == "owned" {
					stray.SetOwnerReferences(other)
				}
				w.strays = append(w.strays, stray)
			}
		}, "delete mine", ChildState{name: "pods", set: true, wanted: 3, ready: 3, outdated: 0}},
		"copied with its labels": {3, func(w *world) {
			copied := w.objects[0].Object.DeepCopy()
			copied.SetName("copy")
			copied.SetUID("copy")
			copied.SetOwnerReferences(nil)
			w.objects = append(w.objects, children.Of(pods, copied))
		}, "delete copy", ChildState{name: "pods", set: true, wanted: 3, ready: 3, outdated: 0}},
		"copied with its reference": {3, func(w *world) {
			copied := w.objects[0].Object.DeepCopy()
			copied.SetName("copy")
			copied.SetUID("copy")
			copied.SetCreationTimestamp(metav1.NewTime(now.Add(time.Hour)))
			w.objects = append(w.objects, children.Of(pods, copied))
		}, "delete copy", ChildState{name: "pods", set: true, wanted: 3, ready: 3, outdated: 0}},
		"members of another build, without a record": {3, func(w *world) {
			for i, e := range w.objects {
				older := e.Object.DeepCopy()
				older.SetName(fmt.Sprintf("c-%d", i))
				annotations := older.GetAnnotations()
				delete(annotations, children.AnnotationCreatedAs)
				older.SetAnnotations(annotations)
				w.objects[i] = children.Of(pods, older)
			}
		}, "adopt c-2, adopt c-1, adopt c-0", ChildState{name: "pods", set: true, wanted: 3, ready: 3, outdated: 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(k, customcluster(3, "m"))
			w.converge(t, func(*Comparison) {})
			require.Equal(t, []string{"c-0", "c-1", "c-2"}, names(w.objects))
			tc.live(w)
			w.owner = customcluster(tc.count, "m")
			c := w.compare(t)
			require.Equal(t, tc.want, describe(c.Steps))
			require.Equal(t, []ChildState{tc.state}, c.States)
		})
	}
}

// A member that is too many, or has finished, and that the garbage collector has orphaned is not deleted: the adoption finds out
// whether its owner is there to stay.
func TestOrphanedMembersAreAdoptedFirst(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *world){
		"too many": func(w *world) { w.owner = customcluster(0, "a") },
		"finished": func(w *world) {
			require.NoError(t, unstructured.SetNestedField(w.objects[0].Object.Object, "Succeeded", "status", "phase"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(enginetest.Shipped(t, "Customcluster"), customcluster(1, "a"))
			w.converge(t, func(*Comparison) {})
			w.objects[0].Object.SetOwnerReferences(nil)
			change(w)
			steps := w.compare(t).Steps
			require.NotEmpty(t, steps)
			require.Equal(t, Adopt, steps[0].Verb)
			require.NotContains(t, describe(steps), "delete")
		})
	}
}

// Whatever happened to the members of a set, their numbers are not used again, and their names have
// the hash of their template.
func TestNumbersAreNotUsedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(enginetest.Shipped(t, "Customcluster"), customcluster(3, "a"))
	w.converge(t, func(*Comparison) {})
	first := w.objects[0].Object
	require.Regexp(t, "^c-"+first.GetAnnotations()[children.AnnotationTemplate][:5]+"-0$", first.GetName())

	v := w.view()
	v.Seen = &Seen{numbers: []setNumber{{"pods", 7}}}
	v.Children = v.Children[:2]
	c := Compare(Decide(w.kind, w.owner, v, now), v)
	require.Equal(t, "create c-8", describe(c.Steps), "those that are remembered")
	require.Equal(t, map[string]int{"pods": 7}, c.Numbers)

	w.owner = customcluster(3, "b")
	w.objects = w.objects[:2]
	c = w.compare(t)
	require.Equal(t, "create c-2", describe(c.Steps))
	require.NotContains(t, c.Steps[0].Name, first.GetAnnotations()[children.AnnotationTemplate][:5])
	require.Equal(t, map[string]int{"pods": 1}, c.Numbers)

	for name, want := range map[string]int{
		"c-0a1b2-0": 0, "c-0a1b2-12": 12, "c-0": -1, "c-0a1b2-": -1, "c-0a1b2-01": -1, "c-0a1b-1": -1, "c-0a1b2-x": -1, "d-0a1b2-1": -1, "c-c-0a1b2-1": -1, "c-0a1b2-9999999999": -1,
	} {
		number, ok := children.MemberNumber(&kind.Set{}, "c", name)
		if !ok {
			number = -1
		}
		require.Equal(t, want, number, name)
	}
}

// All members are replaced, and never more than maxUnavailable at a time.
func TestReplacementIsBounded(t *testing.T) {
	t.Parallel()
	for _, count := range []int64{1, 2, 7, 40} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			t.Parallel()
			w := newWorld(enginetest.Shipped(t, "Customcluster"), customcluster(count, "old"))
			w.converge(t, func(*Comparison) {})
			w.owner = customcluster(count, "new")
			most := 0
			w.converge(t, func(c *Comparison) {
				leaving := 0
				for _, s := range c.Steps {
					if s.Verb == Delete {
						leaving++
					}
				}
				most = max(most, leaving)
			})
			require.Equal(t, max(int(count)/4, 1), most)
			for _, e := range w.objects {
				env, _, _ := unstructured.NestedSlice(e.Object.Object, "spec", "containers")
				require.Contains(t, fmt.Sprint(env), "value:new")
			}
		})
	}
}

// A set with an older template that never became ready is replaced at once.
func TestBrokenMembersAreReplacedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(enginetest.Shipped(t, "Customcluster"), customcluster(4, "old"))
	w.do(w.compare(t).Steps)
	w.owner = customcluster(4, "new")
	require.Equal(t, "delete c-3, delete c-2, delete c-1, delete c-0, create c-4, create c-5, create c-6, create c-7", describe(w.compare(t).Steps))
}

func TestManyMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(enginetest.Shipped(t, "Customcluster"), customcluster(1000, "m"))
	w.converge(t, func(*Comparison) {})
	require.Len(t, w.objects, 1000)
	require.Empty(t, w.compare(t).Steps)
}

const odd = `
package odd

import "fescue.dev/cue/contract"

#A: {apiVersion!: "odd.example.com/v1", kind!: "A", metadata!: {...}, spec!: case!: string, status?: contract.#Status}
#AController: contract.#Controller & {
	object!: #A
	names: plural: "as"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}, {apiVersion: "v1", kind: "Unserved"}]
	if object.spec.case == "same name" {
		children: {
			a: template: {apiVersion: "v1", kind: "ConfigMap", metadata: name: "x"}
			b: template: {apiVersion: "v1", kind: "ConfigMap", metadata: name: "x"}
		}
	}
	if object.spec.case == "unserved" {children: a: template: {apiVersion: "v1", kind: "Unserved"}}
	if object.spec.case == "undeclared" {children: a: template: {apiVersion: "v1", kind: "Undeclared"}}
	if object.spec.case == "namespace" {children: a: template: {apiVersion: "v1", kind: "ConfigMap", metadata: namespace: "kube-system"}}
	if object.spec.case == "one" {children: a: template: {apiVersion: "v1", kind: "ConfigMap"}}
}
`

func TestCompareRejects(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, odd)
	owner := func(which string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "odd.example.com/v1", "kind": "A", "spec": map[string]any{"case": which},
			"metadata": map[string]any{"name": "o", "namespace": "default", "uid": "owner"},
		}}
	}
	for which, want := range map[string]string{
		"same name":  "child \"a\": configmaps \"x\" is wanted by child \"b\" as well\nchild \"b\": configmaps \"x\" is wanted by child \"a\" as well",
		"unserved":   `child "a": v1 Unserved: its type is not served by the cluster: install its CRD`,
		"undeclared": `child "a": its type v1 Undeclared is not among those that the kind owns; add it to owns in #AController`,
		"namespace":  `child "a": metadata.namespace: Invalid value: "kube-system": must be the namespace of its object, "default"`,
	} {
		t.Run(which, func(t *testing.T) {
			t.Parallel()
			c := newWorld(k, owner(which)).compare(t)
			require.EqualError(t, c.Rejected, want)
			require.Empty(t, c.Steps)
			require.False(t, c.States[0].isReady())
		})
	}
	t.Run("a child of another controller", func(t *testing.T) {
		t.Parallel()
		w := newWorld(k, owner("one"))
		w.do(w.compare(t).Steps)
		w.objects[0].Object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "r", Controller: new(true)}})
		c := w.compare(t)
		require.EqualError(t, c.Rejected, `child "a": configmaps "o-a" exists and is controlled by ReplicaSet "r"`)
		require.Empty(t, c.Steps)

		w.owner = owner("none")
		require.Empty(t, w.compare(t).Prunes, "it is not deleted when it is no longer wanted")
	})
	t.Run("no longer wanted", func(t *testing.T) {
		t.Parallel()
		w := newWorld(k, owner("one"))
		w.do(w.compare(t).Steps)
		w.owner = owner("none")
		require.Equal(t, "delete o-a", describe(w.compare(t).Prunes))
	})
	t.Run("no longer wanted, and without a mark", func(t *testing.T) {
		t.Parallel()
		w := newWorld(k, owner("one"))
		w.do(w.compare(t).Steps)
		w.owner = owner("none")
		w.objects[0].Object.SetLabels(map[string]string{children.LabelOwnerUID: w.objects[0].Object.GetLabels()[children.LabelOwnerUID]})
		c := w.compare(t)
		require.Equal(t, "adopt o-a", describe(c.Steps))
		require.Empty(t, c.Prunes, "they would be of a version that is outdated then")
		w.do(c.Steps)
		require.Equal(t, "delete o-a", describe(w.compare(t).Prunes))
	})
}

// An object that was restored from a backup has another UID, and its children have lost
// their owner references: they are adopted, not created a second time.
func TestRestoredChildrenAreAdopted(t *testing.T) {
	t.Parallel()
	for name, owner := range map[string]*unstructured.Unstructured{
		"Customcluster": customcluster(3, "m"),
		"Watcher": {Object: map[string]any{
			"apiVersion": "watch.fescue.dev/v1alpha1", "kind": "Watcher",
			"metadata": map[string]any{"name": "w", "namespace": "default", "uid": "owner"},
			"spec":     map[string]any{"container": map[string]any{"name": "x"}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(enginetest.Shipped(t, name), owner)
			w.converge(t, func(*Comparison) {})
			before := names(w.objects)
			w.owner = owner.DeepCopy()
			w.owner.SetUID("restored")
			for _, e := range w.objects {
				e.Object.SetOwnerReferences(nil)
			}
			w.converge(t, func(c *Comparison) {
				for _, s := range c.Steps {
					require.Equal(t, Adopt, s.Verb)
				}
			})
			require.Equal(t, before, names(w.objects))
			for _, e := range w.objects {
				require.True(t, metav1.IsControlledBy(e.Object, w.owner))
			}
		})
	}
}

// A controller reference in a version that the kind no longer stores is written anew, once, and nothing
// else is: the garbage collector cannot resolve it when that version is no longer served.
func TestReferencesFollowTheStoredVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(enginetest.Shipped(t, "Customcluster"), customcluster(2, "m"))
	w.converge(t, func(*Comparison) {})
	wanted := w.objects[0].Object.GetOwnerReferences()
	former := slices.Clone(wanted)
	former[0].APIVersion = "samplecontroller.fescue.dev/v1alpha0"
	for _, e := range w.objects {
		e.Object.SetOwnerReferences(former)
	}
	steps := 0
	w.converge(t, func(c *Comparison) {
		for _, s := range c.Steps {
			require.Equal(t, Adopt, s.Verb)
			steps++
		}
	})
	require.Equal(t, 2, steps)
	for _, e := range w.objects {
		require.Equal(t, wanted, e.Object.GetOwnerReferences())
	}
}

// Labels that are not strings select nothing, and not everything.
func TestMetadataHasToBeStrings(t *testing.T) {
	t.Parallel()
	owner := customcluster(1, "m")
	for text, template := range map[string]map[string]any{
		"metadata.labels.rev: Invalid value: 7: must be a string":             {"metadata": map[string]any{"labels": map[string]any{"rev": int64(7)}}},
		"metadata.annotations: Invalid value: x: must be a struct of strings": {"metadata": map[string]any{"annotations": "x"}},
		"metadata: Invalid value: x: must be a struct":                        {"metadata": "x"},
		"metadata.name: Invalid value: 7: must be a name":                     {"metadata": map[string]any{"name": int64(7)}},
	} {
		_, err := children.Complete(enginetest.Shipped(t, "Customcluster"), owner, kind.Child{Name: "x", Template: template}, true)
		require.EqualError(t, err, text)
	}
	c := &comparer{Comparison: &Comparison{}, plan: &Plan{Object: owner}, view: newWorld(nil, owner).view()}
	c.view.Strays = []Strays{{Objects: []*unstructured.Unstructured{customcluster(1, "m")}}}
	require.Empty(t, c.strays(wantedChild{Child: kind.Child{Set: &kind.Set{DeleteStrays: true}, Template: map[string]any{}}}))
}

const configs10 = `
package ten

import "fescue.dev/cue/contract"

#A: {apiVersion!: "ten.example.com/v1", kind!: "A", metadata!: {...}, spec!: text!: string, status?: contract.#Status}
#AController: contract.#Controller & {
	object!: #A
	names: plural: "as"
	children: x: {replicas: 20, maxUnavailable: 1, update: "Recreate", template: {apiVersion: "v1", kind: "ConfigMap", data: text: object.spec.text}}
}
`

// A replacement that takes more rounds than one reconcile has continues in the next one.
func TestALongReplacementContinues(t *testing.T) {
	t.Parallel()
	owner := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "ten.example.com/v1", "kind": "A", "spec": map[string]any{"text": "old"},
		"metadata": map[string]any{"name": "o", "namespace": "default", "uid": "owner"},
	}}
	w := newWorld(enginetest.Kind(t, configs10), owner)
	apply := func(todo *Comparison) *Changes {
		before := slices.Clone(w.objects)
		w.do(todo.Steps)
		done := &Changes{Deleted: make(map[types.UID]bool)}
		for _, e := range before {
			if !slices.ContainsFunc(w.objects, func(o children.Live) bool { return o.Object.GetUID() == e.Object.GetUID() }) {
				done.Deleted[e.Object.GetUID()] = true
			}
		}
		done.Stored = slices.Clone(w.objects)
		return done
	}
	converge(w.kind, owner, w.view(), now, apply)
	require.Len(t, w.objects, 20)
	require.NoError(t, unstructured.SetNestedField(owner.Object, "new", "spec", "text"))
	reconciles := 0
	for ; reconciles < 20; reconciles++ {
		_, o := converge(w.kind, owner, w.view(), now, apply)
		require.NoError(t, o.Failed)
		if o.isReady() {
			break
		}
		require.True(t, o.isUnfinished)
	}
	require.Greater(t, reconciles, 1)
	for _, e := range w.objects {
		text, _, _ := unstructured.NestedString(e.Object.Object, "data", "text")
		require.Equal(t, "new", text)
	}
}

const renamed = `
package renamed

import "fescue.dev/cue/contract"

#A: {apiVersion!: "renamed.example.com/v1", kind!: "A", metadata!: {...}, spec!: name!: string}
#AController: contract.#Controller & {
	object!: #A
	names: plural: "as"
	children: a: template: {apiVersion: "v1", kind: "ConfigMap", metadata: name: object.spec.name}
}
`

// What is no longer wanted stays while another child is rejected or waits. Nothing is written then, and the reconcile is
// complete: it is repeated when something changes, or a second later for what waits, and not at once.
func TestPrunesThatHaveToWait(t *testing.T) {
	t.Parallel()
	for name, occupy := range map[string]func(*unstructured.Unstructured){
		"rejected": func(o *unstructured.Unstructured) {
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "r", Controller: new(true)}})
		},
		"waits": func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(&metav1.Time{Time: now}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owner := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "renamed.example.com/v1", "kind": "A", "spec": map[string]any{"name": "old"},
				"metadata": map[string]any{"name": "o", "namespace": "default", "uid": "owner"},
			}}
			w := newWorld(enginetest.Kind(t, renamed), owner)
			w.do(w.compare(t).Steps)
			require.NoError(t, unstructured.SetNestedField(owner.Object, "new", "spec", "name"))
			w.do(w.compare(t).Steps)
			for _, o := range w.objects {
				if o.Object.GetName() == "new" {
					occupy(o.Object)
				}
			}
			require.Equal(t, "delete old", describe(w.compare(t).Prunes))
			_, o := converge(w.kind, owner, w.view(), now, func(todo *Comparison) *Changes {
				t.Fatalf("there is nothing to do but %v", todo.Steps)
				return nil
			})
			require.False(t, o.isUnfinished)
			require.Equal(t, name == "waits", o.Waiting)
			require.Equal(t, name == "rejected", o.Stalled != nil)
		})
	}
}

const costly = `
package costly

import "fescue.dev/cue/contract"

#C: {apiVersion!: "costly.example.com/v1", kind!: "C", metadata!: {...}, spec!: items!: [...int], status?: {contract.#Status, n?: int}}
#CController: contract.#Controller & {
	object!: #C
	names: plural: "cs"
	children: x: template: {apiVersion: "v1", kind: "ConfigMap", data: n: "\(status.n)"}
	status: n: len([for a in object.spec.items for b in object.spec.items {1}])
}
`

// A decision that takes more than half of the budget is followed by none in the same reconcile. One that exceeds
// it stalls the object.
func TestCostlyDecisions(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, costly)
	of := func(items int) *world {
		return newWorld(k, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "costly.example.com/v1", "kind": "C", "spec": map[string]any{"items": slices.Repeat([]any{int64(1)}, items)},
			"metadata": map[string]any{"name": "o", "namespace": "default", "uid": "owner"},
		}})
	}
	reconcile := func(w *world) *Outcome {
		v := w.view()
		v.Budget = k.NewBudget()
		_, o := converge(k, w.owner, v, now, func(todo *Comparison) *Changes {
			w.do(todo.Steps)
			return &Changes{Stored: slices.Clone(w.objects)}
		})
		return o
	}
	n := 100
	for b := k.NewBudget(); !b.IsLow(); n += 20 {
		b = k.NewBudget()
		require.Nil(t, Decide(k, of(n).owner, &View{Budget: b}, now).Stalled)
	}
	w := of(n)
	first, second := reconcile(w), reconcile(w)
	require.Len(t, w.objects, 1)
	require.True(t, first.isUnfinished)
	require.Nil(t, first.Stalled)
	require.False(t, second.isUnfinished)
	require.True(t, second.isReady())

	cheap := of(3)
	require.False(t, reconcile(cheap).isUnfinished)

	o := reconcile(of(1000))
	require.False(t, o.isUnfinished)
	require.Equal(t, "EvaluationFailed", o.Stalled.Reason)
	require.Contains(t, o.Stalled.Message, "C takes more than 500000 steps: make the object smaller, or have its kind compute less")
}

// Children of an earlier phase are restored with their object, though nothing wants them now.
func TestChildrenOfFormerPhasesAreAdopted(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "At")
	for _, phase := range []string{"RUNNING", "DONE"} {
		w := newWorld(k, &unstructured.Unstructured{Object: enginetest.At("2020-01-01T00:00:00Z", "RUNNING")})
		w.do(w.compare(t).Steps)
		require.Len(t, w.objects, 1)
		w.owner = w.owner.DeepCopy()
		w.owner.SetUID("restored")
		require.NoError(t, unstructured.SetNestedField(w.owner.Object, phase, "status", "phase"))
		w.objects[0].Object.SetOwnerReferences(nil)
		require.Equal(t, "adopt a-pod", describe(w.compare(t).Steps))
		w.do(w.compare(t).Steps)
		require.True(t, metav1.IsControlledBy(w.objects[0].Object, w.owner))
		require.Empty(t, w.compare(t).Steps)
	}
}

// BenchmarkSet decides about a set that is in sync, as each change of a member does.
func BenchmarkSet(b *testing.B) {
	for _, members := range []int64{10, 100, 1000} {
		b.Run(fmt.Sprint(members), func(b *testing.B) {
			w := newWorld(enginetest.Shipped(b, "Customcluster"), customcluster(members, "m"))
			w.do(Compare(Decide(w.kind, w.owner, w.view(), now), w.view()).Steps)
			w.ready()
			v := w.view()
			for b.Loop() {
				require.Empty(b, Compare(Decide(w.kind, w.owner, v, now), v).Steps)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(members), "µs/member")
		})
	}
}
