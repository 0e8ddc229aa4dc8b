package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// endless is an object whose behaviour creates and deletes a child.
type endless struct {
	*Memory
	now          time.Time
	kind         *kind.Kind
	owner, child *unstructured.Unstructured
	problem      *Problem
	next         time.Time
}

func newEndless(t *testing.T) *endless {
	l := &endless{
		now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), kind: enginetest.Shipped(t, "At"),
		owner: &unstructured.Unstructured{Object: enginetest.At("2020-01-01T00:00:00Z", "RUNNING")},
		child: &unstructured.Unstructured{Object: map[string]any{"kind": "Pod", "status": map[string]any{"phase": "Pending"}}},
	}
	l.owner.SetUID("owner")
	l.owner.SetGeneration(1)
	l.child.SetNamespace(l.owner.GetNamespace())
	l.child.SetUID("child")
	l.Memory = NewMemory(l.owner)
	l.child.SetOwnerReferences([]metav1.OwnerReference{{Kind: "At", Name: "a", UID: l.owner.GetUID(), Controller: new(true)}})
	return l
}

// reconcile is one with a round of writes, if they are not held.
func (l *endless) reconcile(existing ...*unstructured.Unstructured) (wrote bool) {
	live := make([]children.Live, len(existing))
	for i, child := range existing {
		live[i] = children.Live{Name: "pod", Object: child}
	}
	r := l.Rounds(l.kind, l.owner, &View{Children: live}, l.now)
	wrote = !r.mustWait(l.now)
	if wrote {
		r.wrote([]string{fmt.Sprintf("created pods %q", "a")}, 2, l.now)
	}
	l.problem, l.next = l.progress.Problem, l.progress.Next(l.now)
	r.End(&Outcome{Children: live, isPending: true}, Rest)
	return wrote
}

// idle is a reconcile without writes.
func (l *endless) idle() {
	l.Rounds(l.kind, l.owner, &View{}, l.now).End(&Outcome{}, Rest)
}

const freeOfTwo = freeRounds + 2*freePerPart

func TestNoProgressIsHeldLongerEachTime(t *testing.T) {
	t.Parallel()
	l := newEndless(t)
	for range freeOfTwo {
		require.True(t, l.reconcile(l.child))
		require.Nil(t, l.problem)
	}
	for _, wait := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		wait *= time.Second
		require.False(t, l.reconcile(l.child))
		require.Equal(t, ReasonNoProgress, l.problem.Reason)
		require.Equal(t, `writes do not end although nothing else has changed: created pods "a"; further writes are delayed`, l.problem.Message)
		require.Equal(t, l.now.Add(wait), l.next)
		l.now = l.next
		require.True(t, l.reconcile(l.child))
	}
	require.True(t, l.IsSlowed())
}

// Anything that others change is progress: the object, what is read of a child, its deletion; and
// so is an idle object.
func TestProgress(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(l *endless) []*unstructured.Unstructured{
		"a new spec": func(l *endless) []*unstructured.Unstructured {
			l.owner.SetGeneration(2)
			return []*unstructured.Unstructured{l.child}
		},
		"what is read": func(l *endless) []*unstructured.Unstructured {
			l.child.Object["status"] = map[string]any{"phase": "Running"}
			return []*unstructured.Unstructured{l.child}
		},
		"a deletion": func(*endless) []*unstructured.Unstructured { return nil },
		"idle": func(l *endless) []*unstructured.Unstructured {
			l.idle()
			return []*unstructured.Unstructured{l.child}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newEndless(t)
			for range freeOfTwo {
				require.True(t, l.reconcile(l.child))
			}
			require.False(t, l.reconcile(l.child))
			require.True(t, l.reconcile(change(l)...))
			require.Nil(t, l.problem)
		})
	}
	for name, change := range map[string]func(l *endless){
		"what is not read": func(l *endless) { l.child.SetAnnotations(map[string]string{"a": "b"}) },
		"an own deletion":  func(l *endless) { l.child.SetDeletionTimestamp(new(metav1.NewTime(l.now))) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newEndless(t)
			if name == "an own deletion" {
				change(l) // seen after the round before
			}
			for range freeOfTwo {
				require.True(t, l.reconcile(l.child))
			}
			change(l)
			require.False(t, l.reconcile(l.child))
		})
	}
}
