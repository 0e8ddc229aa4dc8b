package kind

import (
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// WithoutNulls returns an object as the API server reads it. In a request, null stands for a
// field that is not set: the API server drops it where the CRD does not allow null, before it
// sets defaults (k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting). The object is
// not changed.
func (v *Version) WithoutNulls(object map[string]any) map[string]any {
	if !HasNull(object) {
		return object
	}
	without, _ := dropNulls(object, v.Schema).(map[string]any)
	metadata, ok := without["metadata"].(map[string]any)
	if !ok || !HasNull(metadata) {
		return without
	}
	without = maps.Clone(without)
	without["metadata"] = nullsOfMetadata(metadata)
	return without
}

// HasNull reports whether a value is null or has one in it.
func HasNull(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		for _, v := range value {
			if HasNull(v) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, HasNull)
	}
	return false
}

// dropNulls drops the fields within a value that are null and whose schema does not allow null.
// Items of lists stay.
func dropNulls(value any, s *apiextensionsv1.JSONSchemaProps) any {
	switch value := value.(type) {
	case map[string]any:
		kept := make(map[string]any, len(value))
		for name, v := range value {
			if of := schemaOf(name, s); v != nil || of == nil || of.Nullable {
				kept[name] = dropNulls(v, of)
			}
		}
		return kept
	case []any:
		var items *apiextensionsv1.JSONSchemaProps
		if s != nil && s.Items != nil {
			items = s.Items.Schema
		}
		kept := make([]any, len(value))
		for i, v := range value {
			kept[i] = dropNulls(v, items)
		}
		return kept
	}
	return value
}

// schemaOf returns the schema of a field; it is nil if there is none.
func schemaOf(name string, s *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if s == nil {
		return nil
	}
	if property, ok := s.Properties[name]; ok {
		return &property
	}
	if s.AdditionalProperties != nil {
		return s.AdditionalProperties.Schema
	}
	return nil
}

// nullsOfMetadata does what decoding to metav1.ObjectMeta does: null is a field that is not set,
// and an empty text in labels and annotations.
func nullsOfMetadata(metadata map[string]any) map[string]any {
	kept := make(map[string]any, len(metadata))
	for name, value := range metadata {
		if texts, ok := value.(map[string]any); ok && (name == "labels" || name == "annotations") {
			texts = maps.Clone(texts)
			for key, text := range texts {
				if text == nil {
					texts[key] = ""
				}
			}
			value = texts
		}
		if value != nil {
			kept[name] = value
		}
	}
	return kept
}
