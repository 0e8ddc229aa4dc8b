package behaviour

import (
	"fmt"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/format"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind/binding"
)

// Error is a construct outside the language.
type Error struct {
	// At is its place.
	At token.Pos
	// Message is what it is, and what to write instead.
	Message string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d: %s", e.At.Filename(), e.At.Line(), e.Message)
}

// compiler reads the syntax of packages.
type compiler struct {
	packages map[string]*Package
	errors   []*Error
	// waiting are the package fields that something refers to, and that are not compiled yet.
	waiting []func()
	// roots are the definitions that the compiled one is unified with. What they declare of the
	// objects that are given is left out, except of children: whoever runs the program gives objects
	// that fit.
	roots map[root]bool
	// given are the fields of the compiled definition that are given to each run.
	given []string
	// forks are the ifs, loops and disjunctions with a default in the package of the compiled definition, own.
	forks []token.Pos
	own   *Package
}

// root is a definition of a package.
type root struct {
	pkg  *Package
	name string
}

// scope is what an expression can name: a struct, a clause, or the top of a package.
type scope struct {
	up *scope
	// fields are the names of the fields of a struct literal that can be referred to, with their
	// labels.
	fields map[string]string
	// lets are let clauses in a struct.
	lets map[string]*Let
	// aliases are names of values that the scope itself holds.
	key, value string
	// source is what a loop is over, if it is a reference.
	source string
	// self is the alias of the value of a field: the struct or list itself.
	self map[string]string
}

// place is an expression's package and scope.
type place struct {
	*compiler
	instance *build.Instance
	pkg      *Package
	scope    *scope // nil at the top of the package
	isRoot   bool   // it is the struct of a behaviour itself
}

func newCompiler() *compiler {
	return &compiler{packages: make(map[string]*Package), roots: make(map[root]bool)}
}

// open returns a package, whose fields are compiled once something refers to them.
func (c *compiler) open(instance *build.Instance) *Package {
	path := instance.ID()
	if known := c.packages[path]; known != nil {
		return known
	}
	pkg := &Package{
		Path: path, top: &StructLit{byName: make(map[string][]*Field)},
		names: make(map[string]bool), pending: make(map[string][]func() *Field),
	}
	c.packages[path] = pkg
	p := place{compiler: c, instance: instance, pkg: pkg}
	for _, file := range instance.Files {
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.Field:
				name, isIdent, err := ast.LabelName(decl.Label)
				if err != nil {
					continue // nothing can refer to it
				}
				if isIdent {
					pkg.names[name] = true
				}
				name = p.label(name, isIdent)
				pkg.pending[name] = append(pkg.pending[name], func() *Field {
					p.attributes(decl.Attrs...)
					if c.roots[root{pkg, name}] {
						return &Field{at{decl.Pos()}, name, modeOf(decl), p.behaviour(decl.Value)}
					}
					return p.field(decl, name, decl.Value)
				})
			case *ast.LetClause:
				name := letName(decl.Ident.Name, decl.Expr)
				pkg.pending[name] = append(pkg.pending[name], func() *Field {
					return &Field{at: at{decl.Pos()}, Name: name, Value: p.expr(decl.Expr)}
				})
			}
		}
	}
	return pkg
}

// use has a field of a package compiled.
func (c *compiler) use(pkg *Package, name string) bool {
	pending, ok := pkg.pending[name]
	if !ok {
		_, known := pkg.top.byName[name]
		return known
	}
	delete(pkg.pending, name)
	pkg.top.byName[name] = make([]*Field, 0, len(pending))
	c.waiting = append(c.waiting, func() {
		for _, compile := range pending {
			pkg.top.add(compile())
		}
	})
	return true
}

// finish compiles all that is referred to.
func (c *compiler) finish() {
	for len(c.waiting) > 0 {
		next := c.waiting[0]
		c.waiting = c.waiting[1:]
		next()
	}
}

func (s *StructLit) add(f *Field) {
	s.Fields = append(s.Fields, f)
	s.order = append(s.order, f)
	s.byName[f.Name] = append(s.byName[f.Name], f)
}

// label returns the name of a field as structs hold it: hidden names belong to a package.
func (p place) label(name string, isIdent bool) string {
	if isIdent && strings.HasPrefix(name, "_") {
		return name + "\x00" + p.pkg.Path
	}
	if !isIdent && isSpecial(name) {
		return "\x01" + name // a field whose name only looks like a definition
	}
	return name
}

// isSpecial reports whether a name is that of a definition or of a hidden field.
func isSpecial(name string) bool { return strings.HasPrefix(name, "#") || strings.HasPrefix(name, "_") }

// isHidden reports whether a field is no part of the data.
func isHidden(label string) bool {
	return label != "" && (label[0] == '#' || label[0] == '_' || label[0] == 0)
}

// shown returns a label as people write it.
func shown(label string) string {
	if strings.HasPrefix(label, "\x01") {
		return label[1:]
	}
	name, _, _ := strings.Cut(label, "\x00")
	return name
}

// dataLabel returns the label of a field of data.
func dataLabel(name string) string {
	if isSpecial(name) {
		return "\x01" + name
	}
	return name
}

// letName returns the name by which a package holds a let at the top of one of its files.
func letName(name string, value ast.Expr) string {
	return "\x00let:" + name + ":" + value.Pos().String()
}

// unsupported notes a construct outside the language. What it returns is never evaluated.
func (p place) unsupported(node ast.Node, format string, args ...any) Expr {
	p.errors = append(p.errors, &Error{node.Pos(), fmt.Sprintf(format, args...)})
	return &Bottom{at{node.Pos()}}
}

func sourceOf(node ast.Node) string {
	b, err := format.Node(node)
	if err != nil {
		return "this expression"
	}
	return strings.Join(strings.Fields(string(b)), " ")
}

// referenceText returns a reference for people: a variable of a loop is written as an element of what the loop is
// over, as in observed.pods[…].status, since only the author of the kind knows the name of the variable.
func (p place) referenceText(e ast.Expr) string {
	text := sourceOf(e)
	root := rootOf(e)
	if root == nil {
		return text
	}
	for s := p.scope; s != nil; s = s.up {
		_, isField := s.fields[root.Name]
		_, isLet := s.lets[root.Name]
		switch {
		case s.value == root.Name && s.key != root.Name && s.source != "":
			return s.source + "[…]" + strings.TrimPrefix(text, root.Name)
		case s.value == root.Name, s.key == root.Name, s.self[root.Name] != "", isField, isLet:
			return text
		}
	}
	return text
}

// sourceOfLoop returns what a loop is over; it is empty for what is no reference.
func (p place) sourceOfLoop(e ast.Expr) string {
	if rootOf(e) == nil {
		return ""
	}
	return p.referenceText(e)
}

// rootOf returns the name that a reference begins with; it is nil for any other expression.
func rootOf(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.Ident:
		return e
	case *ast.SelectorExpr:
		return rootOf(e.X)
	case *ast.IndexExpr:
		return rootOf(e.X)
	}
	return nil
}

func (p place) within(s *scope) place {
	s.up = p.scope
	p.scope = s
	return p
}

func (p place) exprs(list []ast.Expr) []Expr {
	compiled := make([]Expr, len(list))
	for i, e := range list {
		compiled[i] = p.expr(e)
	}
	return compiled
}

// behaviour compiles what is unified to a behaviour.
func (p place) behaviour(e ast.Expr) Expr {
	switch x := e.(type) {
	case *ast.ParenExpr:
		return p.behaviour(x.X)
	case *ast.BinaryExpr:
		if x.Op == token.AND {
			return &Binary{at{e.Pos()}, x.Op, p.behaviour(x.X), p.behaviour(x.Y), sourceOf(e)}
		}
	case *ast.StructLit:
		p.isRoot = true
		return p.structLit(x, nil)
	}
	compiled := p.expr(e)
	if definition, ok := compiled.(*PackageReference); ok {
		p.roots[root{definition.Package, definition.Name}] = true
		definition.isRoot = true
	}
	return compiled
}

// expr compiles an expression.
func (p place) expr(e ast.Expr) Expr {
	pos := at{e.Pos()}
	switch e := e.(type) {
	case *ast.ParenExpr:
		return p.expr(e.X)
	case *ast.BasicLit:
		return p.literal(e)
	case *ast.BottomLit:
		return &Bottom{pos}
	case *ast.Ident:
		return p.ident(e)
	case *ast.SelectorExpr:
		return p.selector(e)
	case *ast.IndexExpr:
		return &Index{pos, p.expr(e.X), p.expr(e.Index), p.referenceText(e)}
	case *ast.SliceExpr:
		s := &Slice{at: pos, X: p.expr(e.X)}
		if e.Low != nil {
			s.Low = p.expr(e.Low)
		}
		if e.High != nil {
			s.High = p.expr(e.High)
		}
		return s
	case *ast.CallExpr:
		return p.call(e)
	case *ast.UnaryExpr:
		return p.unary(e)
	case *ast.BinaryExpr:
		return p.binary(e)
	case *ast.Interpolation:
		return p.interpolation(e)
	case *ast.ListLit:
		return p.list(e)
	case *ast.StructLit:
		return p.structLit(e, nil)
	case *ast.Alias:
		return p.unsupported(e,
			"an alias of a value cannot be compiled here: give the value a hidden field, as in _%s: …", e.Ident.Name)
	}
	return p.unsupported(e, "%s cannot be compiled", sourceOf(e))
}

func (p place) literal(e *ast.BasicLit) Expr {
	pos := at{e.Pos()}
	switch e.Kind {
	case token.NULL:
		return &Literal{pos, nil}
	case token.TRUE, token.FALSE:
		return &Literal{pos, e.Kind == token.TRUE}
	case token.INT, token.FLOAT:
		var info literal.NumInfo
		var n Decimal
		if err := literal.ParseNum(e.Value, &info); err == nil {
			if err := info.Decimal(&n.Decimal); err == nil {
				n.IsFloat = !info.IsInt()
				return &Literal{pos, n.reduced()}
			}
		}
	case token.STRING:
		quotes, _, _, err := literal.ParseQuotes(e.Value, e.Value)
		text, err2 := literal.Unquote(e.Value)
		if err == nil && err2 == nil {
			if !quotes.IsDouble() {
				return &Literal{pos, []byte(text)}
			}
			return &Literal{pos, text}
		}
	}
	return p.unsupported(e, "%s is not a literal", e.Value)
}

func (p place) interpolation(e *ast.Interpolation) Expr {
	result := &Interpolation{at: at{e.Pos()}}
	first, ok := e.Elts[0].(*ast.BasicLit)
	last, ok2 := e.Elts[len(e.Elts)-1].(*ast.BasicLit)
	if !ok || !ok2 {
		return p.unsupported(e, "this interpolation cannot be compiled")
	}
	quotes, prefix, _, err := literal.ParseQuotes(first.Value, last.Value)
	if err != nil {
		return p.unsupported(e, "this interpolation cannot be compiled: %v", err)
	}
	result.IsBytes = !quotes.IsDouble()
	for i, part := range e.Elts {
		text, isText := part.(*ast.BasicLit)
		if i%2 == 1 || !isText {
			result.Parts = append(result.Parts, p.expr(part))
			continue
		}
		unquoted, err := quotes.Unquote(text.Value[prefix:])
		if err != nil {
			return p.unsupported(part, "this interpolation cannot be compiled: %v", err)
		}
		prefix = 1
		if unquoted != "" {
			result.Parts = append(result.Parts, &Literal{at{part.Pos()}, unquoted})
		}
	}
	return result
}

// ident compiles a name: of a field, a variable, a package's field, or something of CUE's own.
func (p place) ident(e *ast.Ident) Expr {
	pos := at{e.Pos()}
	bound := binding.Of(e)
	if bound.Kind == binding.Import {
		return p.unsupported(e, "the package %q is not a value: select from it", bound.Path)
	}
	if e.Name == "_" {
		return &Type{at: pos, Kinds: Any, Name: "_"}
	}
	up := 0
	for s := p.scope; s != nil; s, up = s.up, up+1 {
		switch label, isField := s.fields[e.Name]; {
		case s.key == e.Name:
			return &Variable{pos, up, true, e.Name}
		case s.value == e.Name:
			return &Variable{pos, up, false, e.Name}
		case s.self[e.Name] != "":
			return &Self{pos, up, e.Name}
		case isField:
			return &Reference{pos, up, label, e.Name}
		}
		if let, ok := s.lets[e.Name]; ok {
			return &LetReference{pos, up, let}
		}
	}
	if bound.Kind == binding.Let {
		if name := letName(e.Name, bound.Expr); p.use(p.pkg, name) {
			return &PackageReference{at: pos, Package: p.pkg, Name: name, Text: e.Name}
		}
	}
	if p.pkg.names[e.Name] {
		name := p.label(e.Name, true)
		p.use(p.pkg, name)
		return &PackageReference{at: pos, Package: p.pkg, Name: name, Text: e.Name}
	}
	if t := Predeclared(e.Name); t != nil {
		t.at = pos
		return t
	}
	if f := functions[e.Name]; f != nil {
		return &Builtin{pos, f}
	}
	return p.unsupported(e, "%s is not known", e.Name)
}

func (p place) selector(e *ast.SelectorExpr) Expr {
	pos := at{e.Pos()}
	name, isIdent, err := ast.LabelName(e.Sel)
	if err != nil {
		return p.unsupported(e, "%s cannot be compiled", sourceOf(e))
	}
	path, _ := binding.Selected(e)
	if path == "" {
		return &Selector{pos, p.expr(e.X), p.label(name, isIdent), p.referenceText(e)}
	}
	if imported := binding.Imported(p.instance, path); imported != nil {
		pkg := p.open(imported)
		if !p.use(pkg, name) {
			return p.unsupported(e, "%s does not exist", sourceOf(e))
		}
		return &PackageReference{at: pos, Package: pkg, Name: name, Text: sourceOf(e)}
	}
	if value, ok := constants[path+"."+name]; ok {
		return &Literal{pos, value}
	}
	if ordering, ok := orderings[path+"."+name]; ok {
		return p.structLit(ordering(), nil)
	}
	if f := functions[path+"."+name]; f != nil {
		return &Builtin{pos, f}
	}
	return p.unsupported(e,
		"%s cannot be used in a behaviour: compute the value with other functions, or have the object state it",
		sourceOf(e))
}

func (p place) call(e *ast.CallExpr) Expr {
	fun, ok := p.expr(e.Fun).(*Builtin)
	if !ok {
		return p.unsupported(e, "%s is not a function of CUE", sourceOf(e.Fun))
	}
	if n := len(e.Args); !fun.Function.takes(n) {
		return p.unsupported(e, "%s takes %d arguments, and has %d", sourceOf(e.Fun), fun.Function.params, n)
	}
	return &Call{at{e.Pos()}, fun.Function, p.exprs(e.Args), sourceOf(e)}
}

func (p place) unary(e *ast.UnaryExpr) Expr {
	if e.Op == token.MUL {
		return p.unsupported(e, "a default needs another alternative: *a | b")
	}
	x := p.expr(e.X)
	if n, ok := x.(*Literal); ok && (e.Op == token.SUB || e.Op == token.ADD) {
		if _, isNumber := toDecimal(n.Value); isNumber && e.Op == token.SUB {
			return &Literal{at{e.Pos()}, negated(n.Value)}
		} else if isNumber {
			return n
		}
	}
	return &Unary{at{e.Pos()}, e.Op, x, sourceOf(e)}
}

func (p place) binary(e *ast.BinaryExpr) Expr {
	pos := at{e.Pos()}
	if e.Op != token.OR {
		return &Binary{pos, e.Op, p.expr(e.X), p.expr(e.Y), sourceOf(e)}
	}
	d := &Disjunction{at: pos, Text: sourceOf(e)}
	var collect func(x ast.Expr)
	collect = func(x ast.Expr) {
		if or, ok := x.(*ast.BinaryExpr); ok && or.Op == token.OR {
			collect(or.X)
			collect(or.Y)
			return
		}
		marked, isMarked := x.(*ast.UnaryExpr)
		if isMarked = isMarked && marked.Op == token.MUL; isMarked {
			x = marked.X
			d.HasDefault = true
		}
		d.Alternatives = append(d.Alternatives, Alternative{p.expr(x), isMarked})
	}
	collect(e)
	d.counts = d.HasDefault && !slices.ContainsFunc(d.Alternatives, isOpen) && p.counted(pos)
	return d
}

// isOpen reports whether an alternative is a type, as in *"a" | string: nothing but another value takes it.
func isOpen(a Alternative) bool {
	switch x := a.X.(type) {
	case *Type:
		return true
	case *ListLit:
		return x.Rest != nil
	}
	return false
}

func (p place) list(e *ast.ListLit) Expr {
	list := &ListLit{at: at{e.Pos()}}
	for _, element := range e.Elts {
		switch element := element.(type) {
		case *ast.Ellipsis:
			list.Rest = &Type{at: at{element.Pos()}, Kinds: Any, Name: "_"}
			if element.Type != nil {
				list.Rest = p.expr(element.Type)
			}
		case *ast.Comprehension:
			list.Elements = append(list.Elements, p.comprehension(element))
		default:
			list.Elements = append(list.Elements, p.expr(element))
		}
	}
	if list.Rest == nil {
		list.constant = make([]any, 0, len(list.Elements))
	}
	for _, element := range list.Elements {
		literal, ok := element.(*Literal)
		if !ok || list.Rest != nil {
			list.constant = nil
			break
		}
		list.constant = append(list.constant, literal.Value)
	}
	return list
}

// counted notes a fork in the package of the compiled definition, and reports whether it is one.
func (p place) counted(fork at) bool {
	if p.pkg != p.own {
		return false
	}
	p.forks = append(p.forks, fork.pos)
	return true
}

func (p place) comprehension(e *ast.Comprehension) Expr {
	c := &Comprehension{at: at{e.Pos()}}
	for _, clause := range e.Clauses {
		pos := at{clause.Pos()}
		switch clause := clause.(type) {
		case *ast.ForClause:
			compiled := Clause{at: pos, Kind: token.FOR, Value: clause.Value.Name, X: p.expr(clause.Source),
				counts: p.counted(pos)}
			if clause.Key != nil {
				compiled.Key = clause.Key.Name
			}
			c.Clauses = append(c.Clauses, compiled)
			p = p.within(&scope{key: named(compiled.Key), value: named(compiled.Value),
				source: p.sourceOfLoop(clause.Source)})
		case *ast.LetClause:
			c.Clauses = append(c.Clauses,
				Clause{at: pos, Kind: token.LET, Value: clause.Ident.Name, X: p.expr(clause.Expr)})
			p = p.within(&scope{value: clause.Ident.Name})
		case *ast.IfClause:
			c.Clauses = append(c.Clauses, Clause{at: pos, Kind: token.IF, X: p.expr(clause.Condition),
				counts: p.counted(pos)})
		default:
			return p.unsupported(clause, "this clause cannot be compiled: write for, if or let")
		}
	}
	if e.Fallback != nil {
		return p.unsupported(e.Fallback, "else cannot be compiled: write a second if with the opposite condition")
	}
	body, ok := e.Value.(*ast.StructLit)
	if !ok {
		return p.unsupported(e.Value, "this comprehension has no body")
	}
	c.Body = p.structLit(body, nil)
	literal, ok := c.Body.(*StructLit)
	if !ok {
		return c.Body
	}
	c.names, c.all = literal.provides()
	c.scalar = literal.scalar
	return c
}

// named returns the name of a variable; _ is none.
func named(name string) string {
	if name == "_" {
		return ""
	}
	return name
}

// provides returns the names of the fields that a struct can have, or that it can have any.
func (s *StructLit) provides() (names map[string]bool, all bool) {
	names = make(map[string]bool, len(s.Fields))
	for _, f := range s.Fields {
		names[f.Name] = true
	}
	all = len(s.Dynamic) > 0 || len(s.Patterns) > 0 || len(s.Embeds) > 0
	for _, c := range s.Comprehensions {
		for name := range c.names {
			names[name] = true
		}
		all = all || c.all
	}
	return names, all
}

// structLit compiles a struct. self are names for the struct itself.
func (p place) structLit(e *ast.StructLit, self map[string]string) Expr {
	s := &StructLit{at: at{e.Pos()}, byName: make(map[string][]*Field)}
	names := &scope{fields: make(map[string]string), lets: make(map[string]*Let), self: self}
	isRoot := p.isRoot
	p.isRoot = false
	p = p.within(names)
	for _, decl := range e.Elts {
		switch decl := decl.(type) {
		case *ast.Field:
			p.declare(decl, names)
		case *ast.LetClause:
			names.lets[decl.Ident.Name] = &Let{at: at{decl.Pos()}, Name: decl.Ident.Name}
		}
	}
	for _, decl := range e.Elts {
		switch decl := decl.(type) {
		case *ast.Field:
			if name, _, err := ast.LabelName(decl.Label); isRoot && err == nil && name != ObservedName &&
				slices.Contains(p.given, name) {
				continue
			}
			if problem := p.declaration(s, decl); problem != nil {
				return problem
			}
		case *ast.EmbedDecl:
			if isRoot {
				s.embed(p.behaviour(decl.Expr))
				continue
			}
			s.embed(p.expr(decl.Expr))
		case *ast.Comprehension:
			c := p.comprehension(decl)
			if comprehension, ok := c.(*Comprehension); ok {
				s.Comprehensions = append(s.Comprehensions, comprehension)
				s.order = append(s.order, comprehension)
				s.scalar = s.scalar || comprehension.scalar
			}
		case *ast.LetClause:
			names.lets[decl.Ident.Name].Value = p.expr(decl.Expr)
		case *ast.Ellipsis:
			s.IsOpen = true
		case *ast.Attribute:
			p.attributes(decl)
		case *ast.CommentGroup:
		default:
			return p.unsupported(decl, "%s cannot be compiled", sourceOf(decl))
		}
	}
	return s
}

func (s *StructLit) embed(x Expr) {
	s.Embeds = append(s.Embeds, x)
	if literal, ok := x.(*StructLit); ok {
		s.order = append(s.order, literal)
	}
	s.scalar = true
}

// declare notes the names by which a field can be referred to.
func (p place) declare(f *ast.Field, names *scope) {
	label := f.Label
	if alias, ok := label.(*ast.Alias); ok {
		label, _ = alias.Expr.(ast.Label)
		if name, isIdent, err := ast.LabelName(label); err == nil {
			names.fields[alias.Ident.Name] = p.label(name, isIdent)
		}
	}
	if ident, ok := label.(*ast.Ident); ok {
		names.fields[ident.Name] = p.label(ident.Name, true)
	}
}

func modeOf(f *ast.Field) Mode {
	switch f.Constraint {
	case token.OPTION:
		return Optional
	case token.NOT:
		return Required
	}
	return Regular
}

// attributes rejects @kube(eval).
func (p place) attributes(attributes ...*ast.Attribute) {
	for _, a := range attributes {
		name, body := a.Split()
		if name == "kube" && slices.Contains(strings.Split(strings.ReplaceAll(body, " ", ""), ","), "eval") {
			p.unsupported(a,
				"@kube(eval) does not exist: all of a behaviour is compiled. Remove it: what cannot be compiled is an error that says what to write")
		}
	}
}

// declaration adds a field to a struct.
func (p place) declaration(s *StructLit, f *ast.Field) Expr {
	p.attributes(f.Attrs...)
	label := f.Label
	alias := ""
	if a, ok := label.(*ast.Alias); ok {
		alias = a.Ident.Name
		label, _ = a.Expr.(ast.Label)
	}
	if f.Alias != nil {
		return p.unsupported(f, "this form of an alias cannot be compiled: give the value a hidden field")
	}
	if list, ok := label.(*ast.ListLit); ok && len(list.Elts) == 1 {
		return p.pattern(s, f, list.Elts[0])
	}
	if name, isIdent, err := ast.LabelName(label); err == nil {
		s.add(p.field(f, p.label(name, isIdent), f.Value))
		return nil
	}
	if alias != "" {
		return p.unsupported(f, "the alias %s of a computed name cannot be compiled: give the value a let", alias)
	}
	name, ok := label.(ast.Expr)
	if !ok {
		return p.unsupported(f, "this field cannot be compiled")
	}
	d := &DynamicField{at{f.Pos()}, p.expr(name), modeOf(f), p.value(f.Value)}
	s.Dynamic = append(s.Dynamic, d)
	return nil
}

// field compiles a field with a known name.
func (p place) field(f *ast.Field, name string, value ast.Expr) *Field {
	return &Field{at{f.Pos()}, name, modeOf(f), p.value(value)}
}

// value compiles the value of a field, which may have an alias.
func (p place) value(e ast.Expr) Expr {
	alias, ok := e.(*ast.Alias)
	if !ok {
		return p.expr(e)
	}
	if literal, ok := alias.Expr.(*ast.StructLit); ok {
		return p.structLit(literal, map[string]string{alias.Ident.Name: alias.Ident.Name})
	}
	return p.unsupported(e, "the alias %s of a value cannot be compiled: only a struct can have one", alias.Ident.Name)
}

func (p place) pattern(s *StructLit, f *ast.Field, name ast.Expr) Expr {
	pattern := &Pattern{at: at{f.Pos()}}
	inner := p
	if alias, ok := name.(*ast.Alias); ok {
		name = alias.Expr
		pattern.HasAlias = true
		inner = p.within(&scope{key: alias.Ident.Name})
	}
	pattern.Name, pattern.Value = p.expr(name), inner.value(f.Value)
	s.Patterns = append(s.Patterns, pattern)
	return nil
}

// Predeclared returns one of CUE's own types, without a place; nil for any other name.
func Predeclared(name string) *Type {
	name = strings.TrimPrefix(name, "__")
	t := &Type{Name: name}
	switch name {
	case "string":
		t.Kinds = String
	case "bytes":
		t.Kinds = Bytes
	case "bool":
		t.Kinds = Bool
	case "int":
		t.Kinds = Int
	case "float":
		t.Kinds = Float
	case "number":
		t.Kinds = Number
	case "float32", "float64":
		t.Kinds = Number
		limit := map[string]string{"float32": "3.40282346638528859811704183484516925440e+38",
			"float64": "1.797693134862315708145274237317043567981e+308"}[name]
		t.Min, t.Max = parseDecimal("-"+limit), parseDecimal(limit)
	case "rune":
		t.Kinds, t.Min, t.Max = Int, parseDecimal("0"), parseDecimal("1114111")
	default:
		bits, isSized := sizes[name]
		if !isSized {
			return nil
		}
		t.Kinds, t.Min = Int, parseDecimal(bits[0])
		if bits[1] != "" {
			t.Max = parseDecimal(bits[1])
		}
	}
	return t
}

// sizes are the limits of CUE's sized integers.
var sizes = map[string][2]string{
	"uint":    {"0", ""},
	"uint8":   {"0", "255"},
	"int8":    {"-128", "127"},
	"uint16":  {"0", "65535"},
	"int16":   {"-32768", "32767"},
	"uint32":  {"0", "4294967295"},
	"int32":   {"-2147483648", "2147483647"},
	"uint64":  {"0", "18446744073709551615"},
	"int64":   {"-9223372036854775808", "9223372036854775807"},
	"uint128": {"0", "340282366920938463463374607431768211455"},
	"int128":  {"-170141183460469231731687303715884105728", "170141183460469231731687303715884105727"},
}
