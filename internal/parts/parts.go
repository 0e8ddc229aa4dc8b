// Package parts says which parts of a value somebody reads: a kind reads a few of the two hundred values of a Pod, so
// nothing else of it can change a decision, and a cache keeps nothing else.
//
//	parts.Of([]string{"metadata", "labels"}, []string{"status", "conditions", parts.Each, "type"})
//
// It knows neither kinds nor caches.
package parts

import "maps"

// Set is the parts of a value that are read. A scalar is read as a whole, of a list how many elements it has, and of an
// object the fields that are named; nil reads nothing. Whoever makes a Set adds to it with Field and Element. Nothing
// changes it after that, so that it can be shared.
type Set struct {
	// Whole means that all of it is read.
	Whole bool
	// Fields are the named ones of an object.
	Fields map[string]*Set
	// Elements are what is read of each element of a list, or of each field of an object.
	Elements *Set
}

// Each stands in a path for each element of a list, or each field of an object.
const Each = "*"

var everything, nothing = &Set{Whole: true}, &Set{}

// Everything returns all of a value.
func Everything() *Set { return everything }

// Of returns what the paths lead to, as a whole. A path names fields, and has Each for the elements of a list. The
// empty path is the whole value.
func Of(paths ...[]string) *Set {
	s := &Set{}
	for _, path := range paths {
		at := s
		for _, name := range path {
			if name == Each {
				at = at.Element()
			} else {
				at = at.Field(name)
			}
		}
		at.Whole = true
	}
	return s
}

// Field returns what is read of a field, to add to it.
func (s *Set) Field(name string) *Set {
	if s.Fields == nil {
		s.Fields = make(map[string]*Set)
	}
	if s.Fields[name] == nil {
		s.Fields[name] = &Set{}
	}
	return s.Fields[name]
}

// Element returns what is read of each element, to add to it.
func (s *Set) Element() *Set {
	if s.Elements == nil {
		s.Elements = &Set{}
	}
	return s.Elements
}

// Union returns what s or other reads.
func (s *Set) Union(other *Set) *Set {
	switch {
	case s == nil || other == s:
		return other
	case other == nil:
		return s
	case s.Whole || other.Whole:
		return everything
	}
	both := &Set{Fields: maps.Clone(s.Fields), Elements: s.Elements.Union(other.Elements)}
	for name, below := range other.Fields {
		if both.Fields == nil {
			both.Fields = make(map[string]*Set, len(other.Fields))
		}
		both.Fields[name] = both.Fields[name].Union(below)
	}
	return both
}

// Covers reports whether s has all that other has.
func (s *Set) Covers(other *Set) bool {
	switch {
	case other == nil || s != nil && s.Whole:
		return true
	case s == nil || other.Whole:
		return false
	case other.Elements != nil && !s.Elements.Covers(other.Elements):
		return false
	}
	for name, below := range other.Fields {
		if !s.At(name).Covers(below) {
			return false
		}
	}
	return true
}

// At returns what is read of a field of an object, which a loop may read as one of its elements; nil is nothing, not
// even whether it exists.
func (s *Set) At(name string) *Set {
	switch below := s.Fields[name]; {
	case s.Whole:
		return s
	case s.Elements == nil:
		return below
	default:
		return below.Union(s.Elements)
	}
}

// AtField returns what At does, as a Set that is never nil.
func (s *Set) AtField(name string) *Set {
	if field := s.At(name); field != nil {
		return field
	}
	return nothing
}

// AtElement returns what is read of each element of a list, as a Set that is never nil.
func (s *Set) AtElement() *Set {
	switch {
	case s.Whole:
		return s
	case s.Elements != nil:
		return s.Elements
	}
	return nothing // only their number
}

// In returns the part of a value that is read. The result shares memory with the value.
func (s *Set) In(value any) any {
	if s.Whole {
		return value
	}
	switch value := value.(type) {
	case map[string]any:
		part := make(map[string]any, len(s.Fields))
		for name, field := range value {
			if read := s.At(name); read != nil {
				part[name] = read.In(field)
			}
		}
		return part
	case []any:
		element := s.AtElement()
		part := make([]any, len(value))
		for i := range value {
			part[i] = element.In(value[i])
		}
		return part
	}
	return value
}
