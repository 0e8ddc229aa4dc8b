package schema

import "github.com/fescue-dev/fescue/cue/kind/place"

// Fixed is a field that can have only one value, and has it if nobody sets it.
type Fixed struct {
	// Field is where it is, as in Enforcement.
	Field    string
	Position place.Position
	// Value is what stands in the schema, and Type the CUE type that has it and others.
	Value string
	Type  Types
}

// FixedFields lists the fields that can have only one value. Those of alternatives and conditions are left out, which
// tell them apart.
func FixedFields(s *Schema) (found []Fixed) {
	eachField("", s, func(path string, f *Field) {
		if f.Presence == Regular && f.Schema.Enum != nil && len(f.Schema.Enum.Values) == 1 {
			found = append(found, Fixed{path, f.Schema.Position, f.Schema.Enum.Text, widened(f.Schema.Types)})
		}
	})
	return found
}

// eachField visits the fields of a struct at a path, and those of the structs within, but for what depends on
// alternatives and conditions.
func eachField(path string, s *Schema, visit func(path string, f *Field)) {
	if !s.isLeaf() || s.Struct == nil {
		return
	}
	for _, f := range s.Struct.Fields {
		at := joined(path, f.Name)
		visit(at, f)
		eachField(at, f.Schema, visit)
	}
}

// widened makes a type of numbers of one of floats, which has no 1 but 1.0.
func widened(t Types) Types {
	if t == Float {
		return Number
	}
	return t
}
