package schema

import (
	"fmt"
	"slices"

	"github.com/fescue-dev/fescue/cue/kind/place"
)

// Loose is a default that is not what it seems.
type Loose struct {
	// Field is where it is, as in Enforcement.
	Field    string
	Position place.Position
	Default  any
	// Rule is a rule of the other values that does not hold for the default, or Depends on another field; empty if
	// Other is another default, so that there is none.
	Rule    string
	Depends bool
	Other   any
}

// LooseDefaults lists numbers that are a default beside a bound that need not hold for them, and values with two
// defaults. 0 and -1 are left out, which stand for none or for all beside such a bound.
func LooseDefaults(s *Schema) (found []Loose) {
	eachField("", s, func(path string, f *Field) {
		if loose := looseDefault(f.Schema); loose != nil {
			loose.Field, loose.Position = path, f.Schema.Position
			found = append(found, *loose)
		}
	})
	return found
}

// looseDefault returns what is wrong with the default of a schema; nil if nothing is.
func looseDefault(s *Schema) *Loose {
	var marked []any
	for _, a := range s.Alternatives {
		if a.Default && a.isLiteral() {
			marked = append(marked, a.Enum.Values...)
		}
	}
	if len(marked) > 1 {
		return &Loose{Default: marked[0], Other: marked[1]}
	}
	if len(marked) == 0 || TypeOf(marked[0])&Number == 0 ||
		slices.Contains([]string{"0", "-1"}, fmt.Sprint(marked[0])) {
		return nil
	}
	for _, a := range s.Alternatives {
		if rule, depends := a.unlike(marked[0]); rule != "" && !a.Default {
			return &Loose{Default: marked[0], Rule: rule, Depends: depends}
		}
	}
	return nil
}

// unlike returns a bound that does not hold for a number, or depends on another field; "" if there is none.
func (s *Schema) unlike(number any) (rule string, depends bool) {
	switch {
	case !s.isLeaf() || s.Types&TypeOf(number) == 0 || s.Enum != nil:
	case s.Min != nil && !(&Schema{Types: Number, Min: s.Min}).Fits(number):
		return s.Min.Text, false
	case s.Max != nil && !(&Schema{Types: Number, Max: s.Max}).Fits(number):
		return s.Max.Text, false
	case len(s.Relations) > 0:
		return s.Relations[0].Text, true
	}
	return "", false
}
