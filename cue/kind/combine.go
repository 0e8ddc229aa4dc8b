package kind

import (
	"bytes"
	"slices"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// conjunction carries a & b.
func (s scope) conjunction(e *ast.BinaryExpr) (*schemaProps, error) {
	a, err := s.schema(e.X)
	if err != nil {
		return nil, err
	}
	b, err := s.schema(e.Y)
	if err != nil {
		return nil, err
	}
	return and(a, b, e)
}

// and is the schema that satisfies both a and b; neither is used afterwards.
func and(a, b *schemaProps, at ast.Node) (*schemaProps, error) {
	var err error
	if a.Type, err = commonType(a.Type, b.Type, at); err != nil {
		return nil, err
	}
	if b.Format != "" {
		if a.Format != "" && a.Format != b.Format {
			return nil, errorAtNode(at, "the CRD cannot carry the formats %s and %s together", a.Format, b.Format)
		}
		a.Format = b.Format
	}
	switch {
	case a.Pattern == "" || a.Pattern == b.Pattern:
		a.Pattern = b.Pattern
	case b.Pattern != "":
		a.AllOf = append(a.AllOf, apiextensionsv1.JSONSchemaProps{Pattern: b.Pattern})
	}
	a.AllOf = append(a.AllOf, b.AllOf...)
	a.Minimum, a.ExclusiveMinimum = tighter(a.Minimum, a.ExclusiveMinimum, b.Minimum, b.ExclusiveMinimum, 1)
	a.Maximum, a.ExclusiveMaximum = tighter(a.Maximum, a.ExclusiveMaximum, b.Maximum, b.ExclusiveMaximum, -1)
	a.MinLength, a.MaxLength = larger(a.MinLength, b.MinLength), smaller(a.MaxLength, b.MaxLength)
	a.MinItems, a.MaxItems = larger(a.MinItems, b.MinItems), smaller(a.MaxItems, b.MaxItems)
	a.MinProperties, a.MaxProperties = larger(a.MinProperties, b.MinProperties), smaller(a.MaxProperties, b.MaxProperties)
	if a.Enum, err = commonValues(a.Enum, b.Enum, at); err != nil {
		return nil, err
	}
	if b.Default != nil {
		a.Default = b.Default
	}
	if b.Description != "" {
		a.Description = b.Description
	}
	if b.XListType != nil {
		a.XListType, a.XListMapKeys = b.XListType, b.XListMapKeys
	}
	if b.XPreserveUnknownFields != nil {
		a.XPreserveUnknownFields = b.XPreserveUnknownFields
	}
	return a, andChildren(a, b, at)
}

// andChildren combines what a and b say of their fields and items.
func andChildren(a, b *schemaProps, at ast.Node) error {
	for name, property := range b.Properties {
		if existing, ok := a.Properties[name]; ok {
			both, err := and(&existing, &property, at)
			if err != nil {
				return err
			}
			property = *both
		}
		if a.Properties == nil {
			a.Properties = make(map[string]apiextensionsv1.JSONSchemaProps)
		}
		a.Properties[name] = property
	}
	for _, name := range b.Required {
		if !slices.Contains(a.Required, name) {
			a.Required = append(a.Required, name)
		}
	}
	switch {
	case a.Items == nil:
		a.Items = b.Items
	case b.Items != nil:
		both, err := and(a.Items.Schema, b.Items.Schema, at)
		if err != nil {
			return err
		}
		a.Items.Schema = both
	}
	switch {
	case a.AdditionalProperties == nil:
		a.AdditionalProperties = b.AdditionalProperties
	case b.AdditionalProperties != nil:
		both, err := and(a.AdditionalProperties.Schema, b.AdditionalProperties.Schema, at)
		if err != nil {
			return err
		}
		a.AdditionalProperties.Schema = both
	}
	return nil
}

// commonType is the type that satisfies both; a bound says number of an integer.
func commonType(a, b string, at ast.Node) (string, error) {
	switch {
	case a == b || b == "" || a == "integer" && b == "number":
		return a, nil
	case a == "" || a == "number" && b == "integer":
		return b, nil
	}
	return "", errorAtNode(at, "nothing is both %s and %s", a, b)
}

// tighter picks the stricter of two bounds; sign is 1 for lower and -1 for upper ones.
func tighter(a *float64, aExclusive bool, b *float64, bExclusive bool, sign float64) (*float64, bool) {
	switch {
	case a == nil || b != nil && *b*sign > *a*sign:
		return b, bExclusive
	case b != nil && *a == *b:
		return a, aExclusive || bExclusive
	}
	return a, aExclusive
}

func larger(a, b *int64) *int64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

func smaller(a, b *int64) *int64 {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

// commonValues are the values in both enums; an absent one allows everything.
func commonValues(a, b []apiextensionsv1.JSON, at ast.Node) ([]apiextensionsv1.JSON, error) {
	if len(a) == 0 || len(b) == 0 {
		return append(a, b...), nil
	}
	both := slices.DeleteFunc(a, func(x apiextensionsv1.JSON) bool {
		return !slices.ContainsFunc(b, func(y apiextensionsv1.JSON) bool { return bytes.Equal(x.Raw, y.Raw) })
	})
	if len(both) == 0 {
		return nil, errorAtNode(at, "no value is in both enums")
	}
	return both, nil
}

// disjunction carries a | b: literals become an enum, a default becomes the default
// of what remains.
func (s scope) disjunction(e *ast.BinaryExpr) (*schemaProps, error) {
	var alternatives []ast.Expr
	var preferred ast.Expr
	for _, alternative := range flatten(e) {
		if unary, ok := alternative.(*ast.UnaryExpr); ok && unary.Op == token.MUL {
			if preferred != nil {
				return nil, errorAtNode(e, "the CRD cannot carry more than one default")
			}
			alternative, preferred = unary.X, unary.X
		}
		alternatives = append(alternatives, alternative)
	}
	result, err := s.alternatives(alternatives, preferred, e)
	if err != nil || preferred == nil {
		return result, err
	}
	value, err := literalValue(preferred)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(value)
	result.Default = &apiextensionsv1.JSON{Raw: raw}
	return result, err
}

// alternatives carries a disjunction without its mark: literals, or one type that the
// default is a value of.
func (s scope) alternatives(all []ast.Expr, preferred ast.Expr, at ast.Node) (*schemaProps, error) {
	result := &schemaProps{}
	var types []ast.Expr
	for _, alternative := range all {
		value, err := literalValue(alternative)
		if err != nil {
			types = append(types, alternative)
			continue
		}
		constant, err := constantSchema(alternative)
		if err != nil {
			return nil, err
		}
		if result.Type, err = commonType(result.Type, jsonType(value), at); err != nil {
			return nil, errorAtNode(at, "the CRD cannot carry values of different types")
		}
		result.Enum = append(result.Enum, constant.Enum...)
	}
	switch {
	case len(types) == 0:
		return result, nil
	case len(types) == 1 && len(all) == 2 && preferred != nil && preferred != types[0]:
		return s.schema(types[0])
	}
	return nil, errorAtNode(at, "the CRD cannot carry this choice between types: write literals, or one type and a default")
}

func flatten(e ast.Expr) []ast.Expr {
	if b, ok := e.(*ast.BinaryExpr); ok && b.Op == token.OR {
		return append(flatten(b.X), flatten(b.Y)...)
	}
	return []ast.Expr{e}
}
