package children

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// A decorator leaves an orphan alone if it does not select the new object with the name of the orphan's former owner.
func TestOrphanOfUndecorated(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, `
package notes

import "fescue.dev/cue/contract"

#NoteDecorator: contract.#Decorator & {
	target: {apiVersion: "v1", kind: "Secret", annotation: "note"}
	object: _
	children: note: template: {apiVersion: "v1", kind: "ConfigMap"}
}
`)
	owner := func(uid types.UID, annotations map[string]string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret"}}
		u.SetName("a")
		u.SetNamespace("default")
		u.SetUID(uid)
		u.SetAnnotations(annotations)
		return u
	}
	selected := map[string]string{"note": ""}
	former := owner("former", selected)
	orphan := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	orphan.SetNamespace("default")
	orphan.SetLabels(map[string]string{LabelOwnerUID: "former", LabelChild: "note", LabelDecorator: k.Target.Decorator})
	orphan.SetAnnotations(map[string]string{AnnotationOwner: OwnerName(k, former, orphan)})
	require.True(t, BelongsTo(orphan, owner("new", selected), k), "it is taken up")
	require.False(t, BelongsTo(orphan, owner("new", nil), k))
	require.True(t, BelongsTo(orphan, owner("former", nil), k), "it is of this object, which was selected")
	orphan.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: "a", UID: "new", Controller: new(true)}})
	require.True(t, BelongsTo(orphan, owner("new", nil), k), "it is of this object, whatever its label says")
}
