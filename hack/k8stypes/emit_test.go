package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	apiext "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// TestRender reads the Go package testdata/shapes, and expects testdata/shapes.cue.
func TestRender(t *testing.T) {
	src, err := parse("./testdata/shapes", []string{"Shape"})
	require.NoError(t, err)
	shape := typeName{"github.com/fescue-dev/fescue/hack/k8stypes/testdata/shapes", "Shape"}
	text, count, err := render("// Header.", "shapes", src.schemas, []typeName{shape})
	require.NoError(t, err)
	require.Equal(t, 5, count)
	want, err := os.ReadFile("testdata/shapes.cue")
	require.NoError(t, err)
	require.Equal(t, string(want), string(text))
}

func TestRenderRejects(t *testing.T) {
	ref := func(s string) *string { return &s }
	object := func(properties map[string]apiext.JSONSchemaProps) apiext.JSONSchemaProps {
		return apiext.JSONSchemaProps{Type: "object", Properties: properties}
	}
	factor := 2.0
	for name, test := range map[string]struct {
		root  apiext.JSONSchemaProps
		other apiext.JSONSchemaProps
		want  string
	}{
		"recursion": {
			root: object(map[string]apiext.JSONSchemaProps{"a": {Ref: ref("#/definitions/Root")}}),
			want: "p.Root: is recursive",
		},
		"two types with the same name": {
			root:  object(map[string]apiext.JSONSchemaProps{"a": {Ref: ref("#/definitions/q~0Root")}}),
			other: object(map[string]apiext.JSONSchemaProps{}),
			want:  "q.Root: package p also has a type with this name",
		},
		"no schema": {
			root: object(map[string]apiext.JSONSchemaProps{"a": {Ref: ref("#/definitions/Gone")}}),
			want: "p.Gone: no schema",
		},
		"another format": {
			root: object(map[string]apiext.JSONSchemaProps{"a": {Type: "string", Format: "ipv4"}}),
			want: `no CUE for type "string" with format "ipv4"`,
		},
		"another bound": {
			root: object(map[string]apiext.JSONSchemaProps{"a": {Type: "integer", MultipleOf: &factor}}),
			want: "Root: a: no CUE for this part of its schema",
		},
		"a rule on the struct": {
			root: apiext.JSONSchemaProps{
				Properties:   map[string]apiext.JSONSchemaProps{},
				XValidations: apiext.ValidationRules{{Rule: "has(self.a)"}},
			},
			want: "Root: no CUE for this part of its schema",
		},
		"bytes in a list": {
			root: object(map[string]apiext.JSONSchemaProps{"a": {
				Type:  "array",
				Items: &apiext.JSONSchemaPropsOrArray{Schema: &apiext.JSONSchemaProps{Type: "string", Format: "byte"}},
			}}),
			want: "no attributes on the items of a list",
		},
	} {
		t.Run(name, func(t *testing.T) {
			root, other := typeName{"p", "Root"}, typeName{"q", "Root"}
			schemas := map[typeName]apiext.JSONSchemaProps{root: test.root, other: test.other}
			_, _, err := render("", "p", schemas, []typeName{root})
			require.ErrorContains(t, err, test.want)
		})
	}
}
