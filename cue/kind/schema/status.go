package schema

import (
	"maps"
	"slices"

	"github.com/fescue-dev/fescue/cue/kind/budget"
)

// Completed is the schema of a kind's objects with all status fields that the engine writes.
type Completed struct {
	*Schema
	// Added are the fields that the status did not have, or not in a form that the engine
	// could write.
	Added []string
	// Changed means that the status had required fields, which are optional now because an object
	// has no status at first, or that it could be null, which is like no status.
	Changed bool
	// HadStatus means that the objects had a status before.
	HadStatus bool
}

// CompleteStatus adds to the status of a whole object the fields of engine, a struct. written
// holds values that the engine may write to a field; a field that does not allow them all is
// replaced. An open status gets no fields, and one that is not a struct, or null, stays as it is.
func CompleteStatus(s, engine *Schema, written map[string][]any) *Completed {
	c := &Completed{Schema: s}
	field := s.Struct.Field("status")
	c.HadStatus = field != nil
	if field == nil {
		field = &Field{Name: "status", Schema: &Schema{
			Doc: engine.Doc, Position: s.Position, Types: Struct, TypeRule: engine.TypeRule,
			Struct: &StructSchema{Groups: engine.Struct.Groups},
		}}
	}
	own := field.Schema
	if !own.isLeaf() || own.Types&^Null != Struct || own.Struct == nil {
		return c
	}
	c.Changed = own.Types != Struct
	isOpen := own.Struct.isOpen()
	status := &StructSchema{Labels: own.Struct.Labels, Groups: own.Struct.Groups, Conditions: own.Struct.Conditions}
	for _, f := range own.Struct.Fields {
		ours := engine.Struct.Field(f.Name)
		switch _, defaulted := staticDefault(f.Schema); {
		case ours != nil && !isOpen &&
			slices.ContainsFunc(written[f.Name], func(v any) bool { return !f.Schema.Accepts(v) }):
			continue
		case f.Presence == Required || f.Presence == Regular && !defaulted:
			f = &Field{Name: f.Name, Schema: f.Schema, Rule: f.Rule}
			c.Changed = true
		}
		status.Fields = append(status.Fields, f)
	}
	for _, f := range engine.Struct.Fields {
		if status.Field(f.Name) == nil && !isOpen {
			status.Fields = append(status.Fields, f)
			c.Added = append(c.Added, f.Name)
		}
	}
	if !c.Differs() {
		return c
	}
	complete, completeField, root := *own, *field, *s.Struct
	complete.Types, complete.Struct, complete.prepared = Struct, status, false
	completeField.Schema = &complete
	root.index, root.variants = nil, nil
	root.Fields = slices.DeleteFunc(slices.Clone(root.Fields), func(f *Field) bool { return f.Name == "status" })
	root.Fields = append(root.Fields, &completeField)
	whole := *s
	whole.Struct, whole.prepared = &root, false
	Prepare(&whole)
	c.Schema = &whole
	return c
}

// Differs reports whether the status differs from the one before.
func (c *Completed) Differs() bool { return len(c.Added) > 0 || c.Changed }

// Accepts reports whether a value has no problem with a schema.
func (s *Schema) Accepts(value any) bool {
	prepared := *s
	prepared.prepared = false
	Prepare(&prepared)
	here := where{budget: budget.New("")}
	return len(here.problems(&prepared, value)) == 0
}

// EngineStatus returns the struct of the fields that the engine writes to the status of a kind:
// those of common, which is the contract's #Status, and the phase if there are phases. Only
// a kind with phases has lastPhaseTransitionTime.
func EngineStatus(common *Schema, phases []string) *Schema {
	s, fields := *common, *common.Struct
	s.Struct, s.prepared = &fields, false
	fields.index, fields.variants = nil, nil
	if len(phases) == 0 {
		fields.Fields = slices.DeleteFunc(slices.Clone(fields.Fields),
			func(f *Field) bool { return f.Name == "lastPhaseTransitionTime" })
		return &s
	}
	rule := &Rule{Text: "a phase", Position: common.Position}
	phase := &Schema{Doc: "phase is the phase of the object.", Position: common.Position, Types: String, TypeRule: rule,
		Enum: &Enum{Rule: rule}}
	for _, name := range phases {
		phase.Enum.Values = append(phase.Enum.Values, name)
	}
	fields.Fields = append(slices.Clone(fields.Fields), &Field{Name: "phase", Schema: phase, Rule: rule})
	return &s
}

// WithoutAdded returns an object as its behaviour knows it: without the fields of the status
// that #X does not have. The object is not changed.
func (c *Completed) WithoutAdded(object map[string]any) map[string]any {
	status, ok := object["status"].(map[string]any)
	if !ok || len(c.Added) == 0 {
		return object
	}
	object = maps.Clone(object)
	if delete(object, "status"); !c.HadStatus {
		return object
	}
	status = maps.Clone(status)
	for _, name := range c.Added {
		delete(status, name)
	}
	object["status"] = status
	return object
}
