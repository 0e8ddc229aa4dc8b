package kind

import (
	"slices"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"
)

// Corrected are the types of the children that may have the update policy Apply: those whose fields
// are compared with their templates.
type Corrected struct {
	All   bool
	Types map[apischema.GroupVersionKind]bool
	// Names are those of all children, unless All is set or some are Computed.
	Names    map[string]bool
	Computed bool
}

// corrected finds the types by the source of a kind. What it does not understand counts as Apply.
func (c *checker) corrected() Corrected {
	found := Corrected{Types: make(map[apischema.GroupVersionKind]bool), Names: make(map[string]bool)}
	c.addCorrected(&found, c.controller)
	if phases := c.controller.fields["phases"]; phases != nil {
		s := c.gather(phases.parts)
		found.All = found.All || s.mayHaveMore()
		for _, name := range s.order {
			c.addCorrected(&found, c.gather(s.fields[name].parts))
		}
	}
	found.All = found.All || c.gaveUp
	return found
}

func (c *checker) addCorrected(to *Corrected, owner *structure) {
	to.All = to.All || owner.mayHaveMore()
	children := owner.fields["children"]
	if children == nil {
		return
	}
	s := c.gather(children.parts)
	to.All = to.All || len(s.others) > 0
	bodies := make([][]part, 0, len(s.order)+len(s.dynamic))
	for _, name := range s.order {
		bodies = append(bodies, s.fields[name].parts)
		to.Names[name] = true
	}
	to.Computed = to.Computed || len(s.dynamic) > 0
	for _, d := range s.dynamic {
		bodies = append(bodies, []part{d.value})
	}
	for _, parts := range bodies {
		if len(parts) == 1 { // an if around the whole child is none around its fields
			parts = slices.Clone(parts)
			parts[0].conditional, parts[0].conditions = false, nil
		}
		body := c.gather(parts)
		// An update in an if may be another, or the default, for some objects.
		if update, ok := c.constantOf(body, "update"); ok && body.fields["update"].certain && UpdatePolicy(update) != Apply {
			continue
		}
		gvk := apischema.GroupVersionKind{}
		if template := body.fields["template"]; template != nil {
			t := c.gather(template.parts)
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

// IsCorrected reports whether children of a type may have the update policy Apply, so that all their
// fields are compared with their templates.
func (k *Kind) IsCorrected(gvk apischema.GroupVersionKind) bool {
	return k.Corrected.All || k.Corrected.Types[gvk]
}

// ObservedPaths returns the paths of what the controller may read of its children and of the members
// of its sets, whichever child it is. In a path, "*" stands for each element of a list or each field of a
// struct. The empty path is a child as a whole.
func (k *Kind) ObservedPaths() (paths [][]string) {
	observed := k.Reads.Observed
	if observed.Whole {
		return [][]string{{}}
	}
	if observed.Elements != nil {
		paths = observed.Elements.leaves(nil, paths)
	}
	for name, read := range observed.Fields {
		if !k.Corrected.Names[name] && !k.Corrected.Computed && !k.Corrected.All {
			continue // it is a child of another kind of the package
		}
		if _, isSet := k.Sets[name]; !isSet || read.Whole {
			paths = read.leaves(nil, paths)
		} else if read.Elements != nil {
			paths = read.Elements.leaves(nil, paths)
		}
	}
	return paths
}

// leaves appends the paths of all that is read.
func (r *Read) leaves(path []string, to [][]string) [][]string {
	if r.Whole {
		return append(to, path)
	}
	below := func(name string) []string { return append(slices.Clip(path), name) }
	if r.Elements != nil {
		to = r.Elements.leaves(below("*"), to)
	}
	for name, read := range r.Fields {
		to = read.leaves(below(name), to)
	}
	if r.Elements == nil && len(r.Fields) == 0 && len(path) > 0 {
		to = append(to, path) // whether it exists
	}
	return to
}
