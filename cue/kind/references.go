package kind

import (
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind/schema"
)

// checkReferences returns an error if the controller of a kind names a field of the object,
// or a child, that cannot exist. CUE takes such a name for something that is absent so far:
// an if that depends on it would never be true, and a condition would never hold.
func checkReferences(instance *build.Instance, name string, schema *schema.Schema) error {
	r := &references{compiler: newCompiler(), seen: make(map[definition]bool)}
	r.definition(instance, "#"+name+controllerSuffix, true)
	for _, reference := range r.found {
		names := reference.names
		switch {
		case reference.root == objectName && !r.unsure[objectName]:
			if reach := schema.Reach(names); reach < len(names) {
				return errorAtNode(reference.at, "%s: #%s has no field %s%s", reference, name, strings.Join(names[:reach+1], "."),
					nearText(names[reach], schema.FieldNames(names[:reach])))
			}
		case reference.root == observedName && !r.unsure[observedName] && !slices.Contains(r.children, names[0]):
			return errorAtNode(reference.at, "%s: the kind has no child %s%s", reference, names[0], nearText(names[0], r.children))
		}
	}
	return nil
}

// references collects the names used by a definition and by those that it is unified with.
type references struct {
	compiler *compiler // finds the fields of packages
	found    []reference
	children []string        // that can exist
	unsure   map[string]bool // roots that are not fully known
	seen     map[definition]bool
}

// reference is a selection of nested fields.
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

// definition visits a definition at the top of a package: the controller or one that it is
// unified with, or another that something in it refers to.
func (r *references) definition(instance *build.Instance, name string, isController bool) {
	key := definition{instance, name}
	if r.seen[key] || instance.ImportPath == contractPackage {
		return
	}
	r.seen[key] = true
	for _, f := range r.compiler.fieldsOf(instance)[name] {
		own := make(map[ast.Node]bool) // the fields of the controller itself
		if isController {
			r.parts(instance, f.Value, own)
		}
		r.visit(instance, f.Value, own)
	}
}

// parts collects the fields of a controller, and visits the definitions that it is unified
// with.
func (r *references) parts(instance *build.Instance, value ast.Expr, own map[ast.Node]bool) {
	for _, part := range conjuncts(value) {
		switch part := part.(type) {
		case *ast.StructLit:
			for _, declaration := range part.Elts {
				own[declaration] = true
				if embedded, ok := declaration.(*ast.EmbedDecl); ok {
					r.parts(instance, embedded.Expr, own)
				}
			}
		case *ast.Ident:
			if strings.HasPrefix(part.Name, "#") {
				r.definition(instance, part.Name, true)
			}
		case *ast.SelectorExpr:
			if imported, name := importedDefinition(instance, part); imported != nil {
				r.definition(imported, name, true)
			}
		}
	}
}

// importedDefinition finds a definition of another package; nil is none.
func importedDefinition(instance *build.Instance, e *ast.SelectorExpr) (*build.Instance, string) {
	name, _, err := ast.LabelName(e.Sel)
	_, path := importedPackage(e)
	if err != nil || path == "" || !strings.HasPrefix(name, "#") {
		return nil, ""
	}
	i := slices.IndexFunc(instance.Imports, func(imported *build.Instance) bool { return isPackage(imported, path) })
	if i < 0 {
		return nil, ""
	}
	return instance.Imports[i], name
}

// conjuncts returns what is unified by an expression.
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
			_, isImport := n.Node.(*ast.ImportSpec)
			if _, isOfFile := n.Scope.(*ast.File); strings.HasPrefix(n.Name, "#") {
				r.definition(instance, n.Name, false)
			} else if isOfFile && !isImport {
				r.doubt(observedName) // children may come from there
			}
		case *ast.SelectorExpr:
			return r.selector(instance, n)
		}
		return true
	}, nil)
}

// shadows records a variable called object or observed.
func (r *references) shadows(name *ast.Ident) {
	if name != nil && (name.Name == objectName || name.Name == observedName) {
		r.doubt(name.Name)
	}
}

// field records the children that can exist, and fields that shadow object or observed of the
// controller.
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
		if any, ok := part.(*ast.Ident); ok && any.Name == "_" {
			continue // observed: _ names none
		}
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

// selector records a selection from object or observed, and follows one from a package. It
// reports whether to visit what is within it.
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
	default:
		if imported, name := importedDefinition(instance, innermost(e)); imported != nil {
			r.definition(imported, name, false)
		} else if _, path := importedPackage(innermost(e)); strings.Contains(path, ".") {
			r.doubt(observedName) // of a package that is not CUE's own: children may come from there
		} else {
			return true
		}
	}
	return false
}

// innermost returns the selection from a name in a chain of selections.
func innermost(e *ast.SelectorExpr) *ast.SelectorExpr {
	for {
		x, ok := e.X.(*ast.SelectorExpr)
		if !ok {
			return e
		}
		e = x
	}
}
