package inject

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

// An injected container mounts the token like the Pod's own containers, unless it mounts
// something else there. If the Pod has no token, it mounts none.
func TestTokenIsMounted(t *testing.T) {
	t.Parallel()
	const token = `{"name":"kube-api-access-x","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}`
	const own = `{"name":"v","mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}`
	for name, tc := range map[string]struct {
		pod, sidecar string // what they mount
		want         []string
	}{
		"none in the Pod":      {"", "", nil},
		"nothing of its own":   {token, "", []string{"kube-api-access-x"}},
		"another mount":        {token, `{"name":"v","mountPath":"/v"}`, []string{"v", "kube-api-access-x"}},
		"something there":      {token, own, []string{"v"}},
		"not the API server's": {own, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := `{"metadata":{"annotations":{"watch.fescue.dev/inject":"w"}},"spec":{"containers":[{"name":"a","image":"a","volumeMounts":[` + tc.pod + `]}],"volumes":[{"name":"kube-api-access-x","emptyDir":{}},{"name":"v","emptyDir":{}}]}}`
			watcher := `{"apiVersion":"watch.fescue.dev/v1alpha1","kind":"Watcher","metadata":{"name":"w"},"spec":{"container":{"name":"w","image":"w","volumeMounts":[` + tc.sidecar + `]}}}`
			i := NewInjector("", watcherKinds)
			result, err := i.Inject(t.Context(), Target{Text: []byte(pod), Namespace: namespace}, injections(t, kindtest.Shipped(t), []byte(watcher)))
			require.NoError(t, err)
			require.Equal(t, Injected, result.Outcomes[0].Reason, result.Outcomes)
			var typed corev1.Pod
			require.NoError(t, json.Unmarshal(result.Pod(), &typed))
			var mounts []string
			for _, mount := range typed.Spec.InitContainers[0].VolumeMounts {
				mounts = append(mounts, mount.Name)
			}
			require.Equal(t, tc.want, mounts)
			again, err := i.Inject(t.Context(), Target{Text: result.Pod(), Namespace: namespace}, injections(t, kindtest.Shipped(t), []byte(watcher)))
			require.NoError(t, err)
			require.Empty(t, again.Patch)
		})
	}
}
