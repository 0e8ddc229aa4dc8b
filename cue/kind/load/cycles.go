package load

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/literal"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// leads is one step from a type to that of a child, by a kind of the type or a decorator of it.
type leads struct {
	by    *kind.Kind
	child kind.ChildFacts
	to    apischema.GroupKind
}

// steps returns where the children of behaviours lead.
func steps(behaviours []*kind.Kind) map[apischema.GroupKind][]leads {
	from := make(map[apischema.GroupKind][]leads)
	for _, k := range behaviours {
		of := k.GroupVersionKind.GroupKind()
		for _, child := range k.Behaviour.Children {
			gv, err := apischema.ParseGroupVersion(child.APIVersion)
			if child.Kind == "" || err != nil {
				continue
			}
			from[of] = append(from[of], leads{k, child, apischema.GroupKind{Group: gv.Group, Kind: child.Kind}})
		}
	}
	return from
}

// mayEnd reports whether something can keep the child from being created: an if, a when, a number of members that may
// be 0, a phase that need not be reached, a decorator that selects, or a name that only one object can have.
func (l leads) mayEnd() bool {
	c := l.child
	_, err := literal.Unquote(c.ObjectName)
	isOneObject := err == nil
	members, err := strconv.Atoi(c.Replicas)
	mayBeNone := c.Replicas != "" && (err != nil || members == 0)
	mayWait := c.When != "" && c.When != "true"
	selects := l.by.Target != nil && (l.by.Target.Annotation != "" || !l.by.Target.Selector.Empty())
	return c.Conditional || mayWait || mayBeNone || isOneObject || selects || c.Phase != "" && c.Phase != l.by.Initial
}

// leadsBack returns the steps by which the children of a behaviour that is about to be added lead back to its type; nil
// if they do not. It prefers steps of which none may end.
func (c *Kinds) leadsBack(k *kind.Kind) (path []leads, endless bool) {
	from := steps(append(c.Behaviours(), k))
	start := k.GroupVersionKind.GroupKind()
	find := func(allowed func(leads) bool) []leads {
		seen := make(map[apischema.GroupKind]bool)
		var follow func(at apischema.GroupKind, path []leads) []leads
		follow = func(at apischema.GroupKind, path []leads) []leads {
			for _, step := range from[at] {
				switch {
				case !allowed(step) || len(path) == 0 && step.by != k:
				case step.to == start && step.by == k && k.Target != nil && len(path) == 0:
					// a decorator leaves its own children alone
					for _, other := range from[start] {
						if other.by != k && other.to == start && allowed(other) {
							return []leads{step, other}
						}
					}
				case step.to == start:
					return append(slices.Clip(path), step)
				case !seen[step.to]:
					seen[step.to] = true
					if found := follow(step.to, append(slices.Clip(path), step)); found != nil {
						return found
					}
				}
			}
			return nil
		}
		return follow(start, nil)
	}
	if path = find(func(l leads) bool { return !l.mayEnd() }); path != nil {
		return path, true
	}
	return find(func(leads) bool { return true }), false
}

// cycle returns the mistake of a behaviour whose children lead back to its type without end, and advises where
// something may end that, and where it reads what it may have created.
func (c *Kinds) cycle(k *kind.Kind) *syntax.LoadError {
	for _, l := range k.Lookups {
		isOfType := func(owned apischema.GroupVersionKind) bool { return owned.GroupKind() == l.Type.GroupKind() }
		if l.IsSelection && slices.ContainsFunc(k.Owns, isOfType) {
			k.Advice = append(k.Advice, kind.Advice{Check: mistake.SelectsOwnChildren, Field: "reads." + l.Name,
				Position: l.Position, Text: fmt.Sprintf(
					"reads.%s: selects objects of a type that the kind creates, %s: see that the selector leaves those out, or that what is created does not grow with them", l.Name, l.Type.Kind)})
		}
	}
	path, endless := c.leadsBack(k)
	if path == nil {
		return nil
	}
	names := []string{k.GroupVersionKind.Kind}
	for _, step := range path {
		names = append(names, step.to.Kind)
	}
	first := path[0].child
	field, chain := strings.TrimSuffix("children."+first.Name, "."), strings.Join(names, " → ")
	if endless {
		return &syntax.LoadError{Check: mistake.EndlessChildren, Kind: k.LoadName(), File: first.Position.File,
			Line: first.Position.Line,
			Reason: fmt.Sprintf(
				"%s: its objects create objects without end, %s: put an if around one of these children", field, chain)}
	}
	k.Advice = append(k.Advice, kind.Advice{Check: mistake.EndlessChildren, Field: field, Position: first.Position,
		Text: fmt.Sprintf(
			"%s: its objects can create objects that lead back to themselves, %s: see that an if, a when or a selector ends that for all objects", field, chain)})
	return nil
}
