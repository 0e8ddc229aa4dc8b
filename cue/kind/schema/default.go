package schema

import (
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fescue-dev/fescue/cue/kind/budget"
)

// Default returns an object in which every absent field that has a default is set to it. The
// object is not changed; the result shares unchanged parts with it.
// One that exceeds the budget gets some of them.
func Default(b *budget.Budget, s *Schema, object map[string]any) map[string]any {
	d := defaulter{budget: b, structs: make([]map[string]any, 0, 8)}
	result, _ := d.value(s, object).(map[string]any)
	// An if may have read a field further up before that field had its default.
	for round := 0; d.conditions && round < maxRounds; round++ {
		d.changed, d.done = false, nil
		if result, _ = d.value(s, result).(map[string]any); !d.changed {
			break
		}
	}
	return result
}

// entriesPerStep is how many entries of a map a step may copy, or look up.
const entriesPerStep = 8

type defaulter struct {
	budget     *budget.Budget
	structs    []map[string]any // around the value, outermost first
	conditions bool             // whether an if was met
	changed    bool             // whether a default was set
	// again counts the disjunctions and conditions around the value: below one, a value
	// is defaulted more than once.
	again int
	done  map[visit]defaulted
}

// defaulted is a value before and after its defaults were set.
type defaulted struct{ before, after any }

// value sets the defaults within a value.
func (d *defaulter) value(s *Schema, value any) any {
	if s.Reference != nil {
		return d.reference(s.Reference, value)
	}
	if !s.defaults || !d.budget.Take(1) {
		return value
	}
	if len(s.Alternatives) > 0 {
		return d.alternatives(s, value)
	}
	switch v := value.(type) {
	case []any:
		if s.Items != nil && s.Items.defaults {
			return d.list(s.Items, v)
		}
	case map[string]any:
		if s.Struct != nil {
			return d.fields(s.Struct, v)
		}
	}
	return value
}

// reference sets the defaults where the schema contains itself. Below a disjunction or a
// condition it does so once in a round: doing it again would double the work at each
// level. A definition that contains itself reads nothing outside of it, so the outcome
// is the same.
func (d *defaulter) reference(s *Schema, value any) any {
	if d.again == 0 || TypeOf(value)&(List|Struct) == 0 {
		return d.value(s, value)
	}
	if known, ok := d.done[visitOf(s, value)]; ok {
		d.changed = d.changed || !same(known.before, known.after)
		return known.after
	}
	after := d.value(s, value)
	if d.done == nil {
		d.done = make(map[visit]defaulted)
	}
	// Values are kept, so that no other takes their place in memory.
	d.done[visitOf(s, value)] = defaulted{value, after}
	d.done[visitOf(s, after)] = defaulted{after, after}
	return after
}

func (d *defaulter) list(items *Schema, list []any) []any {
	copied := false
	for i, item := range list {
		with := d.value(items, item)
		if same(item, with) {
			continue
		}
		if !copied {
			list, copied = append([]any(nil), list...), true
		}
		list[i] = with
	}
	return list
}

// fields sets the defaults of a struct: those of its fields, then those within them,
// then those that its conditions bring in.
func (d *defaulter) fields(s *StructSchema, object map[string]any) map[string]any {
	if len(s.Conditions) > 0 {
		return d.conditional(s, object)
	}
	if !d.budget.Take(len(s.Fields) + len(object)/entriesPerStep) {
		return object
	}
	copied := false
	set := func(name string, value any) {
		if !copied {
			object, copied = maps.Clone(object), true
			if object == nil {
				object = make(map[string]any)
			}
		}
		object[name] = value
		d.changed = true
		d.structs[len(d.structs)-1] = object
	}
	d.structs = append(d.structs, object)
	// A default may be the value of another field, which may be a default too.
	for again := true; again; {
		again = false
		for _, f := range s.Fields {
			if _, ok := object[f.Name]; ok || f.Presence != Regular {
				continue
			}
			if value, ok := d.absent(f.Schema); ok {
				set(f.Name, value)
				again = true
			}
		}
	}
	for _, f := range s.Fields {
		if !f.Schema.defaults {
			continue
		}
		value, ok := object[f.Name]
		if !ok {
			continue
		}
		if with := d.value(f.Schema, value); !same(value, with) {
			set(f.Name, with)
		}
	}
	if len(s.Labels) > 0 {
		d.labels(s, object, set)
	}
	d.structs = d.structs[:len(d.structs)-1]
	return object
}

func (d *defaulter) labels(s *StructSchema, object map[string]any, set func(string, any)) {
	for name, value := range object {
		if _, named := s.index[name]; named || !d.budget.Take(s.nameSteps(name)) {
			continue
		}
		for _, label := range s.Labels {
			if !label.Schema.defaults || !label.matches(name) {
				continue
			}
			if with := d.value(label.Schema, value); !same(value, with) {
				set(name, with)
				value = with
			}
		}
	}
}

// conditional sets the defaults of a struct with conditions, until no default makes another
// condition hold.
func (d *defaulter) conditional(s *StructSchema, object map[string]any) map[string]any {
	d.conditions = true
	d.again++
	defer func() { d.again-- }()
	mask := uint32(0)
	for range maxConditions + 1 { // each round that does not end makes one more condition hold
		// From the start again: a condition that holds may change a default.
		defaulted := d.fields(s.variants.with(d.budget, s.Conditions, mask).schema, object)
		d.structs = append(d.structs, defaulted)
		holding, _ := s.holding(d.budget, d.structs)
		d.structs = d.structs[:len(d.structs)-1]
		if holding|mask == mask {
			return defaulted
		}
		mask |= holding
	}
	return object
}

// alternatives sets the defaults of the one alternative that the value fits.
func (d *defaulter) alternatives(s *Schema, value any) any {
	if TypeOf(value)&(List|Struct) == 0 {
		return value
	}
	left := possible(d.budget, s.Alternatives, value)
	before := d.changed
	if len(left) > 1 {
		d.again++
		defer func() { d.again-- }()
	}
	here := where{budget: d.budget, structs: d.structs}
	chosen, _ := here.choose(left, func(a *Schema) any { return d.value(a, value) })
	d.changed = before // changes for other alternatives do not count
	if chosen == nil {
		return value
	}
	d.changed = before || !same(value, chosen.value)
	return chosen.value
}

// absent returns the value to which an absent regular field is set.
func (d *defaulter) absent(s *Schema) (any, bool) {
	switch {
	case s.Reference != nil:
		return d.absent(s.Reference)
	case s.Default != nil:
		return runtime.DeepCopyJSONValue(s.Default.Value), true
	case s.isSameAsField():
		d.budget.Take(s.Relations[0].Expr.steps(d.structs))
		value, how := s.Relations[0].Expr.eval(d.structs)
		return value, how == known
	case len(s.Alternatives) > 0:
		return d.absentAlternative(s)
	case s.Enum != nil:
		if len(s.Enum.Values) == 1 && s.isLiteral() {
			return s.Enum.Values[0], true
		}
	case s.Types == Null:
		return nil, true
	case s.Types == Struct:
		return map[string]any{}, true
	case s.Types == List:
		return []any{}, true
	}
	return nil, false
}

// isSameAsField reports whether the value has to be that of another field.
func (s *Schema) isSameAsField() bool {
	return s.isLeaf() && len(s.Relations) == 1 && s.Relations[0].Op == "=="
}

// dependsOnField reports whether the value of an absent field is that of another one.
func (s *Schema) dependsOnField() bool {
	return s.isSameAsField() ||
		slices.ContainsFunc(s.Alternatives, func(a Alternative) bool { return a.Default && a.isSameAsField() })
}

// absentAlternative returns the value of the only alternative, or the only default one.
func (d *defaulter) absentAlternative(s *Schema) (any, bool) {
	var chosen *Schema
	for _, a := range s.Alternatives {
		if !a.Default {
			continue
		}
		if chosen != nil {
			return nil, false
		}
		chosen = a.Schema
	}
	if chosen == nil {
		return nil, false
	}
	return d.absent(chosen)
}

// same reports whether a value is unchanged: defaults copy what they change.
func same(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && mapIdentity(x) == mapIdentity(y)
	case []any:
		y, ok := b.([]any)
		return ok && len(x) == len(y) && (len(x) == 0 || &x[0] == &y[0])
	}
	return TypeOf(a) == 0 || a == b // a value that JSON does not have gets no defaults
}

// mapIdentity identifies a map regardless of its content.
func mapIdentity(m map[string]any) uintptr { return reflect.ValueOf(m).Pointer() }
