package certificate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

const (
	timeout = time.Minute
	poll    = 5 * time.Millisecond
)

var quiet = slog.New(slog.DiscardHandler)

// Through several rotations, with two replicas that both lead, clients with the published
// bundle trust every served certificate.
func TestRotation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testRotation) // half a year
}

func testRotation(t *testing.T) {
	client := newClient()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var published atomic.Pointer[x509.CertPool]
	var failures atomic.Int64
	failures.Store(2)
	publish := func(_ context.Context, bundle []byte) error {
		if failures.Add(-1) >= 0 {
			return errors.New("not now")
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(bundle) {
			return errors.New("bundle without a certificate")
		}
		published.Store(pool)
		return nil
	}
	var replicas []*Secret
	for range 2 {
		s, err := NewSecret(SecretConfig{Client: client, Namespace: "default", Name: "c", Hosts: []string{"127.0.0.1"}, Log: quiet})
		require.NoError(t, err)
		require.Error(t, s.Ready())
		_, err = s.GetCertificate(nil)
		require.Error(t, err)
		replicas = append(replicas, s)
		go s.Run(ctx)
		go s.Lead(ctx, publish)
	}
	seen := make(map[string]bool)
	require.NoError(t, wait.PollUntilContextTimeout(ctx, time.Hour, 3*DefaultValidity, true, func(context.Context) (bool, error) {
		for _, s := range replicas {
			// The served certificate is read first: a newer bundle also has the older
			// authority.
			served, err := s.GetCertificate(nil)
			roots := published.Load()
			if err != nil || roots == nil {
				return false, nil // in the first hour
			}
			if err := s.Ready(); err != nil {
				return false, err
			}
			if _, err := served.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "127.0.0.1"}); err != nil {
				return false, err
			}
			seen[served.Leaf.SerialNumber.String()] = true
		}
		return len(seen) >= 3, nil
	}))
}

// newClient returns a client of an API server that rejects updates of an old version, which the
// library's does not.
func newClient() *fake.Clientset {
	client := fake.NewClientset()
	var mu sync.Mutex
	version := 0
	client.PrependReactor("*", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		write, ok := action.(clienttesting.CreateAction) // an UpdateAction has the same methods
		if !ok {
			return false, nil, nil
		}
		mu.Lock()
		defer mu.Unlock()
		secret := write.GetObject().DeepCopyObject().(*corev1.Secret)
		resource, namespace := action.GetResource(), action.GetNamespace()
		version++
		if action.GetVerb() == "create" {
			secret.ResourceVersion = strconv.Itoa(version)
			return true, secret, client.Tracker().Create(resource, secret, namespace)
		}
		now, err := client.Tracker().Get(resource, namespace, secret.Name)
		if err != nil {
			return true, nil, err
		}
		if now.(*corev1.Secret).ResourceVersion != secret.ResourceVersion {
			return true, nil, apierrors.NewConflict(resource.GroupResource(), secret.Name, errors.New("it has changed"))
		}
		secret.ResourceVersion = strconv.Itoa(version)
		return true, secret, client.Tracker().Update(resource, secret, namespace)
	})
	return client
}

func TestDeletedSecretIsRecreated(t *testing.T) {
	t.Parallel()
	client := newClient()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	metrics := prometheus.NewRegistry()
	s, err := NewSecret(SecretConfig{Client: client, Namespace: "default", Name: "c", Hosts: []string{"a.default.svc"}, Metrics: metrics, Log: quiet})
	require.NoError(t, err)
	go s.Run(ctx)
	go s.Lead(ctx, func(context.Context, []byte) error { return nil })
	require.Eventually(t, func() bool { return s.Ready() == nil }, timeout, poll)
	first, err := s.GetCertificate(nil)
	require.NoError(t, err)
	require.WithinDuration(t, first.Leaf.NotBefore, time.Unix(int64(testutil.ToFloat64(s.start)), 0), time.Second)
	require.WithinDuration(t, time.Now().Add(DefaultValidity), time.Unix(int64(testutil.ToFloat64(s.expiry)), 0), time.Minute)

	require.NoError(t, client.CoreV1().Secrets("default").Delete(ctx, "c", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool {
		now, err := s.GetCertificate(nil)
		return err == nil && now != first
	}, timeout, poll)
	names, err := metrics.Gather()
	require.NoError(t, err)
	require.Len(t, names, 4)
}

func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := policy{hosts: []string{"127.0.0.1"}, validity: time.Hour}
	_, err := NewFiles(dir, poll, p.hosts, nil, quiet)
	require.ErrorIs(t, err, os.ErrNotExist)
	write := func(secret *corev1.Secret) {
		for name, text := range secret.Data {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		}
	}
	first, second := newSecret(t, p, time.Now()), newSecret(t, p, time.Now())
	write(first)
	f, err := NewFiles(dir, poll, p.hosts, nil, quiet)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	published := make(chan []byte, 10)
	go f.Run(ctx)
	go f.Lead(ctx, func(_ context.Context, bundle []byte) error { published <- bundle; return nil })
	require.Equal(t, first.Data[bundleKey], <-published)
	served := func() *tls.Certificate {
		certificate, err := f.GetCertificate(nil)
		require.NoError(t, err)
		return certificate
	}
	before := served()

	// While the key does not match yet, the last certificate is kept.
	require.NoError(t, os.WriteFile(filepath.Join(dir, corev1.TLSPrivateKeyKey), second.Data[corev1.TLSPrivateKeyKey], 0o600))
	require.Eventually(t, func() bool { return testutil.ToFloat64(f.errors) > 0 }, timeout, poll)
	require.Same(t, before, served())
	write(second)
	require.Eventually(t, func() bool { return served() != before }, timeout, poll)
	require.NoError(t, f.Ready())
	for bundle := range published { // it may be read while it is written
		if string(bundle) == string(second.Data[bundleKey]) {
			break
		}
	}
}

// Ready reports whether the API server would accept the certificate.
func TestReady(t *testing.T) {
	t.Parallel()
	now := time.Now()
	certificate := newSecret(t, policy{hosts: []string{"fescue.default.svc", "192.0.2.1"}, validity: time.Hour}, now)
	for name, test := range map[string]struct {
		hosts []string
		after time.Duration
		err   string
	}{
		"valid":               {hosts: []string{"fescue.default.svc", "192.0.2.1"}},
		"unknown hosts":       {},
		"not yet valid":       {after: -24 * time.Hour, err: "the serving certificate is not valid before "},
		"no longer valid":     {after: 24 * time.Hour, err: "the serving certificate expired at "},
		"for another name":    {hosts: []string{"other.default.svc"}, err: "not for the host that the API server calls: x509: certificate is valid for fescue.default.svc, not other.default.svc"},
		"for another address": {hosts: []string{"192.0.2.2"}, err: "x509: certificate is valid for 192.0.2.1, not 192.0.2.2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, err := newHolder(test.hosts, nil)
			require.NoError(t, err)
			require.ErrorIs(t, h.readyAt(now), errNone)
			require.NoError(t, h.load(certificate.Data[corev1.TLSCertKey], certificate.Data[corev1.TLSPrivateKeyKey]))
			err = h.readyAt(now.Add(test.after))
			if test.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.err)
		})
	}
}
