package schema

import (
	"github.com/fescue-dev/fescue/cue/kind/place"
)

// Unbounded is a part of a schema that can grow without limit.
type Unbounded struct {
	// Field is where it is, as in Enforcement.
	Field    string
	Position place.Position
	// Missing is the validator that would bound it.
	Missing string
}

// Unboundeds lists the strings, lists and maps without an upper limit. The API server
// estimates the cost of CEL rules by such limits, and an object without them can be as
// large as a request.
func Unboundeds(s *Schema) []Unbounded { return unboundeds("", s) }

func unboundeds(path string, s *Schema) []Unbounded {
	var found []Unbounded
	add := func(missing string) { found = append(found, Unbounded{path, s.Position, missing}) }
	if s.Reference != nil {
		return nil
	}
	for _, a := range s.Alternatives {
		found = append(found, unboundeds(path, a.Schema)...)
	}
	if s.Types&String != 0 && s.Types != AnyType && s.Enum == nil && s.Length.Max == nil && len(s.Checks) == 0 &&
		len(s.Relations) == 0 {
		add("strings.MaxRunes")
	}
	if s.Types&List != 0 && s.Types != AnyType {
		if s.Size.Max == nil {
			add("list.MaxItems")
		}
		if s.Items != nil {
			found = append(found, unboundeds(path+"[*]", s.Items)...)
		}
	}
	if s.Struct == nil {
		return found
	}
	if len(s.Struct.Labels) > 0 && s.Count.Max == nil {
		add("struct.MaxFields")
	}
	for _, f := range s.Struct.Fields {
		found = append(found, unboundeds(joined(path, f.Name), f.Schema)...)
	}
	for _, l := range s.Struct.Labels {
		found = append(found, unboundeds(path+".{*}", l.Schema)...)
	}
	for _, c := range s.Struct.Conditions {
		found = append(found, unboundeds(path, &Schema{Struct: c.Then})...)
	}
	return found
}

// joined returns the path of a field of a struct.
func joined(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
