package kind

import (
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/token"
	corev1 "k8s.io/api/core/v1"
)

// Read is what the CUE of a kind can read of a value. Nothing else can change a decision: a
// Pod has two hundred values, and a controller reads a few.
type Read struct {
	// Whole means that all of it may be read.
	Whole bool
	// Fields are the named ones of a struct.
	Fields map[string]*Read
	// Elements are the reads of each element of a list, or of each field of a struct.
	Elements *Read
}

func (r *Read) field(name string) *Read {
	if r.Fields == nil {
		r.Fields = make(map[string]*Read)
	}
	if r.Fields[name] == nil {
		r.Fields[name] = &Read{}
	}
	return r.Fields[name]
}

func (r *Read) element() *Read {
	if r.Elements == nil {
		r.Elements = &Read{}
	}
	return r.Elements
}

// of returns the part of a value that may be read. The result shares memory with the value.
func (r *Read) of(value any) any {
	if r.Whole {
		return value
	}
	switch value := value.(type) {
	case map[string]any:
		part := make(map[string]any, len(r.Fields))
		for name, field := range value {
			if read := r.at(name); read != nil {
				part[name] = read.of(field)
			}
		}
		return part
	case []any:
		element := r.eachElement()
		part := make([]any, len(value))
		for i := range value {
			part[i] = element.of(value[i])
		}
		return part
	}
	return value
}

// at returns what is read of a field of a struct, which a loop may read as one of its elements;
// nil is nothing.
func (r *Read) at(name string) *Read {
	field := r.Fields[name]
	switch {
	case r.Elements == nil:
		return field
	case field == nil:
		return r.Elements
	}
	return union(field, r.Elements)
}

// eachElement returns what is read of each element of a list, as a value that is never nil.
func (r *Read) eachElement() *Read {
	switch {
	case r.Whole:
		return r
	case r.Elements != nil:
		return r.Elements
	}
	return &Read{} // only their number
}

// part returns what is read of a field of a struct, as a value that is never nil.
func (r *Read) part(name string) *Read {
	if r.Whole {
		return r
	}
	if field := r.at(name); field != nil {
		return field
	}
	return &Read{}
}

// union returns what a or b reads.
func union(a, b *Read) *Read {
	both := &Read{Whole: a.Whole || b.Whole, Elements: a.Elements}
	for _, r := range []*Read{a, b} {
		for name, field := range r.Fields {
			if known := both.Fields[name]; known != nil {
				field = union(known, field)
			}
			if both.Fields == nil {
				both.Fields = make(map[string]*Read)
			}
			both.Fields[name] = field
		}
	}
	switch {
	case both.Elements == nil:
		both.Elements = b.Elements
	case b.Elements != nil:
		both.Elements = union(both.Elements, b.Elements)
	}
	return both
}

// ReadMetadata returns the labels and annotations of an object that the controller may read:
// anyone who changes them changes what it does. kubectl's own annotation is left out.
func (k *Kind) ReadMetadata(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	read := k.Reads.Object.part("metadata")
	written := make(map[string]any)
	for _, name := range []string{"labels", "annotations"} {
		texts, _ := metadata[name].(map[string]any)
		texts, _ = read.part(name).of(texts).(map[string]any)
		texts = maps.Clone(texts)
		delete(texts, corev1.LastAppliedConfigAnnotation)
		if len(texts) > 0 {
			written[name] = texts
		}
	}
	return written
}

// IsOwnStatus reports whether the controller writes a field of the status itself, conditions included.
func (k *Kind) IsOwnStatus(name string) bool { return name == "conditions" || !k.isEngineStatus(name) }

// ReadsOwnStatus reports whether the controller may read a field of the status that it writes itself,
// conditions included, so that what it decides may change with that.
func (k *Kind) ReadsOwnStatus() bool {
	if k.Target != nil {
		return false // it writes none
	}
	status := k.Reads.Object.part("status")
	if status.Whole || status.Elements != nil {
		return true
	}
	for name := range status.Fields {
		if k.IsOwnStatus(name) {
			return true
		}
	}
	return false
}

// ReadOfOwnStatus returns the part of the status that the controller may read and writes itself, conditions included. The
// result shares memory with the object.
func (k *Kind) ReadOfOwnStatus(object map[string]any) map[string]any {
	read, _ := k.Reads.Object.part("status").of(object["status"]).(map[string]any)
	own := maps.Clone(read)
	maps.DeleteFunc(own, func(name string, _ any) bool { return !k.IsOwnStatus(name) })
	return own
}

// ReadOfChild returns the part of a child, of a member of a set, or of an object that is looked up,
// that the controller may read. The result shares memory with the object.
func (k *Kind) ReadOfChild(name string, child map[string]any) any {
	read := k.Reads.Observed.part(name)
	if k.isList(name) && !read.Whole {
		if read.Elements == nil {
			return nil
		}
		read = read.Elements
	}
	return read.of(child)
}

// Names in the contract.
const (
	// objectName is the object itself.
	objectName = "object"
	// observedName are the children that exist.
	observedName = "observed"
	// injectName is what Pods get.
	injectName = "inject"
	// indexName is the number of a member of an ordered set.
	indexName = "index"
)

// Reads are the reads of all behaviours of a package, as far as its syntax shows.
type Reads struct {
	// Object and Observed are the reads of the object and of its children. Anything that is
	// not plainly the name of a field counts as reading all.
	Object, Observed *Read
}

// readsOf finds what is read by the CUE of a package and of those that it imports.
func readsOf(instance *build.Instance) *Reads {
	c := &readCollector{Reads: Reads{Object: &Read{}, Observed: &Read{}}}
	eachPackage(instance, func(of *build.Instance) bool {
		if of.ImportPath == contractPackage {
			return false
		}
		for _, file := range of.Files {
			for _, declaration := range file.Decls {
				if f, ok := declaration.(*ast.Field); ok && isConversion(f.Value) {
					continue // its object is not that of a behaviour
				}
				c.visit(declaration)
			}
		}
		return true
	})
	return &c.Reads
}

type readCollector struct {
	Reads
	// variables are those of the comprehensions around, with their reads.
	variables []readVariable
}

// root returns the reads of object or observed by name; nil for any other name.
func (c *readCollector) root(name string) *Read {
	switch name {
	case objectName:
		return c.Object
	case observedName:
		return c.Observed
	}
	return nil
}

// within returns what is read of the part of the object or of its children that an expression
// refers to; nil if it refers to something else, or to all of one of them.
func (c *readCollector) within(e ast.Expr) *Read {
	if read := c.resolve(e); read != c.Object && read != c.Observed {
		return read
	}
	return nil
}

type readVariable struct {
	name  string
	reads *Read // nil if it is something else
}

// visit finds what is read within a piece of syntax.
func (c *readCollector) visit(node ast.Node) {
	ast.Walk(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			c.visitField(n)
			return false
		case *ast.Comprehension:
			c.visitComprehension(n)
			return false
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "len" && len(n.Args) == 1 {
				if list := c.within(n.Args[0]); list != nil {
					list.element() // only the number is read
					return false
				}
			}
		case *ast.BinaryExpr:
			if tested := presenceTest(n); tested != nil && c.within(tested) != nil {
				return false // nothing of it is read
			}
		}
		if n, ok := n.(ast.Expr); ok {
			if read := c.resolve(n); read != nil {
				read.Whole = true
				return false
			}
		}
		return true
	}, nil)
}

// presenceTest returns the expression that a comparison with _|_ tests; nil for others.
func presenceTest(e *ast.BinaryExpr) ast.Expr {
	if e.Op != token.EQL && e.Op != token.NEQ {
		return nil
	}
	for _, pair := range [][2]ast.Expr{{e.X, e.Y}, {e.Y, e.X}} {
		if _, ok := pair[0].(*ast.BottomLit); ok {
			return pair[1]
		}
	}
	return nil
}

// visitField reads a field. A field called observed may declare what the children look like;
// what it declares is read as well, because the children are compared with it.
func (c *readCollector) visitField(f *ast.Field) {
	label, isAliased := f.Label, f.Alias != nil
	if alias, ok := label.(*ast.Alias); ok {
		isAliased = true
		label, _ = alias.Expr.(ast.Label)
	}
	name, _, err := ast.LabelName(label)
	if err != nil {
		c.visit(label) // a pattern, or a name that is computed
	}
	if root := c.root(name); root != nil && err == nil {
		root.Whole = root.Whole || isAliased // it may be read by the alias
	}
	if err == nil && name == observedName {
		c.declare(f.Value, c.Observed)
	}
	c.visit(f.Value)
}

// declare notes the fields in a declaration of the children, which are compared with it.
func (c *readCollector) declare(value ast.Expr, read *Read) {
	switch value := value.(type) {
	case *ast.Ident:
		if value.Name == "_" { // it fits anything
			return
		}
	case *ast.ParenExpr:
		c.declare(value.X, read)
		return
	case *ast.BinaryExpr:
		if value.Op == token.AND {
			c.declare(value.X, read)
			c.declare(value.Y, read)
			return
		}
	case *ast.ListLit:
		for _, element := range value.Elts {
			if rest, ok := element.(*ast.Ellipsis); ok && rest.Type != nil {
				c.declare(rest.Type, read.element())
				continue
			}
			read.Whole = true
		}
		return
	case *ast.StructLit:
		for _, declaration := range value.Elts {
			switch declaration := declaration.(type) {
			case *ast.Ellipsis, *ast.CommentGroup:
				continue
			case *ast.Field:
				if ident, ok := declaration.Value.(*ast.Ident); ok && ident.Name == "_" && declaration.Alias == nil {
					continue
				}
				name, _, err := ast.LabelName(declaration.Label)
				if err == nil && declaration.Alias == nil {
					c.declare(declaration.Value, read.field(name))
					continue
				}
			}
			read.Whole = true
		}
		return
	}
	read.Whole = true
}

// visitComprehension reads a comprehension. The variable of a loop over a part of object or
// observed is each of its elements.
func (c *readCollector) visitComprehension(n *ast.Comprehension) {
	outer := len(c.variables)
	defer func() { c.variables = c.variables[:outer] }()
	bind := func(name *ast.Ident, read *Read) {
		if name != nil {
			c.variables = append(c.variables, readVariable{name.Name, read})
		}
	}
	for _, clause := range n.Clauses {
		switch clause := clause.(type) {
		case *ast.ForClause:
			var member *Read
			switch list := c.resolve(clause.Source); {
			case list != nil && list != c.Object:
				member = list.element()
			default:
				c.visit(clause.Source)
			}
			bind(clause.Key, nil)
			bind(clause.Value, member)
		case *ast.LetClause:
			c.visit(clause.Expr)
			bind(clause.Ident, nil)
		default:
			c.visit(clause)
		}
	}
	c.visit(n.Value)
}

// resolve returns the part of object or observed that an expression refers to; nil if it
// refers to something else, as far as the syntax shows.
func (c *readCollector) resolve(n ast.Node) *Read {
	switch n := n.(type) {
	case *ast.ParenExpr:
		return c.resolve(n.X)
	case *ast.Ident:
		for _, v := range slices.Backward(c.variables) {
			if v.name == n.Name {
				return v.reads
			}
		}
		return c.root(n.Name)
	case *ast.SelectorExpr:
		name, _, err := ast.LabelName(n.Sel)
		if x := c.resolve(n.X); x != nil && err == nil {
			return x.field(name)
		}
		return c.root(name) // as in #XController.observed
	case *ast.IndexExpr:
		literal, ok := n.Index.(*ast.BasicLit)
		if !ok {
			if x, isName := n.X.(*ast.Ident); isName && (x.Name == "self" || strings.HasSuffix(x.Name, controllerSuffix) || strings.HasSuffix(x.Name, decoratorSuffix)) {
				c.Object.Whole, c.Observed.Whole = true, true // it may be the controller, by a name that is computed
			}
			return nil
		}
		x := c.resolve(n.X)
		name, _, err := ast.LabelName(literal)
		isName := err == nil && literal.Kind == token.STRING
		switch {
		case x == nil && isName: // as in self["observed"]
			return c.root(name)
		case x == nil:
			return nil
		case isName:
			return x.field(name)
		case literal.Kind == token.INT:
			return x.element()
		}
	}
	return nil
}
