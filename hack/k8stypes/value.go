package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	apiext "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// alternative stands between the alternatives of a disjunction.
const alternative = " | "

// value returns what schema allows, and its attributes. References in it are local to
// the package pkg.
func (l *library) value(schema apiext.JSONSchemaProps, pkg string) (value, error) {
	base, err := l.base(&schema, pkg)
	if err != nil {
		return value{}, err
	}
	base.attrs = append(base.attrs, attributes(&schema)...)
	conjuncts := l.bounds(&schema)
	if len(conjuncts) > 0 && base.expr != "string" {
		if strings.Contains(base.expr, alternative) {
			base.expr = "(" + base.expr + ")"
		}
		conjuncts = append([]string{base.expr}, conjuncts...)
	}
	if len(conjuncts) > 0 {
		base.expr = strings.Join(conjuncts, " & ")
	}
	// These two belong to the field.
	schema.Description, schema.Default = "", nil
	return base, rejectRest(schema)
}

// base returns the value of schema without its bounds, and removes what it used from schema.
func (l *library) base(schema *apiext.JSONSchemaProps, pkg string) (value, error) {
	s := *schema
	schema.Ref, schema.Type, schema.Format, schema.Enum = nil, "", "", nil
	switch {
	case s.Ref != nil:
		target, err := resolve(*s.Ref, pkg)
		if err != nil {
			return value{}, err
		}
		return l.reference(target)
	case len(s.Enum) > 0:
		return value{expr: disjunction(s.Enum)}, nil
	case s.Type == "array":
		schema.Items = nil
		return l.list(s, pkg)
	case s.Type == "object":
		schema.AdditionalProperties, schema.XPreserveUnknownFields = nil, nil
		return l.object(s, pkg)
	case s.Type == "":
		schema.XPreserveUnknownFields = nil
		return value{expr: "_"}, nil
	}
	return l.scalar(s.Type, s.Format)
}

// disjunction returns the alternatives of an enum. JSON literals are also CUE literals.
func disjunction(enum []apiext.JSON) string {
	literals := make([]string, len(enum))
	for i, e := range enum {
		literals[i] = string(e.Raw)
	}
	return strings.Join(literals, alternative)
}

// list returns the value of an array.
func (l *library) list(schema apiext.JSONSchemaProps, pkg string) (value, error) {
	item, err := l.value(*schema.Items.Schema, pkg)
	if err != nil {
		return value{}, fmt.Errorf("[]: %w", err)
	}
	if len(item.attrs) > 0 {
		return value{}, errors.New("[]: CUE has no attributes on the items of a list")
	}
	return value{expr: "[..." + item.expr + "]"}, nil
}

// object returns the value of a map or of an object with any fields.
func (l *library) object(schema apiext.JSONSchemaProps, pkg string) (value, error) {
	if schema.AdditionalProperties == nil || schema.AdditionalProperties.Schema == nil {
		return value{expr: "{...}"}, nil
	}
	item, err := l.value(*schema.AdditionalProperties.Schema, pkg)
	if err != nil {
		return value{}, fmt.Errorf("[string]: %w", err)
	}
	if len(item.attrs) > 0 {
		item.expr += " @kube(" + strings.Join(item.attrs, ",") + ")"
	}
	return value{expr: "{[string]: " + item.expr + "}"}, nil
}

// scalar returns the value of a type that is neither a list nor an object.
func (l *library) scalar(typ, format string) (value, error) {
	switch typ + " " + format {
	case "string ":
		return value{expr: "string"}, nil
	case "string byte":
		return value{expr: "string", attrs: []string{"format=byte"}}, nil
	case "string date-time":
		l.imports["time"] = true
		return value{expr: "time.Time"}, nil
	case "boolean ":
		return value{expr: "bool"}, nil
	case "integer ":
		return value{expr: "int"}, nil
	case "integer int32", "integer int64":
		return value{expr: format}, nil
	case "number ":
		return value{expr: "number"}, nil
	}
	return value{}, fmt.Errorf("no CUE for type %q with format %q", typ, format)
}

// intOrString returns the value of a quantity (which has a pattern) or of a plain
// int-or-string.
func intOrString(schema apiext.JSONSchemaProps) string {
	if schema.Pattern == "" {
		return "int" + alternative + "string"
	}
	return "int" + alternative + matches(schema.Pattern)
}

// matches returns the bound of strings that match pattern.
func matches(pattern string) string {
	return `=~#"` + pattern + `"#`
}

// attributes returns what CUE cannot express, and removes it from schema.
func attributes(schema *apiext.JSONSchemaProps) []string {
	var attrs []string
	if schema.XListType != nil {
		attrs = append(attrs, "listType="+*schema.XListType)
	}
	for _, key := range schema.XListMapKeys {
		attrs = append(attrs, "listMapKey="+key)
	}
	if schema.XMapType != nil {
		attrs = append(attrs, "mapType="+*schema.XMapType)
	}
	schema.XListType, schema.XListMapKeys, schema.XMapType = nil, nil, nil
	return attrs
}

// bounds returns the bounds of schema as conjuncts, and removes them from it.
func (l *library) bounds(schema *apiext.JSONSchemaProps) []string {
	var conjuncts []string
	number := func(value *float64, exclusive bool, operator string) {
		if value == nil {
			return
		}
		if !exclusive {
			operator += "="
		}
		conjuncts = append(conjuncts, operator+strconv.FormatFloat(*value, 'f', -1, 64))
	}
	size := func(value *int64, pkg, function string) {
		if value == nil {
			return
		}
		l.imports[pkg] = true
		conjuncts = append(conjuncts, fmt.Sprintf("%s.%s(%d)", pkg, function, *value))
	}
	number(schema.Minimum, schema.ExclusiveMinimum, ">")
	number(schema.Maximum, schema.ExclusiveMaximum, "<")
	size(schema.MinLength, "strings", "MinRunes")
	size(schema.MaxLength, "strings", "MaxRunes")
	size(schema.MinItems, "list", "MinItems")
	size(schema.MaxItems, "list", "MaxItems")
	size(schema.MinProperties, "struct", "MinFields")
	size(schema.MaxProperties, "struct", "MaxFields")
	if schema.Pattern != "" {
		conjuncts = append(conjuncts, matches(schema.Pattern))
	}
	schema.Minimum, schema.ExclusiveMinimum, schema.Maximum, schema.ExclusiveMaximum = nil, false, nil, false
	schema.MinLength, schema.MaxLength, schema.Pattern = nil, nil, ""
	schema.MinItems, schema.MaxItems, schema.MinProperties, schema.MaxProperties = nil, nil, nil, nil
	return conjuncts
}
