package infer

import (
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"

	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/binding"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// selector infers x.name.
func (r *Reader) selector(p Part, e *ast.SelectorExpr) Value {
	path, name := binding.Selected(e)
	switch imported := binding.Imported(p.In, path); {
	case name == "" || path != "" && imported == nil:
		return Unknown
	case path == "":
		return r.field(p, e, r.Infer(p.With(e.X)), name)
	default:
		next := p
		next.In, next.At = imported, p.Node()
		return r.reference(p, e, r.TopLevel(next, name))
	}
}

// field infers a field of a value.
func (r *Reader) field(p Part, e ast.Expr, x Value, name string) Value {
	if len(x.Alternatives) > 0 {
		return r.fieldOfAlternatives(p, e, x, name)
	}
	if len(x.Parts) > 0 {
		return r.fieldOfParts(p, e, x, name)
	}
	path := x.Path + "." + name
	if x.Path != "" {
		r.given.Select(p, e, path)
	}
	if x.Type.Values&types.Object == 0 {
		if x.Path != "" || x.Type.Values != types.Any && !x.IsType {
			r.Report(mistake.NotAStruct, p.Node(), "%s: %s is %s and has no fields", syntax.SourceOf(e),
				strings.TrimSuffix(syntax.SourceOf(e), "."+name), Article(x.Kinds()))
		}
		return Unknown
	}
	field := x.Type.Field(name)
	names := append(slices.Clone(x.Names), name)
	switch {
	case field == nil && x.Owner != "":
		r.Report(mistake.UnknownField, p.Node(), "%s: %s has no field %s%s", path, x.Owner, strings.Join(names, "."),
			DidYouMean(name, x.Type))
		return Unknown
	case field == nil:
		if x.Members != "" {
			r.Report(mistake.UnknownChild, p.Node(), "%s: the kind has no %s %s%s", path, x.Members, name,
				strings.Replace(DidYouMean(name, x.Type), "its fields", "its children", 1))
		}
		return Unknown
	}
	if x.Path == "" {
		return Value{Type: field, Owner: x.Owner, Names: names}
	}
	return r.given.Field(p, e, x, name, Value{Type: field, Path: path, Owner: x.Owner, Names: names})
}

// fieldOfAlternatives infers a field of those alternatives that have it. If none has, that is a
// mistake.
func (r *Reader) fieldOfAlternatives(p Part, e ast.Expr, x Value, name string) Value {
	mistakes, found := r.Mistakes, r.found
	var having []Value
	for _, a := range x.Alternatives {
		r.Mistakes, r.found = nil, make(map[string]bool)
		if v := r.field(p, e, a, name); len(r.Mistakes) == 0 {
			having = append(having, v)
		}
	}
	r.Mistakes, r.found = mistakes, found
	if len(having) == 0 {
		return r.field(p, e, x.Alternatives[0], name)
	}
	return oneOf(having)
}

func (r *Reader) fieldOfParts(p Part, e ast.Expr, x Value, name string) Value {
	if _, isList := x.Parts[0].Expr.(*ast.ListLit); isList {
		if !x.IsType {
			r.Report(mistake.NotAStruct, p.Node(), "%s: a list has no fields", syntax.SourceOf(e))
		}
		return Unknown
	}
	s := r.Gather(x.Parts)
	m := s.Fields[name]
	switch {
	case m != nil:
		return r.reference(p, e, m.Together())
	case len(s.Others) == 1 && len(s.Fields) == 0:
		return r.field(p, e, r.Infer(s.Others[0]), name)
	case len(s.Others) > 0 || s.Open || r.tolerant > 0 || !s.IsStruct || r.own[s.Literals[0]]:
		return Unknown
	}
	r.Report(mistake.UnknownField, p.Node(), "%s: undefined field: %s has no field %s%s", syntax.SourceOf(e),
		strings.TrimSuffix(syntax.SourceOf(e), "."+name), name, DidYouMean(name, typeOfStructure(s)))
	return Unknown
}

// typeOfStructure returns a type with the names of the fields alone.
func typeOfStructure(s *Structure) *types.Type {
	t := &types.Type{Values: types.Object, Fields: make(map[string]*types.Type)}
	for name := range s.Fields {
		t.Fields[name] = types.Unknown
	}
	return t
}

// index infers x[i].
func (r *Reader) index(p Part, e *ast.IndexExpr) Value {
	if list, ok := e.X.(*ast.ListLit); ok { // [if c {a}, b][0]
		var result Value
		items := r.Items(p, list)
		for _, item := range items {
			item.Conditional = item.Conditional || len(items) > 1
			v := r.Infer(Unembedded(item))
			if len(v.Parts) > 0 && len(v.Alternatives) == 0 {
				v.Type = types.Of(v.Type.Values)
			}
			result.Alternatives = append(result.Alternatives, v)
		}
		r.Infer(p.With(e.Index))
		if result.Type = types.Unknown; len(result.Alternatives) == 0 {
			return Unknown
		}
		return result
	}
	x, i := r.Infer(p.With(e.X)), r.Infer(p.With(e.Index))
	if name, ok := i.Literal.(string); ok {
		return r.field(p, e, x, name)
	}
	n, isNumber := i.Literal.(int64)
	switch kinds := x.Kinds(); {
	case len(x.Alternatives) > 0:
		return Unknown
	case len(x.Parts) > 0:
		return r.itemOfParts(p, e, x, n, isNumber)
	case kinds&(types.List|types.Object) == 0:
		r.Report(mistake.NotAList, p.Node(), "%s: %s is %s, not a list", syntax.SourceOf(e), syntax.SourceOf(e.X),
			Article(kinds))
		return Unknown
	case kinds == types.List:
		if i.Kinds()&types.Integer == 0 {
			r.Report(mistake.WrongOperand, p.Node(), "%s: an index must be an int, not %s", syntax.SourceOf(e),
				i.Describe(e.Index))
		}
		if isNumber && n >= x.Type.MinItems && strings.HasPrefix(x.Path, behaviour.ObjectName+".") && !r.IsTolerant() &&
			!p.IsGuarded(e.X) {
			r.Report(mistake.ShortList, p.Node(),
				"%s: the list may have fewer items: test it first, as in if len(%s) > %d, or write list.MinItems(%d) in the schema",
				syntax.SourceOf(e), syntax.SourceOf(e.X), n, n+1)
		}
		return Value{Type: x.Type.Item(), Path: x.Path + "[" + syntax.SourceOf(e.Index) + "]", Owner: x.Owner,
			Names: appendIndex(x.Names)}
	case x.Type.Others != nil:
		return Value{Type: x.Type.Others, Path: x.Path + "[" + syntax.SourceOf(e.Index) + "]", Owner: x.Owner,
			Names: x.Names}
	}
	return Unknown
}

// appendIndex marks in names that an item of a list is meant.
func appendIndex(names []string) []string {
	if len(names) == 0 {
		return names
	}
	names = slices.Clone(names)
	names[len(names)-1] += "[]"
	return names
}

func (r *Reader) itemOfParts(p Part, e *ast.IndexExpr, x Value, n int64, isNumber bool) Value {
	list, ok := x.Parts[0].Expr.(*ast.ListLit)
	if !ok || !isNumber || len(x.Parts) != 1 {
		return Unknown
	}
	items := 0
	for _, element := range list.Elts {
		switch element.(type) {
		case *ast.Comprehension, *ast.Ellipsis:
			return Unknown
		}
		items++
	}
	if n >= int64(items) {
		r.Report(mistake.ShortList, p.Node(), "%s: the list has %d items, and the first has the index 0",
			syntax.SourceOf(e), items)
		return Unknown
	}
	return r.Infer(x.Parts[0].With(list.Elts[n]))
}

// elements infers the key and the elements of what a loop is over.
func (r *Reader) elements(p Part, onlyItems bool) (key, item Value) {
	x := r.Infer(p)
	kinds := x.Kinds()
	child, isObserved := strings.CutPrefix(x.Path, behaviour.ObservedName+".")
	switch {
	case onlyItems && isObserved && x.Owner != "" && kinds == types.Object && !strings.Contains(child, "."):
		r.Report(mistake.NotAList, p.Node(), "%s is one object, and a for gives its fields: read it without a for",
			syntax.SourceOf(p.Expr))
		return Unknown, Unknown
	case kinds&(types.List|types.Object) == 0:
		r.Report(mistake.NotAList, p.Node(), "%s is %s: a for needs a list or a struct", syntax.SourceOf(p.Expr),
			Article(kinds))
		return Unknown, Unknown
	case kinds&types.Object == 0:
		key = of(types.Integer)
	case kinds&types.List == 0:
		key = r.keys(p, x)
	default:
		key = Unknown
	}
	if item = r.elementOf(x); item.Type == nil { // there are none
		item = Unknown
	}
	return key, item
}

// keys infers the names of the fields of what a loop is over: one of those that are written, if others cannot be added
// elsewhere, as to a struct at the top of a file.
func (r *Reader) keys(p Part, x Value) Value {
	switch e := p.Expr.(type) {
	case *ast.StructLit:
	case *ast.Ident:
		switch binding.Of(e).Kind {
		case binding.Top, binding.Unbound, binding.Let:
		default:
			return of(types.String)
		}
	default:
		return of(types.String)
	}
	s := r.Gather(x.Parts)
	if len(s.Order) == 0 || len(s.Order) > maxElements || s.IsOpen() {
		return of(types.String)
	}
	var names []Value
	for _, name := range s.Order {
		if !s.Fields[name].Constraint {
			names = append(names, literalOf(name))
		}
	}
	if len(names) == 0 {
		return of(types.String)
	}
	return oneOf(names)
}

// elementOf infers the elements of a list or a struct.
func (r *Reader) elementOf(x Value) Value {
	switch {
	case len(x.Alternatives) > 0:
		var result Value
		for _, a := range x.Alternatives {
			if v := r.elementOf(a); v.Type != nil {
				result.Alternatives = append(result.Alternatives, v)
			}
		}
		return oneOf(result.Alternatives)
	case len(x.Parts) > 0:
		return r.elementOfParts(x)
	case x.Type.Values&types.List != 0:
		return Value{Type: x.Type.Item(), Path: x.Path + "[]", Owner: x.Owner, Names: appendIndex(x.Names)}
	case x.Type.Others != nil && len(x.Type.Fields) == 0:
		return Value{Type: x.Type.Others, Path: x.Path + "[]", Owner: x.Owner, Names: appendIndex(x.Names)}
	}
	return Unknown
}

// maxElements bounds how many elements of a list in CUE are looked at for the type of all.
const maxElements = 50

func (r *Reader) elementOfParts(x Value) Value {
	var elements []Value
	for _, p := range x.Parts {
		switch e := p.Expr.(type) {
		case *ast.ListLit:
			for _, item := range r.Items(p, e) {
				elements = append(elements, r.Infer(Unembedded(item)))
			}
		case *ast.StructLit:
			s := r.Gather([]Part{p})
			if len(s.Others) > 0 || s.Open && len(s.Dynamic) == 0 {
				return Unknown
			}
			for _, name := range s.Order {
				elements = append(elements, r.Unified(s.Fields[name].Parts))
			}
			for _, d := range s.Dynamic {
				elements = append(elements, r.Infer(d.Value))
			}
		default:
			return Unknown
		}
	}
	if len(elements) > maxElements {
		return Unknown
	}
	return oneOf(elements)
}
