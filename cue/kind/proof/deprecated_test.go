package proof

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDeprecated(t *testing.T) {
	t.Parallel()
	const head = `
package deprecated

import "fescue.dev/cue/contract"

#A: {
	apiVersion!: "deprecated.example.com/v1"
	kind!:       "A"
	metadata!: {...}
	spec!: {
`
	const tail = `
	}
	status?: contract.#Status
}
#AController: contract.#Controller & {object!: #A, names: plural: "as"}
`
	kinds, err := draftsOf(t, head+`
		cron?: string @kube(deprecated="use spec.schedule")
		schedule?: string
		steps?: [...{run?: string, script?: string @kube(deprecated="use run")}]
		by?: [string]: {old?: int @kube(deprecated="it does nothing")}
		either?: {a!: string} | {b!: string @kube(deprecated="use a")}
		if schedule != _|_ {zone?: string @kube(deprecated="it is UTC")}
`+tail)
	require.NoError(t, err)
	k := kinds[0]
	object := func(spec map[string]any) map[string]any {
		return map[string]any{"apiVersion": "deprecated.example.com/v1", "kind": "A", "metadata": map[string]any{"name": "a"}, "spec": spec}
	}
	require.Empty(t, k.Versions.Deprecated(k.NewBudget(), object(map[string]any{"schedule": "x", "steps": []any{map[string]any{"run": "x"}}})))
	require.Equal(t, []string{
		"spec.by.x.old: deprecated: it does nothing",
		"spec.cron: deprecated: use spec.schedule",
		"spec.either.b: deprecated: use a",
		"spec.steps[1].script: deprecated: use run",
		"spec.zone: deprecated: it is UTC",
	}, k.Versions.Deprecated(k.NewBudget(), object(map[string]any{
		"cron": "x", "schedule": "x", "zone": "UTC", "either": map[string]any{"b": "x"},
		"steps": []any{map[string]any{"run": "x"}, map[string]any{"script": "x"}}, "by": map[string]any{"x": map[string]any{"old": int64(1)}},
	})))
	require.Equal(t, "Deprecated: use spec.schedule", k.Schema.Properties["spec"].Properties["cron"].Description)
	at := shippedKind(t, "At")
	require.Empty(t, at.Versions.Deprecated(at.NewBudget(), object(nil)))
}
