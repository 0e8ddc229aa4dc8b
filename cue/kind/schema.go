package kind

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/token"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

type schemaProps = apiextensionsv1.JSONSchemaProps

// collectSchema makes the structural OpenAPI schema of the kind from the syntax of
// #X: evaluated values no longer show which constraints they came from. A construct
// that the schema cannot carry is an error, so that nothing is dropped silently.
func collectSchema(k *Kind, instance *build.Instance) error {
	name := "#" + k.GroupVersionKind.Kind
	at, definition := scope{instance: instance}.definition(name)
	if definition == nil {
		return fmt.Errorf("%s must be a definition at the top of its file", name)
	}
	schema, err := at.schema(definition.Value)
	if err != nil {
		return err
	}
	if schema.Type != "object" {
		return errorAtNode(definition, "%s must be a struct", name)
	}
	schema.Description = describe(definition)
	// The API server has its own schema for these and allows no other.
	schema.Properties["apiVersion"] = schemaProps{Type: "string", Description: "apiVersion is the group and version of the object's schema."}
	schema.Properties["kind"] = schemaProps{Type: "string", Description: "kind is the name of the object's schema."}
	schema.Properties["metadata"] = schemaProps{Type: "object"}
	schema.Required = slices.DeleteFunc(schema.Required, func(name string) bool {
		return name == "apiVersion" || name == "kind" || name == "metadata"
	})
	k.Schema = schema
	return nil
}

// scope is where identifiers are looked up: a file of a package, and the
// definitions that are being followed, to notice one that contains itself.
type scope struct {
	instance  *build.Instance
	following []*ast.Field
}

// definition finds a definition of the package, and the scope inside it.
func (s scope) definition(name string) (scope, *ast.Field) {
	f, ok := topLevelDefinitions(s.instance)[name]
	if !ok {
		return s, nil
	}
	return scope{s.instance, append(slices.Clone(s.following), f)}, f
}

// schema turns one expression into a schema.
func (s scope) schema(expr ast.Expr) (*schemaProps, error) {
	switch e := expr.(type) {
	case *ast.ParenExpr:
		return s.schema(e.X)
	case *ast.StructLit:
		return s.structSchema(e)
	case *ast.ListLit:
		return s.listSchema(e)
	case *ast.BasicLit:
		return constantSchema(e)
	case *ast.Ident:
		return s.identSchema(e)
	case *ast.SelectorExpr:
		return s.selectorSchema(e)
	case *ast.CallExpr:
		return callSchema(e)
	case *ast.UnaryExpr:
		return boundSchema(e)
	case *ast.BinaryExpr:
		switch e.Op {
		case token.AND:
			return s.conjunction(e)
		case token.OR:
			return s.disjunction(e)
		}
	}
	return nil, errorAtNode(expr, "the CRD cannot carry this expression")
}

// basicTypes are CUE's predeclared types that a schema can carry.
var basicTypes = map[string]schemaProps{
	"string": {Type: "string"},
	"bool":   {Type: "boolean"},
	"number": {Type: "number"},
	"int":    {Type: "integer"},
	"int32":  {Type: "integer", Format: "int32"},
	"int64":  {Type: "integer", Format: "int64"},
	"uint":   {Type: "integer", Minimum: new(0.0)},
	"uint8":  {Type: "integer", Minimum: new(0.0), Maximum: new(255.0)},
	"uint16": {Type: "integer", Minimum: new(0.0), Maximum: new(65535.0)},
	"int8":   {Type: "integer", Minimum: new(-128.0), Maximum: new(127.0)},
	"int16":  {Type: "integer", Minimum: new(-32768.0), Maximum: new(32767.0)},
}

func (s scope) identSchema(e *ast.Ident) (*schemaProps, error) {
	if strings.HasPrefix(e.Name, "#") {
		return s.reference(e, e.Name)
	}
	if basic, ok := basicTypes[e.Name]; ok && e.Node == nil {
		return basic.DeepCopy(), nil
	}
	if e.Name == "_" {
		return &schemaProps{XPreserveUnknownFields: new(true)}, nil
	}
	return nil, errorAtNode(e, "the CRD cannot carry a reference to %s: use a definition, or a type such as string, bool, int64 or number", e.Name)
}

// reference follows a definition of this package.
func (s scope) reference(at ast.Node, name string) (*schemaProps, error) {
	inner, definition := s.definition(name)
	if definition == nil {
		return nil, errorAtNode(at, "%s is not a definition at the top of a file of its package", name)
	}
	if slices.Contains(s.following, definition) {
		return nil, errorAtNode(at, "%s contains itself, which a CRD cannot express", name)
	}
	return inner.schema(definition.Value)
}

// selectorSchema follows a definition of another package, or a validator of CUE's
// standard library.
func (s scope) selectorSchema(e *ast.SelectorExpr) (*schemaProps, error) {
	pkg, path := importedPackage(e)
	name, _, err := ast.LabelName(e.Sel)
	if err != nil || path == "" {
		return nil, errorAtNode(e, "the CRD cannot carry this reference")
	}
	if path == "time" && name == "Time" {
		return &schemaProps{Type: "string", Format: "date-time"}, nil
	}
	for _, imported := range s.instance.Imports {
		if imported.ImportPath == path || imported.ID() == path || strings.TrimSuffix(imported.ImportPath, ":"+imported.PkgName) == path {
			return scope{imported, s.following}.reference(e, name)
		}
	}
	return nil, errorAtNode(e, "the CRD cannot carry %s.%s", pkg, name)
}

// importedPackage returns the name and the import path of the package that a
// selector selects from, or "" if it selects from something else.
func importedPackage(e *ast.SelectorExpr) (name, path string) {
	ident, ok := e.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	spec, ok := ident.Node.(*ast.ImportSpec)
	if !ok {
		return ident.Name, ""
	}
	path, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return ident.Name, ""
	}
	path, _, _ = strings.Cut(path, ":")
	return ident.Name, path
}

// callSchema carries the validators that bound lengths and sizes.
func callSchema(e *ast.CallExpr) (*schemaProps, error) {
	selector, ok := e.Fun.(*ast.SelectorExpr)
	if !ok || len(e.Args) != 1 {
		return nil, errorAtNode(e, "the CRD cannot carry this call")
	}
	pkg, _ := importedPackage(selector)
	name, _, _ := ast.LabelName(selector.Sel)
	n, err := intLiteral(e.Args[0])
	if err != nil {
		return nil, err
	}
	switch pkg + "." + name {
	case "strings.MinRunes":
		return &schemaProps{Type: "string", MinLength: &n}, nil
	case "strings.MaxRunes":
		return &schemaProps{Type: "string", MaxLength: &n}, nil
	case "list.MinItems":
		return &schemaProps{Type: "array", MinItems: &n}, nil
	case "list.MaxItems":
		return &schemaProps{Type: "array", MaxItems: &n}, nil
	case "struct.MinFields":
		return &schemaProps{Type: "object", MinProperties: &n}, nil
	case "struct.MaxFields":
		return &schemaProps{Type: "object", MaxProperties: &n}, nil
	}
	return nil, errorAtNode(e, "the CRD cannot carry %s.%s", pkg, name)
}

// boundSchema carries regular expressions and numeric bounds.
func boundSchema(e *ast.UnaryExpr) (*schemaProps, error) {
	if e.Op == token.MAT {
		pattern, err := stringLiteral(e.X)
		return &schemaProps{Type: "string", Pattern: pattern}, err
	}
	if e.Op == token.SUB {
		return constantSchema(e)
	}
	bound, err := numberLiteral(e.X)
	if err != nil {
		return nil, err
	}
	switch e.Op {
	case token.GEQ:
		return &schemaProps{Type: "number", Minimum: &bound}, nil
	case token.GTR:
		return &schemaProps{Type: "number", Minimum: &bound, ExclusiveMinimum: true}, nil
	case token.LEQ:
		return &schemaProps{Type: "number", Maximum: &bound}, nil
	case token.LSS:
		return &schemaProps{Type: "number", Maximum: &bound, ExclusiveMaximum: true}, nil
	}
	return nil, errorAtNode(e, "the CRD cannot carry the operator %s", e.Op)
}

// constantSchema is a schema that one value satisfies.
func constantSchema(e ast.Expr) (*schemaProps, error) {
	value, err := literalValue(e)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return &schemaProps{Type: jsonType(value), Enum: []apiextensionsv1.JSON{{Raw: raw}}}, nil
}

func (s scope) listSchema(e *ast.ListLit) (*schemaProps, error) {
	if len(e.Elts) == 1 {
		if ellipsis, ok := e.Elts[0].(*ast.Ellipsis); ok && ellipsis.Type != nil {
			items, err := s.schema(ellipsis.Type)
			if err != nil {
				return nil, err
			}
			return &schemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: items}}, nil
		}
	}
	return nil, errorAtNode(e, "the CRD cannot carry this list: write [...T]")
}

func (s scope) structSchema(e *ast.StructLit) (*schemaProps, error) {
	result := &schemaProps{Type: "object", Properties: make(map[string]schemaProps)}
	for _, decl := range e.Elts {
		var err error
		switch d := decl.(type) {
		case *ast.Field:
			err = s.addField(result, d)
		case *ast.EmbedDecl:
			var embedded *schemaProps
			if embedded, err = s.schema(d.Expr); err == nil {
				result, err = and(result, embedded, d)
			}
		case *ast.Ellipsis:
			result.XPreserveUnknownFields = new(true)
		case *ast.CommentGroup, *ast.Attribute, *ast.LetClause:
		default:
			err = errorAtNode(decl, "the CRD cannot carry a comprehension")
		}
		if err != nil {
			return nil, err
		}
	}
	if result.AdditionalProperties != nil && len(result.Properties) > 0 {
		return nil, errorAtNode(e, "a CRD cannot have both named fields and [string] in one struct")
	}
	return result, nil
}

// addField adds one field of a struct: required, optional, with a default, or the
// pattern that stands for all others.
func (s scope) addField(to *schemaProps, f *ast.Field) error {
	if pattern, ok := f.Label.(*ast.ListLit); ok {
		if len(pattern.Elts) == 1 {
			if ident, ok := pattern.Elts[0].(*ast.Ident); ok && ident.Name == "string" {
				values, err := s.schema(f.Value)
				to.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: values}
				return err
			}
		}
		return errorAtNode(f, "the CRD cannot carry a pattern of labels: write [string]")
	}
	name, _, err := ast.LabelName(f.Label)
	if err != nil {
		return errorAtNode(f, "the CRD cannot carry this label")
	}
	if strings.HasPrefix(name, "_") || strings.HasPrefix(name, "#") {
		return nil
	}
	property, err := s.schema(f.Value)
	if err != nil {
		return err
	}
	if description := describe(f); description != "" {
		property.Description = description
	}
	if err := applyAttributes(property, f); err != nil {
		return err
	}
	switch f.Constraint {
	case token.OPTION:
	case token.NOT:
		to.Required = append(to.Required, name)
	default:
		requireOrDefault(to, name, property)
	}
	if existing, ok := to.Properties[name]; ok {
		if property, err = and(&existing, property, f); err != nil {
			return err
		}
	}
	to.Properties[name] = *property
	return nil
}

// requireOrDefault treats a field that is neither required nor optional in CUE:
// it is always there, with its default, its only value, or an empty struct.
func requireOrDefault(to *schemaProps, name string, property *schemaProps) {
	switch {
	case property.Default != nil:
	case len(property.Enum) == 1:
		property.Default = property.Enum[0].DeepCopy()
	case property.Type == "object" && len(property.Required) == 0:
		property.Default = &apiextensionsv1.JSON{Raw: []byte("{}")}
	case property.Type == "array" && property.MinItems == nil:
		property.Default = &apiextensionsv1.JSON{Raw: []byte("[]")}
	default:
		to.Required = append(to.Required, name)
	}
}

// applyAttributes carries what @kube(…) says and CUE cannot.
func applyAttributes(property *schemaProps, f *ast.Field) error {
	for _, attribute := range f.Attrs {
		key, body := attribute.Split()
		if key != "kube" {
			continue
		}
		for argument := range strings.SplitSeq(body, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(argument), "=")
			switch name {
			case "listType":
				property.XListType = &value
			case "listMapKey":
				property.XListMapKeys = append(property.XListMapKeys, value)
			case "format":
				property.Format = value
			default:
				return errorAtNode(attribute, "@kube has no argument %q; it has listType, listMapKey and format", name)
			}
		}
	}
	return nil
}

// describe is the comment above a field, as one paragraph.
func describe(f *ast.Field) string {
	var words []string
	for _, group := range ast.Comments(f) {
		if group.Doc {
			words = append(words, strings.Fields(group.Text())...)
		}
	}
	return strings.Join(words, " ")
}
