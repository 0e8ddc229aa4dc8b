package kind

import (
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/internal/parts"
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

// ReadOfChildren returns what the controller may read of its children and of the members of its sets, whichever child
// it is.
func (k *Kind) ReadOfChildren() *parts.Set {
	observed := k.Reads.Observed
	if observed.Whole {
		return observed
	}
	read := observed.Elements // as of a loop over all
	if read != nil && len(k.Sets) > 0 {
		read = read.Union(read.Elements)
	}
	for name, child := range observed.Fields {
		if !k.Corrected.Names[name] && !k.Corrected.Computed && !k.Corrected.All {
			continue // it is looked up, and not a child
		}
		if _, isSet := k.Sets[name]; isSet && !child.Whole {
			child = child.Elements
		}
		read = read.Union(child)
	}
	return read
}
