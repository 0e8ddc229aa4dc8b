package facts

import (
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/infer"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// Source is the source of a behaviour. It knows no types: object and observed are what the behaviour itself declares.
type Source struct {
	*infer.Reader
	kind *kind.Kind
	pkg  *syntax.Package
}

// Of reads the behaviour of a kind.
func Of(k *kind.Kind, pkg *syntax.Package) *Source {
	return &Source{infer.New(pkg.Instance, syntax.BehaviourOf(k.LoadName()), k.LoadName()), k, pkg}
}

// Describe collects the facts from the source of a kind.
func (b *Source) Describe() *kind.BehaviourFacts {
	facts := &kind.BehaviourFacts{Reads: pathsOf(b.kind.Reads), Children: b.childFacts(b.Definition, "")}
	if phases := b.Definition.Fields["phases"]; phases != nil {
		s := b.Gather(phases.Parts)
		for _, name := range s.Order {
			phase := b.Gather(s.Fields[name].Parts)
			facts.Children = append(facts.Children, b.childFacts(phase, name)...)
			facts.Phases = append(facts.Phases, kind.PhaseDetails{Name: name, PhaseFacts: b.kind.Phases[name],
				Next: b.transitionFacts(phase)})
		}
		for _, name := range ComputedPhases(b.kind, s) {
			details := kind.PhaseDetails{Name: name, PhaseFacts: b.kind.Phases[name]}
			for _, d := range s.Dynamic {
				phase := b.Gather([]infer.Part{d.Value})
				facts.Children = append(facts.Children, b.childFacts(phase, name)...)
				details.Next = append(details.Next, b.transitionFacts(phase)...)
			}
			facts.Phases = append(facts.Phases, details)
		}
	}
	facts.Status, facts.Conditions = b.valueFacts("status"), b.valueFacts("conditions")
	return facts
}

// ComputedPhases returns the phases of a kind that the struct of its phases does not name, as of a loop.
func ComputedPhases(k *kind.Kind, phases *infer.Structure) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(k.Phases)),
		func(name string) bool { return phases.Fields[name] != nil })
}

func (b *Source) childFacts(owner *infer.Structure, phase string) (facts []kind.ChildFacts) {
	children := owner.Fields["children"]
	if children == nil {
		return nil
	}
	s := b.Gather(children.Parts)
	describe := func(name string, parts []infer.Part, conditional bool, at ast.Node) {
		body := b.Gather(parts)
		f := kind.ChildFacts{Name: name, Phase: phase, Update: kind.Apply, OnDelete: kind.Delete,
			Conditional: conditional, Position: syntax.PositionOf(at)}
		if template := body.Fields["template"]; template != nil {
			t := b.Gather(template.Parts)
			f.APIVersion, _ = t.Text("apiVersion")
			f.Kind, _ = t.Text("kind")
			if metadata := t.Fields["metadata"]; metadata != nil {
				s := b.Gather(metadata.Parts)
				f.ObjectName, f.Namespace = s.Source("name"), s.Source("namespace")
			}
		}
		if update, ok := body.Text("update"); ok {
			f.Update = kind.UpdatePolicy(update)
		}
		f.Ordered = b.kind.Sets[name].Ordered
		if onDelete, ok := body.Text("onDelete"); ok {
			f.OnDelete = kind.DeletePolicy(onDelete)
		}
		around := len(parts[0].Conditions)
		f.Replicas = sourceIn(body, "replicas", around)
		f.When, f.Ready = sourceIn(body, "when", around), sourceIn(body, "ready", around)
		facts = append(facts, f)
	}
	for _, name := range s.Order {
		m := s.Fields[name]
		describe(name, m.Parts, !m.Certain, m.Node)
	}
	for _, d := range s.Dynamic {
		describe("", []infer.Part{d.Value}, true, d.Value.Node())
	}
	return facts
}

// sourceIn returns the source of a field of a child, and that of the ifs around it, of which the first ones are around
// the child.
func sourceIn(child *infer.Structure, name string, around int) string {
	m := child.Fields[name]
	if m == nil {
		return ""
	}
	var source strings.Builder
	source.WriteString(child.Source(name))
	for _, condition := range m.Parts[0].Conditions[min(around, len(m.Parts[0].Conditions)):] {
		source.WriteString(" (if " + syntax.SourceOf(condition) + ")")
	}
	return source.String()
}

func (b *Source) transitionFacts(phase *infer.Structure) (facts []kind.TransitionFacts) {
	next := phase.Fields["next"]
	if next == nil {
		return nil
	}
	for _, together := range infer.Together(next.Parts) {
		for _, parts := range infer.Rows(b.Reader, together) {
			s := b.Gather(parts)
			f := kind.TransitionFacts{
				When: s.Source("when"), After: s.Source("after"), Conditional: parts[0].Conditional,
				Cron: s.Source("cron"), TimeZone: s.Source("timeZone"), StartingDeadline: s.Source("startingDeadline"),
			}
			if to := s.Fields["to"]; to != nil {
				f.To, _ = s.Text("to")
				f.Conditional = f.Conditional || !to.Certain
			}
			facts = append(facts, f)
		}
	}
	return facts
}

// Schedules reports whether a transition of the kind has a cron. Where the syntax does not show it,
// a kind author shows it by a status with LastScheduleTime.
func (b *Source) Schedules(v *kind.Version) bool {
	if len(b.kind.Phases) == 0 {
		return false
	}
	if phases := b.Definition.Fields["phases"]; phases != nil {
		s := b.Gather(phases.Parts)
		for _, name := range s.Order {
			if slices.ContainsFunc(b.transitionFacts(b.Gather(s.Fields[name].Parts)),
				func(t kind.TransitionFacts) bool { return t.Cron != "" }) {
				return true
			}
		}
	}
	if status := v.Compiled.Struct.Field("status"); status == nil || status.Schema.Struct == nil ||
		status.Schema.Struct.Field(kind.LastScheduleTime) == nil {
		return false
	}
	return !slices.ContainsFunc(b.valueFacts("status"),
		func(f kind.ValueFacts) bool { return f.Name == kind.LastScheduleTime })
}

func (b *Source) valueFacts(field string) (facts []kind.ValueFacts) {
	m := b.Definition.Fields[field]
	if m == nil {
		return nil
	}
	s := b.Gather(m.Parts)
	for _, name := range s.Order {
		facts = append(facts, kind.ValueFacts{Name: name, Source: s.Source(name)})
	}
	return facts
}

// Corrected finds which children are corrected. What it does not understand counts as Apply.
func (b *Source) Corrected() kind.Corrected {
	found := kind.Corrected{Types: make(map[apischema.GroupVersionKind]bool), Names: make(map[string]bool)}
	b.addCorrected(&found, b.Definition)
	if phases := b.Definition.Fields["phases"]; phases != nil {
		s := b.Gather(phases.Parts)
		found.All = found.All || s.MayHaveMore()
		for _, name := range s.Order {
			b.addCorrected(&found, b.Gather(s.Fields[name].Parts))
		}
	}
	found.All = found.All || b.GaveUp
	return found
}

func (b *Source) addCorrected(to *kind.Corrected, owner *infer.Structure) {
	to.All = to.All || owner.MayHaveMore()
	children := owner.Fields["children"]
	if children == nil {
		return
	}
	s := b.Gather(children.Parts)
	to.All = to.All || len(s.Others) > 0
	bodies := make([][]infer.Part, 0, len(s.Order)+len(s.Dynamic))
	for _, name := range s.Order {
		bodies = append(bodies, s.Fields[name].Parts)
		to.Names[name] = true
	}
	to.Computed = to.Computed || len(s.Dynamic) > 0
	for _, d := range s.Dynamic {
		bodies = append(bodies, []infer.Part{d.Value})
	}
	for _, parts := range bodies {
		if len(parts) == 1 { // an if around the whole child is none around its fields
			parts = slices.Clone(parts)
			parts[0].Conditional, parts[0].Conditions = false, nil
		}
		body := b.Gather(parts)
		// An update in an if may be another, or the default, for some objects.
		if update, ok := body.Text("update"); ok && body.Fields["update"].Certain &&
			kind.UpdatePolicy(update) != kind.Apply {
			continue
		}
		gvk := apischema.GroupVersionKind{}
		if template := body.Fields["template"]; template != nil {
			t := b.Gather(template.Parts)
			apiVersion, _ := t.Text("apiVersion")
			name, _ := t.Text("kind")
			gvk = apischema.FromAPIVersionAndKind(apiVersion, name)
		}
		if gvk.Version == "" || gvk.Kind == "" {
			to.All = true
		}
		to.Types[gvk] = true
	}
}
