package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

const namedKind = `
package named

import "fescue.dev/cue/contract"

#Named: {apiVersion!: "named.example.com/v1", kind!: "Named", metadata!: {name!: string, ...}, spec!: {name!: string}, status?: contract.#Status}
#NamedController: contract.#Controller & {
	object!: #Named
	names: plural: "nameds"
	children: config: template: {apiVersion: "v1", kind: "ConfigMap", metadata: name: object.spec.name, data: owner: object.metadata.name}
}
`

// Objects that exchange the names of their children get them. One that wants a name that its holder keeps loses nothing.
func TestSwappedNames(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, namedKind)
	for name, tc := range map[string]struct {
		before, after, want map[string]string
	}{
		"two":          {map[string]string{"a": "x", "b": "y"}, map[string]string{"a": "y", "b": "x"}, map[string]string{"y": "a", "x": "b"}},
		"three":        {map[string]string{"a": "x", "b": "y", "c": "z"}, map[string]string{"a": "y", "b": "z", "c": "x"}, map[string]string{"y": "a", "z": "b", "x": "c"}},
		"a name taken": {map[string]string{"a": "x", "b": "y"}, map[string]string{"a": "y", "b": "y"}, map[string]string{"x": "a", "y": "b"}},
		"a chain":      {map[string]string{"a": "x", "b": "y", "c": "z"}, map[string]string{"a": "y", "b": "z", "c": "z"}, map[string]string{"x": "a", "y": "b", "z": "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := New([]*kind.Kind{k}, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
			apply := func(names map[string]string) {
				for object, child := range names {
					require.NoError(t, c.Apply(&unstructured.Unstructured{Object: map[string]any{
						"apiVersion": "named.example.com/v1", "kind": "Named", "metadata": map[string]any{"name": object}, "spec": map[string]any{"name": child},
					}}))
				}
				require.NoError(t, c.Settle())
				require.NoError(t, c.Wait(time.Minute))
			}
			apply(tc.before)
			apply(tc.after)
			is := make(map[string]string)
			for _, object := range c.objects {
				if object.GroupVersionKind() == (schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}) {
					is[object.GetName()], _, _ = unstructured.NestedString(object.Object, "data", "owner")
				}
			}
			require.Equal(t, tc.want, is)
		})
	}
}
