package engine

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic/fake"

	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// farDecorator decorates a kind that has children in other namespaces.
const farDecorator = `
package far

import "fescue.dev/cue/contract"

#NoteDecorator: contract.#Decorator & {
	target: {apiVersion: "kept.example.com/v1", kind: "Kept"}
	object: _
	children: note: template: {apiVersion: "v1", kind: "Pod", metadata: name: "\(object.metadata.name)-note", spec: containers: [{name: "c", image: "c"}]}
}
`

// A decorator that sees the status of its target takes none of the children that it lists.
func TestDecoratorLeavesTheChildrenOfItsTargetElsewhere(t *testing.T) {
	t.Parallel()
	object := keptObject()
	object.SetAnnotations(map[string]string{"x.example.com/note": "yes"})
	object.Object["status"] = map[string]any{"childInventory": map[string]any{"elsewhere": []any{
		map[string]any{"apiVersion": "v1", "kind": "Pod", "namespace": "b", "children": map[string]any{"p": "p"}},
	}}}
	c, written := keepingBy(t, enginetest.Kind(t, farDecorator), object, func(map[string]any) error { return nil })
	client := c.config.Client.(*fake.FakeDynamicClient)
	child := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
		"name": "p", "namespace": "b", "uid": "p",
		"labels":      map[string]any{"fescue.dev/owner-uid": "1", "app.kubernetes.io/managed-by": "fescue"},
		"annotations": map[string]any{"fescue.dev/created-as": "Pod/p@b/pod", "fescue.dev/owner": "kepts.kept.example.com/default/a"},
	}}}
	require.NoError(t, client.Tracker().Add(child))
	require.True(t, c.work(t.Context()))
	require.NotContains(t, strings.Join(*written, "\n"), "pods b")
	_, err := client.Resource(pods).Namespace("b").Get(t.Context(), "p", metav1.GetOptions{})
	require.NoError(t, err)
}
