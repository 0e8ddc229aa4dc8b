package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/fescue-dev/fescue/admission"
	"github.com/fescue-dev/fescue/admission/certificate"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/informers"
)

// defaultSecret is what the Secret with the webhooks' certificate is called, in the
// Service's namespace, or, with a URL, in the namespace "default".
const defaultSecret = admission.DefaultName + secretSuffix

// secretSuffix follows the name of the configurations, so that installations that have
// different ones do not share a certificate, which each would make anew for its own host.
const secretSuffix = "-webhook-certificate"

// webhookOptions are the flags about webhooks. They are off if none says where the API server
// reaches them.
type webhookOptions struct {
	listen, url, service    string
	certDir, secret, name   string
	clientCA, tlsMinVersion string
	http2, allowPrivileged  bool
	validity, stopDelay     time.Duration

	// What the flags mean, set by complete.
	reference       *admissionregistrationv1.ServiceReference
	secretNamespace string
	secretName      string
	host, path      string // of the URL; the path ends in no slash
	minVersion      uint16
	clientCAs       *x509.CertPool
}

func (o *webhookOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.url, "webhook-url", "", "where the API server reaches the webhooks, as in https://192.168.1.5:9443; turns them on")
	flags.StringVar(&o.service, "webhook-service", "", "NAMESPACE/NAME[:PORT] of the Service at which the API server reaches the webhooks; turns them on")
	flags.StringVar(&o.listen, "webhook-listen", "", "address that the webhooks listen on (default \":9443\" if they are on)")
	flags.StringVar(&o.name, "webhook-configuration", admission.DefaultName, "name of both webhook configurations; installations that share a cluster need different ones")
	flags.StringVar(&o.certDir, "webhook-cert-dir", "", "folder with tls.crt, tls.key and perhaps ca.crt, which are reloaded when they change; without it Fescue makes and renews a certificate")
	flags.StringVar(&o.secret, "webhook-secret", "", "NAMESPACE/NAME of the Secret that holds the certificate that Fescue makes (default \"CONFIGURATION"+secretSuffix+"\" in the Service's namespace, or in default)")
	flags.DurationVar(&o.validity, "webhook-cert-validity", certificate.DefaultValidity, "how long a certificate that Fescue makes is valid; it is renewed after two thirds")
	flags.StringVar(&o.clientCA, "webhook-client-ca", "", "file with the certificates of authorities; clients of the webhooks then need a certificate of one of them")
	flags.StringVar(&o.tlsMinVersion, "tls-min-version", "1.3", "lowest version of TLS that is spoken: 1.2 or 1.3")
	flags.BoolVar(&o.http2, "enable-http2", false, "speak HTTP/2 as well")
	flags.DurationVar(&o.stopDelay, "shutdown-delay-duration", 0, "how long the webhooks go on answering after a signal to stop, for the API server to learn that they go; a second signal ends it")
	flags.BoolVar(&o.allowPrivileged, "allow-privileged-injection", false, "let objects inject privileged containers, hostPath volumes and the host's namespaces")
}

// enabled tells whether the API server can be told where the webhooks are.
func (o *webhookOptions) enabled() bool { return o.url != "" || o.service != "" }

// complete checks the flags and works out what they mean.
func (o *webhookOptions) complete() error {
	switch {
	case o.url != "" && o.service != "":
		return errors.New("--webhook-url and --webhook-service: only one can be given: the API server calls one address")
	case !o.enabled():
		for name, value := range map[string]string{"--webhook-listen": o.listen, "--webhook-cert-dir": o.certDir, "--webhook-secret": o.secret, "--webhook-client-ca": o.clientCA} {
			if value != "" {
				return fmt.Errorf("%s: the webhooks are off; --webhook-url or --webhook-service turns them on", name)
			}
		}
		return nil
	}
	switch o.tlsMinVersion {
	case "1.2":
		o.minVersion = tls.VersionTLS12
	case "1.3":
		o.minVersion = tls.VersionTLS13
	default:
		return fmt.Errorf("--tls-min-version: invalid value %q: must be 1.2 or 1.3", o.tlsMinVersion)
	}
	if problems := validation.NameIsDNSSubdomain(o.name, false); len(problems) > 0 {
		return fmt.Errorf("--webhook-configuration: invalid value %q: %s", o.name, strings.Join(problems, "; "))
	}
	if o.validity < time.Second {
		return fmt.Errorf("--webhook-cert-validity: invalid value %s: must be at least 1s", o.validity)
	}
	if o.stopDelay < 0 {
		return fmt.Errorf("--shutdown-delay-duration: invalid value %s: must not be negative", o.stopDelay)
	}
	o.listen = cmp.Or(o.listen, ":9443")
	if err := o.completeAddress(); err != nil {
		return err
	}
	o.secretNamespace, o.secretName = metav1.NamespaceDefault, o.name+secretSuffix
	if o.reference != nil {
		o.secretNamespace = o.reference.Namespace
	}
	if o.secret != "" {
		var ok bool
		if o.secretNamespace, o.secretName, ok = strings.Cut(o.secret, "/"); !ok || o.secretNamespace == "" || o.secretName == "" {
			return fmt.Errorf("--webhook-secret: invalid value %q: must be NAMESPACE/NAME", o.secret)
		}
	}
	if problems := validation.NameIsDNSSubdomain(o.secretName, false); len(problems) > 0 {
		return fmt.Errorf("--webhook-secret: invalid name %q: %s", o.secretName, strings.Join(problems, "; "))
	}
	if o.clientCA == "" {
		return nil
	}
	text, err := os.ReadFile(o.clientCA)
	if err != nil {
		return fmt.Errorf("--webhook-client-ca: %w", err)
	}
	o.clientCAs = x509.NewCertPool()
	if !o.clientCAs.AppendCertsFromPEM(text) {
		return fmt.Errorf("--webhook-client-ca: %s has no certificate in PEM form", o.clientCA)
	}
	return nil
}

// completeAddress works out how the API server calls us, and so which host the
// certificate is for.
func (o *webhookOptions) completeAddress() error {
	if o.url != "" {
		u, err := url.Parse(o.url)
		if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			return fmt.Errorf("--webhook-url: invalid value %q: must be https://HOST[:PORT][/PATH]", o.url)
		}
		o.host, o.path = u.Hostname(), strings.TrimSuffix(u.Path, "/")
		return nil
	}
	name, port, hasPort := strings.Cut(o.service, ":")
	namespace, name, ok := strings.Cut(name, "/")
	number := int64(443) // the default of ServiceReference
	var err error
	if hasPort {
		number, err = strconv.ParseInt(port, 10, 32)
	}
	if !ok || namespace == "" || name == "" || err != nil || number < 1 || number > 65535 {
		return fmt.Errorf("--webhook-service: invalid value %q: must be NAMESPACE/NAME[:PORT]", o.service)
	}
	o.reference = &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: name, Port: new(int32(number))}
	o.host = name + "." + namespace + ".svc"
	return nil
}

// webhooks are the admission server and what keeps it reachable. A nil one does nothing.
type webhooks struct {
	server      *admission.Server
	listener    net.Listener
	certificate servingCertificate
	registrar   *admission.Registrar
	namespaces  *admission.Namespaces
	pods        *admission.Pods // nil if no kind injects
	stopDelay   time.Duration
	// left says what a process on somebody's own machine leaves behind; "" is nothing.
	left string
	log  *slog.Logger
}

// servingCertificate is a certificate of files or of a Secret.
type servingCertificate interface {
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Ready is nil while a valid certificate is served.
	Ready() error
	// Run loads what is new, until the context ends.
	Run(context.Context)
	// Lead has the authorities published that are to be trusted, and makes certificates.
	Lead(ctx context.Context, publish func(context.Context, []byte) error)
}

// newWebhooks listens, and wires the rest; it returns nil if the webhooks are off.
func newWebhooks(ctx context.Context, o *webhookOptions, c *clients, kinds []*kind.Kind, shared *informers.Informers, recorder events.EventRecorder, log *slog.Logger) (*webhooks, error) {
	if !o.enabled() {
		return nil, nil
	}
	self, err := c.typed.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("ask for our user name: %w", err)
	}
	w := &webhooks{log: log, stopDelay: o.stopDelay, namespaces: admission.NewNamespaces(c.typed)}
	if o.url != "" {
		w.left = "kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration " + o.name
	}
	podSecurity, err := admission.NewPodSecurity(w.namespaces.Labels, o.allowPrivileged)
	if err != nil {
		return nil, err
	}
	if o.certDir != "" {
		var hosts []string // at a URL there may be a proxy, which has a certificate of its own
		if o.reference != nil {
			hosts = []string{o.host}
		}
		if w.certificate, err = certificate.NewFiles(o.certDir, 0, hosts, legacyregistry.Registerer(), log); err != nil {
			err = fmt.Errorf("--webhook-cert-dir: %w", err)
		}
	} else {
		w.certificate, err = certificate.NewSecret(certificate.SecretConfig{
			Client: c.typed, Namespace: o.secretNamespace, Name: o.secretName,
			Hosts: []string{o.host}, Validity: o.validity, Metrics: legacyregistry.Registerer(), Log: log,
		})
	}
	if err != nil {
		return nil, err
	}
	injector, err := w.injector(o, kinds, shared, recorder, podSecurity)
	if err != nil {
		return nil, err
	}
	w.server, err = admission.New(admission.Config{
		Kinds:       kinds,
		Injector:    injector,
		PathPrefix:  o.path,
		Rights:      admission.NewRights(c.typed.AuthorizationV1().SubjectAccessReviews(), c.mapper, kinds, self.Status.UserInfo.Username),
		PodSecurity: podSecurity,
		Certificate: w.certificate.GetCertificate, MinTLSVersion: o.minVersion, ClientCAs: o.clientCAs, HTTP2: o.http2,
		Metrics: legacyregistry.Registerer(), Tracing: c.tracer, Log: log,
	})
	if err != nil {
		return nil, err
	}
	addressed := admission.Webhooks{Name: o.name, URL: o.url, Service: o.reference}
	if !shared.AllNamespaces() {
		addressed.Namespaces = shared.Namespaces()
	}
	if o.reference != nil {
		addressed.Namespace = o.reference.Namespace
	}
	w.registrar = admission.NewRegistrar(c.typed, kinds, addressed, log)
	if w.listener, err = net.Listen("tcp", o.listen); err != nil {
		return nil, fmt.Errorf("--webhook-listen: %w", err)
	}
	return w, nil
}

// injector makes what answers for Pods; it is nil if no kind injects.
func (w *webhooks) injector(o *webhookOptions, kinds []*kind.Kind, shared *informers.Informers, recorder events.EventRecorder, podSecurity *admission.PodSecurity) (admission.Injector, error) {
	if !slices.ContainsFunc(kinds, (*kind.Kind).Injects) {
		return nil, nil
	}
	own := ""
	if o.reference != nil {
		own = o.reference.Namespace
	}
	var err error
	w.pods, err = admission.NewPods(admission.PodsConfig{
		Informers: shared, Kinds: kinds, OwnNamespace: own, Security: podSecurity,
		Metrics: legacyregistry.Registerer(), Log: w.log,
		Skipped: func(object runtime.Object, pod, why string) {
			recorder.Eventf(object, nil, corev1.EventTypeWarning, "NotInjected", "Inject", "Pod %s: %s", pod, why)
		},
	})
	return w.pods, err
}

// follow is told what keeps a kind from being run, or nil. What could not be found out is
// asked again.
func (w *webhooks) follow(k *kind.Kind, missing error) {
	_, isAbsent := errors.AsType[absent](missing)
	if w != nil && w.pods != nil && (missing == nil || isAbsent) {
		w.pods.Follow(k, missing)
	}
}

// checks are what makes the webhooks ready: a valid certificate, a listener that answers,
// and the knowledge of what to inject and of what namespaces enforce.
func (w *webhooks) checks() []check {
	if w == nil {
		return nil
	}
	checks := []check{
		{"certificate", func(*http.Request) error { return w.certificate.Ready() }},
		{"tls-listener", func(r *http.Request) error { return answersTLS(r.Context(), w.listener.Addr()) }},
	}
	if w.pods != nil {
		checks = append(checks,
			check{"injection", func(*http.Request) error { return w.pods.Ready() }},
			check{"namespaces", func(*http.Request) error { return w.namespaces.Ready() }})
	}
	return checks
}

// answersTLS is an error if no TLS handshake is made at an address of this process.
func answersTLS(ctx context.Context, address net.Addr) error {
	// Whether the certificate is the right one is the business of another check.
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	connection, err := dialer.DialContext(ctx, address.Network(), address.String())
	if err != nil {
		return err
	}
	return connection.Close()
}

// run serves until ctx ends and a little longer, and does what only one replica has to
// once it is elected.
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
	if w.pods != nil { // nothing else asks for the labels of namespaces
		running.Go(func() { w.namespaces.Run(serving) })
		running.Go(func() { w.pods.Run(serving) })
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
	if w.left != "" {
		w.log.Info("the webhooks stay registered: until Fescue runs again, objects of its kinds cannot be written", "unless", w.left)
	}
	return err
}

// leave waits until no request comes any more. A Pod that is deleted is told to stop when
// the rules that lead to it begin to be removed; until they are, all requests that met a
// closed port would fail. It stays ready meanwhile: the rules do not depend on it, and if
// all replicas go at once, only ready ones are still asked.
func (w *webhooks) leave(why error) {
	if w.stopDelay == 0 || errors.Is(why, errLeaseLost) { // another leads, so nothing may hold up our end
		return
	}
	w.log.Info("stopping; the webhooks answer until nobody calls them any more", "delay", w.stopDelay)
	w.server.Leave()
	time.Sleep(w.stopDelay)
}

// lead does what one replica is enough for.
func (w *webhooks) lead(ctx context.Context) {
	var leading sync.WaitGroup
	leading.Go(func() { w.registrar.Run(ctx) })
	leading.Go(func() {
		w.certificate.Lead(ctx, func(ctx context.Context, bundle []byte) error {
			if err := w.registrar.Publish(ctx, bundle); err != nil {
				return err
			}
			w.log.Info("webhooks are registered")
			return nil
		})
	})
	leading.Wait()
}
