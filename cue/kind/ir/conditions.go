package ir

import "strings"

// conditions carries what ifs add to a struct: their fields become fields that may
// always be there, and CEL rules say when they have to and when they must not.
func (e *emitter) conditions(s *StructSchema, p *props) {
	added := make(map[string][]*props)
	for _, c := range s.Conditions {
		e.conditionFields(s, c.Then, added)
	}
	for name, all := range added {
		p.Properties[name] = *loosestOf(all)
	}
	for _, c := range s.Conditions {
		at, ok := commonStruct(e.structs, c.When)
		if !ok {
			continue
		}
		w := celWriter{structs: e.structs, at: at}
		when, ok := w.write(c.When)
		if !ok || len(c.Then.Conditions) > 0 {
			continue
		}
		c.Where = CRDPartly
		if guards := w.guards(); len(guards) > 0 {
			when = strings.Join(append(guards, when), " && ")
		}
		e.conditionRules(s, c, "("+when+")", w)
	}
}

// conditionFields collects the fields that a condition adds to those that are always
// allowed. A default among them is not the CRD's to set.
func (e *emitter) conditionFields(s, then *StructSchema, added map[string][]*props) {
	for _, f := range then.Fields {
		if s.Field(f.Name) != nil {
			continue
		}
		property := e.below(f.Name).schema(f.Schema)
		property.Default = nil
		if len(added[f.Name]) > 0 || declarations(s, f.Name) > 1 {
			withdraw(f.Schema, make(map[*Schema]bool))
		}
		added[f.Name] = append(added[f.Name], property)
	}
	for _, c := range then.Conditions {
		e.conditionFields(s, c.Then, added)
	}
}

// declarations counts the conditions that speak of a field.
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

// conditionRules says in CEL which fields a condition demands, and that it alone
// allows those that nothing else names.
func (e *emitter) conditionRules(s *StructSchema, c Condition, when string, w celWriter) {
	target := e.structs[w.at]
	for _, f := range c.Then.Fields {
		own, ok := w.reference(0, []string{f.Name})
		if !ok {
			continue
		}
		there := presence(own)
		_, defaulted := staticDefault(f.Schema)
		if f.Presence == Required || f.Presence == Regular && !defaulted {
			rule := "!" + when + " || " + there
			if outer := strings.TrimSuffix(strings.TrimSuffix(there, "has("+own+")"), " && "); outer != "" {
				rule = "!(" + outer + ") || !" + when + " || (" + there + ")"
			}
			if e.addRule(target.path, target.props, rule, f.Name+" is required if "+c.Text) {
				f.Rule.Where = CRDRule
			}
		}
		if s.Field(f.Name) == nil && declarations(s, f.Name) == 1 && len(s.Labels) == 0 && len(s.Groups) > 0 {
			e.addRule(target.path, target.props, when+" || !("+there+")", f.Name+" is allowed only if "+c.Text)
		}
	}
}
