package install

import (
	"context"
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

// Argo CD has a health check for each kind, under the key that it reads.
func TestArgoCD(t *testing.T) {
	t.Parallel()
	configMap, err := ArgoCD(kindtest.Shipped(t))
	require.NoError(t, err)
	require.Empty(t, configMap.GetNamespace())
	checks, _, err := unstructured.NestedStringMap(configMap.Object, "data")
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"resource.customizations.health.cnat.fescue.dev_At":                        health,
		"resource.customizations.health.samplecontroller.fescue.dev_Customcluster": health,
		"resource.customizations.health.watch.fescue.dev_Watcher":                  health,
	}, checks)
	for key := range checks {
		require.Empty(t, validation.IsConfigMapKey(key))
	}
}

// Argo CD reports what kstatus does: it runs the health check on objects in all states.
func TestHealthIsThatOfKstatus(t *testing.T) {
	t.Parallel()
	condition := func(of, status string) map[string]any {
		return map[string]any{"type": of, "status": status, "reason": "Because", "message": of + " is " + status}
	}
	status := func(observed int64, conditions ...any) map[string]any {
		return map[string]any{"observedGeneration": observed, "conditions": conditions}
	}
	for name, test := range map[string]struct {
		status          map[string]any
		health, message string
	}{
		"new":                {map[string]any{"observedGeneration": int64(-1)}, "Progressing", "generation 2 is not reconciled yet"},
		"changed":            {status(1, condition("Ready", "True")), "Progressing", "generation 2 is not reconciled yet"},
		"ready":              {status(2, condition("Ready", "True")), "Healthy", ""},
		"not ready":          {status(2, condition("Ready", "False")), "Progressing", "Ready is False"},
		"not known":          {status(2, condition("Ready", "Unknown")), "Progressing", "Ready is Unknown"},
		"stalled":            {status(2, condition("Ready", "False"), condition("Stalled", "True")), "Degraded", "Stalled is True"},
		"stalled but ready":  {status(2, condition("Stalled", "True"), condition("Ready", "True")), "Degraded", "Stalled is True"},
		"not stalled":        {status(2, condition("Stalled", "False"), condition("Ready", "True")), "Healthy", ""},
		"running":            {status(2, condition("Succeeded", "Unknown"), condition("Reconciling", "True")), "Progressing", "Reconciling is True"},
		"succeeded":          {status(2, condition("Succeeded", "True")), "Healthy", ""},
		"failed":             {status(2, condition("Succeeded", "False")), "Healthy", ""},
		"of the kind itself": {status(2, condition("Available", "False"), condition("Ready", "True")), "Healthy", ""},
		"without conditions": {status(2), "Healthy", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := map[string]any{
				"apiVersion": "example.com/v1", "kind": "Test",
				"metadata": map[string]any{"name": "a", "generation": int64(2)}, "status": test.status,
			}
			got, message := runHealth(t, object)
			require.Equal(t, test.health, got)
			require.Equal(t, test.message, message)
			result, err := kstatus.Compute(&unstructured.Unstructured{Object: object})
			require.NoError(t, err)
			require.Equal(t, map[kstatus.Status]string{
				kstatus.InProgressStatus: "Progressing", kstatus.FailedStatus: "Degraded", kstatus.CurrentStatus: "Healthy",
			}[result.Status], got)
		})
	}
	got, _ := runHealth(t, map[string]any{"metadata": map[string]any{"generation": int64(1)}})
	require.Equal(t, "Progressing", got, "an object without a status")
}

// runHealth runs the health check as Argo CD does (util/lua/lua.go): without the libraries string, io and os, and
// within a second.
func runHealth(t *testing.T, object map[string]any) (status, message string) {
	t.Helper()
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		require.NoError(t, state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	state.SetContext(ctx)
	state.SetGlobal("obj", luaValue(t, state, object))
	require.NoError(t, state.DoString(health))
	result, ok := state.Get(-1).(*lua.LTable)
	require.True(t, ok)
	return lua.LVAsString(result.RawGetString("status")), lua.LVAsString(result.RawGetString("message"))
}

// luaValue returns a value of an object as Argo CD hands it to a script.
func luaValue(t *testing.T, state *lua.LState, value any) lua.LValue {
	t.Helper()
	switch value := value.(type) {
	case string:
		return lua.LString(value)
	case int64:
		return lua.LNumber(value)
	case []any:
		list := state.NewTable()
		for _, item := range value {
			list.Append(luaValue(t, state, item))
		}
		return list
	case map[string]any:
		table := state.NewTable()
		for key, item := range value {
			table.RawSetString(key, luaValue(t, state, item))
		}
		return table
	}
	require.Failf(t, "no such value", "%T", value)
	return nil
}
