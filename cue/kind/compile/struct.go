package compile

import (
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind/binding"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// structLiteral reads {…}: its fields, what it embeds, and its conditions.
func (s scope) structLiteral(e *ast.StructLit) (*schema.Schema, error) {
	inner := s
	inner.embedded = false
	inner.depth = s.depth + 1
	inner.frames = append(slices.Clone(s.frames), frame{e, inner.depth})
	result := &schema.Schema{Position: syntax.PositionOf(e), Types: schema.Struct,
		TypeRule: &schema.Rule{Text: "{…}", Position: syntax.PositionOf(e)}, Struct: &schema.StructSchema{}}
	if isEmbedding(e) {
		result = schema.Anything(syntax.PositionOf(e)) // {string} is a string
	}
	for _, decl := range e.Elts {
		part := &schema.Schema{Position: syntax.PositionOf(e), Types: schema.AnyType, Struct: &schema.StructSchema{}}
		var err error
		switch d := decl.(type) {
		case *ast.Field:
			err = inner.field(part.Struct, d)
		case *ast.EmbedDecl:
			part, err = s.embedding(d)
			if err == nil && part.Struct != nil && isDefinition(d.Expr) {
				part = defined(part)
			}
		case *ast.Ellipsis:
			part.Struct.Open = true
		case *ast.Comprehension:
			err = inner.condition(part.Struct, d)
		case *ast.Attribute:
			err = applyAttribute(part, d)
		case *ast.CommentGroup, *ast.LetClause:
			continue
		default:
			err = s.unsupported(decl, "this declaration")
		}
		if err != nil {
			return nil, err
		}
		if result, err = possible(schema.And(result, part), decl); err != nil {
			return nil, err
		}
		if part.Struct != nil && len(part.Struct.Conditions) > 0 {
			// CUE does not know that a value with an if is a struct: the if may bring in a
			// scalar.
			result.TypeRule.NotInCUE = true
		}
	}
	return result, nil
}

// isEmbedding reports whether a struct literal only embeds other values, beside definitions
// and hidden fields, so that its type is theirs.
func isEmbedding(e *ast.StructLit) bool {
	embeds := false
	for _, decl := range e.Elts {
		switch d := decl.(type) {
		case *ast.EmbedDecl:
			embeds = true
		case *ast.Field:
			name, _, err := ast.LabelName(d.Label)
			if err != nil || !strings.HasPrefix(name, "#") && !strings.HasPrefix(name, "_") {
				return false
			}
		case *ast.CommentGroup, *ast.LetClause, *ast.Attribute:
		default:
			return false
		}
	}
	return embeds
}

// isDefinition reports whether an expression is a definition or close(…), or combines one with
// something else.
func isDefinition(expr ast.Expr) bool {
	switch e := expr.(type) {
	case *ast.ParenExpr:
		return isDefinition(e.X)
	case *ast.BinaryExpr:
		return isDefinition(e.X) || isDefinition(e.Y)
	case *ast.Ident:
		return strings.HasPrefix(e.Name, "#")
	case *ast.SelectorExpr:
		name, _, err := ast.LabelName(e.Sel)
		return err == nil && strings.HasPrefix(name, "#")
	case *ast.CallExpr:
		ident, ok := e.Fun.(*ast.Ident)
		return ok && ident.Name == "close"
	}
	return false
}

// defined marks a struct as part of a definition that is embedded.
func defined(s *schema.Schema) *schema.Schema {
	marked, structs := *s, *s.Struct
	structs.Defined = true
	marked.Struct = &structs
	return &marked
}

// embedding reads an expression embedded in a struct. The definitions that it refers to do
// not close the struct.
func (s scope) embedding(d *ast.EmbedDecl) (*schema.Schema, error) {
	outer := s
	outer.embedded = true
	return outer.expression(d.Expr)
}

// field reads one field of a struct: required, optional, regular, or the pattern that
// stands for all that match it.
func (s scope) field(to *schema.StructSchema, f *ast.Field) error {
	if pattern, ok := f.Label.(*ast.ListLit); ok {
		return s.labelPattern(to, f, pattern)
	}
	name, _, err := ast.LabelName(f.Label)
	if err != nil {
		return s.unsupported(f, "the label "+syntax.SourceOf(f.Label))
	}
	if f.Constraint == token.NOT && isLocal(name) {
		return syntax.ErrorAtNode(mistake.UnsupportedCUE, f,
			"%s! cannot be in any object: only regular and optional definitions and hidden fields can be compiled",
			name)
	}
	if isLocal(name) && s.isForAnother(name) {
		return syntax.ErrorAtNode(mistake.UnsupportedCUE, f,
			"%s is not used here, and another struct that declares it would be checked by it, which cannot be compiled: "+
				"write the constraint on the field itself", name)
	}
	if strings.HasPrefix(name, "#") {
		return nil
	}
	compiled, err := s.fieldValue(f)
	if err != nil {
		return err
	}
	if strings.HasPrefix(name, "_") {
		return s.hidden(f, compiled)
	}
	added := &schema.Field{Name: name, Schema: compiled,
		Rule: &schema.Rule{Text: name + "!", Position: syntax.PositionOf(f)}}
	switch f.Constraint {
	case token.OPTION:
	case token.NOT:
		added.Presence = schema.Required
	default:
		added.Presence, added.Rule.Text = schema.Regular, name+" is required"
		if compiled.Default == nil &&
			slices.ContainsFunc(compiled.Relations, func(r schema.Relation) bool { return r.Op == "==" }) {
			return syntax.ErrorAtNode(mistake.UnsupportedCUE, f,
				"a field that is set to another field of the object cannot be compiled: write %s? or %s!", name, name)
		}
	}
	to.Fields = append(to.Fields, added)
	return nil
}

// isLocal reports whether a name is that of a definition or a hidden field.
func isLocal(name string) bool { return strings.HasPrefix(name, "#") || strings.HasPrefix(name, "_") }

// isForAnother reports whether the innermost struct does not use a local name that it declares, and another one does:
// unified with that one, it would change what the name stands for there.
func (s scope) isForAnother(name string) bool {
	own := s.frames[len(s.frames)-1].literal
	isUsed, isUsedElsewhere := false, false
	for _, file := range s.instance.Files {
		ast.Walk(file, func(n ast.Node) bool {
			if ident, ok := n.(*ast.Ident); ok && ident.Name == name {
				if b := binding.Of(ident); b.Kind == binding.Field {
					isUsed = isUsed || b.Struct == own
					isUsedElsewhere = isUsedElsewhere || b.Struct != own
				}
			}
			return !isUsed
		}, nil)
	}
	return isUsedElsewhere && !isUsed
}

// hidden rejects a hidden field that checks the object: it would be dropped otherwise.
func (s scope) hidden(f *ast.Field, compiled *schema.Schema) error {
	if compiled.DependsOnObject() {
		return syntax.ErrorAtNode(mistake.UnsupportedCUE, f,
			"a hidden field that depends on the object cannot be compiled: state the constraint on the field itself")
	}
	return nil
}

// fieldValue reads the value of a field, its comment and its attributes.
func (s scope) fieldValue(f *ast.Field) (*schema.Schema, error) {
	if _, isPattern := f.Label.(*ast.ListLit); isPattern || f.Constraint != token.ILLEGAL {
		s.guards++ // it may be absent, or the author of the object ends it
	}
	compiled, err := s.expression(f.Value)
	if err != nil {
		return nil, err
	}
	own := *compiled
	if description := describe(f); description != "" {
		own.Doc = description
	}
	if own.Position.File == "" {
		own.Position = syntax.PositionOf(f)
	}
	for _, attribute := range f.Attrs {
		if err := applyAttribute(&own, attribute); err != nil {
			return nil, err
		}
	}
	if !slices.Contains([]string{"", "atomic", "set", "map"}, own.ListType) ||
		(own.ListType == "map") != (len(own.ListMapKeys) > 0) {
		return nil, syntax.ErrorAtNode(mistake.InvalidAttribute, f, "listType must be atomic, set or map, and only map has a listMapKey")
	}
	return &own, nil
}

// labelPattern reads [=~"…"]: T and [string]: T.
func (s scope) labelPattern(to *schema.StructSchema, f *ast.Field, pattern *ast.ListLit) error {
	if len(pattern.Elts) != 1 {
		return s.unsupported(f, "this pattern of labels")
	}
	if _, isAlias := pattern.Elts[0].(*ast.Alias); isAlias || f.Alias != nil {
		return s.unsupported(f, "the name of a label")
	}
	labels, err := s.expression(pattern.Elts[0])
	if err != nil {
		return err
	}
	label := schema.LabelPattern{Rule: &schema.Rule{Text: "[" + syntax.SourceOf(pattern.Elts[0]) + "]",
		Position: syntax.PositionOf(f)}}
	switch {
	case labels.Types&schema.String == 0 || len(labels.Patterns) > 1 || len(labels.Checks) > 0 || labels.Enum != nil ||
		labels.Length != schema.Range{} || len(labels.Alternatives) > 0:
		return syntax.ErrorAtNode(mistake.UnsupportedCUE, f,
			"this pattern of labels cannot be compiled: write [string] or [=~\"…\"]")
	case len(labels.Patterns) == 1:
		label.Regexp, label.Negated = labels.Patterns[0].Regexp, labels.Patterns[0].Negated
	}
	if label.Schema, err = s.fieldValue(f); err != nil {
		return err
	}
	to.Labels = append(to.Labels, label)
	return nil
}

// condition reads if a if b {…}.
func (s scope) condition(to *schema.StructSchema, c *ast.Comprehension) error {
	first, ok := c.Clauses[0].(*ast.IfClause)
	body, isStruct := c.Value.(*ast.StructLit)
	if !ok || !isStruct || c.Fallback != nil {
		return s.unsupported(c, "this comprehension")
	}
	when, err := s.objectExpr(first.Condition)
	if err != nil {
		return err
	}
	then := &schema.StructSchema{}
	if len(c.Clauses) > 1 {
		rest := *c
		rest.Clauses = c.Clauses[1:]
		if err := s.condition(then, &rest); err != nil {
			return err
		}
	} else if then, err = s.conditionBody(body); err != nil {
		return err
	}
	to.Conditions = append(to.Conditions, schema.Condition{
		Rule: &schema.Rule{Text: presenceInWords.Replace(syntax.SourceOf(first.Condition)),
			Position: syntax.PositionOf(first)},
		When: when, Then: then,
	})
	return nil
}

// presenceInWords returns in words what a comparison with CUE's error value means.
var presenceInWords = strings.NewReplacer(" != _|_", " is set", " == _|_", " is not set")

// conditionBody reads what an if adds to the struct that it stands in.
func (s scope) conditionBody(body *ast.StructLit) (*schema.StructSchema, error) {
	outer := s
	outer.depth = s.depth - 1
	compiled, err := outer.structLiteral(body)
	if err != nil {
		return nil, err
	}
	if compiled.Types != schema.Struct || compiled.Struct == nil || len(compiled.Alternatives) > 0 {
		return nil, s.unsupported(body, "what this condition adds")
	}
	return compiled.Struct, nil
}

// kubeArgument is an argument of @kube.
type kubeArgument struct {
	name     string
	hasValue bool
}

// kubeArguments are those that applyAttribute knows.
var kubeArguments = []kubeArgument{
	{"listType", true}, {"listMapKey", true}, {"mapType", true}, {"format", true}, {"immutable", false},
	{"deprecated", true}, {"embeddedResource", false}, {"preserveUnknownFields", false},
}

// kubeArgumentOf returns the argument of a name; ok is false if there is none.
func kubeArgumentOf(name string) (found kubeArgument, ok bool) {
	i := slices.IndexFunc(kubeArguments, func(a kubeArgument) bool { return a.name == name })
	if i < 0 {
		return found, false
	}
	return kubeArguments[i], true
}

// foreignAttribute rejects attributes that look as if Fescue read them. CUE ignores those that it does not know.
func foreignAttribute(key string, attribute *ast.Attribute) error {
	instead := "@kube(…)"
	argument, isArgument := kubeArgumentOf(key)
	switch {
	case argument.hasValue:
		instead = "@kube(" + key + "=…)"
	case isArgument:
		instead = "@kube(" + key + ")"
	case key == "kubebuilder" || key == "cel":
		instead = "the rule in CUE, or @kube(…)"
	case !strings.HasPrefix(key, "kub"):
		return nil
	}
	return syntax.ErrorAtNode(mistake.InvalidAttribute, attribute, "Fescue does not read %s: write %s", attribute.Text,
		instead)
}

// applyAttribute adds what @kube(…) states because CUE cannot.
func applyAttribute(to *schema.Schema, attribute *ast.Attribute) error {
	key, body := attribute.Split()
	if key != "kube" {
		return foreignAttribute(key, attribute)
	}
	rule := &schema.Rule{Text: attribute.Text, Position: syntax.PositionOf(attribute), NotInCUE: true}
	for argument := range strings.SplitSeq(body, ",") {
		name, value, hasValue := strings.Cut(strings.TrimSpace(argument), "=")
		if known, ok := kubeArgumentOf(name); ok && hasValue && !known.hasValue {
			return syntax.ErrorAtNode(mistake.InvalidAttribute, attribute,
				"@kube(%s=%s): %[1]s takes no value: write @kube(%[1]s), or nothing", name, value)
		}
		switch name {
		case "listType":
			to.ListType, to.ListTypeRule = value, rule
		case "listMapKey":
			to.ListMapKeys = append(slices.Clone(to.ListMapKeys), value)
		case "mapType":
			to.MapType = value
		case "format":
			to.Format = value
			if check, ok := formatChecks[value]; ok {
				to.Checks = append(slices.Clone(to.Checks),
					schema.Check{Rule: rule, Holds: check, Format: value, Exact: true})
			}
		case "deprecated":
			text, err := strconv.Unquote(value)
			if err != nil || text == "" {
				return syntax.ErrorAtNode(mistake.InvalidAttribute, attribute,
					"@kube(deprecated=%s): write in quotes, without a comma, what to use instead, as in @kube(deprecated=\"use spec.schedule\")", value)
			}
			to.Deprecated = text
		case "immutable":
			to.Immutable = rule
		case "embeddedResource":
			to.Embedded = true
		case "preserveUnknownFields":
			to.PreserveAll = true
		case "eval":
			return syntax.ErrorAtNode(mistake.InvalidAttribute, attribute,
				"@kube(eval) does not exist: all of a schema is compiled. Write the field with literals, definitions, bounds, & and |")
		default:
			names := make([]string, len(kubeArguments))
			for i, a := range kubeArguments {
				names[i] = a.name
			}
			last := len(names) - 1
			return syntax.ErrorAtNode(mistake.InvalidAttribute, attribute, "@kube has no argument %q; it has %s and %s",
				name, strings.Join(names[:last], ", "), names[last])
		}
	}
	return nil
}
