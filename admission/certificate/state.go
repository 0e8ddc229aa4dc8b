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

// The keys of the Secret besides those of its type kubernetes.io/tls.
const (
	bundleKey         = "ca.crt"
	nextCertKey       = "next.crt"
	nextPrivateKeyKey = "next.key"
	// trustedSince is the annotation that says since when the bundle is published that
	// the next certificate needs.
	trustedSince = "fescue.dev/trusted-since"
)

// maxAuthorities is how many authorities the bundle keeps besides that of the certificate that
// is served. A renewal in time takes two; each one that is out of turn, for another host or
// after damage, takes one more. The bundle stands in every webhook of the configurations, at
// more than 1 KB for each authority, and what goes on renewing, as two who call the same Secret
// theirs do, or a clock that jumps, must not make any of these too large to be written.
const maxAuthorities = 8

// policy says when a certificate is renewed; all are fixed by its validity.
type policy struct {
	hosts    []string
	validity time.Duration
}

// renewBefore is the last third, as cert-manager has it.
func (p policy) renewBefore() time.Duration { return p.validity / 3 }

// overlap is how long a new authority is trusted before its certificate is served: API
// servers follow the webhook configurations within seconds.
func (p policy) overlap() time.Duration { return min(time.Minute, p.renewBefore()/4) }

// state is what the Secret holds; what cannot be read is as if it were not there.
type state struct {
	bundle       []*x509.Certificate
	serving      *tls.Certificate
	next         *tls.Certificate
	trustedSince time.Time
}

// readState parses what a Secret holds. Nothing in it is trusted to be there: people edit
// Secrets, and restore old ones.
func readState(secret *corev1.Secret) state {
	var s state
	s.bundle, _ = cert.ParseCertsPEM(secret.Data[bundleKey])
	s.serving = keyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	s.next = keyPair(secret.Data[nextCertKey], secret.Data[nextPrivateKeyKey])
	s.trustedSince, _ = time.Parse(time.RFC3339Nano, secret.Annotations[trustedSince])
	return s
}

// keyPair is nil if the two do not belong together.
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
	// keep does nothing until the time that comes with it.
	keep step = iota
	// replace makes a certificate that is served at once, since there is none that works.
	replace
	// stage makes the next certificate and puts its authority into the bundle.
	stage
	// trust notes that the bundle is published.
	trust
	// promote serves the next certificate.
	promote
)

// decide says what to do next, or until when nothing is.
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

// works tells whether clients that trust the bundle accept a certificate for all hosts.
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
// authority's key is not kept: each certificate has an authority of its own, so that
// nobody can use one to make another.
type issued struct{ authority, cert, key []byte }

// issue makes a certificate for all hosts. It takes the time of two RSA keys, about a second.
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
		return issued{}, fmt.Errorf("make a certificate: %w", err)
	}
	leaf, authority := pem.Decode(chain)
	return issued{authority: bytes.TrimSpace(authority), cert: pem.EncodeToMemory(leaf), key: key}, nil
}

// bundleWith is the PEM text of an authority and, after it, of those before that have not
// expired: some replica may still serve a certificate of theirs. Of very many, the newest and
// that of the certificate that is served stay.
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

// serves tells whether an authority has signed the certificate that is served.
func (s state) serves(authority *x509.Certificate) bool {
	return s.serving != nil && s.serving.Leaf.CheckSignatureFrom(authority) == nil
}
