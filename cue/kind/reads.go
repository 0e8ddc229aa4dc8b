package kind

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// Read is what the CUE of a kind can read of a value. Nothing else can change a decision: a
// Pod has two hundred values, and a controller reads a few.
type Read struct {
	// Whole means that all of it may be read.
	Whole bool
	// Fields are the named ones of a struct.
	Fields map[string]*Read
	// Elements are the reads of each element of a list, or of each field of a struct.
	Elements *Read
}

// Field returns the reads of a field, to add to them.
func (r *Read) Field(name string) *Read {
	if r.Fields == nil {
		r.Fields = make(map[string]*Read)
	}
	if r.Fields[name] == nil {
		r.Fields[name] = &Read{}
	}
	return r.Fields[name]
}

// Element returns the reads of each element, to add to them.
func (r *Read) Element() *Read {
	if r.Elements == nil {
		r.Elements = &Read{}
	}
	return r.Elements
}

// Of returns the part of a value that may be read. The result shares memory with the value.
func (r *Read) Of(value any) any {
	if r.Whole {
		return value
	}
	switch value := value.(type) {
	case map[string]any:
		part := make(map[string]any, len(r.Fields))
		for name, field := range value {
			if read := r.at(name); read != nil {
				part[name] = read.Of(field)
			}
		}
		return part
	case []any:
		element := r.EachElement()
		part := make([]any, len(value))
		for i := range value {
			part[i] = element.Of(value[i])
		}
		return part
	}
	return value
}

// at returns what is read of a field of a struct, which a loop may read as one of its elements;
// nil is nothing.
func (r *Read) at(name string) *Read {
	field := r.Fields[name]
	switch {
	case r.Elements == nil:
		return field
	case field == nil:
		return r.Elements
	}
	return union(field, r.Elements)
}

// EachElement returns what is read of each element of a list, as a value that is never nil.
func (r *Read) EachElement() *Read {
	switch {
	case r.Whole:
		return r
	case r.Elements != nil:
		return r.Elements
	}
	return &Read{} // only their number
}

// Part returns what is read of a field of a struct, as a value that is never nil.
func (r *Read) Part(name string) *Read {
	if r.Whole {
		return r
	}
	if field := r.at(name); field != nil {
		return field
	}
	return &Read{}
}

// union returns what a or b reads.
func union(a, b *Read) *Read {
	both := &Read{Whole: a.Whole || b.Whole, Elements: a.Elements}
	for _, r := range []*Read{a, b} {
		for name, field := range r.Fields {
			if known := both.Fields[name]; known != nil {
				field = union(known, field)
			}
			if both.Fields == nil {
				both.Fields = make(map[string]*Read)
			}
			both.Fields[name] = field
		}
	}
	switch {
	case both.Elements == nil:
		both.Elements = b.Elements
	case b.Elements != nil:
		both.Elements = union(both.Elements, b.Elements)
	}
	return both
}

// IsOwnStatus reports whether the controller writes a field of the status itself, conditions included.
func (k *Kind) IsOwnStatus(name string) bool { return name == "conditions" || !k.IsEngineStatus(name) }

// ReadsOwnStatus reports whether the controller may read a field of the status that it writes itself,
// conditions included, so that what it decides may change with that.
func (k *Kind) ReadsOwnStatus() bool {
	if k.Target != nil {
		return false // it writes none
	}
	status := k.Reads.Object.Part("status")
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
	read, _ := k.Reads.Object.Part("status").Of(object["status"]).(map[string]any)
	own := maps.Clone(read)
	maps.DeleteFunc(own, func(name string, _ any) bool { return !k.IsOwnStatus(name) })
	return own
}

// ReadOfChild returns the part of a child, of a member of a set, or of an object that is looked up,
// that the controller may read. The result shares memory with the object.
func (k *Kind) ReadOfChild(name string, child map[string]any) any {
	read := k.Reads.Observed.Part(name)
	if k.IsList(name) && !read.Whole {
		if read.Elements == nil {
			return nil
		}
		read = read.Elements
	}
	return read.Of(child)
}

// Reads are the reads of all behaviours of a package, as far as its syntax shows.
type Reads struct {
	// Object and Observed are the reads of the object and of its children. Anything that is
	// not plainly the name of a field counts as reading all.
	Object, Observed *Read
}

// Metadata returns the labels and annotations of an object that the controller may read:
// anyone who changes them changes what it does. kubectl's own annotation is left out.
func (r *Reads) Metadata(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	read := r.Object.Part("metadata")
	written := make(map[string]any)
	for _, name := range []string{"labels", "annotations"} {
		texts, _ := metadata[name].(map[string]any)
		texts, _ = read.Part(name).Of(texts).(map[string]any)
		texts = maps.Clone(texts)
		delete(texts, corev1.LastAppliedConfigAnnotation)
		if len(texts) > 0 {
			written[name] = texts
		}
	}
	return written
}
