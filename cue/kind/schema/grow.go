package schema

import (
	"fmt"
	"slices"
)

const (
	// grownItems is how many items a list is grown to at most.
	grownItems = 1000
	// triedGrowths is how many fields are grown at most.
	triedGrowths = 50
	// grownNumber is the highest number that counts as a limit: those of int32 and the like are none.
	grownNumber = 1_000_000
)

// Grow raises the numbers and the lists of an object, which it changes, to the limits of their schemas, as far as the
// object still fits. It returns the fields it raised, as in "spec.replicas: 100" and "100 spec.groups". It raises no
// field in skip: it sets such a number to its minimum, and leaves such a list alone.
func Grow(s *Schema, object map[string]any, skip map[string]bool, fits func() bool) []string {
	g := growth{fits: fits, skip: skip}
	g.fields(s, object, "")
	return g.raised
}

type growth struct {
	fits   func() bool
	skip   map[string]bool
	raised []string
	tried  int
}

// fields grows those of a struct.
func (g *growth) fields(s *Schema, object map[string]any, path string) {
	if s.Struct == nil {
		return
	}
	for _, f := range s.Struct.Fields {
		at := joined(path, f.Name)
		switch value := object[f.Name].(type) {
		case map[string]any:
			for _, one := range alternativesOf(f.Schema) {
				g.fields(one, value, at)
			}
		case []any:
			g.list(f.Schema, object, f.Name, at)
		case int64, nil:
			g.number(f.Schema, object, f.Name, at)
		}
	}
}

// number raises a number, or sets it if it is absent.
func (g *growth) number(s *Schema, object map[string]any, name, path string) {
	for _, one := range alternativesOf(s) {
		if one.Types&Int == 0 || one.Max == nil || one.Enum != nil || float(one.Max.Value) > grownNumber {
			continue
		}
		most := int64(float(one.Max.Value))
		what := fmt.Sprintf("%s: %d", path, most)
		if !g.skip[what] {
			g.try(object, name, most, what)
		} else if one.Min != nil {
			g.try(object, name, int64(float(one.Min.Value)), "")
		}
	}
}

// list grows the first item of a list, and has the list consist of as many of it as it may have.
func (g *growth) list(s *Schema, object map[string]any, name, path string) {
	items, _ := object[name].([]any)
	for _, one := range alternativesOf(s) {
		if one.Size.Max == nil || one.Size.Max.N > grownItems || len(items) == 0 {
			continue
		}
		if item, ok := items[0].(map[string]any); ok && one.Items != nil {
			for _, inner := range alternativesOf(one.Items) {
				g.fields(inner, item, path+"[*]")
			}
		}
		if n := int(one.Size.Max.N); n > len(items) &&
			g.try(object, name, slices.Repeat(items[:1], n), fmt.Sprintf("%d %s", n, path)) {
			return
		}
	}
}

// try sets a field, and reports whether the object still fits; if not, the field is as before.
func (g *growth) try(object map[string]any, name string, value any, what string) bool {
	if g.tried++; g.tried > triedGrowths || g.skip[what] {
		return false
	}
	before, wasSet := object[name]
	object[name] = value
	if g.fits() {
		if what != "" {
			g.raised = append(g.raised, what)
		}
		return true
	}
	if object[name] = before; !wasSet {
		delete(object, name)
	}
	return false
}

// alternativesOf returns the schemas of which a value satisfies one; none of a schema that contains itself here.
func alternativesOf(s *Schema) (all []*Schema) {
	if s.Reference != nil {
		return nil
	}
	for _, a := range s.Alternatives {
		all = append(all, alternativesOf(a.Schema)...)
	}
	if len(s.Alternatives) > 0 {
		return all
	}
	return []*Schema{s}
}
