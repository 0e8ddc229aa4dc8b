package bench

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"

	"github.com/fescue-dev/fescue/admission"
)

const (
	// timeout bounds every wait for a condition.
	timeout = 90 * time.Second
	poll    = 20 * time.Millisecond
)

var watchers = schema.GroupVersionResource{Group: "watch.fescue.dev", Version: "v1alpha1", Resource: "watchers"}

// cluster is a namespace of the control plane of $KUBECONFIG.
type cluster struct {
	b         *testing.B
	config    *rest.Config
	typed     kubernetes.Interface
	dynamic   dynamic.Interface
	namespace string
}

func newCluster(b *testing.B) *cluster {
	b.Helper()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	require.NoError(b, err, "run the benchmarks under .devcluster/bin/devcluster")
	config.QPS = -1
	c := &cluster{b: b, config: config}
	c.typed, err = kubernetes.NewForConfig(config)
	require.NoError(b, err)
	c.dynamic, err = dynamic.NewForConfig(config)
	require.NoError(b, err)
	namespace, err := c.typed.CoreV1().Namespaces().Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-"}}, metav1.CreateOptions{})
	require.NoError(b, err)
	c.namespace = namespace.Name
	b.Cleanup(func() {
		require.NoError(b, c.typed.CoreV1().Namespaces().Delete(context.Background(), c.namespace, metav1.DeleteOptions{}))
	})
	require.Eventually(b, func() bool {
		_, err := c.typed.CoreV1().ServiceAccounts(c.namespace).Get(b.Context(), "default", metav1.GetOptions{})
		return err == nil
	}, timeout, poll, "the namespace has no service account, which Pods need")
	return c
}

// createPod submits a Pod with the annotation of a webhook, or with none if that is empty, and
// returns the time that it took.
func (c *cluster) createPod(annotation string) (time.Duration, *corev1.Pod) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "busybox:1.37"}}},
	}
	if annotation != "" {
		pod.Annotations = map[string]string{annotation: "log"}
	}
	began := time.Now()
	pod, err := c.typed.CoreV1().Pods(c.namespace).Create(c.b.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	require.NoError(c.b, err)
	return time.Since(began), pod
}

// running is a webhook server on a port of its own.
type running struct {
	ctx      context.Context
	listener net.Listener
	tls      *tls.Config
	trusted  []byte
}

// serve starts a server that answers on /inject.
func (c *cluster) serve(server func(*running) error) *running {
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	require.NoError(c.b, err)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(c.b, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(c.b, err)
	r := &running{
		ctx: c.b.Context(), listener: listener, trusted: certificate,
		tls: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}},
	}
	go func() { _ = server(r) }()
	return r
}

// register makes the API server call a webhook for Pods with an annotation.
func (c *cluster) register(annotation string, r *running) {
	name, _, _ := strings.Cut(annotation, "/")
	webhooks := admission.Webhooks{Name: name, URL: "https://" + r.listener.Addr().String(), CABundle: r.trusted}
	mutating, _ := admission.Configurations(nil, webhooks)
	mutating.Webhooks = webhooks.Injecting(annotation)
	configurations := c.typed.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := configurations.Create(c.b.Context(), mutating, metav1.CreateOptions{})
	require.NoError(c.b, err)
	c.b.Cleanup(func() {
		require.NoError(c.b, configurations.Delete(context.Background(), name, metav1.DeleteOptions{}))
	})
}

// fescueServer returns Fescue's webhook server with an injector.
func fescueServer(injector admission.Injector) func(*running) error {
	return func(r *running) error {
		server, err := admission.New(admission.Config{
			Injector: injector, Log: slog.New(slog.DiscardHandler),
			Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &r.tls.Certificates[0], nil },
		})
		if err != nil {
			return err
		}
		return server.Serve(r.ctx, r.listener)
	}
}
