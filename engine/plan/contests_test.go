package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// fought is what is reported of a fight.
const fought = `child "pod": pods "a" is changed repeatedly: metadata.annotations[fescue.dev/template], metadata.name; corrections are delayed`

// fight is an object whose child somebody else changes after each correction.
type fight struct {
	*Contests
	now   time.Time
	owner *unstructured.Unstructured
	step  Step
}

func newFight() *fight {
	owner := &unstructured.Unstructured{}
	owner.SetName("owner")
	owner.SetUID("1")
	owner.SetGeneration(1)
	f := &fight{Contests: NewContests(), now: now, owner: owner}
	f.template("1")
	return f
}

func (f *fight) template(hash string) {
	wanted := &unstructured.Unstructured{}
	wanted.SetName("a")
	wanted.SetAnnotations(map[string]string{"fescue.dev/template": hash})
	f.step = Step{Verb: Apply, Child: "pod", Resource: pods, Name: "a", Wanted: wanted}
}

// correct corrects the child unless that is held.
func (f *fight) correct() (done bool) {
	held, isNew := f.Holds(f.owner, f.step, f.now)
	if isNew {
		f.Describe(f.owner, f.step, &unstructured.Unstructured{}, "", f.now)
	}
	if !held {
		f.Wrote(f.owner, f.step, f.now)
	}
	return !held
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
	problem, _ := f.problem(f.owner, f.now)
	if problem == nil {
		return ""
	}
	return problem.Message
}

func TestContestedChildIsHeldLongerEachTime(t *testing.T) {
	t.Parallel()
	f := newFight()
	for range freeCorrections {
		require.True(t, f.correct())
		require.Empty(t, f.message(), "a few corrections are no contest")
	}
	for _, wait := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		wait *= time.Second
		require.False(t, f.correct())
		require.Equal(t, fought, f.message())
		_, next := f.problem(f.owner, f.now)
		require.Equal(t, f.now.Add(wait), next)
		f.now = next.Add(-1)
		require.False(t, f.correct())
		f.now = next
		require.True(t, f.correct())
		require.Equal(t, fought, f.message(), "it may be changed again")
	}
	require.True(t, f.IsContested(nameFor(f.owner)))
}

func TestWritesOfAContestedChildAreBounded(t *testing.T) {
	t.Parallel()
	f := newFight()
	require.Equal(t, 10, f.during(time.Minute))
	require.LessOrEqual(t, f.during(time.Hour), 16)
}

func TestContestEnds(t *testing.T) {
	t.Parallel()
	contested := func() *fight {
		f := newFight()
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
	t.Run("another object", func(t *testing.T) {
		t.Parallel()
		f := contested()
		f.owner.SetUID("another")
		require.True(t, f.correct())
	})
	t.Run("forgotten", func(t *testing.T) {
		t.Parallel()
		f := contested()
		f.Forget(nameFor(f.owner))
		require.True(t, f.correct())
		require.Empty(t, f.message())
		require.False(t, f.IsContested(nameFor(f.owner)))
	})
	t.Run("in sync", func(t *testing.T) {
		t.Parallel()
		f := contested()
		f.now = f.now.Add(10 * time.Second) // its correction is due
		_, over := f.problem(f.owner, f.now)
		f.now = over.Add(-1)
		require.NotEmpty(t, f.message())
		f.now = over
		require.Empty(t, f.message())
		require.Empty(t, f.byObject)
	})
}

// Deletions have no template, and other children their own count.
func TestRepeatedDeletionsAreHeld(t *testing.T) {
	t.Parallel()
	f := newFight()
	f.step.Verb, f.step.Wanted, f.step.Live = Delete, nil, f.step.Wanted
	require.Equal(t, 7, f.during(5*time.Second))
	f.step.Name = "b"
	require.True(t, f.correct())
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
		"not known": {Apply, nil, Problem{Reason: "Contested", Message: `child "pod": pods "a" is changed repeatedly: data.a, data.b, metadata.labels[example.com/x] and 1 more; corrections are delayed`}},
		"deletion":  {Delete, nil, Problem{Reason: "ReplacedRepeatedly", Message: `child "pod": pods "a" is deleted and recreated repeatedly; further deletions are delayed`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := live.DeepCopy()
			live.SetManagedFields(tc.fields)
			s := Step{Verb: tc.verb, Child: "pod", Resource: pods, Name: "a", Wanted: wanted}
			require.Equal(t, &tc.want, contestOf(s, live, own))
		})
	}
}
