package proof

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// The variables that a Watcher adds are in order of precedence: those of the container
// override those of the ConfigMap and come after them.
func TestWatcherInjection(t *testing.T) {
	t.Parallel()
	k := shippedKind(t, "Watcher")
	require.Equal(t, "watch.fescue.dev/inject", k.InjectAnnotation)
	for name, tc := range map[string]struct{ spec, selector, add string }{
		"least": {
			`{container: {name: w, image: i}}`, ``,
			`{spec: {initContainers: [{name: w, image: i, restartPolicy: Always, envFrom: [{configMapRef: {name: logs-config}}]}]}}`,
		},
		"all": {
			`{container: {name: w, image: i, envFrom: [{secretRef: {name: s}}]}, volume: {name: v, emptyDir: {}},
			  imagePullSecrets: {name: p}, selector: {matchLabels: {a: b}}}`, `{matchLabels: {a: b}}`,
			`{spec: {
			  initContainers: [{name: w, image: i, restartPolicy: Always, envFrom: [{configMapRef: {name: logs-config}}, {secretRef: {name: s}}]}],
			  volumes: [{name: v, emptyDir: {}}], imagePullSecrets: [{name: p}]}}`,
		},
		"container": {
			`{container: {name: w, image: i, envFrom: []}, mode: Container, selector: {}}`, `{}`,
			`{spec: {containers: [{name: w, image: i, envFrom: [{configMapRef: {name: logs-config}}]}]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checked := k.Check(k.NewBudget(), map[string]any{
				"apiVersion": "watch.fescue.dev/v1alpha1", "kind": "Watcher",
				"metadata": map[string]any{"name": "logs"}, "spec": corpus.Object(t, []byte(tc.spec)),
			})
			require.Empty(t, checked.Errors)
			injection, err := k.Injection(k.NewBudget(), checked.Object)
			require.NoError(t, err)
			require.Equal(t, corpus.Object(t, []byte(tc.add)), injection.Add)
			require.Equal(t, tc.selector != "", injection.Selector != nil)
			if injection.Selector != nil {
				require.YAMLEq(t, tc.selector, string(corpus.YAML(t, injection.Selector)))
			}
		})
	}
}

func TestKindsThatInjectNothing(t *testing.T) {
	t.Parallel()
	k := shippedKind(t, "At")
	require.False(t, k.Injects())
	injection, err := k.Injection(k.NewBudget(), at)
	require.NoError(t, err)
	require.Nil(t, injection)
}
