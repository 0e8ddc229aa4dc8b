package plan

import (
	"encoding/json"
	"hash/fnv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
)

// Fingerprint is what a decision about an object depends on, as far as others change it.
type Fingerprint struct {
	// Object sums up the labels and annotations of the object that its kind reads, or all that a
	// decorator reads of it, and Found what the kind reads of objects that are not its children.
	Object, Found uint64
	// Children sums up each child: what the kind reads of it and, of a member of a set, whether
	// it is ready, on which its replacement depends.
	Children map[types.UID]ChildFingerprint
}

// ChildFingerprint sums up a child.
type ChildFingerprint struct {
	Sum uint64
	// Leaving reports that it is being deleted.
	Leaving bool
}

// FingerprintOf sums up an object, its children, and what else its kind reads.
func FingerprintOf(
	k *kind.Kind, object *unstructured.Unstructured, existing []children.Live, found *Found,
) Fingerprint {
	read := any(k.Reads.Metadata(object.Object))
	if k.Target != nil { // many types have no generation
		read = k.Reads.Object.In(object.Object)
	}
	f := Fingerprint{Object: sum(read), Found: found.sum(k),
		Children: make(map[types.UID]ChildFingerprint, len(existing))}
	for _, child := range existing {
		if !children.IsOwnedBy(child.Object, object) {
			continue
		}
		values := []any{k.ReadOfChild(child.Name, child.Object.Object)}
		if _, isMember := k.Sets[child.Name]; isMember {
			values = append(values, children.IsReady(child.Object), children.IsFinished(child.Object))
		}
		f.Children[child.Object.GetUID()] = ChildFingerprint{sum(values...), child.Object.GetDeletionTimestamp() != nil}
	}
	return f
}

// IsSettled reports whether no child is being deleted.
func (f Fingerprint) IsSettled() bool {
	for _, child := range f.Children {
		if child.Leaving {
			return false
		}
	}
	return true
}

// ChangedByOthers reports whether something has changed since an earlier fingerprint that was
// taken after the engine's own writes.
func (f Fingerprint) ChangedByOthers(earlier Fingerprint) bool {
	if f.Object != earlier.Object || f.Found != earlier.Found {
		return true
	}
	for uid, before := range earlier.Children {
		now, exists := f.Children[uid]
		switch {
		case before.Leaving: // by the engine, or already known
		case !exists, now.Leaving, now.Sum != before.Sum:
			return true
		}
	}
	return false
}

func sum(values ...any) uint64 {
	hash := fnv.New64a()
	_ = json.NewEncoder(hash).Encode(values) // what is from JSON can be encoded
	return hash.Sum64()
}
