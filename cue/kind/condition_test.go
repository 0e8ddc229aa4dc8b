package kind

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// An if that cannot be evaluated is an error, and not a child that is wanted no more.
func TestBrokenConditionIsAnError(t *testing.T) {
	t.Parallel()
	for condition, want := range map[string]string{
		"object.spec.loud": "", "object.spec.luod": "undefined field: luod", "object.spec.text": "as type bool",
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "k.cue"), []byte(`package k
import "fescue.dev/cue/contract"
#G: {apiVersion!: "try.example.com/v1", kind!: "G", metadata!: {...}, spec!: {text!: string, loud?: bool}, status?: contract.#Status}
#GController: contract.#Controller & {
	object!: #G
	names: plural: "gs"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}]
	if `+condition+` {children: shout: template: {apiVersion: "v1", kind: "ConfigMap"}}
}
`), 0o600))
		kinds, err := FromDir(dir)
		require.NoError(t, err)
		_, err = kinds[0].Decide(map[string]any{"apiVersion": "try.example.com/v1", "kind": "G",
			"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"text": "a"}}, nil)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}
