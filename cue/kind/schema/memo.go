package schema

import (
	"reflect"
	"slices"
)

// visit is a struct or a list that is visited with a schema.
type visit struct {
	schema  *Schema
	address uintptr
	size    int
}

func visitOf(s *Schema, value any) visit {
	v := reflect.ValueOf(value)
	return visit{s, v.Pointer(), v.Len()}
}

// memo holds what a walker found in the structs and lists of one object, which do not
// change meanwhile. The zero memo is ready for use.
type memo struct {
	against  map[visit]bool
	problems map[visit]problemsAt
	// held keeps visited values alive, so that nothing else gets their addresses.
	held []any
}

type problemsAt struct {
	path     []step
	problems []Problem
}

func (m *memo) probed(s *Schema, value any) (against, ok bool) {
	if TypeOf(value)&(List|Struct) != 0 {
		against, ok = m.against[visitOf(s, value)]
	}
	return against, ok
}

func (m *memo) keepProbed(s *Schema, value any, against bool) {
	if TypeOf(value)&(List|Struct) == 0 {
		return
	}
	if m.against == nil {
		m.against = make(map[visit]bool)
	}
	m.against[visitOf(s, value)] = against
	m.held = append(m.held, value)
}

// tried returns the problems found at path; one value may be at several places.
func (m *memo) tried(s *Schema, value any, path []step) ([]Problem, bool) {
	if TypeOf(value)&(List|Struct) == 0 {
		return nil, false
	}
	found, ok := m.problems[visitOf(s, value)]
	return found.problems, ok && slices.Equal(found.path, path)
}

func (m *memo) keepTried(s *Schema, value any, path []step, problems []Problem) {
	if TypeOf(value)&(List|Struct) == 0 {
		return
	}
	if m.problems == nil {
		m.problems = make(map[visit]problemsAt)
	}
	m.held = append(m.held, value)
	m.problems[visitOf(s, value)] = problemsAt{slices.Clone(path), problems}
}
