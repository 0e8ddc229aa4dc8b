package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

var (
	pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	now  = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
)

// world has one object and its children, and tells what the loop asked it.
type world struct {
	calls    []string
	budget   *kind.Budget
	children []children.Live
	// isBehind and refused are answers to Look and Store; nil is none.
	isBehind bool
	refused  error
}

func (w *world) Look(_ context.Context, _ *unstructured.Unstructured, isLive bool) (*plan.View, error) {
	w.calls = append(w.calls, "Look")
	if w.isBehind {
		return nil, ErrBehind
	}
	return &plan.View{
		Types:  map[schema.GroupVersionKind]plan.ChildType{{Version: "v1", Kind: "Pod"}: {Resource: pods, IsNamespaced: true}},
		Budget: w.budget, Children: w.children, Normalized: children.NewNormalized(), Live: isLive,
	}, nil
}

func (w *world) CarryOut(_ context.Context, _ *unstructured.Unstructured, todo *plan.Comparison) *plan.Changes {
	done := &plan.Changes{}
	for _, step := range todo.Steps {
		w.calls = append(w.calls, string(step.Verb)+" "+step.Name)
		created := step.Wanted.DeepCopy()
		created.SetUID(types.UID(step.Name))
		created.SetCreationTimestamp(metav1.NewTime(now))
		done.Stored = append(done.Stored, children.Of(step.Resource, created))
	}
	w.children = append(w.children, done.Stored...)
	return done
}

func (w *world) Store(_ context.Context, p *plan.Plan, _ *plan.Outcome, status map[string]any) (*unstructured.Unstructured, error) {
	w.calls = append(w.calls, "Store "+p.Phase)
	if w.refused != nil {
		return nil, w.refused
	}
	stored := p.Object.DeepCopy()
	stored.Object["status"] = status
	return stored, nil
}

func (w *world) SetFinalizers(_ context.Context, object *unstructured.Unstructured, names []string) (*unstructured.Unstructured, error) {
	w.calls = append(w.calls, "SetFinalizers")
	stored := object.DeepCopy()
	stored.SetFinalizers(names)
	return stored, nil
}

// runAt reconciles an At whose command is due at a time.
func runAt(t *testing.T, w *world, schedule, phase string) Result {
	t.Helper()
	k := enginetest.Shipped(t, "At")
	object := &unstructured.Unstructured{Object: enginetest.At(schedule, phase)}
	return Run(t.Context(), w, Request{Kind: k, Object: object, Memory: plan.NewMemory(object), Now: func() time.Time { return now }})
}

// The example of the package's documentation: an At that is created stores its first phase, and rests until its time.
func TestCreated(t *testing.T) {
	t.Parallel()
	w := &world{}
	result := runAt(t, w, "2030-01-01T01:00:00Z", "")
	require.Equal(t, []string{"Look", "Store PENDING"}, w.calls)
	require.Equal(t, Done, result.Then)
	require.Equal(t, now.Add(time.Hour), result.At.UTC())
	require.NoError(t, result.Err)
}

// The example of package plan: the phase is stored before the Pod is created, and the loop looks again in between.
func TestPhaseIsStoredFirst(t *testing.T) {
	t.Parallel()
	for name, budget := range map[string]*kind.Budget{
		"one budget for the reconcile": enginetest.Shipped(t, "At").NewBudget(),
		"a budget for each decision":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{budget: budget}
			result := runAt(t, w, "2030-01-01T00:00:00Z", "PENDING")
			require.Equal(t, []string{"Look", "Store RUNNING", "Look", "create a-pod"}, w.calls)
			require.Equal(t, Done, result.Then)
			require.Equal(t, "RUNNING", result.Event.Reason)
		})
	}
}

// Caches that are behind end the reconcile: their events begin the next one.
func TestBehind(t *testing.T) {
	t.Parallel()
	w := &world{isBehind: true}
	require.Equal(t, Result{Then: Done}, runAt(t, w, "2030-01-01T00:00:00Z", "PENDING"))
	require.Equal(t, []string{"Look"}, w.calls)
}

// What the API server answers to the status says whether retrying helps.
func TestStatusIsRefused(t *testing.T) {
	t.Parallel()
	gk := schema.GroupKind{Group: "cnat.fescue.dev", Kind: "At"}
	for name, tc := range map[string]struct {
		answer error
		want   Then
	}{
		"someone else wrote it":  {apierrors.NewConflict(schema.GroupResource{}, "a", errors.New("changed")), Again},
		"the object is invalid":  {apierrors.NewInvalid(gk, "a", nil), Rejected},
		"the server is too busy": {apierrors.NewTooManyRequestsError("later"), Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := runAt(t, &world{refused: tc.answer}, "2030-01-01T00:00:00Z", "PENDING")
			require.Equal(t, tc.want, result.Then)
			require.Error(t, result.Err)
		})
	}
}

// An object that has no finalizer and is being deleted is left to the garbage collector, unseen.
func TestLeft(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "At")
	object := &unstructured.Unstructured{Object: enginetest.At("2030-01-01T00:00:00Z", "PENDING")}
	object.SetDeletionTimestamp(new(metav1.NewTime(now)))
	w := &world{}
	result := Run(t.Context(), w, Request{Kind: k, Object: object, Memory: plan.NewMemory(object), Now: func() time.Time { return now }})
	require.Equal(t, Result{Then: Done}, result)
	require.Empty(t, w.calls)
}
