package schema_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestImmutable updates the spec of an object, with what the author of the update might
// try to get around the lock.
func TestImmutable(t *testing.T) {
	t.Parallel()
	type spec = map[string]any
	for name, tc := range map[string]struct {
		schema   string
		old, now spec
		want     []string
	}{
		"same":           {`{x?: int @kube(immutable)}`, spec{"x": int64(1)}, spec{"x": int64(1)}, nil},
		"changed":        {`{x?: int @kube(immutable)}`, spec{"x": int64(1)}, spec{"x": int64(2)}, []string{"spec.x"}},
		"removed":        {`{x?: int @kube(immutable)}`, spec{"x": int64(1)}, spec{}, []string{"spec.x"}},
		"added":          {`{x?: int @kube(immutable)}`, spec{}, spec{"x": int64(1)}, []string{"spec.x"}},
		"default is set": {`{x: *1 | int @kube(immutable)}`, spec{}, spec{"x": int64(1)}, nil},
		"of a definition that contains itself": {
			`#T, #T: {name?: string, child?: #T @kube(immutable)}`,
			spec{"child": spec{"name": "a"}}, spec{"child": spec{"name": "b"}}, []string{"spec.child"},
		},
		"of another alternative": {
			`{t!: "a", x?: int @kube(immutable)} | {t!: "b", x?: int}`,
			spec{"t": "b", "x": int64(1)}, spec{"t": "b", "x": int64(2)}, nil,
		},
		"of the alternative": {
			`{t!: "a", x?: int @kube(immutable)} | {t!: "b", x?: int}`,
			spec{"t": "a", "x": int64(1)}, spec{"t": "a", "x": int64(2)}, []string{"spec.x"},
		},
		"by a condition that held": {
			`{mode!: "a" | "b", x?: int, if mode == "a" {x?: int @kube(immutable)}}`,
			spec{"mode": "a", "x": int64(1)}, spec{"mode": "b", "x": int64(2)}, []string{"spec.x"},
		},
		"removed with its condition": {
			`{on?: bool, if on == true {x!: int @kube(immutable)}}`, spec{"on": true, "x": int64(1)}, spec{"on": false}, nil,
		},
		"by leaving the alternative": {
			`{t!: "a", x?: int @kube(immutable)} | {t!: "b", x?: int}`,
			spec{"t": "a", "x": int64(1)}, spec{"t": "b", "x": int64(2)}, []string{"spec.x"},
		},
		"beside an error of before": {
			`{x?: int @kube(immutable), y?: int}`, spec{"x": int64(1), "y": "a"}, spec{"x": int64(2), "y": "a"}, []string{"spec.y", "spec.x"},
		},
		"removed with its struct": {
			`{s?: {x?: int @kube(immutable), t?: {y!: int @kube(immutable)}}}`,
			spec{"s": spec{"x": int64(1), "t": spec{"y": int64(1)}}}, spec{}, []string{"spec.s.t.y", "spec.s.x"},
		},
		"struct becomes null":          {`{s!: null | {x?: int @kube(immutable)}}`, spec{"s": spec{"x": int64(1)}}, spec{"s": nil}, []string{"spec.s.x"}},
		"struct becomes a text":        {`{s!: {x!: int @kube(immutable)} | string}`, spec{"s": spec{"x": int64(1)}}, spec{"s": "a"}, []string{"spec.s.x"}},
		"struct without it is removed": {`{s?: {x?: int @kube(immutable), y?: int}}`, spec{"s": spec{"y": int64(1)}}, spec{}, nil},
		"added with its struct":        {`{s?: {x?: int @kube(immutable)}}`, spec{}, spec{"s": spec{"x": int64(1)}}, nil},
		"removed with its item": {
			`{l?: [...{name!: string, x?: int @kube(immutable)}] @kube(listType=map,listMapKey=name)}`,
			spec{"l": []any{spec{"name": "a", "x": int64(1)}}}, spec{}, nil,
		},
		"removed with its alternative": {
			`{s?: {t!: "a", x?: int @kube(immutable)} | {t!: "b"}}`, spec{"s": spec{"t": "a", "x": int64(1)}}, spec{}, []string{"spec.s.x"},
		},
		"item that moved": {
			`{l?: [...{name!: string, x?: int @kube(immutable)}] @kube(listType=map,listMapKey=name)}`,
			spec{"l": []any{spec{"name": "a", "x": int64(1)}, spec{"name": "b", "x": int64(2)}}},
			spec{"l": []any{spec{"name": "b", "x": int64(2)}, spec{"name": "a", "x": int64(3)}}}, []string{"spec.l[1].x"},
		},
		"key that is not a scalar": {
			`{l?: [...{name!: string, x?: int @kube(immutable)}] @kube(listType=map,listMapKey=name)}`,
			spec{"l": []any{spec{"name": []any{}}}}, spec{"l": []any{spec{"name": []any{}}}}, []string{"spec.l[0].name"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := kindWithSpec(t, tc.schema)
			object := func(s spec) map[string]any {
				return map[string]any{"apiVersion": "try.example.com/v1", "kind": "X", "metadata": spec{"name": "a"}, "spec": s}
			}
			var fields []string
			for _, err := range k.Check(k.NewBudget(), object(tc.now)).ValidateUpdate(k.Check(k.NewBudget(), object(tc.old))) {
				require.Contains(t, []field.ErrorType{field.ErrorTypeInvalid, field.ErrorTypeTypeInvalid}, err.Type)
				fields = append(fields, err.Field)
			}
			require.Equal(t, tc.want, fields)
		})
	}
}

// Objects do not share a default: changing one object must not change the next.
func TestDefaultsAreNotShared(t *testing.T) {
	t.Parallel()
	k := kindWithSpec(t, `{x: *["a"] | [...string]}`)
	object := map[string]any{"apiVersion": "try.example.com/v1", "kind": "X", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{}}
	first := k.Default(object)
	first["spec"].(map[string]any)["x"].([]any)[0] = "changed"
	second := k.Default(object)
	require.Equal(t, []any{"a"}, second["spec"].(map[string]any)["x"])
}
