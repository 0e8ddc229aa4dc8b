package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/fescue-dev/fescue/admission"
	"github.com/fescue-dev/fescue/admission/certificate"
	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
)

// allower is the floor: it lets Pods pass and does nothing else.
type allower struct{}

func (allower) Inject(context.Context, *admissionv1.AdmissionRequest) ([]byte, []string, error) {
	return nil, nil, nil
}

// BenchmarkPodCreate has one unhurried client create Pods (dry runs, so that etcd and the
// node are not measured), in turns: one that no webhook sees, one that the floor lets pass,
// and one that gets a sidecar. What the webhooks add is reported in milliseconds.
func BenchmarkPodCreate(b *testing.B) {
	config := restConfig(b)
	typed, err := kubernetes.NewForConfig(config)
	require.NoError(b, err)
	client, err := dynamic.NewForConfig(config)
	require.NoError(b, err)
	namespace := newNamespace(b)
	kinds, err := kind.Shipped()
	require.NoError(b, err)
	require.NoError(b, crds.Install(b.Context(), client, kinds))
	kinds = slices.DeleteFunc(kinds, func(k *kind.Kind) bool { return !k.Injects() })
	_, err = client.Resource(watchers).Namespace(namespace).Create(b.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": watchers.GroupVersion().String(), "kind": "Watcher", "metadata": map[string]any{"name": "log"},
		"spec": map[string]any{"container": map[string]any{"name": "watch", "image": "busybox:1.37"}},
	}}, metav1.CreateOptions{})
	require.NoError(b, err)

	injector, err := admission.NewPods(admission.PodsConfig{Client: client, Kinds: kinds, Log: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	go injector.Run(b.Context())
	require.Eventually(b, func() bool { return injector.Ready() == nil }, timeout, poll)
	const floor = "floor.bench.fescue.dev/inject"
	register(b, typed, namespace, "fescue-bench-floor", floor, allower{})
	register(b, typed, namespace, "fescue-bench", kinds[0].InjectAnnotation, injector)

	create := func(annotation string) (time.Duration, *corev1.Pod) {
		pod := podWith(nil)
		if annotation != "" {
			pod.Annotations = map[string]string{annotation: "log"}
		}
		began := time.Now()
		pod, err := typed.CoreV1().Pods(namespace).Create(b.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		require.NoError(b, err)
		return time.Since(began), pod
	}
	require.True(b, waitUntil(func() bool { _, pod := create(kinds[0].InjectAnnotation); return len(pod.Spec.InitContainers) == 1 }))
	took := make(map[string][]time.Duration)
	b.ResetTimer()
	for range b.N {
		for _, annotation := range []string{"", floor, kinds[0].InjectAnnotation} {
			d, _ := create(annotation)
			took[annotation] = append(took[annotation], d)
		}
	}
	b.StopTimer()
	quantile := func(annotation string, q float64) float64 {
		all := slices.Sorted(slices.Values(took[annotation]))
		return all[int(q*float64(len(all)-1))].Seconds() * 1000
	}
	for _, q := range []float64{0.50, 0.99} {
		b.ReportMetric(quantile("", q), fmt.Sprintf("alone-p%.0f-ms", q*100))
		b.ReportMetric(quantile(floor, q)-quantile("", q), fmt.Sprintf("floor-adds-p%.0f-ms", q*100))
		b.ReportMetric(quantile(kinds[0].InjectAnnotation, q)-quantile("", q), fmt.Sprintf("adds-p%.0f-ms", q*100))
	}
}

// register serves an injector and has the API server ask it about Pods with an annotation.
func register(b *testing.B, typed kubernetes.Interface, namespace, name, annotation string, injector admission.Injector) {
	b.Helper()
	log := slog.New(slog.DiscardHandler)
	serving, err := certificate.NewSecret(certificate.SecretConfig{Client: typed, Namespace: namespace, Name: name, Hosts: []string{"127.0.0.1"}, Log: log})
	require.NoError(b, err)
	server, err := admission.New(admission.Config{Injector: injector, Certificate: serving.GetCertificate, Log: log})
	require.NoError(b, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	registrar := admission.NewRegistrar(typed, nil, admission.Webhooks{
		Name: name, URL: "https://" + listener.Addr().String(),
		Injections: admission.Injections{{Group: "bench.fescue.dev", Kind: name}: {Annotation: annotation}},
	}, log)
	go func() { _ = server.Serve(b.Context(), listener) }()
	go serving.Run(b.Context())
	published := make(chan struct{}, 16)
	go serving.Lead(b.Context(), func(ctx context.Context, bundle []byte) error {
		err := registrar.Publish(ctx, bundle)
		if err == nil {
			published <- struct{}{}
		}
		return err
	})
	<-published
	b.Cleanup(func() { removeWebhooks(b, typed, name) })
}
