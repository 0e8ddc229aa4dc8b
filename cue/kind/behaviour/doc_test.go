package behaviour

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The example of the package's documentation.
func TestWorkedExample(t *testing.T) {
	t.Parallel()
	o := newOracle(t, `package x
X: {
	object!: spec: n?: int
	double: object.spec.n * 2
	status: {n: double, if double > 4 {large: true}}
}`)
	for _, of := range []func(object, observed map[string]any, path ...string) (string, any){o.compiled, o.evaluated} {
		_, value := of(map[string]any{"spec": map[string]any{"n": int64(3)}}, nil, "status")
		require.Equal(t, map[string]any{"n": int64(6), "large": true}, value)
		_, value = of(map[string]any{"spec": map[string]any{"n": int64(2)}}, nil, "status")
		require.Equal(t, map[string]any{"n": int64(4)}, value)
		class, _ := of(map[string]any{"spec": map[string]any{}}, nil, "status")
		require.NotEqual(t, "value", class)
	}
	class, problem := o.compiled(map[string]any{"spec": map[string]any{}}, nil, "status")
	require.Equal(t, "incomplete", class)
	require.Contains(t, problem, "object.spec.n")
}
