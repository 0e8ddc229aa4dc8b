package schema

import (
	"bytes"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// alternatives adds a disjunction: what all branches share, and an anyOf of the rest.
func (e *emitter) alternatives(s *Schema) *props {
	merged := e.common(s.Alternatives)
	if !isTyped(merged) || merged.XIntOrString {
		return merged
	}
	var branches []props
	exact := CRDSchema
	within := make(Enforcers) // of what the branches require
	for _, a := range s.Alternatives {
		branches = append(branches, *within.validations(a.Schema, merged))
		if !within.isExact(a.Schema) {
			exact = CRDPartly
		}
	}
	whole := !slices.ContainsFunc(branches, isEmpty)
	if !whole {
		exact = CRDPartly
	}
	for rule, by := range within {
		e.Enforcers.set(rule, min(by, exact))
	}
	shareRequired(merged, branches)
	if !whole || slices.ContainsFunc(branches, isEmpty) {
		return merged
	}
	merged.AnyOf = branches
	e.Enforcers.set(s.TypeRule, exact)
	return merged
}

// isExact reports whether a branch is a scalar and the CRD has all its rules but the type.
func (e Enforcers) isExact(s *Schema) bool {
	untyped := *s
	untyped.TypeRule = nil
	return s.isLeaf() && s.Types&(List|Struct) == 0 &&
		!slices.ContainsFunc(untyped.rules(), func(r *Rule) bool { return e[r] < CRDSchema })
}

// common returns what all branches of a disjunction share: the type, and the fields.
func (e *emitter) common(alternatives []Alternative) *props {
	var types Types
	var all []*props
	for _, a := range alternatives {
		types |= e.typesOf(a.Schema)
		p := e.in(slot{path: e.slot.path}).schema(a.Schema)
		e.Enforcers.withdraw(a.Schema)
		all = append(all, p)
	}
	return loosest(types, all)
}

func (e *emitter) typesOf(s *Schema) Types {
	switch {
	case s.Reference != nil:
		return s.Reference.Types
	case len(s.Alternatives) > 0:
		var types Types
		for _, a := range s.Alternatives {
			types |= e.typesOf(a.Schema)
		}
		return types
	}
	return s.Types
}

// withdraw records that the rules within a branch are not enforced one by one.
func (e Enforcers) withdraw(s *Schema) { e.withdrawUnseen(s, make(map[*Schema]bool)) }

func (e Enforcers) withdrawUnseen(s *Schema, seen map[*Schema]bool) {
	if seen[s] {
		return
	}
	seen[s] = true
	for _, r := range s.rules() {
		e.setPartly(r)
	}
	for _, sub := range s.parts() {
		e.withdrawUnseen(sub, seen)
	}
	if s.Struct == nil {
		return
	}
	for _, f := range s.Struct.Fields {
		e.setPartly(f.Rule)
	}
	for _, c := range s.Struct.Conditions {
		e.withdrawUnseen(&Schema{Struct: c.Then}, seen)
	}
}

// loosest returns a schema that every value of any of the others satisfies.
func loosest(types Types, all []*props) *props {
	first := all[0]
	if !slices.ContainsFunc(all, func(p *props) bool { return !sameProps(p, first) }) {
		return first
	}
	p := &props{}
	setType(&Schema{Types: types}, p)
	switch p.Type {
	case "array":
		var items []*props
		for _, a := range all {
			if a.Items != nil {
				items = append(items, a.Items.Schema)
			}
		}
		p.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: loosestOf(items)}
	case "object":
		looseFields(p, all)
	default:
		looseEnum(p, all)
	}
	return p
}

// looseEnum lets a scalar have the values of all others, if each of them lists its own.
func looseEnum(p *props, all []*props) {
	var values []jsonValue
	for _, a := range all {
		if len(a.Enum) == 0 {
			return
		}
		for _, v := range a.Enum {
			if !slices.ContainsFunc(values, func(o jsonValue) bool { return bytes.Equal(o.Raw, v.Raw) }) {
				values = append(values, v)
			}
		}
	}
	p.Enum = values
}

// loosestOf combines schemas that exist only in OpenAPI's form.
func loosestOf(all []*props) *props {
	first := all[0]
	for _, p := range all[1:] {
		if p.Type != first.Type || p.XIntOrString != first.XIntOrString || p.Nullable != first.Nullable {
			return &props{XPreserveUnknownFields: new(true)}
		}
	}
	if !isTyped(first) || first.XIntOrString {
		return first
	}
	types := map[string]Types{"boolean": Bool, "integer": Int, "number": Number, "string": String, "array": List,
		"object": Struct}[first.Type]
	if first.Nullable {
		types |= Null
	}
	return loosest(types, all)
}

// looseFields lets a struct have the fields of all others.
func looseFields(p *props, all []*props) {
	names := make(map[string]bool)
	for _, a := range all {
		if a.XPreserveUnknownFields != nil || a.AdditionalProperties != nil {
			p.XPreserveUnknownFields = new(true)
		}
		for name := range a.Properties {
			names[name] = true
		}
	}
	if len(names) > 0 {
		p.Properties = make(map[string]props)
	}
	for name := range names {
		var allowed []*props
		for _, a := range all {
			if property := propertyOf(a, name); property != nil {
				allowed = append(allowed, property)
			}
		}
		p.Properties[name] = *loosestOf(allowed)
	}
}

// propertyOf returns what a struct allows in a field of that name, without a default; nil if it has
// no such field.
func propertyOf(p *props, name string) *props {
	property, ok := p.Properties[name]
	switch {
	case ok:
	case p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil:
		property = *p.AdditionalProperties.Schema
	case p.XPreserveUnknownFields != nil || p.AdditionalProperties != nil:
		return &props{XPreserveUnknownFields: new(true)}
	default:
		return nil
	}
	property.Default = nil
	return &property
}
