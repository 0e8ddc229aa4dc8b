package schema

import (
	"bytes"
	"slices"

	"k8s.io/apimachinery/pkg/util/json"
)

// validations returns what a branch of a disjunction requires, in the form that structural
// schemas have within anyOf: rules for values alone, for fields that the schema around
// it names. It records who would enforce the rules if no other branch allowed the value.
func (e Enforcers) validations(s *Schema, outer *props) *props {
	p := &props{}
	if !s.isLeaf() {
		return p
	}
	typed := &props{}
	if setType(s, typed); !isTyped(typed) || typed.XIntOrString || typed.Nullable {
		return p
	}
	p.Type = typed.Type
	e.values(s, p)
	p.Type, p.Format = "", ""
	p.MinProperties = nil // the API server counts before defaults, which are no part of a branch
	if p.Enum == nil && s.Types == Null {
		p.Enum = enumOf([]any{nil})
	}
	if s.Struct != nil && len(s.Struct.Conditions) == 0 {
		e.fieldValidations(s.Struct, p, outer)
	}
	return p
}

// fieldValidations adds that a branch requires its fields, rejects those of the other
// branches, and what its fields have to be.
func (e Enforcers) fieldValidations(s *StructSchema, p, outer *props) {
	for _, f := range s.Fields {
		property, ok := outer.Properties[f.Name]
		if !ok {
			continue
		}
		if f.Presence == Required {
			p.Required = append(p.Required, f.Name)
		}
		if inner := e.validations(f.Schema, &property); !isEmpty(*inner) && !saysAlready(property, *inner) {
			if p.Properties == nil {
				p.Properties = make(map[string]props)
			}
			p.Properties[f.Name] = *inner
		}
	}
	slices.Sort(p.Required)
	if !s.closed() || len(s.Labels) > 0 {
		return
	}
	var others []props
	for name := range outer.Properties {
		if s.Field(name) == nil {
			others = append(others, props{Required: []string{name}})
		}
	}
	slices.SortFunc(others, func(a, b props) int { return bytes.Compare([]byte(a.Required[0]), []byte(b.Required[0])) })
	if len(others) > 0 {
		also(p, props{Not: &props{AnyOf: others}})
	}
}

// saysAlready reports whether the schema around a branch has all rules of the branch for a
// field.
func saysAlready(outer, inner props) bool {
	outer.Type, outer.Format, outer.Description, outer.Default = "", "", "", nil
	return sameProps(&outer, &inner)
}

// shareRequired moves the fields that all branches require to the schema around them.
func shareRequired(outer *props, branches []props) {
	for _, name := range branches[0].Required {
		if slices.ContainsFunc(branches, func(b props) bool { return !slices.Contains(b.Required, name) }) {
			continue
		}
		if !slices.Contains(outer.Required, name) {
			outer.Required = append(outer.Required, name)
		}
	}
	slices.Sort(outer.Required)
	for i := range branches {
		branches[i].Required = slices.DeleteFunc(slices.Clone(branches[i].Required),
			func(name string) bool { return slices.Contains(outer.Required, name) })
	}
}

func isEmpty(p props) bool { return sameProps(&p, &props{}) }

// sameProps compares two schemas by their JSON.
func sameProps(a, b *props) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
