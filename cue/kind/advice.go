package kind

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/place"
	"github.com/fescue-dev/fescue/cue/kind/schema"
)

// Advice is something that the author of a kind should know, but not an error.
type Advice struct {
	// Check is what found it.
	Check mistake.Check
	// Field is the field in question, the first if there are several, and Position its place in
	// CUE.
	Field    string
	Position place.Position
	// Text is a sentence.
	Text string
}

// maxUnbounded is how many fields UnboundedAdvice names.
const maxUnbounded = 8

// UnboundedAdvice is one advice on all fields that can grow without limit; it is nil if there
// are none. The status is left out, which users do not write, and so is the library.
func (v *Version) UnboundedAdvice() *Advice {
	found := slices.DeleteFunc(schema.Unboundeds(v.Compiled), func(u schema.Unbounded) bool {
		root, _, _ := strings.Cut(u.Field, ".")
		return place.IsLibrary(u.Position.File) || root == "metadata" || root == "status"
	})
	if len(found) == 0 {
		return nil
	}
	var fields []string
	for _, u := range found[:min(len(found), maxUnbounded)] {
		fields = append(fields, u.Field+" ("+u.Missing+")")
	}
	list := strings.Join(fields, ", ")
	if more := len(found) - len(fields); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return &Advice{mistake.NoUpperLimit, found[0].Field, found[0].Position, "no upper limit for " + list +
		": objects can grow until they are too large, and the API server accepts few CEL rules"}
}

// FixedAdvice is advice on the fields of the spec that users can set to nothing but a single value, which is how other
// languages write a default. It leaves out fields that name a type, as those of a reference do.
func (v *Version) FixedAdvice() (found []Advice) {
	for _, fixed := range schema.FixedFields(v.Compiled) {
		name := fixed.Field[strings.LastIndex(fixed.Field, ".")+1:]
		isMarked := strings.Contains(fixed.Value, " | ") // as in *"a" | "a", which may get other values one day
		if isOfSpec(fixed.Field, fixed.Position) && !isMarked && !slices.Contains(typeFields, name) {
			found = append(found, Advice{mistake.FixedValue, fixed.Field, fixed.Position, fmt.Sprintf(
				"%s: users cannot set anything but %s: write *%[2]s | %s for a default", fixed.Field, fixed.Value,
				fixed.Type)})
		}
	}
	return found
}

// DefaultAdvice is advice on the defaults of the spec that are not what they seem.
func (v *Version) DefaultAdvice() (found []Advice) {
	for _, loose := range schema.LooseDefaults(v.Compiled) {
		if !isOfSpec(loose.Field, loose.Position) {
			continue
		}
		var text string
		switch {
		case loose.Rule == "":
			text = fmt.Sprintf("%v and %v are both marked as the default, so there is none: mark one", loose.Default,
				loose.Other)
		case loose.Depends:
			text = fmt.Sprintf("the default %v need not be %s, since & binds tighter than |: write (*%[1]v | T) & %[2]s, "+
				"with the type T", loose.Default, loose.Rule)
		default:
			text = fmt.Sprintf("the default %v is not %s, which the other values have to be", loose.Default, loose.Rule)
		}
		found = append(found, Advice{mistake.LooseDefault, loose.Field, loose.Position, loose.Field + ": " + text})
	}
	return found
}

// isOfSpec reports whether a field is one of the spec that the author has written, and no library.
func isOfSpec(field string, at place.Position) bool {
	root, _, _ := strings.Cut(field, ".")
	return root == "spec" && !place.IsLibrary(at.File)
}

// typeFields are fields by which a reference names a type.
var typeFields = []string{"apiVersion", "apiGroup", "kind"}

// Grow makes a valid object as large as the schema allows (schema.Grow).
func (v *Version) Grow(object map[string]any, skip map[string]bool, fits func() bool) (raised []string) {
	return schema.Grow(v.Compiled, object, skip, fits)
}
