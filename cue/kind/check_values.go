package kind

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// value is what is known of the value of an expression.
type value struct {
	// t is its type, if it is not written in CUE.
	t *types.Type
	// parts are what a struct or a list consists of that is written in CUE.
	parts []part
	// literal is the value of a scalar that is known: a string, an int64, a float64 or a bool.
	literal any
	// path is where it is read from, as in object.spec.text; owner has the fields at names.
	path, owner string
	names       []string
	// isType means that the source describes values, such as string, instead of being one.
	isType bool
	// alternatives are the values that it is one of.
	alternatives []value
}

var unknownValue = value{t: types.Unknown}

func of(v types.Values) value { return value{t: types.Of(v)} }

func literalOf(v any) value {
	result := value{literal: v}
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

// kinds are the kinds of values that it may be.
func (v value) kinds() types.Values {
	if len(v.alternatives) > 0 {
		var all types.Values
		for _, a := range v.alternatives {
			all |= a.kinds()
		}
		return all
	}
	return v.t.Values
}

// describe returns what a mistake calls a value: its source and its type.
func (v value) describe(e ast.Expr) string {
	switch e.(type) {
	case *ast.StructLit:
		return "a struct"
	case *ast.ListLit:
		return "a list"
	}
	return fmt.Sprintf("%s (%s)", sourceOf(e), v.kinds())
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
func (c *checker) infer(p part) value {
	if c.exhausted() {
		return unknownValue
	}
	c.depth++
	defer func() { c.depth-- }()
	switch e := p.expr.(type) {
	case *ast.ParenExpr:
		return c.infer(p.with(e.X))
	case *ast.BasicLit:
		v, err := literalValue(e)
		if err != nil {
			return unknownValue
		}
		return literalOf(v)
	case *ast.BottomLit:
		return unknownValue
	case *ast.Interpolation:
		return c.interpolation(p, e)
	case *ast.StructLit:
		return value{t: types.Of(types.Object), parts: []part{p}}
	case *ast.ListLit:
		return value{t: types.Of(types.List), parts: []part{p}}
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
func (c *checker) visit(p part) {
	if c.exhausted() {
		return
	}
	c.depth++
	defer func() { c.depth-- }()
	switch e := p.expr.(type) {
	case *ast.StructLit:
		s := c.gather([]part{p})
		for _, name := range s.order {
			for _, inner := range s.fields[name].parts {
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
func (c *checker) items(p part, e *ast.ListLit) (items []part) {
	for _, element := range e.Elts {
		switch element := element.(type) {
		case *ast.Ellipsis:
		case *ast.Comprehension:
			c.within(p, element.Clauses, func(inner part) { items = append(items, inner.with(element.Value)) })
		default:
			items = append(items, p.with(element))
		}
	}
	return items
}

// unembed returns what a struct that only embeds one value stands for, as in [if c {x}].
func unembed(p part) part {
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

func (c *checker) interpolation(p part, e *ast.Interpolation) value {
	for i, element := range e.Elts {
		if i%2 == 0 { // a piece of text
			continue
		}
		inner := c.infer(p.with(element))
		if inner.kinds()&^(types.Object|types.List|types.Null) == 0 {
			c.report(p.with(element).node(), "a string cannot contain %s", inner.describe(element))
		}
	}
	return of(types.String)
}

// identifier infers what a name stands for.
func (c *checker) identifier(p part, e *ast.Ident) value {
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
		return c.reference(p, e, []part{p.with(target.Expr)})
	case *ast.Alias:
		return c.reference(p, e, []part{p.with(target.Expr)})
	case *ast.Field:
		return c.reference(p, e, []part{p.with(target.Value)})
	}
	if c.own[e.Scope] {
		if v, ok := c.root(e.Name); ok {
			switch v.path {
			case observedName:
				c.readsBeyond(p, e, observedName)
			case indexName:
				c.numbered++
				if c.checked != "" && !c.isNumbered() {
					c.report(p.node(), "%s: only the template of an ordered set can read index", c.checked)
				}
			}
			return v
		}
	}
	var fields []part
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
		if c.own[around] && c.controller != nil && c.controller.fields[e.Name] != nil {
			fields = c.controller.fields[e.Name].parts // other conjuncts may add to it
		}
	case *ast.File:
		fields = c.topLevel(p, e.Name)
	}
	if len(fields) == 0 {
		if expr, ok := e.Node.(ast.Expr); ok {
			fields = []part{p.with(expr)}
		}
	}
	return c.reference(p, e, fields)
}

// root returns what the contract gives a behaviour.
func (c *checker) root(name string) (value, bool) {
	if c.given != nil {
		v, ok := c.given[name]
		return v, ok
	}
	switch name {
	case objectName:
		return value{t: c.object, path: objectName, owner: c.kind.objectTitle()}, true
	case observedName:
		fields := make(map[string]*types.Type)
		for name, child := range c.children {
			fields[name] = child.t
			if child.set {
				fields[name] = &types.Type{Values: types.List, Items: child.t}
			}
		}
		if declared := c.controller.fields[observedName]; declared != nil {
			for _, name := range c.gather(declared.parts).order {
				if fields[name] == nil {
					fields[name] = types.Unknown
				}
			}
		}
		t := &types.Type{Values: types.Object, Fields: fields}
		if c.moreChildren {
			t.Others = types.Unknown
		}
		return value{t: t, path: observedName}, true
	case indexName:
		return value{t: types.Of(types.Integer), path: indexName}, true
	}
	return value{}, false
}

// isNumbered reports whether the template of an ordered set is checked.
func (c *checker) isNumbered() bool {
	return c.waiting != nil && c.kind.Sets[c.waiting.name].Ordered && strings.HasPrefix(c.checked, c.waiting.path+".template")
}

// reference infers what the parts of a field stand for together.
func (c *checker) reference(p part, e ast.Expr, fields []part) value {
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
	return c.unified(fields)
}

// resolved infers one part; what only describes a value has no value.
func (c *checker) resolved(p part) value {
	v := c.infer(p)
	if p.constraint {
		v.literal, v.isType = nil, true
	}
	return v
}

// unified infers what several parts are together.
func (c *checker) unified(parts []part) value {
	result := value{t: types.Unknown, isType: true}
	var choices []part // may have fields as well
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
func typeNamed(name string) value {
	var v value
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
func (c *checker) selector(p part, e *ast.SelectorExpr) value {
	name, _, err := ast.LabelName(e.Sel)
	if err != nil {
		return unknownValue
	}
	if _, path := importedPackage(e); path != "" {
		if imported, definition := importedDefinition(p.in, e); imported != nil {
			next := p
			next.in, next.at = imported, p.node()
			return c.reference(p, e, c.topLevel(next, definition))
		}
		if i := slices.IndexFunc(p.in.Imports, func(in *build.Instance) bool { return isPackage(in, path) }); i >= 0 {
			next := p
			next.in, next.at = p.in.Imports[i], p.node()
			return c.reference(p, e, c.topLevel(next, name))
		}
		return unknownValue
	}
	return c.field(p, e, c.infer(p.with(e.X)), name)
}

// field infers a field of a value.
func (c *checker) field(p part, e ast.Expr, x value, name string) value {
	if len(x.alternatives) > 0 {
		return c.fieldOfAlternatives(p, e, x, name)
	}
	if len(x.parts) > 0 {
		return c.fieldOfParts(p, e, x, name)
	}
	path := x.path + "." + name
	if !c.kind.isReadable(path) {
		c.readsBeyond(p, e, path)
	}
	if x.t.Values&types.Object == 0 {
		if x.path != "" || x.t.Values != types.Any && !x.isType {
			c.report(p.node(), "%s: %s is %s and has no fields", sourceOf(e), strings.TrimSuffix(sourceOf(e), "."+name), article(x.kinds()))
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
		if x.path == observedName {
			c.report(p.node(), "%s: the kind has no child%s %s%s", path, c.orRead(), name, strings.Replace(didYouMean(name, x.t), "its fields", "its children", 1))
		}
		return unknownValue
	}
	c.read(p, e, x, name)
	c.exposed(p, x, name)
	result := value{t: field, path: path, owner: x.owner, names: names}
	if x.path == observedName { // its fields are those of a child
		result.names, result.owner = nil, c.children[name].gvk.Kind
		if !c.children[name].known {
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
func (c *checker) fieldOfAlternatives(p part, e ast.Expr, x value, name string) value {
	mistakes, found := c.mistakes, c.found
	var having []value
	for _, a := range x.alternatives {
		c.mistakes, c.found = nil, make(map[string]bool)
		if v := c.field(p, e, a, name); len(c.mistakes) == 0 {
			having = append(having, v)
		}
	}
	c.mistakes, c.found = mistakes, found
	if len(having) == 0 {
		return c.field(p, e, x.alternatives[0], name)
	}
	return oneOf(having)
}

func (c *checker) fieldOfParts(p part, e ast.Expr, x value, name string) value {
	if _, isList := x.parts[0].expr.(*ast.ListLit); isList {
		if !x.isType {
			c.report(p.node(), "%s: a list has no fields", sourceOf(e))
		}
		return unknownValue
	}
	s := c.gather(x.parts)
	m := s.fields[name]
	switch {
	case m != nil:
		return c.reference(p, e, slices.Clone(m.parts))
	case len(s.others) == 1 && len(s.fields) == 0:
		return c.field(p, e, c.infer(s.others[0]), name)
	case len(s.others) > 0 || s.open || c.tolerant > 0 || !s.isStruct || c.own[s.literals[0]]:
		return unknownValue
	}
	c.report(p.node(), "%s: undefined field: %s has no field %s%s", sourceOf(e), strings.TrimSuffix(sourceOf(e), "."+name), name, didYouMean(name, typeOfStructure(s)))
	return unknownValue
}

// typeOfStructure returns a type with the names of the fields alone.
func typeOfStructure(s *structure) *types.Type {
	t := &types.Type{Values: types.Object, Fields: make(map[string]*types.Type)}
	for name := range s.fields {
		t.Fields[name] = types.Unknown
	}
	return t
}

// index infers x[i].
func (c *checker) index(p part, e *ast.IndexExpr) value {
	if list, ok := e.X.(*ast.ListLit); ok { // [if c {a}, b][0]
		var result value
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
	switch kinds := x.kinds(); {
	case len(x.alternatives) > 0:
		return unknownValue
	case len(x.parts) > 0:
		return c.itemOfParts(p, e, x, n, isNumber)
	case kinds&(types.List|types.Object) == 0:
		c.report(p.node(), "%s: %s is %s, not a list", sourceOf(e), sourceOf(e.X), article(kinds))
		return unknownValue
	case kinds == types.List:
		if i.kinds()&types.Integer == 0 {
			c.report(p.node(), "%s: an index must be an int, not %s", sourceOf(e), i.describe(e.Index))
		}
		if isNumber && n >= x.t.MinItems && strings.HasPrefix(x.path, objectName+".") && !c.isGuarded(p, e.X) {
			c.report(p.node(), "%s: the list may have fewer items: test it first, as in if len(%s) > %d, or write list.MinItems(%d) in the schema",
				sourceOf(e), sourceOf(e.X), n, n+1)
		}
		return value{t: x.t.Item(), path: x.path + "[" + sourceOf(e.Index) + "]", owner: x.owner, names: appendIndex(x.names)}
	case x.t.Others != nil:
		return value{t: x.t.Others, path: x.path + "[" + sourceOf(e.Index) + "]", owner: x.owner, names: x.names}
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

func (c *checker) itemOfParts(p part, e *ast.IndexExpr, x value, n int64, isNumber bool) value {
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
		c.report(p.node(), "%s: the list has %d items, and the first has the index 0", sourceOf(e), items)
		return unknownValue
	}
	return c.infer(x.parts[0].with(list.Elts[n]))
}

// elements infers the key and the elements of what a loop is over.
func (c *checker) elements(p part) (key, item value) {
	x := c.infer(p)
	kinds := x.kinds()
	switch {
	case kinds&(types.List|types.Object) == 0:
		c.report(p.node(), "%s is %s: a for needs a list or a struct", sourceOf(p.expr), article(kinds))
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
func (c *checker) keys(p part, x value) value {
	switch e := p.expr.(type) {
	case *ast.StructLit:
	case *ast.Ident:
		if _, isAtTop := e.Scope.(*ast.File); !isAtTop && e.Node != nil {
			return of(types.String)
		}
	default:
		return of(types.String)
	}
	s := c.gather(x.parts)
	if len(s.order) == 0 || len(s.order) > maxElements || s.isOpen() {
		return of(types.String)
	}
	var names []value
	for _, name := range s.order {
		if !s.fields[name].constraint {
			names = append(names, literalOf(name))
		}
	}
	if len(names) == 0 {
		return of(types.String)
	}
	return oneOf(names)
}

// elementOf infers the elements of a list or a struct.
func (c *checker) elementOf(x value) value {
	switch {
	case len(x.alternatives) > 0:
		var result value
		for _, a := range x.alternatives {
			if v := c.elementOf(a); v.t != nil {
				result.alternatives = append(result.alternatives, v)
			}
		}
		return oneOf(result.alternatives)
	case len(x.parts) > 0:
		return c.elementOfParts(x)
	case x.t.Values&types.List != 0:
		return value{t: x.t.Item(), path: x.path + "[]", owner: x.owner, names: appendIndex(x.names)}
	case x.t.Others != nil && len(x.t.Fields) == 0:
		return value{t: x.t.Others, path: x.path + "[]", owner: x.owner, names: appendIndex(x.names)}
	}
	return unknownValue
}

// oneOf returns a value that is one of some; of nothing, it has no type.
func oneOf(alternatives []value) value {
	switch len(alternatives) {
	case 0:
		return value{}
	case 1:
		return alternatives[0]
	}
	return value{t: types.Unknown, alternatives: alternatives}
}

// maxElements bounds how many elements of a list in CUE are looked at for the type of all.
const maxElements = 50

func (c *checker) elementOfParts(x value) value {
	var elements []value
	for _, p := range x.parts {
		switch e := p.expr.(type) {
		case *ast.ListLit:
			for _, item := range c.items(p, e) {
				elements = append(elements, c.infer(unembed(item)))
			}
		case *ast.StructLit:
			s := c.gather([]part{p})
			if len(s.others) > 0 || s.open && len(s.dynamic) == 0 {
				return unknownValue
			}
			for _, name := range s.order {
				elements = append(elements, c.unified(s.fields[name].parts))
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

func (c *checker) unary(p part, e *ast.UnaryExpr) value {
	x := c.infer(p.with(e.X))
	switch e.Op {
	case token.NOT:
		c.must(p.with(e.X), x, types.Boolean, "!")
		return of(types.Boolean)
	case token.MUL:
		return x
	case token.SUB, token.ADD:
		if v, err := literalValue(e); err == nil {
			return literalOf(v)
		}
		return value{t: types.Of(x.kinds())}
	case token.MAT, token.NMAT:
		return value{t: types.Of(types.String), isType: true}
	case token.NEQ:
		return value{t: types.Unknown, isType: true}
	}
	return value{t: types.Of(x.kinds()), isType: true} // a bound
}

// must reports an operand that cannot be of the kinds that an operator needs.
func (c *checker) must(p part, v value, needed types.Values, what string) {
	if v.kinds()&needed == 0 {
		c.report(p.node(), "%s needs %s, not %s", what, article(needed), v.describe(p.expr))
	}
}

// condition checks that an expression can be a bool.
func (c *checker) condition(p part) {
	if v := c.infer(p); v.kinds()&types.Boolean == 0 {
		c.report(p.node(), "a condition must be a bool, not %s", v.describe(p.expr))
	}
}

func (c *checker) binary(p part, e *ast.BinaryExpr) value {
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

func (c *checker) conjunction(p part, e *ast.BinaryExpr) value {
	var parts []part
	for _, expr := range conjuncts(e) {
		parts = append(parts, p.with(expr))
	}
	return c.unified(parts)
}

func (c *checker) disjunction(p part, e *ast.BinaryExpr) value {
	branches := flatten(e)
	result := value{t: types.Unknown, isType: true}
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
func (c *checker) comparison(p part, e *ast.BinaryExpr) value {
	if _, ok := e.Y.(*ast.BottomLit); ok { // does it exist?
		c.tolerant++
		c.infer(p.with(e.X))
		c.tolerant--
		return of(types.Boolean)
	}
	x, y := c.infer(p.with(e.X)), c.infer(p.with(e.Y))
	c.comparable(p, e, x, y)
	for _, side := range []struct {
		read, other value
		expr        ast.Expr
	}{{x, y, e.X}, {y, x, e.Y}} {
		text, ok := side.other.literal.(string)
		if !ok || len(side.read.alternatives) > 0 {
			continue
		}
		enum := side.read.t.Enum
		if side.read.path == objectName+".status.phase" && len(c.kind.Phases) > 0 {
			enum = nil
			for name := range c.kind.Phases {
				enum = append(enum, name)
			}
			slices.Sort(enum)
		}
		if len(enum) > 0 && text != "" && !slices.Contains(enum, text) {
			c.report(p.node(), "%s is never %q: it is one of %s%s", sourceOf(side.expr), text, strings.Join(enum, ", "), types.DidYouMean(text, enum))
		}
	}
	return of(types.Boolean)
}

// comparable checks that two values can be compared.
func (c *checker) comparable(p part, e *ast.BinaryExpr, x, y value) {
	const numbers = types.Integer | types.Number
	widen := func(v types.Values) types.Values {
		if v&numbers != 0 {
			v |= numbers
		}
		return v
	}
	a, b := widen(x.kinds()), widen(y.kinds())
	if a&b == 0 && (a|b)&types.Null == 0 {
		hint := ""
		if text, ok := y.literal.(string); ok && a&numbers != 0 {
			if _, err := strconv.ParseFloat(text, 64); err == nil {
				hint = ": write " + text
			}
		}
		c.report(p.node(), "%s compares %s with %s%s", sourceOf(e), x.describe(e.X), y.describe(e.Y), hint)
	}
}

// arithmetic infers x + y and the like.
func (c *checker) arithmetic(p part, e *ast.BinaryExpr, x, y value) value {
	const numbers = types.Integer | types.Number
	a, b := x.kinds(), y.kinds()
	texts := a&types.String != 0 && b&types.String != 0
	repeats := e.Op == token.MUL && (a&types.String != 0 && b&types.Integer != 0 || a&types.Integer != 0 && b&types.String != 0)
	switch {
	case a&numbers != 0 && b&numbers != 0:
	case e.Op == token.ADD && texts, repeats:
		return of(types.String)
	case a == types.Any || b == types.Any:
		return unknownValue
	case (a|b)&types.List != 0:
		c.report(p.node(), "%s: lists are joined by list.Concat([a, b])", sourceOf(e))
		return of(types.List)
	default:
		hint := ""
		if e.Op == token.ADD && (a|b)&types.String != 0 {
			hint = `: write numbers into a string as in "a-\(n)"`
		}
		c.report(p.node(), "%s: %s cannot be applied to %s and %s%s", sourceOf(e), e.Op, x.describe(e.X), y.describe(e.Y), hint)
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
func (c *checker) divisor(p part, e ast.Expr, v value) {
	if inner, ok := e.(*ast.ParenExpr); ok {
		e = inner.X
	}
	if v.literal == int64(0) || v.literal == 0.0 {
		c.report(p.with(e).node(), "division by zero")
		return
	}
	read, less, ok := c.difference(p, e)
	if !ok || !strings.HasPrefix(read.path, objectName+".") || read.literal != nil || len(read.alternatives) > 0 {
		return
	}
	if c.isGuarded(p, e) || c.isGuarded(p, read.expr) || read.t.Minimum != nil && *read.t.Minimum > less {
		return
	}
	if less == 0 {
		c.report(p.with(e).node(), "division by zero: %s may be 0: write int & >=1 in the schema, or test it first", read.path)
		return
	}
	c.report(p.with(e).node(), "division by zero: %s is 0 if %s is %v: write int & >=%v in the schema, or test it first", sourceOf(e), read.path, less, less+1)
}

// subtracted is what is read in a difference.
type subtracted struct {
	value
	expr ast.Expr
}

// difference returns what is read in x, x - 1 or x + 1, and at which value the result is 0.
func (c *checker) difference(p part, e ast.Expr) (read subtracted, zero float64, ok bool) {
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
