package ir

import (
	"bytes"
	"slices"

	"k8s.io/apimachinery/pkg/util/json"
)

// validations is what a branch of a disjunction demands, in the form that structural
// schemas have within anyOf: rules for values alone, for fields that the schema around
// it names.
func validations(s *Schema, outer *props) *props {
	p := &props{}
	if !s.isLeaf() {
		return p
	}
	typed := &props{}
	if setType(s, typed); !isTyped(typed) || typed.XIntOrString || typed.Nullable {
		return p
	}
	p.Type = typed.Type
	values(s, p)
	p.Type, p.Format = "", ""
	if p.Enum == nil && s.Types == Null {
		p.Enum = enumOf([]any{nil})
	}
	if s.Struct != nil && len(s.Struct.Conditions) == 0 {
		fieldValidations(s.Struct, p, outer)
	}
	return p
}

// fieldValidations demands the fields that are required, refuses those of the other
// branches, and says what the fields have to be.
func fieldValidations(s *StructSchema, p, outer *props) {
	for _, f := range s.Fields {
		property, ok := outer.Properties[f.Name]
		if !ok {
			continue
		}
		if f.Presence == Required {
			p.Required = append(p.Required, f.Name)
		}
		if inner := validations(f.Schema, &property); !isEmpty(*inner) {
			if p.Properties == nil {
				p.Properties = make(map[string]props)
			}
			p.Properties[f.Name] = *inner
		}
	}
	slices.Sort(p.Required)
	if len(s.Groups) == 0 || len(s.Labels) > 0 {
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

func isEmpty(p props) bool { return sameProps(&p, &props{}) }

// sameProps compares two schemas by what they are in JSON.
func sameProps(a, b *props) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
