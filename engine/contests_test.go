package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fescue-dev/fescue/engine/plan"
)

// fight is an object whose child somebody else changes after each correction.
type fight struct {
	*contests
	clock *clocktesting.FakePassiveClock
	owner *unstructured.Unstructured
	step  plan.Step
}

func newFight() *fight {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	owner := version("owner", "1")
	owner.SetGeneration(1)
	f := &fight{contests: newContests(clock), clock: clock, owner: owner}
	f.template("1")
	return f
}

func (f *fight) template(hash string) {
	wanted := version("child", "1")
	wanted.SetAnnotations(map[string]string{"fescue.dev/template": hash})
	f.step = plan.Step{Verb: plan.Apply, Child: "pod", Resource: pods, Name: "a", Wanted: wanted}
}

// correct corrects the child unless that is held.
func (f *fight) correct() (done bool) {
	held, isNew := f.holds(f.owner, f.step)
	if isNew {
		f.describe(f.owner, f.step, &plan.Problem{Reason: reasonContested, Message: "m"})
	}
	if !held {
		f.wrote(f.owner, f.step)
	}
	return !held
}

// during counts the corrections of a time with an event every tenth of a second.
func (f *fight) during(d time.Duration) (n int) {
	for range d / (time.Second / 10) {
		if f.correct() {
			n++
		}
		f.clock.SetTime(f.clock.Now().Add(time.Second / 10))
	}
	return n
}

func (f *fight) message() string {
	problem, _ := f.problem(f.owner)
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
		require.Equal(t, "m", f.message())
		_, next := f.problem(f.owner)
		require.Equal(t, f.clock.Now().Add(wait), next)
		f.clock.SetTime(next.Add(-1))
		require.False(t, f.correct())
		f.clock.SetTime(next)
		require.True(t, f.correct())
		require.Equal(t, "m", f.message(), "it may be changed again")
	}
	require.True(t, f.isContested(cache.MetaObjectToName(f.owner)))
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
		f.forget(cache.MetaObjectToName(f.owner))
		require.True(t, f.correct())
		require.Empty(t, f.message())
		require.False(t, f.isContested(cache.MetaObjectToName(f.owner)))
	})
	t.Run("in sync", func(t *testing.T) {
		t.Parallel()
		f := contested()
		f.clock.SetTime(f.clock.Now().Add(10 * time.Second)) // its correction is due
		_, over := f.problem(f.owner)
		f.clock.SetTime(over.Add(-1))
		require.NotEmpty(t, f.message())
		f.clock.SetTime(over)
		require.Empty(t, f.message())
		require.Empty(t, f.byObject)
	})
}

// Deletions have no template, and other children their own count.
func TestRepeatedDeletionsAreHeld(t *testing.T) {
	t.Parallel()
	f := newFight()
	f.step.Verb, f.step.Wanted, f.step.Live = plan.Delete, nil, f.step.Wanted
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
		verb   plan.Verb
		fields []metav1.ManagedFieldsEntry
		want   plan.Problem
	}{
		"one manager": {plan.Apply, []metav1.ManagedFieldsEntry{
			managed(own, `{"f:data":{"f:a":{}}}`), managed("kyverno", `{"f:metadata":{"f:labels":{".":{},"f:team":{}}}}`),
		}, plan.Problem{Reason: "Contested", Message: `child "pod": pods "a": manager "kyverno" keeps changing metadata.labels.team; corrections are delayed`}},
		"two managers and a whole": {plan.Apply, []metav1.ManagedFieldsEntry{
			managed("kubectl", `{"f:data":{}}`), managed("kyverno", `{"f:metadata":{"f:labels":{"f:example.com/x":{},"f:team":{}}}}`),
		}, plan.Problem{Reason: "Contested", Message: `child "pod": pods "a": managers "kubectl", "kyverno" keep changing data.a, data.b, metadata.labels[example.com/x] and 1 more; corrections are delayed`}},
		"ourselves": {plan.Apply, []metav1.ManagedFieldsEntry{managed(own, `{"f:data":{"f:a":{}}}`)},
			plan.Problem{Reason: "Contested", Message: `child "pod": pods "a" is changed repeatedly without another field manager, as by a mutating webhook or policy: data.a, data.b, metadata.labels[example.com/x] and 1 more; corrections are delayed`}},
		"deletion": {plan.Delete, nil, plan.Problem{Reason: "ReplacedRepeatedly", Message: `child "pod": pods "a" is deleted and recreated repeatedly; further deletions are delayed`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := live.DeepCopy()
			live.SetManagedFields(tc.fields)
			s := plan.Step{Verb: tc.verb, Child: "pod", Resource: pods, Name: "a", Wanted: wanted}
			require.Equal(t, &tc.want, problemOf(s, live, own))
		})
	}
}
