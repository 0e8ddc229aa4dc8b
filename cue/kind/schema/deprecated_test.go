package schema_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

func TestDeprecated(t *testing.T) {
	t.Parallel()
	k := kindWithSpec(t, `{
		cron?: string @kube(deprecated="use spec.schedule")
		schedule?: string
		steps?: [...{run?: string, script?: string @kube(deprecated="use run")}]
		by?: [string]: {old?: int @kube(deprecated="it does nothing")}
		either?: {a!: string} | {b!: string @kube(deprecated="use a")}
		if schedule != _|_ {zone?: string @kube(deprecated="it is UTC")}
	}`)
	object := func(spec map[string]any) map[string]any {
		return map[string]any{"apiVersion": "try.example.com/v1", "kind": "X", "metadata": map[string]any{"name": "a"}, "spec": spec}
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
	at := kindtest.Named(t, kindtest.Shipped(t), "At")
	require.Empty(t, at.Versions.Deprecated(at.NewBudget(), object(nil)))
}
