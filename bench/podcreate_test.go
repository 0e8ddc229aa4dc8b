package bench

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/admission"
	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/internal/informers"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// The annotations of Pods for the webhooks.
const (
	viaFloor  = "floor.bench.fescue.dev/inject"
	viaPeer   = "controller-runtime.bench.fescue.dev/inject"
	viaFescue = "watch.fescue.dev/inject"
)

// allower is the floor: it only allows Pods.
type allower struct{}

func (allower) Inject(context.Context, *admissionv1.AdmissionRequest) ([]byte, []string, error) {
	return nil, nil, nil
}

// BenchmarkPodCreate creates Pods one after the other (dry runs, so that etcd and the node are not
// measured), in turns: without a webhook, with the floor, with a sidecar from Fescue, and with the
// same sidecar from a webhook written with controller-runtime. It reports the milliseconds that
// each webhook adds, and those of Fescue relative to those of controller-runtime.
func BenchmarkPodCreate(b *testing.B) {
	c := newCluster(b)
	kinds, err := load.Shipped()
	require.NoError(b, err)
	kinds = slices.DeleteFunc(kinds, func(k *kind.Kind) bool { return !k.Injects() })
	require.NoError(b, testcluster.InstallCRDs(b.Context(), c.dynamic, kinds, crds.Webhook{}))
	_, err = c.dynamic.Resource(watchers).Namespace(c.namespace).Create(b.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": watchers.GroupVersion().String(), "kind": "Watcher", "metadata": map[string]any{"name": "log"},
		"spec": map[string]any{"container": map[string]any{"name": "watch", "image": "busybox:1.37"}},
	}}, metav1.CreateOptions{})
	require.NoError(b, err)
	injector, err := admission.NewPods(admission.PodsConfig{Informers: informers.New(b.Context(), informers.Decoded(c.dynamic), nil), Kinds: kinds, Log: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	for _, k := range kinds {
		injector.Follow(k, nil)
	}
	go injector.Run(b.Context())
	require.Eventually(b, func() bool { return injector.Ready() == nil }, timeout, poll)

	c.register(viaFloor, c.serve(fescueServer(allower{})))
	c.register(viaFescue, c.serve(fescueServer(injector)))
	c.register(viaPeer, c.serve(peerServer(b, c.config)))

	ways := []string{"", viaFloor, viaFescue, viaPeer}
	var ours, peers *corev1.Pod
	require.Eventually(b, func() bool {
		_, ours = c.createPod(viaFescue)
		_, peers = c.createPod(viaPeer)
		return len(ours.Spec.InitContainers) == 1 && len(peers.Spec.InitContainers) == 1
	}, timeout, poll, "the API server does not call the webhooks")
	// Its name is random.
	ours.Spec.InitContainers[0].VolumeMounts[0].Name = peers.Spec.InitContainers[0].VolumeMounts[0].Name
	require.Equal(b, peers.Spec.InitContainers, ours.Spec.InitContainers)

	took := make(map[string][]time.Duration)
	b.ResetTimer()
	for range b.N {
		for _, way := range ways {
			d, _ := c.createPod(way)
			took[way] = append(took[way], d)
		}
	}
	b.StopTimer()
	for _, q := range []float64{0.50, 0.99} {
		quantile := func(way string) float64 {
			all := slices.Sorted(slices.Values(took[way]))
			return all[int(q*float64(len(all)-1))].Seconds() * 1000
		}
		alone := quantile("")
		name := func(what string) string { return fmt.Sprintf("%s-p%.0f", what, q*100) }
		b.ReportMetric(alone, name("alone-ms"))
		b.ReportMetric(quantile(viaFloor)-alone, name("floor-adds-ms"))
		b.ReportMetric(quantile(viaFescue)-alone, name("fescue-adds-ms"))
		b.ReportMetric(quantile(viaPeer)-alone, name("controller-runtime-adds-ms"))
		b.ReportMetric((quantile(viaFescue)-alone)/(quantile(viaPeer)-alone), name("fescue/controller-runtime"))
	}
}
