package kind

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/fescue-dev/fescue/internal/parts"
)

// IsOwnStatus reports whether the controller writes a field of the status itself, conditions included.
func (k *Kind) IsOwnStatus(name string) bool { return name == "conditions" || !k.IsEngineStatus(name) }

// ReadsOwnStatus reports whether the controller may read a field of the status that it writes itself,
// conditions included, so that what it decides may change with that.
func (k *Kind) ReadsOwnStatus() bool {
	if k.Target != nil {
		return false // it writes none
	}
	status := k.Reads.Object.AtField("status")
	if status.Whole || status.Elements != nil {
		return true
	}
	for name := range status.Fields {
		if k.IsOwnStatus(name) {
			return true
		}
	}
	return false
}

// ReadOfOwnStatus returns the part of the status that the controller may read and writes itself, conditions included.
// The result shares memory with the object.
func (k *Kind) ReadOfOwnStatus(object map[string]any) map[string]any {
	read, _ := k.Reads.Object.AtField("status").In(object["status"]).(map[string]any)
	own := maps.Clone(read)
	maps.DeleteFunc(own, func(name string, _ any) bool { return !k.IsOwnStatus(name) })
	return own
}

// ReadOfChild returns the part of a child, of a member of a set, or of an object that is looked up,
// that the controller may read. The result shares memory with the object.
func (k *Kind) ReadOfChild(name string, child map[string]any) any {
	read := k.Reads.Observed.AtField(name)
	if k.IsList(name) && !read.Whole {
		if read.Elements == nil {
			return nil
		}
		read = read.Elements
	}
	return read.In(child)
}

// Reads are what a behaviour can read, whatever the object is.
type Reads struct {
	// Object and Observed are the reads of the object and of its children. What is used in another way than by the
	// names of its fields is read as a whole.
	Object, Observed *parts.Set
}

// Metadata returns the labels and annotations of an object that the controller may read:
// anyone who changes them changes what it does. kubectl's own annotation is left out.
func (r *Reads) Metadata(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	read := r.Object.AtField("metadata")
	written := make(map[string]any)
	for _, name := range []string{"labels", "annotations"} {
		texts, _ := metadata[name].(map[string]any)
		texts, _ = read.AtField(name).In(texts).(map[string]any)
		texts = maps.Clone(texts)
		delete(texts, corev1.LastAppliedConfigAnnotation)
		if len(texts) > 0 {
			written[name] = texts
		}
	}
	return written
}
