package certificate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/internal/informers"
)

const (
	// DefaultValidity is that of certificates of Let's Encrypt and cert-manager.
	DefaultValidity = 90 * 24 * time.Hour
	// retryDelay is how long the leader waits after an error.
	retryDelay = time.Second
)

// SecretConfig configures a certificate in a Secret.
type SecretConfig struct {
	// Client reads, watches, creates and updates the Secret.
	Client kubernetes.Interface
	// Namespace and Name are the Secret's.
	Namespace, Name string
	// Hosts are the DNS names and IP addresses that the API server calls; at least one.
	Hosts []string
	// Validity is how long a certificate is valid; 0 means DefaultValidity.
	Validity time.Duration
	// Metrics is the registry for metrics; nil means none.
	Metrics prometheus.Registerer
	// WatchFailed receives failures of the watch of the Secret.
	WatchFailed informers.Failed
	// Log receives the steps and failures; nil means slog.Default.
	Log *slog.Logger
}

// Secret is a certificate that Fescue creates and renews itself. The Secret holds all of its
// state: replicas keep nothing else.
type Secret struct {
	*holder
	config    SecretConfig
	policy    policy
	changed   chan struct{}
	published []byte
}

// NewSecret wires a certificate in a Secret; it does no I/O.
func NewSecret(config SecretConfig) (*Secret, error) {
	if len(config.Hosts) == 0 {
		return nil, errors.New("certificate: hosts: Required value")
	}
	if config.Validity == 0 {
		config.Validity = DefaultValidity
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	// The hosts are not checked for readiness: the leader creates a certificate for them. When they
	// change, the old leader stays until its successors are ready, which they would never be.
	h, err := newHolder(nil, config.Metrics)
	if err != nil {
		return nil, err
	}
	return &Secret{holder: h, config: config, policy: policy{config.Hosts, config.Validity},
		changed: make(chan struct{}, 1)}, nil
}

// Run loads the certificate whenever the Secret changes, until ctx ends.
func (s *Secret) Run(ctx context.Context) {
	source := informers.TypedSource(s.config.Client, s.config.Client.CoreV1().Secrets(s.config.Namespace),
		func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, s.config.Name).String()
		})
	informer := informers.NewInformer(corev1.SchemeGroupVersion.WithResource("secrets"), source, &corev1.Secret{}, nil,
		s.config.WatchFailed)
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    s.see,
		UpdateFunc: func(_, object any) { s.see(object) },
		DeleteFunc: func(any) { s.signal() },
	})
	if err = errors.Join(err, informer.SetTransform(informers.StripManagedFields)); err != nil {
		panic(err) // only a started informer returns one
	}
	informer.RunWithContext(ctx)
}

// see loads the Secret of an event. Events of this process's own writes arrive as well.
func (s *Secret) see(object any) {
	if secret, ok := object.(*corev1.Secret); ok && secret.Name == s.config.Name {
		s.loadFrom(secret)
	}
	s.signal()
}

// signal wakes the leader; at most one signal is pending.
func (s *Secret) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// loadFrom serves the Secret's certificate, or still the last one if that cannot be read.
func (s *Secret) loadFrom(secret *corev1.Secret) {
	if err := s.load(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]); err != nil {
		s.config.Log.Error("loading the certificate failed; still serving the last one",
			"secret", s.config.Namespace+"/"+s.config.Name, "error", err)
	}
}

// Lead creates and renews the certificate until ctx ends, and publishes the trusted authorities:
// a new one before a certificate of it is served, an old one until none of its certificates can
// still be served. Two leaders at once do no harm, because a write fails if the Secret has changed
// since the decision.
func (s *Secret) Lead(ctx context.Context, publish func(context.Context, []byte) error) {
	s.published = nil
	for ctx.Err() == nil {
		again, err := s.advance(ctx, publish)
		if err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			s.config.Log.Error("renewing the certificate failed; retrying", "error", err)
			again = time.Now().Add(retryDelay)
		}
		timer := time.NewTimer(time.Until(again))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.changed:
		}
		timer.Stop()
	}
}

// advance takes one step and returns when to take the next; the zero time is at once.
func (s *Secret) advance(ctx context.Context, publish func(context.Context, []byte) error) (time.Time, error) {
	secrets := s.config.Client.CoreV1().Secrets(s.config.Namespace)
	secret, err := secrets.Get(ctx, s.config.Name, metav1.GetOptions{})
	absent := apierrors.IsNotFound(err)
	if absent {
		secret = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: s.config.Name, Namespace: s.config.Namespace,
				Labels: map[string]string{"app.kubernetes.io/managed-by": "fescue"}},
			Type: corev1.SecretTypeTLS,
		}
	} else if err != nil {
		return time.Time{}, fmt.Errorf("read Secret %s/%s: %w", s.config.Namespace, s.config.Name, err)
	}
	current := readState(secret)
	next, until := current.decide(s.policy, time.Now())
	if next != replace {
		s.loadFrom(secret)
		if bundle := secret.Data[bundleKey]; !bytes.Equal(s.published, bundle) {
			if err := publish(ctx, bundle); err != nil {
				return time.Time{}, err
			}
			s.published = bundle
		}
	}
	if next == keep {
		return until, nil
	}
	if err := change(secret, current, next, s.policy, time.Now()); err != nil {
		return time.Time{}, err
	}
	if absent {
		_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	} else {
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("write Secret %s/%s: %w", s.config.Namespace, s.config.Name, err)
	}
	s.config.Log.Info("certificate", "step", next.String())
	return time.Time{}, nil
}

// change applies a step to the Secret.
func change(secret *corev1.Secret, current state, next step, p policy, now time.Time) error {
	if secret.Data == nil {
		secret.Data = make(map[string][]byte)
	}
	switch next {
	case replace, stage:
		created, err := issue(p)
		if err != nil {
			return err
		}
		secret.Data[bundleKey] = current.bundleWith(created.authority, now)
		delete(secret.Annotations, trustedSince)
		if next == stage {
			secret.Data[nextCertKey], secret.Data[nextPrivateKeyKey] = created.cert, created.key
			break
		}
		secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey] = created.cert, created.key
		delete(secret.Data, nextCertKey)
		delete(secret.Data, nextPrivateKeyKey)
	case trust:
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, trustedSince, now.Format(time.RFC3339Nano))
	case promote:
		secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey] = secret.Data[nextCertKey],
			secret.Data[nextPrivateKeyKey]
		delete(secret.Data, nextCertKey)
		delete(secret.Data, nextPrivateKeyKey)
		delete(secret.Annotations, trustedSince)
	}
	return nil
}

func (s step) String() string {
	return [...]string{"keep", "replace", "stage", "trust", "promote"}[s]
}
