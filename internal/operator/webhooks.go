package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/fescue-dev/fescue/admission"
	"github.com/fescue-dev/fescue/admission/certificate"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine"
	"github.com/fescue-dev/fescue/internal/operator/election"
)

// webhooks are the admission server with its certificate, its registration at the API server,
// and the objects that it injects. A nil one does nothing.
type webhooks struct {
	user        string // the operator's own name
	listener    net.Listener
	certificate servingCertificate
	namespaces  *admission.Namespaces
	podSecurity *admission.PodSecurity
	stopDelay   time.Duration
	// leftover is the command that removes what a process outside the cluster leaves behind.
	leftover string
	log      *slog.Logger

	conversions *conversions // of the CRDs
	// wire sets these, and wired at last.
	server    *admission.Server
	registrar *admission.Registrar
	wired     atomic.Bool

	mu sync.Mutex
	// pods is nil if no kind injects, or until wire has set it; missing is what follow has received
	// until then.
	pods    *admission.Pods
	missing map[*kind.Kind]error
}

// servingCertificate is a certificate from files or from a Secret.
type servingCertificate interface {
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Ready returns nil while a valid certificate is served.
	Ready() error
	// Run reloads the certificate when it changes, until the context ends.
	Run(context.Context)
	// Lead creates certificates, and publishes the authorities that clients have to trust.
	Lead(ctx context.Context, publish func(context.Context, []byte) error)
}

// newWebhooks returns webhooks that listen, and that wire completes. It returns nil if they are off.
func (p *operator) newWebhooks(ctx context.Context) (*webhooks, error) {
	o := &p.options.webhooks
	if !o.enabled() {
		return nil, nil
	}
	var self *authenticationv1.SelfSubjectReview
	err := atStart(func() (err error) {
		self, err = p.Typed.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
			metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("determine the operator's user name: %w", err)
	}
	w := &webhooks{
		user: self.Status.UserInfo.Username, log: p.log, stopDelay: o.stopDelay,
		namespaces: admission.NewNamespaces(p.Typed, p.informers.Failed), missing: make(map[*kind.Kind]error),
	}
	if o.url != "" {
		w.leftover = "kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration " + o.name
	}
	w.conversions = newConversions(p.acting.dynamic, o.conversion(), p.definitions, p.log)
	if w.podSecurity, err = admission.NewPodSecurity(w.namespaces.Labels, o.allowPrivileged); err != nil {
		return nil, err
	}
	if w.certificate, err = p.newCertificate(); err != nil {
		return nil, err
	}
	if w.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", o.listen); err != nil {
		return nil, fmt.Errorf("--webhook-listen: %w", err)
	}
	return w, nil
}

// wire completes the webhooks for the kinds that the operator has loaded.
func (w *webhooks) wire(ctx context.Context, p *operator, kinds []*kind.Kind) error {
	if w == nil {
		return nil
	}
	o := &p.options.webhooks
	injector, err := w.newInjector(p, kinds)
	if err != nil {
		return err
	}
	w.server, err = admission.New(admission.Config{
		Kinds:       kinds,
		Injector:    injector,
		PathPrefix:  o.path,
		Rights:      admission.NewRights(p.Typed.AuthorizationV1().SubjectAccessReviews(), p.Mapper, kinds, w.user),
		PodSecurity: w.podSecurity, Stored: p.stored, IsOtherVersion: p.definitions.IsOtherVersion,
		Certificate: w.certificate.GetCertificate, MinTLSVersion: o.minVersion, ClientCAs: o.clientCAs, HTTP2: o.http2,
		Metrics: legacyregistry.Registerer(), Log: p.log,
	})
	if err != nil {
		return err
	}
	w.registrar = admission.NewRegistrar(p.acting.typed, kinds, o.registration(p.options.Namespaces, w.user), p.log)
	w.registrar.WatchFailed = p.informers.Failed
	w.conversions.of(kinds)
	if err := w.registrar.InUse(ctx); err != nil {
		return fmt.Errorf("--webhook-url: %w; set --webhook-configuration to another name", err)
	}
	w.wired.Store(true)
	return nil
}

// stored returns an object as the API server has it now; nil if there is none. It lists, which the operator has
// the right to.
func (p *operator) stored(
	ctx context.Context, resource schema.GroupVersionResource, name cache.ObjectName,
) (map[string]any, error) {
	list, err := p.Dynamic.Resource(resource).Namespace(name.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name.Name).String(),
	})
	if err != nil || len(list.Items) == 0 {
		return nil, err
	}
	return list.Items[0].Object, nil
}

// conversionsOfCRDs returns what keeps the CRDs calling the conversion webhook; nil if the webhooks are
// off.
func (w *webhooks) conversionsOfCRDs() *conversions {
	if w == nil {
		return nil
	}
	return w.conversions
}

// isServing reports whether requests are answered, with a valid certificate.
func (w *webhooks) isServing() bool { return w.wired.Load() && w.certificate.Ready() == nil }

// newCertificate loads the certificate from files, or else keeps one in a Secret.
func (p *operator) newCertificate() (servingCertificate, error) {
	o := &p.options.webhooks
	if o.certDir == "" {
		return certificate.NewSecret(certificate.SecretConfig{
			Client: p.acting.typed, Namespace: o.secretNamespace, Name: o.secretName,
			Hosts: []string{o.host}, Validity: o.validity, Metrics: legacyregistry.Registerer(),
			WatchFailed: p.informers.Failed, Log: p.log,
		})
	}
	var hosts []string // with a URL, a proxy with its own certificate may be in front
	if o.reference != nil {
		hosts = []string{o.host}
	}
	files, err := certificate.NewFiles(o.certDir, 0, hosts, legacyregistry.Registerer(), p.log)
	if err != nil {
		return nil, fmt.Errorf("--webhook-cert-dir: %w", err)
	}
	return files, nil
}

// newInjector injects into Pods; it is nil if no kind injects.
func (w *webhooks) newInjector(p *operator, kinds []*kind.Kind) (admission.Injector, error) {
	if !slices.ContainsFunc(kinds, (*kind.Kind).Injects) {
		return nil, nil
	}
	own := ""
	if service := p.options.webhooks.reference; service != nil {
		own = service.Namespace
	}
	pods, err := admission.NewPods(admission.PodsConfig{
		Informers: p.informers, Kinds: kinds, OwnNamespace: own, Security: w.podSecurity,
		IsOtherVersion: p.definitions.IsOtherVersion,
		Metrics:        legacyregistry.Registerer(), Log: p.log,
		Skipped: func(object runtime.Object, pod, why string) {
			p.events.Eventf(object, nil, corev1.EventTypeWarning, "NotInjected", "Inject", "Pod %s: %s", pod, why)
		},
	})
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods = pods
	for k, missing := range w.missing {
		pods.Follow(k, missing)
	}
	return pods, nil
}

// follow receives what a kind needs and the cluster does not have, or nil once the kind can run.
// It ignores errors that leave this open.
func (w *webhooks) follow(k *kind.Kind, missing error) {
	_, isAbsent := errors.AsType[engine.Absent](missing)
	if w == nil || missing != nil && !isAbsent {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pods != nil {
		w.pods.Follow(k, missing)
	} else {
		w.missing[k] = missing
	}
}

// injecting returns what injects into Pods; it is nil if no kind does, or until wire.
func (w *webhooks) injecting() *admission.Pods {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods
}

// checks are the conditions for readiness: a valid certificate, a listener that answers, and the
// cached objects to inject and labels of namespaces.
func (w *webhooks) checks() []healthz.HealthChecker {
	if w == nil {
		return nil
	}
	ifInjecting := func(ready func(*admission.Pods) error) func(*http.Request) error {
		return func(*http.Request) error {
			if pods := w.injecting(); pods != nil {
				return ready(pods)
			}
			return nil
		}
	}
	return []healthz.HealthChecker{
		healthz.NamedCheck("certificate", func(*http.Request) error { return w.certificate.Ready() }),
		healthz.NamedCheck("tls-listener", func(r *http.Request) error {
			if !w.wired.Load() {
				return errors.New("kinds are still being loaded")
			}
			return answersTLS(r.Context(), w.listener.Addr())
		}),
		healthz.NamedCheck("injection", ifInjecting((*admission.Pods).Ready)),
		healthz.NamedCheck("namespaces", ifInjecting(func(*admission.Pods) error { return w.namespaces.Ready() })),
	}
}

// answersTLS returns an error if a TLS handshake with an address of this process fails.
func answersTLS(ctx context.Context, address net.Addr) error {
	// Another check verifies the certificate.
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	connection, err := dialer.DialContext(ctx, address.Network(), address.String())
	if err != nil {
		return err
	}
	return connection.Close()
}

// run serves until ctx ends and a little longer. Once this replica is elected, it also does what
// one replica is enough for.
func (w *webhooks) run(ctx context.Context, elected <-chan struct{}) error {
	if w == nil {
		return nil
	}
	w.log.Info("webhooks are listening", "address", w.listener.Addr().String())
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { w.leave(context.Cause(ctx)); stopServing() })
	leading, stopLeading := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { w.certificate.Run(serving) })
	if pods := w.injecting(); pods != nil { // nothing else needs the labels of namespaces
		running.Go(func() { w.namespaces.Run(serving) })
		running.Go(func() { pods.Run(serving) })
	}
	running.Go(func() {
		select {
		case <-elected:
			w.lead(leading)
		case <-leading.Done():
		}
	})
	err := w.server.Serve(serving, w.listener)
	stopServing()
	stopLeading()
	running.Wait()
	if w.leftover != "" {
		w.log.Info("the webhooks stay registered: objects of these kinds cannot be written until Fescue runs again",
			"removal", w.leftover)
	}
	return err
}

// leave waits until requests have stopped arriving. A deleted Pod receives SIGTERM when the
// network rules that lead to it begin to be removed; until they are gone, every request to a
// closed port would fail. The process stays ready meanwhile: the rules do not depend on
// readiness, and if all replicas stop at once, only ready ones still receive requests.
func (w *webhooks) leave(why error) {
	if w.stopDelay == 0 || errors.Is(why, election.ErrLeaseLost) { // after which nothing may delay the end
		return
	}
	w.log.Info("stopping; the webhooks keep answering until the API server stops calling them", "delay", w.stopDelay)
	w.server.Leave()
	time.Sleep(w.stopDelay)
}

// lead keeps the registration and the certificate up to date, which one replica is enough for.
func (w *webhooks) lead(ctx context.Context) {
	var leading sync.WaitGroup
	leading.Go(func() { w.registrar.Run(ctx) })
	leading.Go(func() { w.conversions.run(ctx) })
	leading.Go(func() {
		w.certificate.Lead(ctx, func(ctx context.Context, bundle []byte) error {
			if err := errors.Join(w.registrar.Publish(ctx, bundle), w.conversions.publish(ctx, bundle)); err != nil {
				return err
			}
			w.log.Info("webhooks are registered")
			return nil
		})
	})
	leading.Wait()
}
