package kind

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// An if that cannot be evaluated is an error, and not a child that is wanted no more,
// wherever it stands.
func TestBrokenConditionIsAnError(t *testing.T) {
	t.Parallel()
	const child = `shout: template: {apiVersion: "v1", kind: "ConfigMap"}`
	places := map[string]string{
		"controller":   "if CONDITION {children: " + child + "}",
		"children":     "children: {if CONDITION {" + child + "}}",
		"phase":        "phases: A: {if CONDITION {children: " + child + "}}",
		"its children": "phases: A: children: {if CONDITION {" + child + "}}",
	}
	conditions := map[string]string{
		"object.spec.loud": "", "object.spec.luod": "undefined field: luod", "object.spec.text": "as type bool",
	}
	for place, text := range places {
		for condition, want := range conditions {
			t.Run(place+" "+condition, func(t *testing.T) {
				t.Parallel()
				err := decideWith(t, strings.ReplaceAll(text, "CONDITION", condition))
				if want == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, want)
			})
		}
	}
}

// decideWith decides for an object of a kind whose behaviour has a given part.
func decideWith(t *testing.T, part string) error {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "k.cue"), []byte(`package k
import "fescue.dev/cue/contract"
#G: {
	apiVersion!: "try.example.com/v1", kind!: "G", metadata!: {...}, spec!: {text!: string, loud?: bool}
	status?: {contract.#Status, phase?: "A"}
}
#GController: contract.#Controller & {
	object!: #G
	names: plural: "gs"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}]
	initial: "A"
	phases: A: {}
	`+part+`
}
`), 0o600))
	kinds, err := FromDir(dir)
	require.NoError(t, err)
	_, err = kinds[0].Decide(map[string]any{"apiVersion": "try.example.com/v1", "kind": "G",
		"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"text": "a"}, "status": map[string]any{"phase": "A"}}, nil)
	return err
}

// What a condition adds is shared by all goroutines that meet it for the first time; the
// race detector watches.
func TestConcurrentConditions(t *testing.T) {
	t.Parallel()
	for range 20 {
		k := kindWithSpec(t, `{mode!: "a" | "b", if mode == "a" {x!: {y?: int, z: *1 | int}}}`)
		object := map[string]any{
			"apiVersion": "fuzzed.example.com/v1", "kind": "X", "metadata": map[string]any{"name": "a"},
			"spec": map[string]any{"mode": "a", "x": map[string]any{"y": int64(1)}},
		}
		var workers sync.WaitGroup
		for range 4 {
			workers.Go(func() {
				if problems := k.Problems(object); len(problems) > 0 {
					t.Error(problems[0].Error)
				}
			})
		}
		workers.Wait()
	}
}
