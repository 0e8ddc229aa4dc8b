package e2e

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/admission"
	"github.com/fescue-dev/fescue/admission/certificate"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// labeller is an injector that labels Pods and counts its calls.
type labeller struct{ calls atomic.Int64 }

func (l *labeller) Inject(context.Context, *admissionv1.AdmissionRequest) ([]byte, []string, error) {
	l.calls.Add(1)
	return []byte(`[{"op":"add","path":"/metadata/labels","value":{"injected":"yes"}}]`), []string{"labelled"}, nil
}

// TestPodWebhooks registers webhooks for Pods with an annotation that no other test uses.
func TestPodWebhooks(t *testing.T) {
	t.Parallel()
	const annotation = "webhooks.test.fescue.dev/inject"
	c := newClients(t, testcluster.Namespace(t))
	typed, namespace := c.typed, c.namespace
	c.deleteWebhooks("fescue-pods-test")
	log := slog.New(slog.DiscardHandler)
	serving, err := certificate.NewSecret(certificate.SecretConfig{Client: typed, Namespace: namespace, Name: "c", Hosts: []string{"127.0.0.1"}, Log: log})
	require.NoError(t, err)
	injector := &labeller{}
	server, err := admission.New(admission.Config{Injector: injector, Certificate: serving.GetCertificate, Log: log})
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	gvk := schema.GroupVersionKind{Group: "test.fescue.dev", Version: "v1", Kind: "Test"}
	version := &kind.Version{GroupVersionKind: gvk, Schema: &apiextensionsv1.JSONSchemaProps{}}
	injecting := &kind.Kind{
		Version: version, Versions: []*kind.Version{version}, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "tests"},
		Scope: apiextensionsv1.NamespaceScoped, InjectAnnotation: annotation,
	}
	registrar := admission.NewRegistrar(typed, []*kind.Kind{injecting}, admission.Webhooks{
		Name: "fescue-pods-test", URL: "https://" + listener.Addr().String(),
	}, log)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(ctx, listener) }()
	go serving.Run(ctx)
	go serving.Lead(ctx, registrar.Publish)

	create := func(annotations map[string]string, options metav1.CreateOptions) *corev1.Pod {
		pod, err := typed.CoreV1().Pods(namespace).Create(t.Context(), podWith(annotations), options)
		require.NoError(t, err)
		return pod
	}
	annotated := map[string]string{annotation: "x"}
	require.True(t, testcluster.WaitUntil(func() bool { return create(annotated, dryRun).Labels["injected"] == "yes" }))
	calls := injector.calls.Load()
	require.Empty(t, create(nil, metav1.CreateOptions{}).Labels)
	require.Empty(t, create(map[string]string{"other": "x"}, metav1.CreateOptions{}).Labels)
	require.Equal(t, calls, injector.calls.Load(), "Pods without the annotation cause no call")
	require.NotEmpty(t, create(annotated, metav1.CreateOptions{}).Labels)
	require.Equal(t, calls+1, injector.calls.Load())

	// All Pods of a namespace where selectors are enabled.
	_, err = typed.CoreV1().Namespaces().Patch(t.Context(), namespace, "application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+admission.SelectionLabel+`":"`+admission.SelectionEnabled+`"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.True(t, testcluster.WaitUntil(func() bool { return create(nil, dryRun).Labels["injected"] == "yes" }))
	calls = injector.calls.Load()
	require.NotEmpty(t, create(annotated, metav1.CreateOptions{}).Labels)
	require.Equal(t, calls+1, injector.calls.Load(), "one webhook is called, not both")

	cancel()
	require.NoError(t, <-stopped)
	_, err = http.Get("https://" + listener.Addr().String()) //nolint:bodyclose // there is none
	require.Error(t, err)
	require.Empty(t, create(annotated, metav1.CreateOptions{}).Labels, "without its webhook, a Pod is created unchanged")
}
