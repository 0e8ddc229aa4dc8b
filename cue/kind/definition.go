package kind

import (
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Definition returns the CustomResourceDefinition of the kind.
func (k *Kind) Definition() *apiextensionsv1.CustomResourceDefinition {
	definition := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta: metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(),
			Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: k.Name()},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: k.GroupVersionKind.Group,
			Names: k.Names,
			Scope: k.Scope,
		},
	}
	if k.Approval != "" {
		definition.Annotations = map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: k.Approval}
	}
	for _, v := range k.Versions {
		isStored, columns, selectable := v.GroupVersionKind == k.GroupVersionKind, k.Columns, k.SelectableFields
		if !isStored {
			columns, selectable = v.columns(columns), v.selectable(selectable)
		}
		definition.Spec.Versions = append(definition.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name:               v.GroupVersionKind.Version,
			Served:             v.Served,
			Storage:            isStored,
			Deprecated:         v.Deprecated,
			DeprecationWarning: warningOf(v),
			Schema:             &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: v.Schema},
			Subresources: &apiextensionsv1.CustomResourceSubresources{
				Status: &apiextensionsv1.CustomResourceSubresourceStatus{}, Scale: k.Scale,
			},
			AdditionalPrinterColumns: columns,
			SelectableFields:         selectable,
		})
	}
	definition = definition.DeepCopy()
	for i, v := range k.Versions {
		schema := definition.Spec.Versions[i].Schema.OpenAPIV3Schema
		if status, ok := schema.Properties["status"]; ok && v.InitialStatus {
			status.Default = &apiextensionsv1.JSON{Raw: []byte(`{"observedGeneration":-1}`)}
			schema.Properties["status"] = status
		}
	}
	return definition
}

// warningOf returns the text of a version that is deprecated; nil leaves it to the API server.
func warningOf(v *Version) *string {
	if v.DeprecationWarning == "" {
		return nil
	}
	return &v.DeprecationWarning
}

// columns lists the columns whose fields the version has, as far as their paths show.
func (v *Version) columns(
	all []apiextensionsv1.CustomResourceColumnDefinition,
) []apiextensionsv1.CustomResourceColumnDefinition {
	return slices.DeleteFunc(slices.Clone(all), func(c apiextensionsv1.CustomResourceColumnDefinition) bool {
		if strings.HasPrefix(c.JSONPath, ".metadata.") || strings.ContainsAny(c.JSONPath, "[]()@'\\\"") {
			return false
		}
		_, _, ok := v.Missing(c.JSONPath)
		return !ok
	})
}

// selectable lists the selectable fields that the version has. A further version that has all of them lists
// none: the API server rejects a CRD whose versions have the same ones and different schemas.
func (v *Version) selectable(all []apiextensionsv1.SelectableField) []apiextensionsv1.SelectableField {
	found := slices.DeleteFunc(slices.Clone(all), func(f apiextensionsv1.SelectableField) bool {
		return v.Property(f.JSONPath).Type == ""
	})
	if len(found) == len(all) {
		return nil
	}
	return found
}

// Property returns the schema of the field at a JSONPath like ".spec.count".
func (v *Version) Property(path string) apiextensionsv1.JSONSchemaProps {
	at := *v.Schema
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "."), ".") {
		at = at.Properties[name]
	}
	return at
}

// Missing returns the first field of a path that the schema does not have, and what is around it.
func (v *Version) Missing(path string) (field string, around apiextensionsv1.JSONSchemaProps, ok bool) {
	around = *v.Schema
	names := strings.Split(strings.TrimPrefix(path, "."), ".")
	for i, name := range names {
		next, ok := around.Properties[name]
		if !ok && around.XPreserveUnknownFields == nil {
			return strings.Join(names[:i+1], "."), around, false
		}
		around = next
	}
	return "", around, true
}
