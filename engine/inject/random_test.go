package inject

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

// TestRandomPods injects the objects of the fuzz tests into Pods with parts that may conflict
// with them.
func TestRandomPods(t *testing.T) {
	t.Parallel()
	candidates := append(injections(t, kindtest.Shipped(t), []byte(fuzzed)), tracer(t))
	i := NewInjector("", watcherKinds)
	reasons := make(map[Reason]int)
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 2))
		pod, err := json.Marshal(randomPod(r))
		require.NoError(t, err)
		r.Shuffle(len(candidates), func(a, b int) { candidates[a], candidates[b] = candidates[b], candidates[a] })
		for _, o := range checked(t, i, pod, candidates).Outcomes {
			reasons[o.Reason]++
		}
	}
	for _, reason := range []Reason{Injected, Present, NotFound, Conflict, Incomplete} {
		require.Greater(t, reasons[reason], 100, "%v", reasons)
	}
}

type object = map[string]any

// randomPod is a Pod whose parts are each absent, null, empty, like those of an
// injection, or others of the same name.
func randomPod(r *rand.Rand) object {
	return object{
		"metadata": maybe(r, object{
			"labels": maybe(r, object{"traced": one(r, "yes", "no")}),
			"annotations": object{
				watcherAnnotation: strings.Join([]string{one(r, "logs", "trace", "another").(string), one(r, "gone", "trace", "untraced").(string)}, ","),
				StatusAnnotation:  one(r, nil, "x", `{"Watcher.watch.fescue.dev/logs":{"generation":1}}`, `{"Watcher.watch.fescue.dev/gone":{"generation":1}}`),
			},
		}),
		"spec": object{
			"containers":            some(r, "app", "logs", "another", "untraced"),
			"initContainers":        maybe(r, some(r, "setup", "logs", "untraced")),
			"ephemeralContainers":   maybe(r, some(r, "logs")),
			"volumes":               maybe(r, []any{object{"name": one(r, "logs", "data"), one(r, "emptyDir", "hostPath").(string): object{}}}),
			"imagePullSecrets":      maybe(r, []any{object{"name": one(r, "registry", "other")}}),
			"tolerations":           maybe(r, []any{object{"operator": one(r, "Exists", "Equal")}}),
			"hostNetwork":           one(r, nil, false, true),
			"shareProcessNamespace": one(r, nil, nil, false, true),
		},
	}
}

// some are containers of some of the names.
func some(r *rand.Rand, names ...string) []any {
	var containers []any
	for _, name := range names {
		if r.IntN(2) == 0 {
			continue
		}
		containers = append(containers, object{
			"name": name, "image": one(r, "a", "watcher:1"), "restartPolicy": one(r, nil, "Always"),
			"env":             maybe(r, []any{object{"name": "TRACE", "value": one(r, "on", "off")}}),
			"envFrom":         maybe(r, []any{object{"configMapRef": object{"name": one(r, "trace", name+"-config")}}}),
			"ports":           maybe(r, []any{object{"containerPort": one(r, 80, 81), "protocol": one(r, nil, "TCP", "UDP"), "hostPort": one(r, nil, 80)}}),
			"securityContext": maybe(r, object{"runAsUser": one(r, nil, 5, 6)}),
			"volumeMounts":    maybe(r, []any{object{"name": "logs", "mountPath": "/logs"}}),
		})
	}
	return containers
}

// maybe returns a part, or one of the forms of none.
func maybe(r *rand.Rand, part any) any {
	switch r.IntN(4) {
	case 0:
		return nil
	case 1:
		if _, isList := part.([]any); isList {
			return []any{}
		}
		return object{}
	}
	return part
}

func one(r *rand.Rand, of ...any) any { return of[r.IntN(len(of))] }
