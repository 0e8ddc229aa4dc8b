package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/internal/enginetest"
	"github.com/fescue-dev/fescue/engine/plan"
)

// loop is an object whose behaviour creates and deletes a child.
type loop struct {
	*fight
	kind  *kind.Kind
	child *unstructured.Unstructured
}

func newLoop(t *testing.T) *loop {
	l := &loop{fight: newFight(), kind: enginetest.Shipped(t, "At"), child: version("child", "1")}
	l.child.SetUID("child")
	l.child.Object["status"] = map[string]any{"phase": "Pending"}
	l.child.SetOwnerReferences([]metav1.OwnerReference{{Kind: "At", Name: "a", UID: l.owner.GetUID(), Controller: new(true)}})
	return l
}

// reconcile is one with a round of writes, if they are not held.
func (l *loop) reconcile(children ...*unstructured.Unstructured) (wrote bool) {
	live := make([]plan.LiveChild, len(children))
	for i, child := range children {
		live[i] = plan.LiveChild{Name: "pod", Resource: pods, Object: child}
	}
	r := l.rounds(l.kind, l.owner)
	r.observed(live)
	wrote = r.held() == nil
	if wrote {
		r.wrote([]string{fmt.Sprintf("created pods %q", "a")}, 2)
	}
	r.ended(live, false)
	return wrote
}

// idle is a reconcile without writes.
func (l *loop) idle() {
	r := l.rounds(l.kind, l.owner)
	r.observed(nil)
	r.ended(nil, true)
}

const freeOfTwo = freeRounds + 2*freePerPart

func TestNoProgressIsHeldLongerEachTime(t *testing.T) {
	t.Parallel()
	l := newLoop(t)
	for range freeOfTwo {
		require.True(t, l.reconcile(l.child))
		require.Empty(t, l.message())
	}
	for _, wait := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		wait *= time.Second
		require.False(t, l.reconcile(l.child))
		problem, next := l.problem(l.owner)
		require.Equal(t, reasonNoProgress, problem.Reason)
		require.Contains(t, problem.Message, `created pods "a", created pods "a"`)
		require.Equal(t, l.clock.Now().Add(wait), next)
		l.clock.SetTime(next)
		require.True(t, l.reconcile(l.child))
	}
	require.True(t, l.isContested(cache.MetaObjectToName(l.owner)))
}

// Anything that others change is progress: the object, what is read of a child, its deletion; and
// so is an idle object.
func TestProgress(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(l *loop) []*unstructured.Unstructured{
		"a new spec": func(l *loop) []*unstructured.Unstructured {
			l.owner.SetGeneration(2)
			return []*unstructured.Unstructured{l.child}
		},
		"what is read": func(l *loop) []*unstructured.Unstructured {
			l.child.Object["status"] = map[string]any{"phase": "Running"}
			return []*unstructured.Unstructured{l.child}
		},
		"a deletion": func(*loop) []*unstructured.Unstructured { return nil },
		"idle": func(l *loop) []*unstructured.Unstructured {
			l.idle()
			return []*unstructured.Unstructured{l.child}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLoop(t)
			for range freeOfTwo {
				require.True(t, l.reconcile(l.child))
			}
			require.False(t, l.reconcile(l.child))
			require.True(t, l.reconcile(change(l)...))
			require.Empty(t, l.message())
		})
	}
	for name, change := range map[string]func(l *loop){
		"what is not read": func(l *loop) { l.child.SetAnnotations(map[string]string{"a": "b"}) },
		"an own deletion":  func(l *loop) { l.child.SetDeletionTimestamp(new(metav1.NewTime(l.clock.Now()))) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLoop(t)
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
