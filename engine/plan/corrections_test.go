package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// fight is an object whose child somebody else changes after each correction.
type fight struct {
	*Memory
	now   time.Time
	kind  *kind.Kind
	owner *unstructured.Unstructured
	step  Step
}

func newFight(t *testing.T) *fight {
	owner := &unstructured.Unstructured{Object: enginetest.At("2020-01-01T00:00:00Z", "RUNNING")}
	owner.SetUID("owner")
	owner.SetGeneration(1)
	f := &fight{Memory: NewMemory(owner), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), kind: enginetest.Shipped(t, "At"), owner: owner}
	f.template("1")
	return f
}

func (f *fight) template(hash string) {
	object := func() *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "a", "uid": "child"}}}
	}
	wanted := object()
	wanted.SetAnnotations(map[string]string{children.AnnotationTemplate: hash})
	f.step = Step{Verb: Apply, Child: "pod", Resource: pods, Name: "a", Wanted: wanted, Live: object()}
}

// correct corrects the child in a reconcile, unless that is held.
func (f *fight) correct() (done bool) {
	f.Rounds(f.kind, f.owner, &View{}, f.now)
	todo, isHeld := f.delayCorrections(&Comparison{Steps: []Step{f.step}}, f.now)
	changes := &Changes{Deleted: make(map[types.UID]bool)}
	for _, s := range todo.Steps {
		if s.Verb == Delete {
			changes.Deleted[s.Live.GetUID()] = true
			continue
		}
		changes.Stored = append(changes.Stored, children.Of(s.Resource, s.Live))
	}
	f.corrected(f.kind, todo, changes, f.now)
	return !isHeld
}

// during counts the corrections of a time with an event every tenth of a second.
func (f *fight) during(d time.Duration) (n int) {
	for range d / (time.Second / 10) {
		if f.correct() {
			n++
		}
		f.now = f.now.Add(time.Second / 10)
	}
	return n
}

func (f *fight) message() string {
	f.Rounds(f.kind, f.owner, &View{}, f.now)
	problem, _ := f.contested(f.now)
	if problem == nil {
		return ""
	}
	return problem.Message
}

func TestContestedChildIsHeldLongerEachTime(t *testing.T) {
	t.Parallel()
	f := newFight(t)
	const message = `child "pod": pods "a" is changed repeatedly without another field manager, as by a mutating webhook or policy: ` +
		`metadata.annotations[fescue.dev/template]; corrections are delayed`
	for range freeCorrections {
		require.True(t, f.correct())
		require.Empty(t, f.message(), "a few corrections are no contest")
	}
	for _, wait := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		wait *= time.Second
		require.False(t, f.correct())
		require.Equal(t, message, f.message())
		_, next := f.contested(f.now)
		require.Equal(t, f.now.Add(wait), next)
		f.now = next.Add(-1)
		require.False(t, f.correct())
		f.now = next
		require.True(t, f.correct())
		require.Equal(t, message, f.message(), "it may be changed again")
	}
	require.True(t, f.IsSlowed())
}

func TestWritesOfAContestedChildAreBounded(t *testing.T) {
	t.Parallel()
	f := newFight(t)
	require.Equal(t, 10, f.during(time.Minute))
	require.LessOrEqual(t, f.during(time.Hour), 16)
}

func TestContestEnds(t *testing.T) {
	t.Parallel()
	contested := func() *fight {
		f := newFight(t)
		require.Equal(t, 7, f.during(5*time.Second))
		require.NotEmpty(t, f.message())
		return f
	}
	t.Run("the spec changes", func(t *testing.T) {
		t.Parallel()
		f := contested()
		f.owner.SetGeneration(2)
		require.Empty(t, f.message())
		require.True(t, f.correct())
	})
	t.Run("the template changes", func(t *testing.T) {
		t.Parallel()
		f := contested()
		f.template("2")
		require.True(t, f.correct())
		require.Empty(t, f.message())
	})
	t.Run("in sync", func(t *testing.T) {
		t.Parallel()
		f := contested()
		f.now = f.now.Add(10 * time.Second) // its correction is due
		_, over := f.contested(f.now)
		f.now = over.Add(-1)
		require.NotEmpty(t, f.message())
		f.now = over
		require.Empty(t, f.message())
		require.True(t, f.IsEmpty())
	})
}

// Deletions have no template, and other children their own count.
func TestRepeatedDeletionsAreHeld(t *testing.T) {
	t.Parallel()
	f := newFight(t)
	f.step.Verb, f.step.Wanted = Delete, nil
	require.Equal(t, 7, f.during(5*time.Second))
	f.step.Name = "b"
	require.True(t, f.correct())
}

// A child that is not found by its label, because someone takes that away, is created in vain, and adopted. That is a correction; one
// that is missing is created at once, whatever happened to it before.
func TestRepeatedAdoptionsAreHeld(t *testing.T) {
	t.Parallel()
	f := newFight(t)
	f.step.Verb = Create
	adopted := f.step
	adopted.Verb = Adopt
	f.step.Live = nil
	for range freeCorrections {
		todo, isHeld := f.delayCorrections(&Comparison{Steps: []Step{f.step}}, f.now)
		require.False(t, isHeld)
		f.corrected(f.kind, todo, &Changes{Adopted: []Step{adopted}, Stored: []children.Live{children.Of(pods, adopted.Live)}}, f.now)
	}
	todo, isHeld := f.delayCorrections(&Comparison{Steps: []Step{f.step}}, f.now)
	require.True(t, isHeld)
	require.Empty(t, todo.Steps)
	require.Equal(t, []Step{f.step}, todo.Inspect)
	live := adopted.Live.DeepCopy()
	live.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kyverno", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:ownerReferences":{}}}`)}})
	f.corrected(f.kind, todo, &Changes{Inspected: []*unstructured.Unstructured{live}}, f.now)
	require.Equal(t, `child "pod": pods "a": manager "kyverno" keeps changing metadata.ownerReferences; corrections are delayed`, f.message())
	todo, _ = f.delayCorrections(&Comparison{Steps: []Step{f.step}}, f.now)
	require.Empty(t, todo.Inspect, "it is described")

	f = newFight(t)
	f.step.Verb = Delete
	require.Equal(t, 7, f.during(5*time.Second))
	f.step.Verb = Create
	_, isHeld = f.delayCorrections(&Comparison{Steps: []Step{f.step}}, f.now)
	require.False(t, isHeld)
}

func TestProblemNamesTheManager(t *testing.T) {
	t.Parallel()
	const own = "fescue/ats.cnat.fescue.dev"
	wanted := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"team": "a", "example.com/x": "a"}}, "data": map[string]any{"a": "1", "b": "1"},
	}}
	live := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a"}}}
	managed := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
	}
	for name, tc := range map[string]struct {
		verb   Verb
		fields []metav1.ManagedFieldsEntry
		want   Problem
	}{
		"one manager": {Apply, []metav1.ManagedFieldsEntry{
			managed(own, `{"f:data":{"f:a":{}}}`), managed("kyverno", `{"f:metadata":{"f:labels":{".":{},"f:team":{}}}}`),
		}, Problem{Reason: "Contested", Message: `child "pod": pods "a": manager "kyverno" keeps changing metadata.labels.team; corrections are delayed`}},
		"two managers and a whole": {Apply, []metav1.ManagedFieldsEntry{
			managed("kubectl", `{"f:data":{}}`), managed("kyverno", `{"f:metadata":{"f:labels":{"f:example.com/x":{},"f:team":{}}}}`),
		}, Problem{Reason: "Contested", Message: `child "pod": pods "a": managers "kubectl", "kyverno" keep changing data.a, data.b, metadata.labels[example.com/x] and 1 more; corrections are delayed`}},
		"ourselves": {Apply, []metav1.ManagedFieldsEntry{managed(own, `{"f:data":{"f:a":{}}}`)},
			Problem{Reason: "Contested", Message: `child "pod": pods "a" is changed repeatedly without another field manager, as by a mutating webhook or policy: data.a, data.b, metadata.labels[example.com/x] and 1 more; corrections are delayed`}},
		"deletion": {Delete, nil, Problem{Reason: "ReplacedRepeatedly", Message: `child "pod": pods "a" is deleted and recreated repeatedly; further deletions are delayed`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := live.DeepCopy()
			live.SetManagedFields(tc.fields)
			s := Step{Verb: tc.verb, Child: "pod", Resource: pods, Name: "a", Wanted: wanted}
			require.Equal(t, &tc.want, heldProblem(s, live, own))
		})
	}
}
