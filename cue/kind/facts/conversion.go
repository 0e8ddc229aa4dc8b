package facts

import (
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/infer"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// Conversion reads the conversion of a version. Without types, nothing is known of the object of either version.
func Conversion(
	k *kind.Kind, pkg *syntax.Package, v *kind.Version, definition string, known *types.Catalog,
) *infer.Reader {
	given := make(infer.Names)
	for name, of := range map[string]*kind.Version{behaviour.ObjectName: v, kind.StoredName: k.Version} {
		object := infer.Value{Type: types.Unknown, Path: name, Owner: of.GroupVersionKind.Version}
		if known != nil {
			object.Type = known.FromRootSchema(of.Schema)
		}
		given[name] = object
	}
	r := infer.New(pkg.Instance, definition, k.LoadName())
	r.Give(given)
	r.Forget()
	return r
}

// StatedBy returns which fields a struct states.
func StatedBy(s *infer.Structure) *kind.Stated {
	if len(s.Literals) == 0 || len(s.Others) > 0 || len(s.Dynamic) > 0 {
		return &kind.Stated{Whole: true}
	}
	by := &kind.Stated{Fields: make(map[string]*kind.Stated)}
	for _, name := range s.Order {
		if !s.Fields[name].Constraint {
			by.Fields[name] = StatedBy(s.In(name))
		}
	}
	return by
}
