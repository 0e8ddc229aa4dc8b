package facts

import (
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/internal/parts"
)

// reads finds what the controller reads, itself and by the definitions that it refers to.
func (b *Source) reads() []string {
	collector := &readCollector{Reads: kind.Reads{Object: &parts.Set{}, Observed: &parts.Set{}}}
	seen, packages := make(map[*ast.Field]bool), make(syntax.TopLevels)
	var follow func(instance *build.Instance, name string)
	follow = func(instance *build.Instance, name string) {
		if instance.ImportPath == syntax.ContractPackage || instance.ImportPath == syntax.LibraryPackage {
			return
		}
		for _, f := range packages.FieldsOf(instance)[name] {
			if seen[f] {
				continue
			}
			seen[f] = true
			if name != "#"+b.kind.GroupVersionKind.Kind { // the schema reads nothing
				collector.visit(f.Value)
			}
			ast.Walk(f.Value, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if imported, name := syntax.ImportedDefinition(instance, n); imported != nil {
						follow(imported, name)
					}
				case *ast.Ident:
					follow(instance, n.Name)
				}
				return true
			}, nil)
		}
	}
	follow(b.pkg.Instance, syntax.BehaviourOf(b.kind.LoadName()))
	paths := append(paths(collector.Object, behaviour.ObjectName), paths(collector.Observed, behaviour.ObservedName)...)
	slices.Sort(paths)
	return slices.Compact(paths)
}

// paths lists what is read below a path.
func paths(r *parts.Set, path string) []string {
	if r.Whole {
		return []string{path}
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
		all = append(all, paths(r.Fields[name], path+"."+name)...)
	}
	if r.Elements != nil {
		if within := paths(r.Elements, path+"[*]"); len(within) > 0 {
			all = append(all, within...)
		} else {
			all = append(all, path) // its length
		}
	}
	if len(all) == 0 && len(r.Fields) == 0 && r.Elements == nil && path != behaviour.ObjectName &&
		path != behaviour.ObservedName {
		return []string{path}
	}
	return all
}

// ReadsOf finds what is read by the CUE of a package and of those that it imports.
func ReadsOf(instance *build.Instance) *kind.Reads {
	c := &readCollector{Reads: kind.Reads{Object: &parts.Set{}, Observed: &parts.Set{}}}
	syntax.EachPackage(instance, func(of *build.Instance) bool {
		if of.ImportPath == syntax.ContractPackage {
			return false
		}
		for _, file := range of.Files {
			for _, declaration := range file.Decls {
				if f, ok := declaration.(*ast.Field); ok && syntax.IsConversion(f.Value) {
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
	kind.Reads
	// variables are those of the comprehensions around, with their reads.
	variables []readVariable
}

// root returns the reads of object or observed by name; nil for any other name.
func (c *readCollector) root(name string) *parts.Set {
	switch name {
	case behaviour.ObjectName:
		return c.Object
	case behaviour.ObservedName:
		return c.Observed
	}
	return nil
}

// within returns what is read of the part of the object or of its children that an expression
// refers to; nil if it refers to something else, or to all of one of them.
func (c *readCollector) within(e ast.Expr) *parts.Set {
	if read := c.resolve(e); read != c.Object && read != c.Observed {
		return read
	}
	return nil
}

type readVariable struct {
	name  string
	reads *parts.Set // nil if it is something else
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
					list.Element() // only the number is read
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
	if err == nil && name == behaviour.ObservedName {
		c.declare(f.Value, c.Observed)
	}
	c.visit(f.Value)
}

// declare notes the fields in a declaration of the children, which are compared with it.
func (c *readCollector) declare(value ast.Expr, read *parts.Set) {
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
				c.declare(rest.Type, read.Element())
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
					c.declare(declaration.Value, read.Field(name))
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
	bind := func(name *ast.Ident, read *parts.Set) {
		if name != nil {
			c.variables = append(c.variables, readVariable{name.Name, read})
		}
	}
	for _, clause := range n.Clauses {
		switch clause := clause.(type) {
		case *ast.ForClause:
			var member *parts.Set
			switch list := c.resolve(clause.Source); {
			case list != nil && list != c.Object:
				member = list.Element()
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
func (c *readCollector) resolve(n ast.Node) *parts.Set {
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
			return x.Field(name)
		}
		return c.root(name) // as in #XController.observed
	case *ast.IndexExpr:
		literal, ok := n.Index.(*ast.BasicLit)
		if !ok {
			if x, isName := n.X.(*ast.Ident); isName &&
				(x.Name == "self" || strings.HasSuffix(x.Name, behaviour.ControllerSuffix) ||
					strings.HasSuffix(x.Name, behaviour.DecoratorSuffix)) {
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
			return x.Field(name)
		case literal.Kind == token.INT:
			return x.Element()
		}
	}
	return nil
}
