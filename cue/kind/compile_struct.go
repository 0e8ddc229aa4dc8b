package kind

import (
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind/ir"
)

// structLiteral reads {…}: its fields, what it embeds, and its conditions.
func (s scope) structLiteral(e *ast.StructLit) (*ir.Schema, error) {
	inner := s
	inner.embedded = false
	inner.depth = s.depth + 1
	inner.frames = append(slices.Clone(s.frames), frame{e, inner.depth})
	result := &ir.Schema{Position: positionOf(e), Types: ir.Struct, TypeRule: &ir.Rule{Text: "{…}", Position: positionOf(e)}, Struct: &ir.StructSchema{}}
	for _, decl := range e.Elts {
		part := &ir.Schema{Position: positionOf(e), Types: ir.AnyType, Struct: &ir.StructSchema{}}
		var err error
		switch d := decl.(type) {
		case *ast.Field:
			err = inner.field(part.Struct, d)
		case *ast.EmbedDecl:
			part, err = s.embedding(d)
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
		if result, err = possible(ir.And(result, part), decl); err != nil {
			return nil, err
		}
		if part.Struct != nil && len(part.Struct.Conditions) > 0 {
			// CUE does not know that what has an if is a struct: an if may bring in a scalar.
			result.TypeRule.NotInCUE = true
		}
	}
	return result, nil
}

// embedding reads an expression that stands alone in a struct. What it refers to does
// not close the struct.
func (s scope) embedding(d *ast.EmbedDecl) (*ir.Schema, error) {
	outer := s
	outer.embedded = true
	return outer.expression(d.Expr)
}

// field reads one field of a struct: required, optional, regular, or the pattern that
// stands for all that match it.
func (s scope) field(to *ir.StructSchema, f *ast.Field) error {
	if pattern, ok := f.Label.(*ast.ListLit); ok {
		return s.labelPattern(to, f, pattern)
	}
	name, _, err := ast.LabelName(f.Label)
	if err != nil {
		return s.unsupported(f, "the label "+sourceOf(f.Label))
	}
	if f.Constraint == token.NOT && (strings.HasPrefix(name, "#") || strings.HasPrefix(name, "_")) {
		return errorAtNode(f, "%s! cannot be in any object: only regular and optional definitions and hidden fields can be compiled", name)
	}
	if strings.HasPrefix(name, "#") {
		return nil
	}
	schema, err := s.fieldValue(f)
	if err != nil {
		return err
	}
	if strings.HasPrefix(name, "_") {
		return s.hidden(f, schema)
	}
	added := &ir.Field{Name: name, Schema: schema, Rule: &ir.Rule{Text: name + "!", Position: positionOf(f)}}
	switch {
	case f.Constraint == token.OPTION, schema.Eval != nil: // the evaluator says whether it has to be there
	case f.Constraint == token.NOT:
		added.Presence = ir.Required
	default:
		added.Presence, added.Rule.Text = ir.Regular, name+" is required"
		if schema.Default == nil && slices.ContainsFunc(schema.Relations, func(r ir.Relation) bool { return r.Op == "==" }) {
			return errorAtNode(f, "a field that is set to another one of the object cannot be compiled: write %s? or %s!, or mark it @kube(eval)", name, name)
		}
	}
	to.Fields = append(to.Fields, added)
	return nil
}

// hidden refuses a hidden field that checks the object: it would be dropped otherwise.
func (s scope) hidden(f *ast.Field, schema *ir.Schema) error {
	if schema.DependsOnObject() {
		return errorAtNode(f, "a hidden field that depends on the object cannot be compiled: state the constraint on the field itself")
	}
	return nil
}

// fieldValue reads the value of a field, its comment and its attributes.
func (s scope) fieldValue(f *ast.Field) (*ir.Schema, error) {
	var schema *ir.Schema
	if _, isPattern := f.Label.(*ast.ListLit); isPattern || f.Constraint != token.ILLEGAL {
		s.guards++ // an object need not have it, or its author ends it
	}
	if hasArgument(f.Attrs, "eval") {
		schema = ir.Anything(positionOf(f))
	} else {
		var err error
		if schema, err = s.expression(f.Value); err != nil {
			return nil, err
		}
	}
	own := *schema
	if description := describe(f); description != "" {
		own.Doc = description
	}
	if own.Position.File == "" {
		own.Position = positionOf(f)
	}
	for _, attribute := range f.Attrs {
		if err := applyAttribute(&own, attribute); err != nil {
			return nil, err
		}
	}
	if !slices.Contains([]string{"", "atomic", "set", "map"}, own.ListType) || (own.ListType == "map") != (len(own.ListMapKeys) > 0) {
		return nil, errorAtNode(f, "listType has to be atomic, set or map, and map alone has a listMapKey")
	}
	return &own, nil
}

// labelPattern reads [=~"…"]: T and [string]: T.
func (s scope) labelPattern(to *ir.StructSchema, f *ast.Field, pattern *ast.ListLit) error {
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
	label := ir.LabelPattern{Rule: &ir.Rule{Text: "[" + sourceOf(pattern.Elts[0]) + "]", Position: positionOf(f)}}
	switch {
	case labels.Types&ir.String == 0 || len(labels.Patterns) > 1 || len(labels.Checks) > 0 || labels.Enum != nil || labels.Length != ir.Range{} || len(labels.Alternatives) > 0:
		return errorAtNode(f, "this pattern of labels cannot be compiled: write [string] or [=~\"…\"]")
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
func (s scope) condition(to *ir.StructSchema, c *ast.Comprehension) error {
	first, ok := c.Clauses[0].(*ast.IfClause)
	body, isStruct := c.Value.(*ast.StructLit)
	if !ok || !isStruct || c.Fallback != nil {
		return s.unsupported(c, "this comprehension")
	}
	when, err := s.objectExpr(first.Condition)
	if err != nil {
		return err
	}
	then := &ir.StructSchema{}
	if len(c.Clauses) > 1 {
		rest := *c
		rest.Clauses = c.Clauses[1:]
		if err := s.condition(then, &rest); err != nil {
			return err
		}
	} else if then, err = s.conditionBody(body); err != nil {
		return err
	}
	to.Conditions = append(to.Conditions, ir.Condition{
		Rule: &ir.Rule{Text: presenceInWords.Replace(sourceOf(first.Condition)), Position: positionOf(first)},
		When: when, Then: then,
	})
	return nil
}

// presenceInWords says what CUE asks by comparing with its error value.
var presenceInWords = strings.NewReplacer(" != _|_", " is set", " == _|_", " is not set")

// conditionBody reads what an if adds to the struct that it stands in.
func (s scope) conditionBody(body *ast.StructLit) (*ir.StructSchema, error) {
	outer := s
	outer.depth = s.depth - 1
	schema, err := outer.structLiteral(body)
	if err != nil {
		return nil, err
	}
	if schema.Types != ir.Struct || schema.Struct == nil || len(schema.Alternatives) > 0 {
		return nil, s.unsupported(body, "what this condition adds")
	}
	return schema.Struct, nil
}

// applyAttribute carries what @kube(…) says and CUE cannot.
func applyAttribute(to *ir.Schema, attribute *ast.Attribute) error {
	key, body := attribute.Split()
	if key != "kube" {
		return nil
	}
	rule := &ir.Rule{Text: attribute.Text, Position: positionOf(attribute), NotInCUE: true}
	for argument := range strings.SplitSeq(body, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(argument), "=")
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
				to.Checks = append(slices.Clone(to.Checks), ir.Check{Rule: rule, Holds: check, Format: value, Exact: true})
			}
		case "deprecated":
			text, err := strconv.Unquote(value)
			if err != nil || text == "" {
				return errorAtNode(attribute, "@kube(deprecated=%s): say in quotes and without a comma what to use instead, as in @kube(deprecated=\"use spec.schedule\")", value)
			}
			to.Deprecated = text
		case "immutable":
			to.Immutable = rule
		case "embeddedResource":
			to.Embedded = true
		case "preserveUnknownFields":
			to.PreserveAll = true
		case "eval":
			to.Eval = rule
		default:
			return errorAtNode(attribute, "@kube has no argument %q; it has listType, listMapKey, mapType, format, immutable, deprecated, embeddedResource, preserveUnknownFields and eval", name)
		}
	}
	return nil
}

func hasArgument(attributes []*ast.Attribute, name string) bool {
	return slices.ContainsFunc(attributes, func(a *ast.Attribute) bool {
		key, body := a.Split()
		return key == "kube" && slices.Contains(strings.Split(strings.ReplaceAll(body, " ", ""), ","), name)
	})
}
