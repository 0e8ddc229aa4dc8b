package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// One reconcile records at most one Event, about the most important that has happened.
func TestNews(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "At")
	object := func() *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: enginetest.At("2020-01-01T00:00:00Z", "")}
	}
	pod := func(name string) *unstructured.Unstructured {
		pod := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}}}
		pod.SetUID(types.UID(name))
		pod.SetLabels(map[string]string{children.LabelOwnerUID: "1"})
		return pod
	}
	foreign := []children.Live{{Resource: pods, Object: pod("a")}, {Resource: pods, Object: pod("b")}}
	adopted, unmarked := pod("c"), pod("d")
	children.Origin{Child: "pod"}.Record(adopted)
	adopted.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Job", Name: "j", UID: "j", Controller: new(true)}})
	unmarked.SetLabels(nil)
	stray := Step{Child: "pods", Resource: pods, Live: pod("s")}
	entered := func(phases ...string) *Plan {
		p := &Plan{Kind: k, Object: object()}
		for i := range phases[1:] {
			p.Transitions = append(p.Transitions, Transition{phases[i], phases[i+1]})
		}
		return p
	}
	due := Decide(k, object(), &View{}, now)
	require.Len(t, due.Transitions, 2)
	problem := &Outcome{Stalled: &Problem{"Broken", "it does not work"}, Foreign: foreign}
	for name, tc := range map[string]struct {
		plans []*Plan
		o     *Outcome
		want  *Event
		told  int
	}{
		"nothing":         {[]*Plan{entered("RUNNING")}, &Outcome{}, nil, 0},
		"the first phase": {[]*Plan{entered("", "PENDING")}, &Outcome{}, &Event{Type: "Normal", Reason: "PENDING", Action: "ChangePhase", Note: "entered phase PENDING"}, 0},
		"a phase passed":  {[]*Plan{due}, &Outcome{}, &Event{Type: "Normal", Reason: "RUNNING", Action: "ChangePhase", Note: "entered phase RUNNING after PENDING"}, 0},
		"a phase":         {[]*Plan{entered("RUNNING", "DONE")}, &Outcome{}, &Event{Type: "Normal", Reason: "DONE", Action: "ChangePhase", Note: "phase changed from RUNNING to DONE"}, 0},
		"phases stored": {[]*Plan{entered("A", "B"), entered("B", "C", "D")}, &Outcome{},
			&Event{Type: "Normal", Reason: "D", Action: "ChangePhase", Note: "phase changed from A to D after B, C"}, 0},
		"a problem in a new phase": {[]*Plan{due}, problem, &Event{Type: "Warning", Reason: "Broken", Action: "Reconcile", Note: "it does not work"}, 0},
		"a foreign object": {[]*Plan{due}, &Outcome{Foreign: foreign[:1]}, &Event{Type: "Warning", Reason: "ForeignObject", Action: "Reconcile", Related: foreign[0].Object,
			Note: `pods "a" looks like a child but was not created as one: it is neither changed nor deleted`}, 1},
		"foreign objects": {[]*Plan{due}, &Outcome{Foreign: foreign}, &Event{Type: "Warning", Reason: "ForeignObject", Action: "Reconcile", Related: foreign[0].Object,
			Note: `pods "a" and 1 more look like children but were not created as such, or are no longer: they are neither changed nor deleted`}, 2},
		"an adopted child": {[]*Plan{due}, &Outcome{Foreign: []children.Live{{Resource: pods, Object: adopted}}}, &Event{Type: "Warning", Reason: "ForeignObject", Action: "Reconcile", Related: adopted,
			Note: `pods "c" was created as a child, and Job "j" controls it now: it is neither changed nor deleted`}, 1},
		"a child without marks": {[]*Plan{due}, &Outcome{Foreign: []children.Live{{Resource: pods, Object: unmarked}}}, &Event{Type: "Warning", Reason: "ForeignObject", Action: "Reconcile", Related: unmarked,
			Note: `pods "d" was created as a child, and no label or annotation says so any more: it is neither changed nor deleted`}, 1},
		"a stray": {[]*Plan{entered("")}, &Outcome{Strays: []Step{stray}}, &Event{Type: "Normal", Reason: "StrayDeleted", Action: "Delete", Related: stray.Live,
			Note: `deleted pods "s": it had the labels of "pods" and was not created for it`}, 0},
		"strays": {[]*Plan{entered("")}, &Outcome{Strays: []Step{stray, stray, stray}}, &Event{Type: "Normal", Reason: "StrayDeleted", Action: "Delete", Related: stray.Live,
			Note: `deleted pods "s" and 2 more: they had the labels of "pods" and were not created for it`}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n News
			for _, p := range tc.plans {
				n.Stored(p, tc.o)
			}
			n.Met(tc.o, &Memory{})
			event, told := n.Event()
			require.Equal(t, tc.want, event)
			require.Len(t, told, tc.told)
		})
	}

	var n News
	m := &Memory{}
	n.Met(&Outcome{Foreign: foreign[:1]}, m)
	_, told := m.Tell(&n)
	require.Equal(t, foreign[:1], told)
	n = News{}
	n.Met(&Outcome{Foreign: foreign}, m)
	_, told = m.Tell(&n)
	require.Equal(t, foreign[1:], told, "the other was told of before")
	m.Rounds(k, object(), &View{Children: foreign[:1]}, now)
	require.Len(t, m.told, 1, "the other is gone")
	m.Rounds(k, object(), &View{Unmarked: foreign[:1]}, now)
	require.Len(t, m.told, 1)
	m.Rounds(k, object(), &View{}, now)
	require.True(t, m.IsEmpty())

	p := &Plan{Kind: k, Object: object()}
	status, err := Report(p, problem)
	require.NoError(t, err)
	p.Object.Object["status"] = status
	n = News{}
	n.Stored(p, problem)
	event, _ := n.Event()
	require.Nil(t, event, "the status shows it")
}

func TestTruncate(t *testing.T) {
	t.Parallel()
	require.Equal(t, "short", truncate("short", 5))
	require.Equal(t, "ab…", truncate("abcdef", 5))
	require.Equal(t, "é…", truncate("éééé", 6))
}
