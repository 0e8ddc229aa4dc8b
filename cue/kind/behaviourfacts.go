package kind

import (
	"maps"
	"slices"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"

	"github.com/fescue-dev/fescue/cue/kind/schema"
)

// BehaviourFacts describe a behaviour to people, as far as its source shows.
type BehaviourFacts struct {
	// Children are those of all phases, and then those of each phase.
	Children []ChildFacts
	// Phases are in the order of the source.
	Phases []PhaseDetails
	// Status are the fields of the status that it writes, and Conditions the conditions.
	Status, Conditions []ValueFacts
	// Reads are what it reads of the object and of its children, as in object.spec.image and
	// observed.pods[*].status, sorted.
	Reads []string
}

// ChildFacts describe a child.
type ChildFacts struct {
	// Name is empty if it is computed, and Phase for a child of all phases.
	Name, Phase string
	// APIVersion and Kind are empty if they are not constant.
	APIVersion, Kind string
	Update           UpdatePolicy
	// OnDelete is what becomes of it when its object is deleted.
	OnDelete DeletePolicy
	// ObjectName and Namespace are the sources of its name and its namespace; empty if its template states none.
	ObjectName, Namespace string
	// Replicas is the source of the number of members; empty for a single object.
	Replicas string
	// Ordered means that the members are numbered.
	Ordered bool
	// When is the source of the condition to create it, and Ready that of whether it counts as ready; empty if there is none.
	When, Ready string
	// Conditional means that it exists only if some condition holds.
	Conditional bool
	Position    schema.Position
}

// PhaseDetails describe a phase.
type PhaseDetails struct {
	Name string
	PhaseFacts
	Next []TransitionFacts
}

// TransitionFacts describe a transition.
type TransitionFacts struct {
	To string
	// When, After, Cron, TimeZone and StartingDeadline are the sources of its fields; empty for
	// those that it has not.
	When, After, Cron, TimeZone, StartingDeadline string
	// Conditional means that an if can drop it.
	Conditional bool
}

// ValueFacts describe a field that a behaviour writes: its name, and its source.
type ValueFacts struct{ Name, Source string }

// describe collects the facts from the source of a kind.
func (c *checker) describe() *BehaviourFacts {
	facts := &BehaviourFacts{Reads: c.reads(), Children: c.childFacts(c.controller, "")}
	if phases := c.controller.fields["phases"]; phases != nil {
		s := c.gather(phases.parts)
		for _, name := range s.order {
			phase := c.gather(s.fields[name].parts)
			facts.Children = append(facts.Children, c.childFacts(phase, name)...)
			facts.Phases = append(facts.Phases, PhaseDetails{name, c.kind.Phases[name], c.transitionFacts(phase)})
		}
	}
	facts.Status, facts.Conditions = c.valueFacts("status"), c.valueFacts("conditions")
	return facts
}

func (c *checker) childFacts(owner *structure, phase string) (facts []ChildFacts) {
	children := owner.fields["children"]
	if children == nil {
		return nil
	}
	s := c.gather(children.parts)
	describe := func(name string, parts []part, conditional bool, at ast.Node) {
		body := c.gather(parts)
		f := ChildFacts{Name: name, Phase: phase, Update: Apply, OnDelete: Delete, Conditional: conditional, Position: positionOf(at)}
		if template := body.fields["template"]; template != nil {
			t := c.gather(template.parts)
			f.APIVersion, _ = c.constantOf(t, "apiVersion")
			f.Kind, _ = c.constantOf(t, "kind")
			if metadata := t.fields["metadata"]; metadata != nil {
				s := c.gather(metadata.parts)
				f.ObjectName, f.Namespace = sourceOfField(s, "name"), sourceOfField(s, "namespace")
			}
		}
		if update, ok := c.constantOf(body, "update"); ok {
			f.Update = UpdatePolicy(update)
		}
		f.Ordered = c.kind.Sets[name].Ordered
		if onDelete, ok := c.constantOf(body, "onDelete"); ok {
			f.OnDelete = DeletePolicy(onDelete)
		}
		f.Replicas, f.When, f.Ready = sourceOfField(body, "replicas"), sourceOfField(body, "when"), sourceOfField(body, "ready")
		facts = append(facts, f)
	}
	for _, name := range s.order {
		m := s.fields[name]
		describe(name, m.parts, !m.certain, m.node)
	}
	for _, d := range s.dynamic {
		describe("", []part{d.value}, true, d.value.node())
	}
	return facts
}

// sourceOfField returns the source of a field, on one line; empty if there is none.
func sourceOfField(s *structure, name string) string {
	m := s.fields[name]
	if m == nil {
		return ""
	}
	return sourceOf(m.parts[0].expr)
}

func (c *checker) transitionFacts(phase *structure) (facts []TransitionFacts) {
	next := phase.fields["next"]
	if next == nil {
		return nil
	}
	for _, p := range next.parts {
		list, ok := p.expr.(*ast.ListLit)
		if !ok {
			continue
		}
		for _, item := range c.items(p, list) {
			s := c.gather([]part{item})
			f := TransitionFacts{
				When: sourceOfField(s, "when"), After: sourceOfField(s, "after"), Conditional: item.conditional,
				Cron: sourceOfField(s, "cron"), TimeZone: sourceOfField(s, "timeZone"), StartingDeadline: sourceOfField(s, "startingDeadline"),
			}
			if to := s.fields["to"]; to != nil {
				f.To, _ = c.constantOf(s, "to")
				f.Conditional = f.Conditional || !to.certain
			}
			facts = append(facts, f)
		}
	}
	return facts
}

// schedules reports whether a transition of the kind has a cron. Where the syntax does not show it,
// an author shows it by a status with LastScheduleTime.
func (c *checker) schedules(v *Version) bool {
	if len(c.kind.Phases) == 0 {
		return false
	}
	if phases := c.controller.fields["phases"]; phases != nil {
		s := c.gather(phases.parts)
		for _, name := range s.order {
			if slices.ContainsFunc(c.transitionFacts(c.gather(s.fields[name].parts)), func(t TransitionFacts) bool { return t.Cron != "" }) {
				return true
			}
		}
	}
	if status := v.Compiled.Struct.Field("status"); status == nil || status.Schema.Struct == nil || status.Schema.Struct.Field(LastScheduleTime) == nil {
		return false
	}
	return !slices.ContainsFunc(c.valueFacts("status"), func(f ValueFacts) bool { return f.Name == LastScheduleTime })
}

func (c *checker) valueFacts(field string) (facts []ValueFacts) {
	m := c.controller.fields[field]
	if m == nil {
		return nil
	}
	s := c.gather(m.parts)
	for _, name := range s.order {
		facts = append(facts, ValueFacts{name, sourceOfField(s, name)})
	}
	return facts
}

// reads finds what the controller reads, itself and by the definitions that it refers to.
func (c *checker) reads() []string {
	collector := &readCollector{Reads: Reads{Object: &Read{}, Observed: &Read{}}}
	seen := make(map[*ast.Field]bool)
	var follow func(instance *build.Instance, name string)
	follow = func(instance *build.Instance, name string) {
		if instance.ImportPath == contractPackage || instance.ImportPath == libraryPackage {
			return
		}
		for _, f := range c.packages.fieldsOf(instance)[name] {
			if seen[f] {
				continue
			}
			seen[f] = true
			if name != "#"+c.kind.GroupVersionKind.Kind { // the schema reads nothing
				collector.visit(f.Value)
			}
			ast.Walk(f.Value, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if imported, name := importedDefinition(instance, n); imported != nil {
						follow(imported, name)
					}
				case *ast.Ident:
					follow(instance, n.Name)
				}
				return true
			}, nil)
		}
	}
	follow(c.pkg.instance, behaviourOf(c.kind.LoadName()))
	paths := append(collector.Object.paths(objectName), collector.Observed.paths(observedName)...)
	slices.Sort(paths)
	return slices.Compact(paths)
}

// paths lists what is read below a path.
func (r *Read) paths(path string) []string {
	if r.Whole {
		return []string{path}
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
		all = append(all, r.Fields[name].paths(path+"."+name)...)
	}
	if r.Elements != nil {
		if within := r.Elements.paths(path + "[*]"); len(within) > 0 {
			all = append(all, within...)
		} else {
			all = append(all, path) // its length
		}
	}
	if len(all) == 0 && len(r.Fields) == 0 && r.Elements == nil && path != objectName && path != observedName {
		return []string{path}
	}
	return all
}
