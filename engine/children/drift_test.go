package children

import (
	"testing"

	"github.com/stretchr/testify/require"
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
