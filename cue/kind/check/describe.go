package check

import (
	"slices"

	"cuelang.org/go/cue/ast"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// Describe collects the facts from the source of a kind.
func (c *Checker) Describe() *kind.BehaviourFacts {
	facts := &kind.BehaviourFacts{Reads: c.reads(), Children: c.childFacts(c.Controller, "")}
	if phases := c.Controller.Fields["phases"]; phases != nil {
		s := c.Gather(phases.Parts)
		for _, name := range s.Order {
			phase := c.Gather(s.Fields[name].Parts)
			facts.Children = append(facts.Children, c.childFacts(phase, name)...)
			facts.Phases = append(facts.Phases, kind.PhaseDetails{Name: name, PhaseFacts: c.kind.Phases[name], Next: c.transitionFacts(phase)})
		}
	}
	facts.Status, facts.Conditions = c.valueFacts("status"), c.valueFacts("conditions")
	return facts
}

func (c *Checker) childFacts(owner *Structure, phase string) (facts []kind.ChildFacts) {
	children := owner.Fields["children"]
	if children == nil {
		return nil
	}
	s := c.Gather(children.Parts)
	describe := func(name string, parts []Part, conditional bool, at ast.Node) {
		body := c.Gather(parts)
		f := kind.ChildFacts{Name: name, Phase: phase, Update: kind.Apply, OnDelete: kind.Delete, Conditional: conditional, Position: syntax.PositionOf(at)}
		if template := body.Fields["template"]; template != nil {
			t := c.Gather(template.Parts)
			f.APIVersion, _ = c.constantOf(t, "apiVersion")
			f.Kind, _ = c.constantOf(t, "kind")
			if metadata := t.Fields["metadata"]; metadata != nil {
				s := c.Gather(metadata.Parts)
				f.ObjectName, f.Namespace = sourceOfField(s, "name"), sourceOfField(s, "namespace")
			}
		}
		if update, ok := c.constantOf(body, "update"); ok {
			f.Update = kind.UpdatePolicy(update)
		}
		f.Ordered = c.kind.Sets[name].Ordered
		if onDelete, ok := c.constantOf(body, "onDelete"); ok {
			f.OnDelete = kind.DeletePolicy(onDelete)
		}
		f.Replicas, f.When, f.Ready = sourceOfField(body, "replicas"), sourceOfField(body, "when"), sourceOfField(body, "ready")
		facts = append(facts, f)
	}
	for _, name := range s.Order {
		m := s.Fields[name]
		describe(name, m.Parts, !m.certain, m.Node)
	}
	for _, d := range s.dynamic {
		describe("", []Part{d.value}, true, d.value.node())
	}
	return facts
}

// sourceOfField returns the source of a field, on one line; empty if there is none.
func sourceOfField(s *Structure, name string) string {
	m := s.Fields[name]
	if m == nil {
		return ""
	}
	return syntax.SourceOf(m.Parts[0].expr)
}

func (c *Checker) transitionFacts(phase *Structure) (facts []kind.TransitionFacts) {
	next := phase.Fields["next"]
	if next == nil {
		return nil
	}
	for _, p := range next.Parts {
		list, ok := p.expr.(*ast.ListLit)
		if !ok {
			continue
		}
		for _, item := range c.items(p, list) {
			s := c.Gather([]Part{item})
			f := kind.TransitionFacts{
				When: sourceOfField(s, "when"), After: sourceOfField(s, "after"), Conditional: item.conditional,
				Cron: sourceOfField(s, "cron"), TimeZone: sourceOfField(s, "timeZone"), StartingDeadline: sourceOfField(s, "startingDeadline"),
			}
			if to := s.Fields["to"]; to != nil {
				f.To, _ = c.constantOf(s, "to")
				f.Conditional = f.Conditional || !to.certain
			}
			facts = append(facts, f)
		}
	}
	return facts
}

// Schedules reports whether a transition of the kind has a cron. Where the syntax does not show it,
// an author shows it by a status with LastScheduleTime.
func (c *Checker) Schedules(v *kind.Version) bool {
	if len(c.kind.Phases) == 0 {
		return false
	}
	if phases := c.Controller.Fields["phases"]; phases != nil {
		s := c.Gather(phases.Parts)
		for _, name := range s.Order {
			if slices.ContainsFunc(c.transitionFacts(c.Gather(s.Fields[name].Parts)), func(t kind.TransitionFacts) bool { return t.Cron != "" }) {
				return true
			}
		}
	}
	if status := v.Compiled.Struct.Field("status"); status == nil || status.Schema.Struct == nil || status.Schema.Struct.Field(kind.LastScheduleTime) == nil {
		return false
	}
	return !slices.ContainsFunc(c.valueFacts("status"), func(f kind.ValueFacts) bool { return f.Name == kind.LastScheduleTime })
}

func (c *Checker) valueFacts(field string) (facts []kind.ValueFacts) {
	m := c.Controller.Fields[field]
	if m == nil {
		return nil
	}
	s := c.Gather(m.Parts)
	for _, name := range s.Order {
		facts = append(facts, kind.ValueFacts{Name: name, Source: sourceOfField(s, name)})
	}
	return facts
}

// Corrected finds the types by the source of a kind. What it does not understand counts as Apply.
func (c *Checker) Corrected() kind.Corrected {
	found := kind.Corrected{Types: make(map[apischema.GroupVersionKind]bool), Names: make(map[string]bool)}
	c.addCorrected(&found, c.Controller)
	if phases := c.Controller.Fields["phases"]; phases != nil {
		s := c.Gather(phases.Parts)
		found.All = found.All || s.mayHaveMore()
		for _, name := range s.Order {
			c.addCorrected(&found, c.Gather(s.Fields[name].Parts))
		}
	}
	found.All = found.All || c.gaveUp
	return found
}

func (c *Checker) addCorrected(to *kind.Corrected, owner *Structure) {
	to.All = to.All || owner.mayHaveMore()
	children := owner.Fields["children"]
	if children == nil {
		return
	}
	s := c.Gather(children.Parts)
	to.All = to.All || len(s.others) > 0
	bodies := make([][]Part, 0, len(s.Order)+len(s.dynamic))
	for _, name := range s.Order {
		bodies = append(bodies, s.Fields[name].Parts)
		to.Names[name] = true
	}
	to.Computed = to.Computed || len(s.dynamic) > 0
	for _, d := range s.dynamic {
		bodies = append(bodies, []Part{d.value})
	}
	for _, parts := range bodies {
		if len(parts) == 1 { // an if around the whole child is none around its fields
			parts = slices.Clone(parts)
			parts[0].conditional, parts[0].conditions = false, nil
		}
		body := c.Gather(parts)
		// An update in an if may be another, or the default, for some objects.
		if update, ok := c.constantOf(body, "update"); ok && body.Fields["update"].certain && kind.UpdatePolicy(update) != kind.Apply {
			continue
		}
		gvk := apischema.GroupVersionKind{}
		if template := body.Fields["template"]; template != nil {
			t := c.Gather(template.Parts)
			apiVersion, _ := c.constantOf(t, "apiVersion")
			name, _ := c.constantOf(t, "kind")
			gvk = apischema.FromAPIVersionAndKind(apiVersion, name)
		}
		if gvk.Version == "" || gvk.Kind == "" {
			to.All = true
		}
		to.Types[gvk] = true
	}
}
