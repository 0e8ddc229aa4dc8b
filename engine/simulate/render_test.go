package simulate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

var now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func customcluster(count int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "samplecontroller.fescue.dev/v1alpha1", "kind": "Customcluster",
		"metadata": map[string]any{"name": "c"}, "spec": map[string]any{"count": count, "message": "m"},
	}}
}

// Names that belong to other objects are skipped, however many there are.
func TestRenderSkipsForeignNames(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "Customcluster")
	r, err := Render(k, customcluster(1), nil, now)
	require.NoError(t, err)
	base, isFirst := strings.CutSuffix(r.Steps[0].Name, "-0")
	require.True(t, isFirst, r.Steps)
	var foreign []*unstructured.Unstructured
	for i := range 20 {
		foreign = append(foreign, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": fmt.Sprint(base, "-", i)}}})
	}
	r, err = Render(k, customcluster(1), foreign, now)
	require.NoError(t, err)
	require.Equal(t, base+"-20", r.Steps[len(r.Steps)-1].Name)
	require.Len(t, r.Children, 1)
}

// A child that is written by hand needs no more than the label that names it.
func TestRenderTakesLabelledChildren(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "At")
	object := &unstructured.Unstructured{Object: enginetest.At("2020-01-01T00:00:00Z", "RUNNING")}
	child := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "a-pod", "labels": map[string]any{"fescue.dev/child": "pod"}},
		"status": map[string]any{"phase": "Succeeded"},
	}}
	r, err := Render(k, object, []*unstructured.Unstructured{child}, now)
	require.NoError(t, err)
	require.Equal(t, "DONE", r.Status["phase"])
	require.Equal(t, map[string]any{"name": "a-pod", "labels": map[string]any{"fescue.dev/child": "pod"}}, child.Object["metadata"], "the input is not changed")

	unlabelled := child.DeepCopy()
	unlabelled.SetLabels(nil)
	r, err = Render(k, object, []*unstructured.Unstructured{unlabelled}, now)
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(r.Status), "reason:ChildRejected")
	require.Contains(t, fmt.Sprint(r.Status), `child "pod": pods "a-pod" exists and was not created for this object; rename or delete it`)

	unlabelled.SetAnnotations(map[string]string{children.AnnotationOwner: "as.example.com/other"})
	r, err = Render(k, object, []*unstructured.Unstructured{unlabelled}, now)
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(r.Status), `pods "a-pod" exists and was created for as.example.com/other, as its annotation fescue.dev/owner says; rename the child of one of the two`)
}

const timedName = `
package timed

import "fescue.dev/cue/contract"

#A: {apiVersion!: "timed.example.com/v1", kind!: "A", metadata!: {...}, status?: {contract.#Status, phase?: "X" | "Y"}}
#AController: contract.#Controller & {
	object!: #A
	names: plural: "as"
	initial: "X"
	phases: {
		X: next: [{to: "Y", after: "1s"}]
		Y: children: y: template: {apiVersion: "v1", kind: "Pod", metadata: name: "y\(object.status.lastPhaseTransitionTime)"}
	}
}
`

// What reads the time of a phase gets that of the phase that is evaluated: one child is created,
// and its name has the time at which its phase was entered.
func TestRenderHasTheTimeOfThePhase(t *testing.T) {
	t.Parallel()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "timed.example.com/v1", "kind": "A", "metadata": map[string]any{"name": "a", "uid": "1"},
		"status": map[string]any{"phase": "X", "lastPhaseTransitionTime": "2026-01-02T03:04:03.000Z"},
	}}
	r, err := Render(enginetest.Kind(t, timedName), object, nil, now)
	require.NoError(t, err)
	require.Len(t, r.Steps, 1)
	require.Equal(t, "y2030-01-01T00:00:00.000Z", r.Steps[0].Name)
}
