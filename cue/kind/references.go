package kind

import (
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind/ir"
)

// checkReferences says which field of the object, or which child, the behaviour of a kind
// names that cannot exist. CUE takes such a name for something that is not there yet: what an
// if guards by it would never be made, and a condition never hold.
func checkReferences(instance *build.Instance, name string, schema *ir.Schema) error {
	r := &references{seen: make(map[definition]bool)}
	r.definition(instance, "#"+name+controllerSuffix)
	for _, reference := range r.found {
		names := reference.names
		switch {
		case reference.root == objectName && !r.unsure[objectName]:
			if reach := schema.Reach(names); reach < len(names) {
				return errorAtNode(reference.at, "%s: #%s has no field %s", reference, name, strings.Join(names[:reach+1], "."))
			}
		case reference.root == observedName && !r.unsure[observedName] && !slices.Contains(r.children, names[0]):
			return errorAtNode(reference.at, "%s: the kind has no child %s", reference, names[0])
		}
	}
	return nil
}

// references collects the names that a definition and those that it is made of use.
type references struct {
	found    []reference
	children []string        // that there can be
	unsure   map[string]bool // roots of which not all is known
	seen     map[definition]bool
}

// reference is a selection of fields, the next of the last.
type reference struct {
	root  string
	names []string
	at    ast.Node
}

func (r reference) String() string { return r.root + "." + strings.Join(r.names, ".") }

func (r *references) doubt(root string) {
	if r.unsure == nil {
		r.unsure = make(map[string]bool)
	}
	r.unsure[root] = true
}

// definition visits a definition at the top of a package.
func (r *references) definition(instance *build.Instance, name string) {
	key := definition{instance, name}
	if r.seen[key] || instance.ImportPath == contractPackage {
		return
	}
	r.seen[key] = true
	for _, f := range newCompiler().fieldsOf(instance)[name] {
		own := make(map[ast.Node]bool) // the fields of the controller itself
		for _, part := range conjuncts(f.Value) {
			if s, ok := part.(*ast.StructLit); ok {
				for _, declaration := range s.Elts {
					own[declaration] = true
				}
			}
		}
		r.visit(instance, f.Value, own)
	}
}

// conjuncts are what is unified by an expression.
func conjuncts(e ast.Expr) []ast.Expr {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return conjuncts(e.X)
	case *ast.BinaryExpr:
		if e.Op == token.AND {
			return append(conjuncts(e.X), conjuncts(e.Y)...)
		}
	}
	return []ast.Expr{e}
}

func (r *references) visit(instance *build.Instance, node ast.Node, own map[ast.Node]bool) {
	ast.Walk(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			r.field(n, own[n])
		case *ast.ForClause:
			r.shadows(n.Key)
			r.shadows(n.Value)
		case *ast.LetClause:
			r.shadows(n.Ident)
		case *ast.Ident:
			if strings.HasPrefix(n.Name, "#") {
				r.definition(instance, n.Name)
			}
		case *ast.SelectorExpr:
			return r.selector(instance, n)
		}
		return true
	}, nil)
}

// shadows notes a variable that is called as what a behaviour reads.
func (r *references) shadows(name *ast.Ident) {
	if name != nil && (name.Name == objectName || name.Name == observedName) {
		r.doubt(name.Name)
	}
}

// field notes the children that there can be, and fields by whose name another thing may be
// meant than by that of the controller.
func (r *references) field(f *ast.Field, isOwn bool) {
	name, _, err := ast.LabelName(f.Label)
	switch {
	case err != nil:
	case name == "children" || name == observedName && isOwn:
		r.names(f.Value)
	case (name == objectName || name == observedName) && !isOwn:
		r.doubt(name)
	}
}

// names collects the names of children.
func (r *references) names(value ast.Expr) {
	for _, part := range conjuncts(value) {
		s, ok := part.(*ast.StructLit)
		if !ok {
			r.doubt(observedName)
			continue
		}
		for _, declaration := range s.Elts {
			switch declaration := declaration.(type) {
			case *ast.Field:
				name, _, err := ast.LabelName(declaration.Label)
				if err != nil {
					r.doubt(observedName)
				}
				r.children = append(r.children, name)
			case *ast.Comprehension:
				r.names(declaration.Value)
			case *ast.CommentGroup:
			default:
				r.doubt(observedName)
			}
		}
	}
}

// selector notes a selection from what a behaviour reads, and follows one from a package. It
// tells whether to look within it.
func (r *references) selector(instance *build.Instance, e *ast.SelectorExpr) bool {
	var names []string
	var x ast.Expr = e
	for {
		s, ok := x.(*ast.SelectorExpr)
		if !ok {
			break
		}
		name, _, err := ast.LabelName(s.Sel)
		if err != nil {
			return true
		}
		names, x = append(names, name), s.X
	}
	slices.Reverse(names)
	root, ok := x.(*ast.Ident)
	switch {
	case !ok:
		return true
	case root.Name == objectName || root.Name == observedName:
		r.found = append(r.found, reference{root.Name, names, e})
	case strings.HasPrefix(root.Name, "#"):
		r.definition(instance, root.Name)
	case strings.HasPrefix(names[0], "#"):
		_, path := importedPackage(&ast.SelectorExpr{X: root, Sel: e.Sel})
		for _, imported := range instance.Imports {
			if isPackage(imported, path) {
				r.definition(imported, names[0])
			}
		}
	}
	return false
}
