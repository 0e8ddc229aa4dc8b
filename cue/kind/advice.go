package kind

import (
	"fmt"
	"strings"

	"github.com/fescue-dev/fescue/cue/kind/schema"
)

// Advice is something that the author of a kind should know, but not an error.
type Advice struct {
	// Field is the field in question, and Position its place in CUE.
	Field    string
	Position schema.Position
	Text     string
}

// Advice lists the fields that the CUE evaluator has to check, and those that can grow
// without limit, except those of the library.
func (v *Version) Advice() []Advice {
	var all []Advice
	for _, e := range v.Enforcement() {
		if e.Evaluated {
			all = append(all, Advice{e.Field, e.Position, fmt.Sprintf(
				"is checked by the CUE evaluator, so objects of the kind can have at most %d values", evaluatorLimits.values)})
		}
	}
	for _, u := range schema.Unboundeds(v.schema) {
		if !isLibrary(u.Position.File) && !strings.HasPrefix(u.Field, "metadata") {
			all = append(all, Advice{u.Field, u.Position, "has no " + u.Missing + ": it can grow until the object is too large, and the API server accepts few CEL rules for it"})
		}
	}
	return all
}
