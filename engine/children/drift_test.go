package children

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestContains(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	type list = []any
	for name, tc := range map[string]struct {
		live, wanted any
		want         bool
	}{
		"equal":               {object{"a": int64(1)}, object{"a": int64(1)}, true},
		"defaulted by server": {object{"a": int64(1), "b": "x"}, object{"a": int64(1)}, true},
		"other value":         {object{"a": int64(2)}, object{"a": int64(1)}, false},
		"missing":             {object{}, object{"a": int64(1)}, false},
		"missing but empty":   {object{}, object{"a": object{}}, true},
		"nested":              {object{"a": list{object{"b": "x", "c": "y"}}}, object{"a": list{object{"b": "x"}}}, true},
		"longer list":         {object{"a": list{"x", "y"}}, object{"a": list{"x"}}, false},
		"empty list missing":  {object{}, object{"a": list{}}, true},
		"empty list emptied":  {object{"a": list{"x"}}, object{"a": list{}}, false},
		"other type":          {object{"a": "1"}, object{"a": object{}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, contains(tc.live, tc.wanted))
		})
	}
}

func TestAlterations(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	type list = []any
	for name, tc := range map[string]struct {
		live, wanted any
		want         []string
	}{
		"equal":             {object{"a": "x"}, object{"a": "x"}, nil},
		"another value":     {object{"a": object{"b": "x", "c": int64(1)}}, object{"a": object{"b": "y", "c": int64(2)}}, []string{"a.b", "a.c"}},
		"in a list":         {object{"a": list{object{"b": "x"}, "y"}}, object{"a": list{object{"b": "y"}, "y"}}, []string{"a[0].b"}},
		"a quantity":        {object{"cpu": "1", "memory": "1Gi"}, object{"cpu": "1000m", "memory": "1024Mi"}, nil},
		"another quantity":  {object{"cpu": "2"}, object{"cpu": "1000m"}, []string{"cpu"}},
		"no quantity":       {object{"cpu": "much"}, object{"cpu": "0"}, []string{"cpu"}},
		"what is not shown": {object{"data": object{}}, object{"stringData": object{"a": "x"}, "status": object{"a": "x"}}, nil},
		"an item more":      {object{"a": list{"x", "y"}}, object{"a": list{"y"}}, nil},
		"an item less":      {object{"a": list{"x"}, "b": object{"c": list{}}}, object{"a": list{"x", "y"}, "b": object{"c": list{"x"}}}, []string{"a", "b.c"}},
		"removed":           {object{"a": object{"b": "x"}}, object{"a": object{"b": "x", "c": "y"}, "d": object{"e": list{"x"}, "f": int64(1)}, "g": true}, []string{"a.c", "d.e", "d.f", "g"}},
		"removed in a list": {list{object{"a": "x"}}, list{object{"a": "x", "stringData": "y"}}, []string{"[0].stringData"}},
		"empty":             {object{}, object{"a": "", "b": int64(0), "c": float64(0), "d": false, "e": nil, "f": object{"g": ""}, "h": list{}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, Alterations(tc.live, tc.wanted, ""))
		})
	}
}

// An apply that removes the last fields of a struct removes the struct too, although the template has it.
func TestIsEmptied(t *testing.T) {
	t.Parallel()
	type fields = map[string]any
	for name, tc := range map[string]struct {
		before, template, stored fields
		want                     bool
	}{
		"an empty struct":             {fields{"a": fields{"b": "c"}}, fields{"a": fields{}}, fields{}, true},
		"within another":              {fields{"x": fields{"a": fields{"b": "c"}, "y": "z"}}, fields{"x": fields{"a": fields{}, "y": "z"}}, fields{"x": fields{"y": "z"}}, true},
		"of which nothing is stored":  {fields{"a": fields{"b": "c"}}, fields{"a": fields{"d": []any{}}}, fields{}, true},
		"stored":                      {fields{"a": fields{"b": "c"}}, fields{"a": fields{}}, fields{"a": fields{}}, false},
		"it was empty before":         {fields{}, fields{"a": fields{}}, fields{}, false},
		"the template has no such":    {fields{"a": fields{"b": "c"}}, fields{}, fields{}, false},
		"another field of it remains": {fields{"a": fields{"b": "c", "d": "e"}}, fields{"a": fields{}}, fields{"a": fields{"d": "e"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, IsEmptied(tc.before, tc.template, tc.stored))
		})
	}
}

// The stringData of a template is in sync with the data that the API server makes of it.
func TestStringDataIsInSync(t *testing.T) {
	t.Parallel()
	secret := func(fields map[string]any) *unstructured.Unstructured {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
			"metadata": map[string]any{"annotations": map[string]any{AnnotationTemplate: "0"}}}}
		maps.Copy(object.Object, fields)
		return object
	}
	template := secret(map[string]any{"stringData": map[string]any{"a": "x", "b": "y"}, "data": map[string]any{"a": "-", "c": "Yw=="}})
	for name, test := range map[string]struct {
		data     map[string]any
		isInSync bool
	}{
		"as stored":      {map[string]any{"a": "eA==", "b": "eQ==", "c": "Yw=="}, true},
		"with another":   {map[string]any{"a": "eA==", "b": "eQ==", "c": "Yw==", "d": "-"}, true},
		"changed":        {map[string]any{"a": "eA==", "b": "eA==", "c": "Yw=="}, false},
		"without one":    {map[string]any{"a": "eA==", "c": "Yw=="}, false},
		"without any":    {nil, false},
		"as data, by us": {map[string]any{"a": "-", "b": "eQ==", "c": "Yw=="}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.isInSync, IsInSync(secret(map[string]any{"data": test.data}), template, NewNormalized()))
		})
	}
	require.Contains(t, template.Object, "stringData", "nothing is changed")
	text := secret(map[string]any{"kind": "Other", "stringData": map[string]any{"a": "x"}})
	require.Same(t, text, StoreText(text))
}
