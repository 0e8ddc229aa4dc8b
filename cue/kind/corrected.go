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

// Has reports whether children of a type may have the update policy Apply, so that all their
// fields are compared with their templates.
func (c *Corrected) Has(gvk apischema.GroupVersionKind) bool {
	return c.All || c.Types[gvk]
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

// Paths returns the paths of all that is read, as ObservedPaths does for children.
func (r *Read) Paths() [][]string {
	if r.Whole {
		return [][]string{{}}
	}
	return r.leaves(nil, nil)
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
