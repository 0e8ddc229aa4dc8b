package children

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
)

// unread are the fields of metadata that change without meaning anything to the engine. The
// generation counts for readiness alone.
var unread = []string{"resourceVersion", "generation", "managedFields"}

// IsSame reports whether nothing that a decision, a comparison or a report reads differs between
// two states of a child: what the kind reads, its metadata, and all fields if they are corrected, or
// else whether it is ready. Most events of a Pod are about other fields.
func IsSame(k *kind.Kind, before, after *unstructured.Unstructured) bool {
	name := NameInKind(after)
	if before.GetUID() != after.GetUID() ||
		!equality.Semantic.DeepEqual(k.ReadOfChild(name, before.Object), k.ReadOfChild(name, after.Object)) ||
		!equality.Semantic.DeepEqual(readMetadata(before), readMetadata(after)) {
		return false
	}
	if k.Corrected.Has(after.GroupVersionKind()) && !equality.Semantic.DeepEqual(withoutMetadata(before),
		withoutMetadata(after)) {
		return false
	}
	return IsReady(before) == IsReady(after) && IsFinished(before) == IsFinished(after)
}

func readMetadata(object *unstructured.Unstructured) map[string]any {
	all, _ := object.Object["metadata"].(map[string]any)
	read := maps.Clone(all)
	for _, name := range unread {
		delete(read, name)
	}
	return read
}

func withoutMetadata(object *unstructured.Unstructured) map[string]any {
	rest := maps.Clone(object.Object)
	delete(rest, "metadata")
	return rest
}
