package check

import (
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"

	"github.com/fescue-dev/fescue/cue/kind/infer"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// declaration checks what a behaviour declares of its children.
func (c *Checker) declaration(parts []infer.Part) {
	declared := c.Gather(parts)
	for _, name := range declared.Order {
		c.closed(declared.Fields[name].Parts, "observed."+name)
		child, ok := c.Children[name]
		if !ok || !child.known {
			continue
		}
		t := child.T
		if child.set {
			t = &types.Type{Values: types.List, Items: t}
		}
		c.declared(declared.Fields[name].Parts, t, "observed."+name, child.gvk.Kind, nil)
	}
}

// closed reports a struct that a declaration closes, because it stands in a definition: an object that has any other
// field does not fit it.
func (f *fitter) closed(parts []infer.Part, path string) {
	if items := restOf(parts); len(items) > 0 {
		f.closed(items, path+"[]")
		return
	}
	s := f.Gather(parts)
	if s.IsStruct && !s.IsOpen() {
		f.Report(mistake.ClosedObserved, parts[0].Node(),
			"%s: is closed, so an object with any other field stalls the object of the kind: write observed: _, or ... at the end of each struct", path)
		return
	}
	for _, name := range s.Order {
		f.closed(s.Fields[name].Parts, path+"."+name)
	}
}

// restOf returns what lists like [...T] allow as their items.
func restOf(parts []infer.Part) (items []infer.Part) {
	for _, p := range parts {
		list, ok := p.Expr.(*ast.ListLit)
		if !ok {
			continue
		}
		for _, element := range list.Elts {
			if rest, ok := element.(*ast.Ellipsis); ok && rest.Type != nil {
				items = append(items, p.With(rest.Type))
			}
		}
	}
	return items
}

// declared checks that a declaration names fields that exist.
func (f *fitter) declared(parts []infer.Part, t *types.Type, path, owner string, within []string) {
	if items := restOf(parts); len(items) > 0 {
		f.declared(items, t.Item(), path+"[]", owner, within)
	}
	s := f.Gather(parts)
	for _, name := range s.Order {
		field := t.Field(name)
		names := append(slices.Clone(within), name)
		if field == nil {
			f.Report(mistake.UnknownField, s.Fields[name].Node, "%s.%s: %s has no field %s%s", path, name, owner,
				strings.Join(names, "."), infer.DidYouMean(name, t))
			continue
		}
		f.declared(s.Fields[name].Parts, field, path+"."+name, owner, names)
	}
}
