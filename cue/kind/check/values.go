package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// Value is what is known of the value of an expression.
type Value struct {
	// t is its type, if it is not written in CUE.
	t *types.Type
	// parts are what a struct or a list consists of that is written in CUE.
	parts []Part
	// literal is the value of a scalar that is known: a string, an int64, a float64 or a bool.
	literal any
	// path is where it is read from, as in object.spec.text; owner has the fields at names.
	path, owner string
	names       []string
	// isType means that the source describes values, such as string, instead of being one.
	isType bool
	// alternatives are the values that it is one of.
	alternatives []Value
}

var unknownValue = Value{t: types.Unknown}

func of(v types.Values) Value { return Value{t: types.Of(v)} }

func literalOf(v any) Value {
	result := Value{literal: v}
	switch v.(type) {
	case string:
		result.t = types.Of(types.String)
	case int64:
		result.t = types.Of(types.Integer)
	case float64:
		result.t = types.Of(types.Number)
	case bool:
		result.t = types.Of(types.Boolean)
	default:
		return of(types.Null)
	}
	return result
}

// Kinds are the kinds of values that it may be.
func (v Value) Kinds() types.Values {
	if len(v.alternatives) > 0 {
		var all types.Values
		for _, a := range v.alternatives {
			all |= a.Kinds()
		}
		return all
	}
	return v.t.Values
}

// describe returns what a mistake calls a value: its source and its type.
func (v Value) describe(e ast.Expr) string {
	switch e.(type) {
	case *ast.StructLit:
		return "a struct"
	case *ast.ListLit:
		return "a list"
	}
	return fmt.Sprintf("%s (%s)", syntax.SourceOf(e), v.Kinds())
}

// article names kinds of values with their article.
func article(v types.Values) string {
	switch text := v.String(); {
	case v == types.Any || strings.HasPrefix(text, "null"):
		return text
	case text == "int":
		return "an int"
	default:
		return "a " + text
	}
}

// infer finds out what an expression can be, and reports what is wrong within it.
func (c *Checker) infer(p Part) Value {
	if c.exhausted() {
		return unknownValue
	}
	c.depth++
	defer func() { c.depth-- }()
	switch e := p.expr.(type) {
	case *ast.ParenExpr:
		return c.infer(p.with(e.X))
	case *ast.BasicLit:
		v, err := syntax.LiteralValue(e)
		if err != nil {
			return unknownValue
		}
		return literalOf(v)
	case *ast.BottomLit:
		return unknownValue
	case *ast.Interpolation:
		return c.interpolation(p, e)
	case *ast.StructLit:
		return Value{t: types.Of(types.Object), parts: []Part{p}}
	case *ast.ListLit:
		return Value{t: types.Of(types.List), parts: []Part{p}}
	case *ast.Ident:
		return c.identifier(p, e)
	case *ast.SelectorExpr:
		return c.selector(p, e)
	case *ast.IndexExpr:
		return c.index(p, e)
	case *ast.SliceExpr:
		return c.infer(p.with(e.X))
	case *ast.UnaryExpr:
		return c.unary(p, e)
	case *ast.BinaryExpr:
		return c.binary(p, e)
	case *ast.CallExpr:
		return c.call(p, e)
	}
	return unknownValue
}

// visit reports what is wrong within an expression and all that it contains.
func (c *Checker) visit(p Part) {
	if c.exhausted() {
		return
	}
	c.depth++
	defer func() { c.depth-- }()
	switch e := p.expr.(type) {
	case *ast.StructLit:
		s := c.Gather([]Part{p})
		for _, name := range s.Order {
			for _, inner := range s.Fields[name].Parts {
				c.visit(inner)
			}
		}
		for _, d := range s.dynamic {
			c.label(d)
			c.visit(d.value)
		}
	case *ast.ListLit:
		for _, item := range c.items(p, e) {
			c.visit(item)
		}
	default:
		c.infer(p)
	}
}

// items returns the elements of a list, those of comprehensions once.
func (c *Checker) items(p Part, e *ast.ListLit) (items []Part) {
	for _, element := range e.Elts {
		switch element := element.(type) {
		case *ast.Ellipsis:
		case *ast.Comprehension:
			c.within(p, element.Clauses, func(inner Part) { items = append(items, inner.with(element.Value)) })
		default:
			items = append(items, p.with(element))
		}
	}
	return items
}

// unembed returns what a struct that only embeds one value stands for, as in [if c {x}].
func unembed(p Part) Part {
	for {
		s, ok := p.expr.(*ast.StructLit)
		if !ok || len(s.Elts) != 1 {
			return p
		}
		embedded, ok := s.Elts[0].(*ast.EmbedDecl)
		if !ok {
			return p
		}
		p = p.with(embedded.Expr)
	}
}

func (c *Checker) interpolation(p Part, e *ast.Interpolation) Value {
	for i, element := range e.Elts {
		if i%2 == 0 { // a piece of text
			continue
		}
		inner := c.infer(p.with(element))
		if inner.Kinds()&^(types.Object|types.List|types.Null) == 0 {
			c.report(p.with(element).node(), "a string cannot contain %s", inner.describe(element))
		}
	}
	return of(types.String)
}

// identifier infers what a name stands for.
func (c *Checker) identifier(p Part, e *ast.Ident) Value {
	if v, ok := c.variables[e.Node]; ok && e.Node != nil {
		return v
	}
	switch target := e.Node.(type) {
	case nil:
		if fields := c.topLevel(p, e.Name); len(fields) > 0 {
			return c.reference(p, e, fields)
		}
		return typeNamed(e.Name)
	case *ast.ImportSpec:
		return unknownValue
	case *ast.LetClause:
		return c.reference(p, e, []Part{p.with(target.Expr)})
	case *ast.Alias:
		return c.reference(p, e, []Part{p.with(target.Expr)})
	case *ast.Field:
		return c.reference(p, e, []Part{p.with(target.Value)})
	}
	if c.own[e.Scope] {
		if v, ok := c.root(e.Name); ok {
			switch v.path {
			case behaviour.ObservedName:
				c.readsBeyond(p, e, behaviour.ObservedName)
			case behaviour.IndexName:
				c.numbered++
				if c.checked != "" && !c.isNumbered() {
					c.report(p.node(), "%s: only the template of an ordered set can read index", c.checked)
				}
			}
			return v
		}
	}
	var fields []Part
	switch around := e.Scope.(type) {
	case *ast.StructLit:
		for _, declaration := range around.Elts {
			if f, ok := declaration.(*ast.Field); ok {
				if name, _, err := ast.LabelName(f.Label); err == nil && name == e.Name {
					next := p.with(f.Value)
					next.constraint = f.Constraint != token.ILLEGAL
					fields = append(fields, next)
				}
			}
		}
		if c.own[around] && c.Controller != nil && c.Controller.Fields[e.Name] != nil {
			fields = c.Controller.Fields[e.Name].Parts // other conjuncts may add to it
		}
	case *ast.File:
		fields = c.topLevel(p, e.Name)
	}
	if len(fields) == 0 {
		if expr, ok := e.Node.(ast.Expr); ok {
			fields = []Part{p.with(expr)}
		}
	}
	return c.reference(p, e, fields)
}

// root returns what the contract gives a behaviour.
func (c *Checker) root(name string) (Value, bool) {
	if c.given != nil {
		v, ok := c.given[name]
		return v, ok
	}
	switch name {
	case behaviour.ObjectName:
		return Value{t: c.Object, path: behaviour.ObjectName, owner: c.kind.ObjectTitle()}, true
	case behaviour.ObservedName:
		fields := make(map[string]*types.Type)
		for name, child := range c.Children {
			fields[name] = child.T
			if child.set {
				fields[name] = &types.Type{Values: types.List, Items: child.T}
			}
		}
		if declared := c.Controller.Fields[behaviour.ObservedName]; declared != nil {
			for _, name := range c.Gather(declared.Parts).Order {
				if fields[name] == nil {
					fields[name] = types.Unknown
				}
			}
		}
		t := &types.Type{Values: types.Object, Fields: fields}
		if c.moreChildren {
			t.Others = types.Unknown
		}
		return Value{t: t, path: behaviour.ObservedName}, true
	case behaviour.IndexName:
		return Value{t: types.Of(types.Integer), path: behaviour.IndexName}, true
	}
	return Value{}, false
}

// isNumbered reports whether the template of an ordered set is checked.
func (c *Checker) isNumbered() bool {
	return c.waiting != nil && c.kind.Sets[c.waiting.name].Ordered && strings.HasPrefix(c.checked, c.waiting.path+".template")
}

// reference infers what the parts of a field stand for together.
func (c *Checker) reference(p Part, e ast.Expr, fields []Part) Value {
	if c.reading[e] || len(fields) == 0 {
		return unknownValue
	}
	c.reading[e] = true
	defer delete(c.reading, e)
	for i := range fields {
		fields[i].conditions = ifs(p.conditions, fields[i].conditions...)
		if fields[i].at == nil && p.at != nil {
			fields[i].at = p.at
		}
	}
	if len(fields) == 1 {
		return c.resolved(fields[0])
	}
	return c.Unified(fields)
}

// resolved infers one part; what only describes a value has no value.
func (c *Checker) resolved(p Part) Value {
	v := c.infer(p)
	if p.constraint {
		v.literal, v.isType = nil, true
	}
	return v
}

// Unified infers what several parts are together.
func (c *Checker) Unified(parts []Part) Value {
	result := Value{t: types.Unknown, isType: true}
	var choices []Part // may have fields as well
	for _, p := range parts {
		v := c.resolved(p)
		if len(v.alternatives) > 0 && len(result.parts) == 0 {
			choices = append(choices, p)
		}
		switch {
		case v.literal != nil:
			return v
		case len(v.parts) > 0:
			if len(result.parts) > 0 {
				choices = nil // they are in it
			}
			result.parts = slices.Concat(result.parts, v.parts, choices)
			result.t, result.isType = v.t, false
		case len(result.parts) > 0:
			result.parts = append(result.parts, p)
		case result.t == types.Unknown:
			result.t, result.alternatives, result.isType = v.t, v.alternatives, v.isType
			result.path, result.owner, result.names = v.path, v.owner, v.names
		case len(v.alternatives) == 0 && v.t.Values != types.Any && v.t.Values&result.t.Values != 0 && result.t.Fields == nil:
			result.t = v.t
		}
	}
	return result
}

// typeNamed returns one of CUE's own types.
func typeNamed(name string) Value {
	var v Value
	switch name = strings.TrimPrefix(name, "__"); name {
	case "string":
		v = of(types.String)
	case "bool":
		v = of(types.Boolean)
	case "number":
		v = of(types.Integer | types.Number)
	case "float", "float32", "float64":
		v = of(types.Number)
	case "null":
		return of(types.Null)
	default:
		if v = unknownValue; behaviour.TypeNamed(name) == behaviour.Int {
			v = of(types.Integer)
		}
	}
	v.isType = true
	return v
}

// selector infers x.name.
func (c *Checker) selector(p Part, e *ast.SelectorExpr) Value {
	name, _, err := ast.LabelName(e.Sel)
	if err != nil {
		return unknownValue
	}
	if _, path := syntax.ImportedPackage(e); path != "" {
		if imported, definition := syntax.ImportedDefinition(p.in, e); imported != nil {
			next := p
			next.in, next.at = imported, p.node()
			return c.reference(p, e, c.topLevel(next, definition))
		}
		if i := slices.IndexFunc(p.in.Imports, func(in *build.Instance) bool { return syntax.IsPackage(in, path) }); i >= 0 {
			next := p
			next.in, next.at = p.in.Imports[i], p.node()
			return c.reference(p, e, c.topLevel(next, name))
		}
		return unknownValue
	}
	return c.field(p, e, c.infer(p.with(e.X)), name)
}

// field infers a field of a value.
func (c *Checker) field(p Part, e ast.Expr, x Value, name string) Value {
	if len(x.alternatives) > 0 {
		return c.fieldOfAlternatives(p, e, x, name)
	}
	if len(x.parts) > 0 {
		return c.fieldOfParts(p, e, x, name)
	}
	path := x.path + "." + name
	if !c.kind.IsReadable(path) {
		c.readsBeyond(p, e, path)
	}
	if x.t.Values&types.Object == 0 {
		if x.path != "" || x.t.Values != types.Any && !x.isType {
			c.report(p.node(), "%s: %s is %s and has no fields", syntax.SourceOf(e), strings.TrimSuffix(syntax.SourceOf(e), "."+name), article(x.Kinds()))
		}
		return unknownValue
	}
	field := x.t.Field(name)
	names := append(slices.Clone(x.names), name)
	switch {
	case field == nil && x.owner != "":
		c.report(p.node(), "%s: %s has no field %s%s", path, x.owner, strings.Join(names, "."), didYouMean(name, x.t))
		return unknownValue
	case field == nil:
		if x.path == behaviour.ObservedName {
			c.report(p.node(), "%s: the kind has no child%s %s%s", path, c.orRead(), name, strings.Replace(didYouMean(name, x.t), "its fields", "its children", 1))
		}
		return unknownValue
	}
	c.read(p, e, x, name)
	c.exposed(p, x, name)
	result := Value{t: field, path: path, owner: x.owner, names: names}
	if x.path == behaviour.ObservedName { // its fields are those of a child
		result.names, result.owner = nil, c.Children[name].gvk.Kind
		if !c.Children[name].known {
			result.owner = ""
		}
	}
	if x.path == "" {
		result.path = ""
	}
	return result
}

// fieldOfAlternatives infers a field of those alternatives that have it. If none has, that is a
// mistake.
func (c *Checker) fieldOfAlternatives(p Part, e ast.Expr, x Value, name string) Value {
	mistakes, found := c.Mistakes, c.found
	var having []Value
	for _, a := range x.alternatives {
		c.Mistakes, c.found = nil, make(map[string]bool)
		if v := c.field(p, e, a, name); len(c.Mistakes) == 0 {
			having = append(having, v)
		}
	}
	c.Mistakes, c.found = mistakes, found
	if len(having) == 0 {
		return c.field(p, e, x.alternatives[0], name)
	}
	return oneOf(having)
}

func (c *Checker) fieldOfParts(p Part, e ast.Expr, x Value, name string) Value {
	if _, isList := x.parts[0].expr.(*ast.ListLit); isList {
		if !x.isType {
			c.report(p.node(), "%s: a list has no fields", syntax.SourceOf(e))
		}
		return unknownValue
	}
	s := c.Gather(x.parts)
	m := s.Fields[name]
	switch {
	case m != nil:
		return c.reference(p, e, slices.Clone(m.Parts))
	case len(s.others) == 1 && len(s.Fields) == 0:
		return c.field(p, e, c.infer(s.others[0]), name)
	case len(s.others) > 0 || s.open || c.tolerant > 0 || !s.isStruct || c.own[s.literals[0]]:
		return unknownValue
	}
	c.report(p.node(), "%s: undefined field: %s has no field %s%s", syntax.SourceOf(e), strings.TrimSuffix(syntax.SourceOf(e), "."+name), name, didYouMean(name, typeOfStructure(s)))
	return unknownValue
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
func (c *Checker) index(p Part, e *ast.IndexExpr) Value {
	if list, ok := e.X.(*ast.ListLit); ok { // [if c {a}, b][0]
		var result Value
		for _, item := range c.items(p, list) {
			v := c.infer(unembed(item))
			if len(v.parts) > 0 && len(v.alternatives) == 0 {
				v.t = types.Of(v.t.Values)
			}
			result.alternatives = append(result.alternatives, v)
		}
		c.infer(p.with(e.Index))
		if result.t = types.Unknown; len(result.alternatives) == 0 {
			return unknownValue
		}
		return result
	}
	x, i := c.infer(p.with(e.X)), c.infer(p.with(e.Index))
	if name, ok := i.literal.(string); ok {
		return c.field(p, e, x, name)
	}
	n, isNumber := i.literal.(int64)
	switch kinds := x.Kinds(); {
	case len(x.alternatives) > 0:
		return unknownValue
	case len(x.parts) > 0:
		return c.itemOfParts(p, e, x, n, isNumber)
	case kinds&(types.List|types.Object) == 0:
		c.report(p.node(), "%s: %s is %s, not a list", syntax.SourceOf(e), syntax.SourceOf(e.X), article(kinds))
		return unknownValue
	case kinds == types.List:
		if i.Kinds()&types.Integer == 0 {
			c.report(p.node(), "%s: an index must be an int, not %s", syntax.SourceOf(e), i.describe(e.Index))
		}
		if isNumber && n >= x.t.MinItems && strings.HasPrefix(x.path, behaviour.ObjectName+".") && !c.isGuarded(p, e.X) {
			c.report(p.node(), "%s: the list may have fewer items: test it first, as in if len(%s) > %d, or write list.MinItems(%d) in the schema",
				syntax.SourceOf(e), syntax.SourceOf(e.X), n, n+1)
		}
		return Value{t: x.t.Item(), path: x.path + "[" + syntax.SourceOf(e.Index) + "]", owner: x.owner, names: appendIndex(x.names)}
	case x.t.Others != nil:
		return Value{t: x.t.Others, path: x.path + "[" + syntax.SourceOf(e.Index) + "]", owner: x.owner, names: x.names}
	}
	return unknownValue
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

func (c *Checker) itemOfParts(p Part, e *ast.IndexExpr, x Value, n int64, isNumber bool) Value {
	list, ok := x.parts[0].expr.(*ast.ListLit)
	if !ok || !isNumber || len(x.parts) != 1 {
		return unknownValue
	}
	items := 0
	for _, element := range list.Elts {
		switch element.(type) {
		case *ast.Comprehension, *ast.Ellipsis:
			return unknownValue
		}
		items++
	}
	if n >= int64(items) {
		c.report(p.node(), "%s: the list has %d items, and the first has the index 0", syntax.SourceOf(e), items)
		return unknownValue
	}
	return c.infer(x.parts[0].with(list.Elts[n]))
}

// elements infers the key and the elements of what a loop is over.
func (c *Checker) elements(p Part) (key, item Value) {
	x := c.infer(p)
	kinds := x.Kinds()
	switch {
	case kinds&(types.List|types.Object) == 0:
		c.report(p.node(), "%s is %s: a for needs a list or a struct", syntax.SourceOf(p.expr), article(kinds))
		return unknownValue, unknownValue
	case kinds&types.Object == 0:
		key = of(types.Integer)
	case kinds&types.List == 0:
		key = c.keys(p, x)
	default:
		key = unknownValue
	}
	if item = c.elementOf(x); item.t == nil { // there are none
		item = unknownValue
	}
	return key, item
}

// keys infers the names of the fields of what a loop is over: one of those that are written, if others cannot be added
// elsewhere, as to a struct at the top of a file.
func (c *Checker) keys(p Part, x Value) Value {
	switch e := p.expr.(type) {
	case *ast.StructLit:
	case *ast.Ident:
		if _, isAtTop := e.Scope.(*ast.File); !isAtTop && e.Node != nil {
			return of(types.String)
		}
	default:
		return of(types.String)
	}
	s := c.Gather(x.parts)
	if len(s.Order) == 0 || len(s.Order) > maxElements || s.isOpen() {
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
func (c *Checker) elementOf(x Value) Value {
	switch {
	case len(x.alternatives) > 0:
		var result Value
		for _, a := range x.alternatives {
			if v := c.elementOf(a); v.t != nil {
				result.alternatives = append(result.alternatives, v)
			}
		}
		return oneOf(result.alternatives)
	case len(x.parts) > 0:
		return c.elementOfParts(x)
	case x.t.Values&types.List != 0:
		return Value{t: x.t.Item(), path: x.path + "[]", owner: x.owner, names: appendIndex(x.names)}
	case x.t.Others != nil && len(x.t.Fields) == 0:
		return Value{t: x.t.Others, path: x.path + "[]", owner: x.owner, names: appendIndex(x.names)}
	}
	return unknownValue
}

// oneOf returns a value that is one of some; of nothing, it has no type.
func oneOf(alternatives []Value) Value {
	switch len(alternatives) {
	case 0:
		return Value{}
	case 1:
		return alternatives[0]
	}
	return Value{t: types.Unknown, alternatives: alternatives}
}

// maxElements bounds how many elements of a list in CUE are looked at for the type of all.
const maxElements = 50

func (c *Checker) elementOfParts(x Value) Value {
	var elements []Value
	for _, p := range x.parts {
		switch e := p.expr.(type) {
		case *ast.ListLit:
			for _, item := range c.items(p, e) {
				elements = append(elements, c.infer(unembed(item)))
			}
		case *ast.StructLit:
			s := c.Gather([]Part{p})
			if len(s.others) > 0 || s.open && len(s.dynamic) == 0 {
				return unknownValue
			}
			for _, name := range s.Order {
				elements = append(elements, c.Unified(s.Fields[name].Parts))
			}
			for _, d := range s.dynamic {
				elements = append(elements, c.infer(d.value))
			}
		default:
			return unknownValue
		}
	}
	if len(elements) > maxElements {
		return unknownValue
	}
	return oneOf(elements)
}

func (c *Checker) unary(p Part, e *ast.UnaryExpr) Value {
	x := c.infer(p.with(e.X))
	switch e.Op {
	case token.NOT:
		c.must(p.with(e.X), x, types.Boolean, "!")
		return of(types.Boolean)
	case token.MUL:
		return x
	case token.SUB, token.ADD:
		if v, err := syntax.LiteralValue(e); err == nil {
			return literalOf(v)
		}
		return Value{t: types.Of(x.Kinds())}
	case token.MAT, token.NMAT:
		return Value{t: types.Of(types.String), isType: true}
	case token.NEQ:
		return Value{t: types.Unknown, isType: true}
	}
	return Value{t: types.Of(x.Kinds()), isType: true} // a bound
}

// must reports an operand that cannot be of the kinds that an operator needs.
func (c *Checker) must(p Part, v Value, needed types.Values, what string) {
	if v.Kinds()&needed == 0 {
		c.report(p.node(), "%s needs %s, not %s", what, article(needed), v.describe(p.expr))
	}
}

// condition checks that an expression can be a bool.
func (c *Checker) condition(p Part) {
	if v := c.infer(p); v.Kinds()&types.Boolean == 0 {
		c.report(p.node(), "a condition must be a bool, not %s", v.describe(p.expr))
	}
}

func (c *Checker) binary(p Part, e *ast.BinaryExpr) Value {
	switch e.Op {
	case token.AND:
		return c.conjunction(p, e)
	case token.OR:
		return c.disjunction(p, e)
	case token.EQL, token.NEQ:
		return c.comparison(p, e)
	case token.LAND, token.LOR:
		c.condition(p.with(e.X))
		inner := p
		if e.Op == token.LAND {
			inner.conditions = ifs(p.conditions, e.X)
		}
		c.condition(inner.with(e.Y))
		return of(types.Boolean)
	case token.MAT, token.NMAT:
		c.must(p.with(e.X), c.infer(p.with(e.X)), types.String, e.Op.String())
		c.infer(p.with(e.Y))
		return of(types.Boolean)
	}
	x, y := c.infer(p.with(e.X)), c.infer(p.with(e.Y))
	switch e.Op {
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		c.comparable(p, e, x, y)
		return of(types.Boolean)
	}
	return c.arithmetic(p, e, x, y)
}

func (c *Checker) conjunction(p Part, e *ast.BinaryExpr) Value {
	var parts []Part
	for _, expr := range syntax.Conjuncts(e) {
		parts = append(parts, p.with(expr))
	}
	return c.Unified(parts)
}

func (c *Checker) disjunction(p Part, e *ast.BinaryExpr) Value {
	branches := syntax.Flatten(e)
	result := Value{t: types.Unknown, isType: true}
	for i, branch := range branches {
		if unary, ok := branch.(*ast.UnaryExpr); ok && unary.Op == token.MUL {
			branch = unary.X
		}
		if i < len(branches)-1 {
			c.tolerant++
		}
		v := c.infer(p.with(branch))
		if i < len(branches)-1 {
			c.tolerant--
		}
		result.isType = result.isType && v.isType
		result.alternatives = append(result.alternatives, v)
	}
	return result
}

// comparison checks == and !=.
func (c *Checker) comparison(p Part, e *ast.BinaryExpr) Value {
	if _, ok := e.Y.(*ast.BottomLit); ok { // does it exist?
		c.tolerant++
		c.infer(p.with(e.X))
		c.tolerant--
		return of(types.Boolean)
	}
	x, y := c.infer(p.with(e.X)), c.infer(p.with(e.Y))
	c.comparable(p, e, x, y)
	for _, side := range []struct {
		read, other Value
		expr        ast.Expr
	}{{x, y, e.X}, {y, x, e.Y}} {
		text, ok := side.other.literal.(string)
		if !ok || len(side.read.alternatives) > 0 {
			continue
		}
		enum := side.read.t.Enum
		if side.read.path == behaviour.ObjectName+".status.phase" && len(c.kind.Phases) > 0 {
			enum = nil
			for name := range c.kind.Phases {
				enum = append(enum, name)
			}
			slices.Sort(enum)
		}
		if len(enum) > 0 && text != "" && !slices.Contains(enum, text) {
			c.report(p.node(), "%s is never %q: it is one of %s%s", syntax.SourceOf(side.expr), text, strings.Join(enum, ", "), types.DidYouMean(text, enum))
		}
	}
	return of(types.Boolean)
}

// comparable checks that two values can be compared.
func (c *Checker) comparable(p Part, e *ast.BinaryExpr, x, y Value) {
	const numbers = types.Integer | types.Number
	widen := func(v types.Values) types.Values {
		if v&numbers != 0 {
			v |= numbers
		}
		return v
	}
	a, b := widen(x.Kinds()), widen(y.Kinds())
	if a&b == 0 && (a|b)&types.Null == 0 {
		hint := ""
		if text, ok := y.literal.(string); ok && a&numbers != 0 {
			if _, err := strconv.ParseFloat(text, 64); err == nil {
				hint = ": write " + text
			}
		}
		c.report(p.node(), "%s compares %s with %s%s", syntax.SourceOf(e), x.describe(e.X), y.describe(e.Y), hint)
	}
}

// arithmetic infers x + y and the like.
func (c *Checker) arithmetic(p Part, e *ast.BinaryExpr, x, y Value) Value {
	const numbers = types.Integer | types.Number
	a, b := x.Kinds(), y.Kinds()
	texts := a&types.String != 0 && b&types.String != 0
	repeats := e.Op == token.MUL && (a&types.String != 0 && b&types.Integer != 0 || a&types.Integer != 0 && b&types.String != 0)
	switch {
	case a&numbers != 0 && b&numbers != 0:
	case e.Op == token.ADD && texts, repeats:
		return of(types.String)
	case a == types.Any || b == types.Any:
		return unknownValue
	case (a|b)&types.List != 0:
		c.report(p.node(), "%s: lists are joined by list.Concat([a, b])", syntax.SourceOf(e))
		return of(types.List)
	default:
		hint := ""
		if e.Op == token.ADD && (a|b)&types.String != 0 {
			hint = `: write numbers into a string as in "a-\(n)"`
		}
		c.report(p.node(), "%s: %s cannot be applied to %s and %s%s", syntax.SourceOf(e), e.Op, x.describe(e.X), y.describe(e.Y), hint)
		return unknownValue
	}
	switch e.Op {
	case token.QUO:
		c.divisor(p, e.Y, y)
		return of(types.Number)
	}
	if a&types.String != 0 || b&types.String != 0 { // as it may be either
		return unknownValue
	}
	switch { // what is a float for certain makes the result one
	case a == types.Number || b == types.Number:
		return of(types.Number)
	case a&numbers == types.Integer && b&numbers == types.Integer:
		return of(types.Integer)
	}
	return of(a&numbers | b&numbers)
}

// divisor reports a divisor that is or may be 0.
func (c *Checker) divisor(p Part, e ast.Expr, v Value) {
	if inner, ok := e.(*ast.ParenExpr); ok {
		e = inner.X
	}
	if v.literal == int64(0) || v.literal == 0.0 {
		c.report(p.with(e).node(), "division by zero")
		return
	}
	read, less, ok := c.difference(p, e)
	if !ok || !strings.HasPrefix(read.path, behaviour.ObjectName+".") || read.literal != nil || len(read.alternatives) > 0 {
		return
	}
	if c.isGuarded(p, e) || c.isGuarded(p, read.expr) || read.t.Minimum != nil && *read.t.Minimum > less {
		return
	}
	if less == 0 {
		c.report(p.with(e).node(), "division by zero: %s may be 0: write int & >=1 in the schema, or test it first", read.path)
		return
	}
	c.report(p.with(e).node(), "division by zero: %s is 0 if %s is %v: write int & >=%v in the schema, or test it first", syntax.SourceOf(e), read.path, less, less+1)
}

// subtracted is what is read in a difference.
type subtracted struct {
	Value
	expr ast.Expr
}

// difference returns what is read in x, x - 1 or x + 1, and at which value the result is 0.
func (c *Checker) difference(p Part, e ast.Expr) (read subtracted, zero float64, ok bool) {
	switch inner := e.(type) {
	case *ast.ParenExpr:
		return c.difference(p, inner.X)
	case *ast.BinaryExpr:
		n, isLiteral := c.infer(p.with(inner.Y)).literal.(int64)
		if !isLiteral || inner.Op != token.SUB && inner.Op != token.ADD {
			return subtracted{}, 0, false
		}
		if inner.Op == token.ADD {
			n = -n
		}
		read, zero, ok = c.difference(p, inner.X)
		return read, zero + float64(n), ok
	}
	return subtracted{c.infer(p.with(e)), e}, 0, true
}
