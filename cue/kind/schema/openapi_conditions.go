package schema

import (
	"slices"
	"strings"
)

// conditions adds what ifs bring into a struct: their fields become optional, and CEL rules
// state when they are required and when they are forbidden.
func (e *emitter) conditions(s *StructSchema, p *props) {
	added, further := make(map[string][]*props), make(map[string][]*props)
	for _, c := range s.Conditions {
		e.conditionFields(s, c.Then, added, further)
	}
	for name, all := range further {
		property := p.Properties[name]
		widen(&property, loosestOf(all))
		p.Properties[name] = property
	}
	for name, all := range added {
		if p.Properties[name] = *loosestOf(all); s.expects(name) || s.canAllowMore() {
			// Without the condition the field is allowed too, with any value.
			p.Properties[name] = props{XPreserveUnknownFields: new(true), Nullable: true}
			for _, c := range s.Conditions {
				e.Enforcers.withdraw(&Schema{Struct: c.Then})
			}
		}
	}
	for _, c := range flatConditions(s) {
		at, ok := commonStruct(e.structs, c.When)
		if !ok {
			continue
		}
		w := celWriter{structs: e.structs, at: at}
		when, ok := w.write(c.When)
		if !ok {
			continue
		}
		e.Enforcers.set(c.Rule, CRDPartly)
		e.conditionRules(s, c, conjunction(append(w.guards(), when)), w)
	}
}

// conditionFields collects in added the fields that a condition adds, and in further the
// rules that it adds to other fields. The CRD must not set their defaults.
func (e *emitter) conditionFields(s, then *StructSchema, added, further map[string][]*props) {
	for _, f := range then.Fields {
		if s.Field(f.Name) != nil {
			if f.Schema.Types&(List|Struct) != 0 {
				further[f.Name] = append(further[f.Name], e.below(f.Name).schema(f.Schema))
				e.Enforcers.withdraw(f.Schema)
			}
			continue
		}
		property := e.below(f.Name).schema(f.Schema)
		property.Default = nil
		if len(added[f.Name]) > 0 || declarations(s, f.Name) > 1 {
			e.Enforcers.withdraw(f.Schema)
		}
		added[f.Name] = append(added[f.Name], property)
	}
	for _, c := range then.Conditions {
		e.conditionFields(s, c.Then, added, further)
	}
}

// widen lets a value have the fields within it that a condition may bring in or allow: the API
// server would drop them otherwise.
func widen(p, with *props) {
	if p.Items != nil && with.Items != nil {
		widen(p.Items.Schema, with.Items.Schema)
	}
	if p.Type != "object" || p.AdditionalProperties != nil {
		return
	}
	isOpen := p.XPreserveUnknownFields != nil
	if with.XPreserveUnknownFields != nil || with.AdditionalProperties != nil {
		p.XPreserveUnknownFields = new(true)
	}
	for name, property := range with.Properties {
		own, ok := p.Properties[name]
		switch {
		case ok:
			widen(&own, &property)
		case isOpen: // without the condition, the field may be anything
			continue
		default:
			own = property
			own.Default = nil
		}
		if p.Properties == nil {
			p.Properties = make(map[string]props)
		}
		p.Properties[name] = own
	}
}

// declarations counts the conditions that declare a field.
func declarations(s *StructSchema, name string) int {
	n := 0
	for _, c := range s.Conditions {
		if c.Then.Field(name) != nil {
			n++
		}
		n += declarations(c.Then, name)
	}
	return n
}

// keepsDefault reports whether no condition of a struct changes the default of a field: those that name the field only
// add rules that the default satisfies.
func keepsDefault(s *StructSchema, name string, value any) bool {
	return !slices.ContainsFunc(s.Conditions, func(c Condition) bool {
		f := c.Then.Field(name)
		return f != nil && !isValidDefault(f.Schema, value) || !keepsDefault(c.Then, name, value)
	})
}

// isValidDefault reports whether a scalar is valid for a schema that has no default of its own.
func isValidDefault(s *Schema, value any) bool {
	return value != nil && !s.HasDefault() && !s.dependsOnField() && s.Types&(List|Struct) == 0 && s.Accepts(value)
}

// conditionRules writes in CEL which fields a condition requires, and that fields that
// nothing else names are allowed only if it holds.
func (e *emitter) conditionRules(s *StructSchema, c Condition, when string, w celWriter) {
	target := e.structs[w.at]
	for _, f := range c.Then.Fields {
		own, ok := w.reference(0, []string{f.Name})
		if property := e.structs[len(e.structs)-1].props.Properties[f.Name]; !ok || !isTyped(&property) {
			continue // CEL sees no field without a type in the schema
		}
		there := w.presence(own)
		_, defaulted := staticDefault(f.Schema)
		base := s.Field(f.Name)
		if (f.Presence == Required || f.Presence == Regular && !defaulted) && (base == nil || !base.always()) {
			rule := negated(when) + " || " + there
			// The field is missing only if the struct around it exists.
			if outer := w.presence(strings.TrimSuffix(own, "."+f.Name)); outer != "" {
				rule = negated(outer) + " || " + rule
			}
			if e.addRule(target.path, target.props, rule, f.Name+" is required if "+c.Text) {
				e.Enforcers.set(f.Rule, CRDRule)
			}
		}
		if base == nil && declarations(s, f.Name) == 1 && len(s.Labels) == 0 && !s.isOpen() && !s.canAllowMore() {
			e.addRule(target.path, target.props, when+" || "+negated(there), f.Name+" is allowed only if "+c.Text)
		}
	}
}
