package certificate

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// holder has the certificate that is being served. Its metrics have the names that
// controller-runtime uses, where it has them.
type holder struct {
	// hosts must be covered by the certificate; none if they are not known.
	hosts   []string
	current atomic.Pointer[loaded]
	reads   prometheus.Counter
	errors  prometheus.Counter
	start   prometheus.Gauge
	expiry  prometheus.Gauge
}

// loaded is a certificate and its PEM text.
type loaded struct {
	certificate *tls.Certificate
	text        []byte
}

// newHolder returns a holder without a certificate.
func newHolder(hosts []string, metrics prometheus.Registerer) (*holder, error) {
	h := &holder{
		hosts: hosts,
		reads: prometheus.NewCounter(prometheus.CounterOpts{Name: "certwatcher_read_certificate_total",
			Help: "How often a certificate was read."}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{Name: "certwatcher_read_certificate_errors_total",
			Help: "How often a certificate could not be read."}),
		start: prometheus.NewGauge(
			prometheus.GaugeOpts{Name: "fescue_certificate_start_timestamp_seconds",
				Help: "When the served certificate becomes valid, in seconds since 1970; 0 if there is none."},
		),
		expiry: prometheus.NewGauge(
			prometheus.GaugeOpts{Name: "fescue_certificate_expiry_timestamp_seconds",
				Help: "When the served certificate expires, in seconds since 1970; 0 if there is none."},
		),
	}
	if metrics == nil {
		return h, nil
	}
	for _, c := range []prometheus.Collector{h.reads, h.errors, h.start, h.expiry} {
		if err := metrics.Register(c); err != nil {
			return nil, fmt.Errorf("certificate metrics: %w", err)
		}
	}
	return h, nil
}

// load starts to serve a certificate; if it cannot be read, the last one is kept.
func (h *holder) load(certPEM, keyPEM []byte) error {
	text := bytes.Join([][]byte{certPEM, keyPEM}, []byte("\n"))
	if now := h.current.Load(); now != nil && bytes.Equal(now.text, text) {
		return nil
	}
	h.reads.Inc()
	certificate, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		h.errors.Inc()
		return err
	}
	h.start.Set(float64(certificate.Leaf.NotBefore.Unix()))
	h.expiry.Set(float64(certificate.Leaf.NotAfter.Unix()))
	h.current.Store(&loaded{&certificate, text}) // whoever sees it finds its metrics
	return nil
}

// GetCertificate implements the function of tls.Config.
func (h *holder) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	now := h.current.Load()
	if now == nil {
		return nil, errNone
	}
	return now.certificate, nil
}

var errNone = errors.New("there is no serving certificate yet")

// Ready returns nil while the served certificate is accepted by clients that trust its authority.
func (h *holder) Ready() error { return h.readyAt(time.Now()) }

func (h *holder) readyAt(now time.Time) error {
	current := h.current.Load()
	if current == nil {
		return errNone
	}
	leaf := current.certificate.Leaf
	if now.Before(leaf.NotBefore) {
		return fmt.Errorf("the serving certificate is not valid before %s", leaf.NotBefore.Format(time.RFC3339))
	}
	if now.After(leaf.NotAfter) {
		return fmt.Errorf("the serving certificate expired at %s", leaf.NotAfter.Format(time.RFC3339))
	}
	for _, host := range h.hosts {
		if err := leaf.VerifyHostname(host); err != nil {
			return fmt.Errorf("the serving certificate is not for the host that the API server calls: %w", err)
		}
	}
	return nil
}
