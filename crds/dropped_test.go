package crds

import (
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func TestDropped(t *testing.T) {
	t.Parallel()
	// An object with a spec of the given properties.
	spec := func(properties string) string {
		return "{type: object, properties: {spec: {type: object, properties: {" + properties + "}}}}"
	}
	of := func(schema string) string { return spec("a: " + schema) }
	const text, keeps, labels = "{type: string}", "{type: object, x-kubernetes-preserve-unknown-fields: true}", "{type: object, additionalProperties: {type: string}}"
	for name, test := range map[string]struct {
		before, after string
		want          []string
	}{
		"nothing":               {spec("a: " + text), spec("a: " + text + ", b: " + text), nil},
		"a field":               {spec("b: " + text + ", a: " + text + ", c: " + text), spec("c: " + text), []string{"spec.a", "spec.b"}},
		"a field of a field":    {of("{type: object, properties: {b: " + text + ", c: " + text + "}}"), of("{type: object, properties: {b: " + text + "}}"), []string{"spec.a.c"}},
		"a field of items":      {of("{type: array, items: {type: object, properties: {b: " + text + "}}}"), of("{type: array, items: {type: object}}"), []string{"spec.a[*].b"}},
		"a field of values":     {of("{type: object, additionalProperties: {type: object, properties: {b: " + text + "}}}"), of("{type: object, additionalProperties: {type: object}}"), []string{"spec.a.*.b"}},
		"all fields":            {spec("a: " + text), "{type: object}", []string{"spec"}},
		"kept without schema":   {of("{type: object, properties: {b: " + text + "}}"), of(keeps), nil},
		"keeps no more":         {of(keeps), of("{type: object, properties: {b: " + text + "}}"), []string{"spec.a.*"}},
		"keeps a type less":     {of("{x-kubernetes-preserve-unknown-fields: true}"), of(text), nil},
		"keeps the rest":        {of("{type: object, properties: {b: {type: object, properties: {c: " + text + "}}}}"), of("{type: object, properties: {b: {type: object}}, x-kubernetes-preserve-unknown-fields: true}"), []string{"spec.a.b.c"}},
		"a map for fields":      {of("{type: object, properties: {b: " + text + "}}"), of(labels), nil},
		"fields for a map":      {of(labels), of("{type: object, properties: {b: " + text + "}}"), []string{"spec.a.*"}},
		"a map with anything":   {of(labels), of(keeps), nil},
		"another type":          {of("{type: object, properties: {b: " + text + "}}"), of(text), nil},
		"what the status has":   {"{type: object, properties: {status: {type: object, properties: {a: " + text + "}}}}", "{type: object, properties: {status: {type: object}}}", nil},
		"what every object has": {"{type: object, properties: {apiVersion: " + text + ", kind: " + text + ", metadata: {type: object}}}", "{type: object}", nil},
		"beside spec":           {"{type: object, properties: {data: " + labels + "}}", "{type: object}", []string{"data"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crd := func(schema string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
				definition := &apiextensionsv1.CustomResourceDefinition{}
				for _, version := range versions {
					props := &apiextensionsv1.JSONSchemaProps{}
					require.NoError(t, yaml.UnmarshalStrict([]byte(schema), props))
					definition.Spec.Versions = append(definition.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
						Name: version, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: props},
					})
				}
				return definition
			}
			var want []Dropped
			if test.want != nil {
				want = []Dropped{{"v1", test.want}}
			}
			require.Equal(t, want, droppedBy(crd(test.before, "v1", "v1alpha1"), crd(test.after, "v2", "v1")))
		})
	}
	require.Empty(t, droppedBy(&apiextensionsv1.CustomResourceDefinition{}, &apiextensionsv1.CustomResourceDefinition{}))
}

func TestDroppedText(t *testing.T) {
	t.Parallel()
	require.Equal(t, "version v1 of the installed CRD has spec.a, spec.b, and the new one has not: objects lose these fields when they are next written",
		Dropped{"v1", []string{"spec.a", "spec.b"}}.String())
	require.Contains(t, Dropped{"v1", []string{"a", "b", "c", "d", "e", "f", "g"}}.String(), "has a, b, c, d, e and 2 more, and")
}
