package certificate

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
)

// TestDecide follows a Secret through its life: each decision and its result.
func TestDecide(t *testing.T) {
	t.Parallel()
	p := policy{hosts: []string{"fescue.fescue-system.svc", "192.0.2.1"}, validity: 90 * 24 * time.Hour}
	secret := &corev1.Secret{}
	now := time.Now()
	take := func(want step) {
		t.Helper()
		got, _ := readState(secret).decide(p, now)
		require.Equal(t, want, got, "at %s", now)
		if want != keep {
			require.NoError(t, change(secret, readState(secret), got, p, now))
		}
	}
	take(replace)
	first := readState(secret)
	require.Len(t, first.bundle, 1)
	got, until := first.decide(p, now)
	require.Equal(t, keep, got)
	require.WithinDuration(t, now.Add(60*24*time.Hour), until, 2*time.Second)

	// certificates are created by the real clock, so the second one is a little older here
	now = until
	take(stage)
	staged := readState(secret)
	require.Len(t, staged.bundle, 2, "both authorities are trusted")
	require.Equal(t, first.serving.Leaf.Raw, staged.serving.Leaf.Raw, "a certificate that is not trusted everywhere yet is not served")
	require.NotEqual(t, staged.serving.Leaf.Raw, staged.next.Leaf.Raw)
	take(trust)
	take(keep)
	now = now.Add(p.overlap() - time.Second)
	take(keep)
	now = now.Add(2 * time.Second)
	take(promote)
	promoted := readState(secret)
	require.Equal(t, staged.next.Leaf.Raw, promoted.serving.Leaf.Raw)
	require.Nil(t, promoted.next)
	require.Len(t, promoted.bundle, 2, "some replica may still serve the old one")
	require.Empty(t, secret.Annotations)

	now = now.Add(100 * 24 * time.Hour)
	take(replace)
	require.Len(t, readState(secret).bundle, 1, "expired authorities are removed")
}

func TestDecideOnDamage(t *testing.T) {
	t.Parallel()
	p := policy{hosts: []string{"127.0.0.1"}, validity: time.Hour}
	now := time.Now()
	for name, test := range map[string]struct {
		damage func(*corev1.Secret)
		want   step
	}{
		"none":             {func(*corev1.Secret) {}, keep},
		"no certificate":   {func(s *corev1.Secret) { delete(s.Data, corev1.TLSCertKey) }, replace},
		"no key":           {func(s *corev1.Secret) { delete(s.Data, corev1.TLSPrivateKeyKey) }, replace},
		"text":             {func(s *corev1.Secret) { s.Data[corev1.TLSCertKey] = []byte("x") }, replace},
		"no bundle":        {func(s *corev1.Secret) { delete(s.Data, bundleKey) }, replace},
		"another's bundle": {func(s *corev1.Secret) { s.Data[bundleKey] = newSecret(t, p, now).Data[bundleKey] }, replace},
		"another's key": {func(s *corev1.Secret) {
			s.Data[corev1.TLSPrivateKeyKey] = newSecret(t, p, now).Data[corev1.TLSPrivateKeyKey]
		}, replace},
		"a broken next":           {func(s *corev1.Secret) { s.Data[nextCertKey], s.Data[nextPrivateKeyKey] = []byte("x"), []byte("y") }, keep},
		"a broken time":           {func(s *corev1.Secret) { stageNext(t, s, p, now); s.Annotations = map[string]string{trustedSince: "x"} }, trust},
		"only the next one works": {func(s *corev1.Secret) { stageNext(t, s, p, now); delete(s.Data, corev1.TLSCertKey) }, promote},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secret := newSecret(t, p, now)
			test.damage(secret)
			got, _ := readState(secret).decide(p, now)
			require.Equal(t, test.want, got)
		})
	}
	other := policy{hosts: []string{"127.0.0.1", "example.com"}, validity: time.Hour}
	got, _ := readState(newSecret(t, p, now)).decide(other, now)
	require.Equal(t, replace, got, "a host was added")
}

// However often certificates are created, the bundle has the newest authorities and that of the
// served certificate.
func TestBundleIsBounded(t *testing.T) {
	t.Parallel()
	p := policy{hosts: []string{"127.0.0.1"}, validity: time.Hour}
	now := time.Now()
	secret := newSecret(t, p, now)
	needed := readState(secret).bundle[0]
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	var newest []*x509.Certificate
	for range 100 {
		authority, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "another"}, key)
		require.NoError(t, err)
		newest = append([]*x509.Certificate{authority}, newest...)
		text, err := cert.EncodeCertificates(authority)
		require.NoError(t, err)
		secret.Data[bundleKey] = readState(secret).bundleWith(bytes.TrimSpace(text), now)
	}
	s := readState(secret)
	require.True(t, s.works(s.serving, p.hosts, now))
	require.Equal(t, append(newest[:maxAuthorities:maxAuthorities], needed), s.bundle)
}

func newSecret(t *testing.T, p policy, now time.Time) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default"}}
	require.NoError(t, change(secret, state{}, replace, p, now))
	return secret
}

func stageNext(t *testing.T, secret *corev1.Secret, p policy, now time.Time) {
	require.NoError(t, change(secret, readState(secret), stage, p, now))
}
