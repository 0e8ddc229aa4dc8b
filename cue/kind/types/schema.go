package types

import (
	"encoding/json"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// base64Format is the format of strings in base64.
const base64Format = "byte"

// FromSchema returns the type of a structural schema, as a CRD has it.
func FromSchema(s *apiextensionsv1.JSONSchemaProps) *Type {
	t := &Type{Values: valuesOf(s.Type), Minimum: s.Minimum, HasDefault: s.Default != nil,
		Base64: s.Format == base64Format}
	switch {
	case s.XIntOrString:
		t.Values = Integer | String
	case s.Nullable:
		t.Values |= Null
	}
	if s.Maximum != nil && !s.ExclusiveMaximum {
		t.Maximum = s.Maximum
	}
	if s.MinItems != nil {
		t.MinItems = *s.MinItems
	}
	if s.Minimum != nil && s.ExclusiveMinimum && t.Values == Integer {
		next := *s.Minimum + 1
		t.Minimum = &next
	}
	for _, value := range s.Enum {
		var text string
		if json.Unmarshal(value.Raw, &text) != nil {
			t.Enum = nil // of something else than strings
			break
		}
		t.Enum = append(t.Enum, text)
	}
	if len(s.Properties) > 0 {
		t.Fields = make(map[string]*Type, len(s.Properties))
		for name, property := range s.Properties {
			t.Fields[name] = FromSchema(&property)
		}
	}
	t.Required = s.Required
	switch {
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		t.Others = FromSchema(s.AdditionalProperties.Schema)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Allows,
		s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields, s.Type == "":
		t.Others = Unknown
	}
	if s.Items != nil && s.Items.Schema != nil {
		t.Items = FromSchema(s.Items.Schema)
	}
	t.Keys = s.XListMapKeys
	return t
}

// Relaxed returns the type without what is required of the structs in it, except in lists and maps.
func (t *Type) Relaxed() *Type {
	relaxed := *t
	relaxed.Required = nil
	relaxed.Fields = make(map[string]*Type, len(t.Fields))
	for name, field := range t.Fields {
		relaxed.Fields[name] = field.Relaxed()
	}
	return &relaxed
}

// FromRootSchema is FromSchema for the schema of whole objects, whose metadata a CRD leaves out. Of
// objects without a schema, only the metadata is known.
func (c *Catalog) FromRootSchema(s *apiextensionsv1.JSONSchemaProps) *Type {
	t := Type{Values: Object, Others: Unknown}
	if s != nil {
		t = *FromSchema(s)
	}
	fields := map[string]*Type{"apiVersion": Of(String), "kind": Of(String), "metadata": c.objectMeta}
	for name, field := range t.Fields {
		if fields[name] == nil {
			fields[name] = field
		}
	}
	t.Fields = fields
	t.Required = slices.DeleteFunc(slices.Clone(t.Required), func(name string) bool {
		return slices.Contains([]string{"apiVersion", "kind", "metadata"}, name)
	})
	return &t
}

func valuesOf(typeName string) Values {
	switch typeName {
	case "string":
		return String
	case "integer":
		return Integer
	case "number":
		return Integer | Number
	case "boolean":
		return Boolean
	case "array":
		return List
	case "object":
		return Object
	}
	return Any
}
