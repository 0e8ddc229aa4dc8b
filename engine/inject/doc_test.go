package inject

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// The example of the package's documentation.
func TestWorkedExample(t *testing.T) {
	t.Parallel()
	watcher, err := New(Source{
		Object: Object{watcherKind, "logs"}, Namespace: namespace, Generation: 3, Selector: &metav1.LabelSelector{},
		Add: corpus.Object(t, []byte(`{spec: {containers: [{name: logs, image: watcher}]}}`)),
	})
	require.NoError(t, err)
	pod := `{"spec":{"containers":[{"name":"app","image":"app","unknown":1.0}]}}`
	result := checked(t, NewInjector("", watcherKinds), []byte(pod), []*Injection{watcher})
	require.Equal(t, Injected, result.Outcomes[0].Reason)
	require.JSONEq(t, `[
		{"op": "add", "path": "/spec/containers/-", "value": {"name": "logs", "image": "watcher"}},
		{"op": "add", "path": "/metadata", "value": {"annotations": {"fescue.dev/injected": "{\"Watcher.watch.fescue.dev/logs\":{\"generation\":3}}"}}}
	]`, string(result.Patch))
	require.Contains(t, string(result.Pod()), `{"name":"app","image":"app","unknown":1.0}`)

	other := checked(t, NewInjector("", watcherKinds), []byte(`{"spec":{"containers":[{"name":"logs","image":"other"}]}}`), []*Injection{watcher})
	require.Equal(t, Conflict, other.Outcomes[0].Reason)
	require.Contains(t, string(other.Pod()), `"spec":{"containers":[{"name":"logs","image":"other"}]}`)
}
