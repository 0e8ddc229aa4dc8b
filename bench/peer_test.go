package bench

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// sidecars injects like webhooks on controller-runtime: it decodes, changes and encodes the Pod,
// and the library computes the patch.
type sidecars struct {
	watchers client.Reader
	decoder  admission.Decoder
}

func (s *sidecars) Handle(ctx context.Context, request admission.Request) admission.Response {
	var pod corev1.Pod
	if err := s.decoder.Decode(request, &pod); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	watcher := &unstructured.Unstructured{}
	watcher.SetGroupVersionKind(watchers.GroupVersion().WithKind("Watcher"))
	if err := s.watchers.Get(ctx, client.ObjectKey{Namespace: request.Namespace, Name: pod.Annotations[viaPeer]}, watcher); err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	spec, _, _ := unstructured.NestedMap(watcher.Object, "spec", "container")
	var container corev1.Container
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &container); err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	for _, existing := range pod.Spec.InitContainers {
		if existing.Name == container.Name {
			return admission.Allowed("injected before")
		}
	}
	container.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	container.EnvFrom = append(container.EnvFrom, corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: watcher.GetName() + "-config"},
	}})
	// Without the mount of the token, the API server would add it and call all webhooks again.
	container.VolumeMounts = append(container.VolumeMounts, pod.Spec.Containers[0].VolumeMounts...)
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
	pod.Annotations["controller-runtime.bench.fescue.dev/status"] = "injected from " + watcher.GetName()
	changed, err := json.Marshal(&pod)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, changed)
}

// peerServer returns the same webhook on controller-runtime, with a filled cache of Watchers.
func peerServer(b *testing.B, config *rest.Config) func(*running) error {
	ctrllog.SetLogger(logr.Discard())
	watchers, err := cache.New(config, cache.Options{})
	require.NoError(b, err)
	go func() { _ = watchers.Start(b.Context()) }()
	handler, err := admission.StandaloneWebhook(
		&admission.Webhook{Handler: &sidecars{watchers, admission.NewDecoder(clientgoscheme.Scheme)}},
		admission.StandaloneOptions{MetricsPath: "/inject"})
	require.NoError(b, err)
	return func(r *running) error {
		// The scaffold of kubebuilder disables HTTP/2 too.
		protocols := new(http.Protocols)
		protocols.SetHTTP1(true)
		server := &http.Server{Handler: handler, TLSConfig: r.tls, Protocols: protocols, ReadHeaderTimeout: timeout}
		context.AfterFunc(r.ctx, func() { _ = server.Close() })
		return server.ServeTLS(r.listener, "", "")
	}
}
