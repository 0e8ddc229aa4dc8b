package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"
)

// The keys of the Secret in addition to those of its type kubernetes.io/tls.
const (
	bundleKey         = "ca.crt"
	nextCertKey       = "next.crt"
	nextPrivateKeyKey = "next.key"
	// trustedSince is the annotation with the time since which the bundle that the next
	// certificate needs has been published.
	trustedSince = "fescue.dev/trusted-since"
)

// maxAuthorities is how many authorities the bundle keeps in addition to that of the served
// certificate. A planned renewal needs two, and each unplanned one, for another host or after
// damage, needs one more. The bundle is part of every webhook of the configurations, at more than
// 1 KB for each authority. Endless renewals, by two installations that share a Secret or by a clock
// that jumps, must not make the configurations too large to be written.
const maxAuthorities = 8

// policy determines when a certificate is renewed; all times follow from its validity.
type policy struct {
	hosts    []string
	validity time.Duration
}

// renewBefore returns the last third of the validity, as in cert-manager.
func (p policy) renewBefore() time.Duration { return p.validity / 3 }

// overlap returns how long a new authority is trusted before its certificate is served: API
// servers load changed webhook configurations within seconds.
func (p policy) overlap() time.Duration { return min(time.Minute, p.renewBefore()/4) }

// state is the content of the Secret; values that cannot be read count as absent.
type state struct {
	bundle       []*x509.Certificate
	serving      *tls.Certificate
	next         *tls.Certificate
	trustedSince time.Time
}

// readState parses a Secret. It expects nothing of the content: people edit Secrets and restore
// old ones.
func readState(secret *corev1.Secret) state {
	var s state
	s.bundle, _ = cert.ParseCertsPEM(secret.Data[bundleKey])
	s.serving = keyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	s.next = keyPair(secret.Data[nextCertKey], secret.Data[nextPrivateKeyKey])
	s.trustedSince, _ = time.Parse(time.RFC3339Nano, secret.Annotations[trustedSince])
	return s
}

// keyPair returns nil if the two do not match.
func keyPair(certPEM, keyPEM []byte) *tls.Certificate {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil
	}
	return &pair
}

// step is what the leader does next with the certificates.
type step int

const (
	// keep does nothing until the returned time.
	keep step = iota
	// replace creates a certificate that is served at once, because none is usable.
	replace
	// stage creates the next certificate and adds its authority to the bundle.
	stage
	// trust records that the bundle has been published.
	trust
	// promote serves the next certificate.
	promote
)

// decide returns the next step and when to take it.
func (s state) decide(p policy, now time.Time) (step, time.Time) {
	if !s.works(s.serving, p.hosts, now) {
		if s.works(s.next, p.hosts, now) {
			return promote, now
		}
		return replace, now
	}
	if s.works(s.next, p.hosts, now) {
		if s.trustedSince.IsZero() {
			return trust, now
		}
		if due := s.trustedSince.Add(p.overlap()); now.Before(due) {
			return keep, due
		}
		return promote, now
	}
	if due := s.serving.Leaf.NotAfter.Add(-p.renewBefore()); now.Before(due) {
		return keep, due
	}
	return stage, now
}

// works reports whether clients that trust the bundle accept a certificate for all hosts.
func (s state) works(pair *tls.Certificate, hosts []string, now time.Time) bool {
	if pair == nil {
		return false
	}
	roots := x509.NewCertPool()
	for _, authority := range s.bundle {
		roots.AddCert(authority)
	}
	for _, host := range hosts {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: now}); err != nil {
			return false
		}
	}
	return true
}

// issued is a new certificate and the authority that signed it, as PEM texts. The
// authority's key is not kept: each certificate has an authority of its own, so nobody can
// issue another with it.
type issued struct{ authority, cert, key []byte }

// issue creates a certificate for all hosts. It generates two RSA keys, which takes about a second.
func issue(p policy) (issued, error) {
	// The library dates certificates back by an hour, for clocks that are behind.
	options := cert.SelfSignedCertKeyOptions{Host: p.hosts[0], MaxAge: p.validity + time.Hour}
	for _, host := range p.hosts[1:] {
		if ip := net.ParseIP(host); ip != nil {
			options.AlternateIPs = append(options.AlternateIPs, ip)
		} else {
			options.AlternateDNS = append(options.AlternateDNS, host)
		}
	}
	chain, key, err := cert.GenerateSelfSignedCertKeyWithOptions(options)
	if err != nil {
		return issued{}, fmt.Errorf("create a certificate: %w", err)
	}
	leaf, authority := pem.Decode(chain)
	return issued{authority: bytes.TrimSpace(authority), cert: pem.EncodeToMemory(leaf), key: key}, nil
}

// bundleWith returns the PEM text of an authority, followed by the earlier ones that have not
// expired: some replica may still serve a certificate of theirs. If there are too many, the newest
// and that of the served certificate are kept.
func (s state) bundleWith(authority []byte, now time.Time) []byte {
	text := append(bytes.Clone(authority), '\n')
	kept := 1
	for _, old := range s.bundle {
		if !now.Before(old.NotAfter) || kept >= maxAuthorities && !s.serves(old) {
			continue
		}
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: old.Raw})...)
		kept++
	}
	return text
}

// serves reports whether an authority signed the served certificate.
func (s state) serves(authority *x509.Certificate) bool {
	return s.serving != nil && s.serving.Leaf.CheckSignatureFrom(authority) == nil
}
