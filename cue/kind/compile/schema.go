package compile

import (
	"errors"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind/binding"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/place"
	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// Schema compiles #X from its syntax, because evaluated values no longer show which
// constraints they came from. A construct that a schema cannot express is an error, so
// nothing is dropped silently.
func Schema(name string, instance *build.Instance) (*schema.Schema, error) {
	c := newCompiler()
	at := scope{compiler: c, instance: instance}
	fields := c.FieldsOf(instance)["#"+name]
	if len(fields) == 0 {
		return nil, syntax.ErrorAtPosition(mistake.NestedDefinition, place.Position{},
			"#%s must be a definition at the top of its file", name)
	}
	compiled, err := at.reference(fields[0], "#"+name)
	if err != nil {
		return nil, err
	}
	if compiled.Types != schema.Struct || compiled.Struct == nil {
		return nil, syntax.ErrorAtNode(mistake.UnsupportedCUE, fields[0], "#%s must be a struct", name)
	}
	compiled.Doc = describe(fields[0])
	for _, self := range append(c.read, compiled) {
		schema.Prepare(self)
	}
	if err := compiled.Check(); err != nil {
		if impossible, ok := errors.AsType[*schema.ImpossibleError](err); ok {
			return nil, syntax.ErrorAtPosition(mistake.ConflictingValues, impossible.Position, "%s", impossible.Text)
		}
		return nil, err
	}
	return compiled, nil
}

// compiler holds the state shared while one kind is read.
type compiler struct {
	binding.TopLevels
	following map[definition]followed // those being read, to notice one that contains itself
	read      []*schema.Schema        // definitions, for references to them from within
	// values of fields being read for a reference, to notice one that refers to itself
	reading map[ast.Expr]bool
	groups  int // definitions that were closed
}

func newCompiler() *compiler {
	return &compiler{
		following: make(map[definition]followed), reading: make(map[ast.Expr]bool),
		TopLevels: make(binding.TopLevels),
	}
}

// followed is a definition that is being read.
type followed struct {
	compiled *schema.Schema
	guards   int // of the place that refers to it
}

// definition is a definition of a package.
type definition struct {
	instance *build.Instance
	name     string
}

// scope describes the place of an expression.
type scope struct {
	*compiler
	instance *build.Instance
	frames   []frame // the struct literals around it
	depth    int     // how many structs of the object are around its value
	guards   int     // how many values around it are optional: a definition may contain itself below one
	embedded bool    // it is embedded: definitions do not close the struct
	orType   bool    // it is the default of a disjunction that also has a type of CUE's own
}

// frame is a struct literal around an expression.
type frame struct {
	literal *ast.StructLit
	depth   int
}

// expression reads one expression.
func (s scope) expression(expr ast.Expr) (*schema.Schema, error) {
	switch e := expr.(type) {
	case *ast.ParenExpr:
		return s.expression(e.X)
	case *ast.StructLit:
		return s.structLiteral(e)
	case *ast.ListLit:
		return s.listLiteral(e)
	case *ast.BasicLit:
		return s.constant(e)
	case *ast.Ident:
		return s.identifier(e)
	case *ast.SelectorExpr:
		return s.selector(e)
	case *ast.CallExpr:
		return s.call(e)
	case *ast.UnaryExpr:
		return s.unary(e)
	case *ast.BottomLit:
		return schema.Impossible(syntax.PositionOf(e), "nothing satisfies _|_"), nil
	case *ast.BinaryExpr:
		switch e.Op {
		case token.AND:
			return s.conjunction(e)
		case token.OR:
			return s.disjunction(e)
		}
	}
	return nil, s.unsupported(expr, syntax.SourceOf(expr))
}

// unsupported returns the error for a construct that a schema cannot express.
func (s scope) unsupported(node ast.Node, what string) error {
	return syntax.ErrorAtNode(mistake.UnsupportedCUE, node,
		"%s cannot be compiled: write it with literals, definitions, bounds, & and |", what)
}

func (s scope) conjunction(e *ast.BinaryExpr) (*schema.Schema, error) {
	a, err := s.expression(e.X)
	if err != nil {
		return nil, err
	}
	b, err := s.expression(e.Y)
	if err != nil {
		return nil, err
	}
	return possible(schema.And(a, b), e)
}

// possible rejects a contradictory combination.
func possible(compiled *schema.Schema, at ast.Node) (*schema.Schema, error) {
	if compiled.Impossible != nil {
		return nil, syntax.ErrorAtNode(mistake.ConflictingValues, at, "%s", compiled.Impossible.Text)
	}
	return compiled, nil
}

// disjunction reads a | b, where * marks defaults.
func (s scope) disjunction(e *ast.BinaryExpr) (*schema.Schema, error) {
	var alternatives []schema.Alternative
	var list *schema.Literal
	for _, branch := range syntax.Flatten(e) {
		marked := false
		if unary, ok := branch.(*ast.UnaryExpr); ok && unary.Op == token.MUL {
			branch, marked = unary.X, true
		}
		if value, err := syntax.LiteralValue(branch); err == nil && marked && schema.TypeOf(value) == schema.List {
			if list != nil {
				return nil,
					syntax.ErrorAtNode(mistake.UnsupportedCUE, branch,
						"a disjunction can have only one list as its default")
			}
			list = &schema.Literal{Rule: ruleAt(branch), Value: value}
			continue
		}
		if fixed, ok := branch.(*ast.ListLit); ok && marked && len(fixed.Elts) > 0 && !isOpenList(fixed) {
			return nil, syntax.ErrorAtNode(mistake.UnsupportedCUE, branch,
				"a list as default can have only literals, and no structs: make the field optional, and give it its default in the behaviour, as in *object.spec.list | %s", syntax.SourceOf(branch))
		}
		inner := s
		inner.orType = marked && slices.ContainsFunc(syntax.Flatten(e), isType)
		compiled, err := inner.expression(branch)
		if err != nil {
			return nil, err
		}
		alternatives = append(alternatives, schema.Alternative{Schema: compiled, Default: marked})
	}
	if list != nil {
		return withListDefault(alternatives, list, e)
	}
	compiled := *schema.Or(syntax.PositionOf(e), alternatives)
	if compiled.TypeRule == nil {
		compiled.TypeRule = ruleAt(e)
	}
	return &compiled, nil
}

// isOpenList reports whether a list is [...] or may have more items than those written out.
func isOpenList(e *ast.ListLit) bool {
	_, isOpen := e.Elts[len(e.Elts)-1].(*ast.Ellipsis)
	return isOpen
}

// isType reports whether an expression is one of CUE's own types.
func isType(e ast.Expr) bool {
	ident, ok := e.(*ast.Ident)
	return ok && binding.Of(ident).Kind == binding.Unbound && predeclared(ident) != nil
}

// withListDefault reads *[…] | [...T].
func withListDefault(others []schema.Alternative, list *schema.Literal, at ast.Node) (*schema.Schema, error) {
	if len(others) != 1 || others[0].Types != schema.List || others[0].Schema.Default != nil {
		return nil, syntax.ErrorAtNode(mistake.UnsupportedCUE, at, "a list as default needs one other alternative, [...T]")
	}
	if !others[0].Fits(list.Value) {
		return nil, syntax.ErrorAtNode(mistake.ConflictingValues, at, "the default %s does not satisfy the other alternative", list.Text)
	}
	compiled := *others[0].Schema
	compiled.Default = list
	return &compiled, nil
}

func (s scope) constant(e ast.Expr) (*schema.Schema, error) {
	value, err := syntax.LiteralValue(e)
	if err != nil {
		return nil, err
	}
	return schema.Constant(value, ruleAt(e)), nil
}

func (s scope) listLiteral(e *ast.ListLit) (*schema.Schema, error) {
	list := &schema.Schema{Position: syntax.PositionOf(e), Types: schema.List, TypeRule: ruleAt(e)}
	if len(e.Elts) == 0 {
		list.Size.Max = &schema.Limit{Rule: ruleAt(e), N: 0}
		return list, nil
	}
	ellipsis, isOpen := e.Elts[len(e.Elts)-1].(*ast.Ellipsis)
	first := e.Elts
	if isOpen {
		first = e.Elts[:len(e.Elts)-1]
	}
	if slices.ContainsFunc(first, func(item ast.Expr) bool { return !isTop(item) }) || len(first) > 0 && isOpen &&
		ellipsis.Type != nil {
		return nil, syntax.ErrorAtNode(mistake.UnsupportedCUE, e, "a list of fixed items cannot be compiled: write [...T], with list.MinItems and list.MaxItems")
	}
	limit := &schema.Limit{Rule: ruleAt(e), N: int64(len(first))}
	if len(first) > 0 {
		list.Size.Min = limit
	}
	if !isOpen {
		list.Size.Max = limit
		return list, nil
	}
	if ellipsis.Type == nil {
		return list, nil
	}
	s.guards++
	items, err := s.expression(ellipsis.Type)
	list.Items = items
	return list, err
}

// isTop reports whether an expression is _, which any value satisfies.
func isTop(e ast.Expr) bool {
	ident, ok := e.(*ast.Ident)
	return ok && ident.Name == "_"
}

// identifier reads a predeclared type, a definition of the package, or a reference to
// another field of the object.
func (s scope) identifier(e *ast.Ident) (*schema.Schema, error) {
	switch b := binding.Of(e); b.Kind {
	case binding.Unbound, binding.Top:
		if fields := s.FieldsOf(s.instance)[e.Name]; len(fields) > 0 {
			return s.reference(e, e.Name)
		}
		if basic := predeclared(e); basic != nil {
			return basic, nil
		}
		if e.Name == "bytes" || e.Name == "__bytes" {
			return nil, syntax.ErrorAtNode(mistake.UnsupportedCUE, e, "%s", syntax.NoBytes)
		}
		return nil, syntax.ErrorAtNode(mistake.UnresolvedReference, e, "reference %q not found", e.Name)
	case binding.Let:
		return s.named(e, b.Expr)
	case binding.Field:
		if isLocal(e.Name) {
			var compiled *schema.Schema
			for _, f := range b.Fields(e.Name) {
				declared, err := s.named(e, f.Value)
				if err != nil {
					return nil, err
				}
				if compiled == nil {
					compiled = declared
				} else if compiled, err = possible(schema.And(compiled, declared), f); err != nil {
					return nil, err
				}
			}
			if s.embedded || !strings.HasPrefix(e.Name, "#") {
				return compiled, nil
			}
			s.groups++
			return schema.Close(compiled, s.groups), nil
		}
		return s.sibling(e, b.Expr)
	}
	return nil, s.unsupported(e, "a reference to "+e.Name)
}

// named reads what a name within the struct refers to.
func (s scope) named(e *ast.Ident, target ast.Expr) (*schema.Schema, error) {
	switch {
	case !s.reading[target]:
		s.reading[target] = true
		defer delete(s.reading, target)
		return s.expression(target)
	case isLocal(e.Name):
		return nil, syntax.ErrorAtNode(mistake.NestedDefinition, e, "%s contains itself: move it to the top of its file", e.Name)
	case predeclared(e) != nil:
		return nil, syntax.ErrorAtNode(mistake.SelfReference, e, "%s is the field of this name, which refers to itself: write __%s for CUE's own type", e.Name, e.Name)
	}
	return nil, syntax.ErrorAtNode(mistake.SelfReference, e, "%s refers to itself", e.Name)
}

// sibling reads a reference to a field of the object: the two have to be equal.
func (s scope) sibling(e *ast.Ident, target ast.Expr) (*schema.Schema, error) {
	expr, err := s.objectExpr(e)
	if err != nil {
		return nil, err
	}
	compiled, err := s.named(e, target)
	if err != nil {
		return nil, err
	}
	if compiled.Types&(schema.List|schema.Struct) != 0 || len(compiled.Alternatives) > 0 || compiled.Reference != nil {
		return nil, s.unsupported(e, "a reference to "+e.Name+", which is not a scalar,")
	}
	if compiled.HasDefault() && !s.orType {
		// Until an object sets the field, CUE takes it for all its possible values, so the
		// two would be equal only then.
		return nil, syntax.ErrorAtNode(mistake.UnsupportedCUE, e, "%s has a default, and a reference to it does not make the two equal: write *%s | T, with the type T", e.Name, e.Name)
	}
	return &schema.Schema{
		Position: syntax.PositionOf(e), Types: compiled.Types, TypeRule: ruleAt(e),
		Relations: []schema.Relation{{Rule: ruleAt(e), Op: "==", Expr: expr}},
	}, nil
}

// reference reads a top-level field of the package: a definition, or a value that it
// gives a name.
func (s scope) reference(at ast.Node, name string) (*schema.Schema, error) {
	key := definition{s.instance, name}
	if self, ok := s.following[key]; ok {
		if s.guards == self.guards {
			return nil,
				syntax.ErrorAtNode(mistake.SelfReference, at,
					"%s contains itself in every value, without end: refer to it only in an optional or required field, or in a list", name)
		}
		return &schema.Schema{Position: syntax.PositionOf(at), Types: schema.AnyType, Reference: self.compiled}, nil
	}
	fields := s.FieldsOf(s.instance)[name]
	if len(fields) == 0 {
		return nil, syntax.ErrorAtNode(mistake.NestedDefinition, at, "%s is not a definition at the top of a file of its package", name)
	}
	self := new(schema.Schema)
	s.following[key] = followed{self, s.guards}
	defer delete(s.following, key)
	inner := scope{compiler: s.compiler, instance: s.instance, depth: s.depth, guards: s.guards, embedded: s.embedded}
	var compiled *schema.Schema
	for _, f := range fields {
		declared, err := inner.expression(f.Value)
		if err != nil {
			return nil, err
		}
		if compiled == nil {
			compiled = declared
			continue
		}
		if compiled, err = possible(schema.And(compiled, declared), f); err != nil {
			return nil, err
		}
	}
	if strings.HasPrefix(name, "#") && !s.embedded {
		s.groups++
		compiled = schema.Close(compiled, s.groups)
	}
	documented := *compiled
	if documented.Doc == "" {
		documented.Doc = describeDefinition(fields)
	}
	*self = documented
	s.read = append(s.read, self)
	return &documented, nil
}

// selector reads a definition of another package, a validator of CUE's standard
// library, or a reference to a field of the object.
func (s scope) selector(e *ast.SelectorExpr) (*schema.Schema, error) {
	path, name := binding.Selected(e)
	switch {
	case name == "":
		return nil, s.unsupported(e, "this reference")
	case path == "":
		return s.within(e, name)
	}
	if check, ok := namedChecks[path+"."+name]; ok {
		return check(ruleAt(e)), nil
	}
	if imported := binding.Imported(s.instance, path); imported != nil {
		inner := scope{compiler: s.compiler, instance: imported, depth: s.depth, guards: s.guards, embedded: s.embedded}
		return inner.reference(e, name)
	}
	return nil, s.unsupported(e, syntax.SourceOf(e))
}

// within reads a selection from a struct of the kind: of a definition, like
// #A.#B or #A.field, or of the object itself.
func (s scope) within(e *ast.SelectorExpr, name string) (*schema.Schema, error) {
	if expr, err := s.objectExpr(e); err == nil {
		return &schema.Schema{
			Position: syntax.PositionOf(e), Types: schema.AnyType &^ (schema.List | schema.Struct), TypeRule: ruleAt(e),
			Relations: []schema.Relation{{Rule: ruleAt(e), Op: "==", Expr: expr}},
		}, nil
	}
	if strings.HasPrefix(name, "#") {
		return nil, syntax.ErrorAtNode(mistake.NestedDefinition, e, "%s is a definition within another: move it to the top of its file", syntax.SourceOf(e))
	}
	outer, err := s.expression(e.X)
	if err != nil {
		return nil, err
	}
	if outer.Struct != nil {
		switch f := outer.Struct.Field(name); {
		case f == nil:
		case f.Presence != schema.Regular: // CUE takes such a field for one that is missing
			return nil,
				syntax.ErrorAtNode(mistake.UnsupportedCUE, e,
					"%s is a required or an optional field, from which CUE cannot select: make its value a definition",
					syntax.SourceOf(e))
		default:
			return f.Schema, nil
		}
	}
	return nil, s.unsupported(e, "a reference to "+name)
}

// describe returns the comment above a field, as one paragraph. The # of a definition's name
// is left out: it means nothing in a CRD.
func describe(f *ast.Field) string {
	var words []string
	for _, group := range ast.Comments(f) {
		if group.Doc {
			words = append(words, strings.Fields(group.Text())...)
		}
	}
	return strings.TrimPrefix(strings.Join(words, " "), "#")
}

// describeDefinition returns the comment of a definition. If it is declared several times,
// the longest comment is returned, because the other declarations only add to it.
func describeDefinition(fields []*ast.Field) string {
	return describe(slices.MaxFunc(fields, func(a, b *ast.Field) int { return len(describe(a)) - len(describe(b)) }))
}

// frameOf finds the struct literal of the object that a reference leads into.
func (s scope) frameOf(e *ast.Ident) (frame, bool) {
	i := slices.IndexFunc(s.frames, func(f frame) bool { return f.literal == binding.Of(e).Struct })
	if i < 0 {
		return frame{}, false
	}
	return s.frames[i], true
}
