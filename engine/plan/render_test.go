package plan

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/internal/enginetest"
)

// Names that belong to other objects are skipped, however many there are.
func TestRenderSkipsForeignNames(t *testing.T) {
	t.Parallel()
	var foreign []*unstructured.Unstructured
	for i := range 2 * maxRounds {
		foreign = append(foreign, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": fmt.Sprint("c-", i)}}})
	}
	r, err := Render(enginetest.Shipped(t, "Customcluster"), customcluster(1, "m"), foreign, now)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint("c-", 2*maxRounds), r.Steps[len(r.Steps)-1].Name)
	require.Len(t, r.Children, 1)
}

// A child that is written by hand needs no more than the label that names it.
func TestRenderTakesLabelledChildren(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "At")
	object := &unstructured.Unstructured{Object: enginetest.At("2020-01-01T00:00:00Z", "RUNNING")}
	child := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "a-pod", "labels": map[string]any{labelChild: "pod"}},
		"status": map[string]any{"phase": "Succeeded"},
	}}
	r, err := Render(k, object, []*unstructured.Unstructured{child}, now)
	require.NoError(t, err)
	require.Equal(t, "DONE", r.Status["phase"])
	require.Equal(t, map[string]any{"name": "a-pod", "labels": map[string]any{labelChild: "pod"}}, child.Object["metadata"], "the input is not changed")

	unlabelled := child.DeepCopy()
	unlabelled.SetLabels(nil)
	r, err = Render(k, object, []*unstructured.Unstructured{unlabelled}, now)
	require.NoError(t, err)
	_, reason, message := conditionIn(r.Status, kind.ConditionStalled)
	require.Equal(t, reasonChild, reason)
	require.Equal(t, `child "pod": pods "a-pod" exists and was not created for this object; rename or delete it`, message)
}
