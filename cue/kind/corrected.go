package kind

import (
	"slices"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"
)

// corrected are the types of the children that may have the update policy Apply: those whose fields
// are compared with their templates.
type corrected struct {
	all   bool
	types map[apischema.GroupVersionKind]bool
	// names are those of all children, unless all is set or some are computed.
	names    map[string]bool
	computed bool
}

// corrected finds the types by the source of a kind. What it does not understand counts as Apply.
func (c *checker) corrected() corrected {
	found := corrected{types: make(map[apischema.GroupVersionKind]bool), names: make(map[string]bool)}
	c.addCorrected(&found, c.controller)
	if phases := c.controller.fields["phases"]; phases != nil {
		s := c.gather(phases.parts)
		found.all = found.all || s.mayHaveMore()
		for _, name := range s.order {
			c.addCorrected(&found, c.gather(s.fields[name].parts))
		}
	}
	found.all = found.all || c.gaveUp
	return found
}

func (c *checker) addCorrected(to *corrected, owner *structure) {
	to.all = to.all || owner.mayHaveMore()
	children := owner.fields["children"]
	if children == nil {
		return
	}
	s := c.gather(children.parts)
	to.all = to.all || len(s.others) > 0
	bodies := make([][]part, 0, len(s.order)+len(s.dynamic))
	for _, name := range s.order {
		bodies = append(bodies, s.fields[name].parts)
		to.names[name] = true
	}
	to.computed = to.computed || len(s.dynamic) > 0
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
			to.all = true
		}
		to.types[gvk] = true
	}
}

// IsCorrected reports whether children of a type may have the update policy Apply, so that all their
// fields are compared with their templates.
func (k *Kind) IsCorrected(gvk apischema.GroupVersionKind) bool {
	return k.corrected.all || k.corrected.types[gvk]
}

// ObservedPaths returns the paths of what the controller may read of its children and of the members
// of its sets, whichever child it is. In a path, "*" stands for each element of a list or each field of a
// struct. The empty path is a child as a whole.
func (k *Kind) ObservedPaths() (paths [][]string) {
	observed := k.reads.observed
	if observed.whole {
		return [][]string{{}}
	}
	if observed.elements != nil {
		paths = observed.elements.leaves(nil, paths)
	}
	for name, read := range observed.fields {
		if !k.corrected.names[name] && !k.corrected.computed && !k.corrected.all {
			continue // it is a child of another kind of the package
		}
		if _, isSet := k.Sets[name]; !isSet || read.whole {
			paths = read.leaves(nil, paths)
		} else if read.elements != nil {
			paths = read.elements.leaves(nil, paths)
		}
	}
	return paths
}

// leaves appends the paths of all that is read.
func (r *reads) leaves(path []string, to [][]string) [][]string {
	if r.whole {
		return append(to, path)
	}
	below := func(name string) []string { return append(slices.Clip(path), name) }
	if r.elements != nil {
		to = r.elements.leaves(below("*"), to)
	}
	for name, read := range r.fields {
		to = read.leaves(below(name), to)
	}
	if r.elements == nil && len(r.fields) == 0 && len(path) > 0 {
		to = append(to, path) // whether it exists
	}
	return to
}
