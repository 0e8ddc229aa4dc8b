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

// memo holds what the walks through one object found in its structs and lists, which do not
// change meanwhile. The zero memo is ready for use.
type memo struct {
	fits     map[visit]bool
	problems map[visit]problemsAt
	// held keeps visited values alive, so that nothing else gets their addresses.
	held []any
}

type problemsAt struct {
	path     []step
	problems []Problem
}

// knownFit returns what fits returned.
func (m *memo) knownFit(s *Schema, value any) (fits, ok bool) {
	if TypeOf(value)&(List|Struct) != 0 {
		fits, ok = m.fits[visitOf(s, value)]
	}
	return fits, ok
}

func (m *memo) keepFit(s *Schema, value any, fits bool) {
	if TypeOf(value)&(List|Struct) == 0 {
		return
	}
	if m.fits == nil {
		m.fits = make(map[visit]bool)
	}
	m.fits[visitOf(s, value)] = fits
	m.held = append(m.held, value)
}

// knownProblems returns what problems returned at path; one value may be at several places.
func (m *memo) knownProblems(s *Schema, value any, path []step) ([]Problem, bool) {
	if TypeOf(value)&(List|Struct) == 0 {
		return nil, false
	}
	found, ok := m.problems[visitOf(s, value)]
	return found.problems, ok && slices.Equal(found.path, path)
}

func (m *memo) keepProblems(s *Schema, value any, path []step, problems []Problem) {
	if TypeOf(value)&(List|Struct) == 0 {
		return
	}
	if m.problems == nil {
		m.problems = make(map[visit]problemsAt)
	}
	m.held = append(m.held, value)
	m.problems[visitOf(s, value)] = problemsAt{slices.Clone(path), problems}
}
