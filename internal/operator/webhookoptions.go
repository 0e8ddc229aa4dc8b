package operator

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fescue-dev/fescue/admission"
	"github.com/fescue-dev/fescue/admission/certificate"
	"github.com/fescue-dev/fescue/crds"
)

// DefaultSecret is the default name of the Secret with the webhooks' certificate. It is in the
// namespace of the Service or, with a URL, in the namespace "default".
const DefaultSecret = admission.DefaultName + secretSuffix

// secretSuffix follows the name of the configurations, so that installations with different
// configurations do not share a certificate, which each would recreate for its own host.
const secretSuffix = "-webhook-certificate"

// maxValidity bounds the validity of certificates that a user chooses: it has to end within the years of X.509.
const maxValidity = 10 * 365 * 24 * time.Hour

// webhookOptions are the flags about webhooks. The webhooks are on if a flag states the address
// at which the API server reaches them.
type webhookOptions struct {
	listen, url, service    string
	certDir, secret, name   string
	clientCA, tlsMinVersion string
	http2, allowPrivileged  bool
	validity, stopDelay     time.Duration

	// What the flags imply; complete sets it.
	reference       *admissionregistrationv1.ServiceReference
	secretNamespace string
	secretName      string
	host, path      string // of the URL; the path ends in no slash
	minVersion      uint16
	clientCAs       *x509.CertPool
}

func (o *webhookOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.url, "webhook-url", "",
		"URL at which the API server reaches the webhooks, like https://192.168.1.5:9443; turns the webhooks on")
	flags.StringVar(&o.service, "webhook-service", "",
		"NAMESPACE/NAME[:PORT] of the Service at which the API server reaches the webhooks; turns the webhooks on")
	flags.StringVar(&o.listen, "webhook-listen", "",
		"address that the webhooks listen on (default \":9443\" if the webhooks are on)")
	flags.StringVar(&o.name, "webhook-configuration", admission.DefaultName,
		"name of both webhook configurations; installations that share a cluster need different names")
	flags.StringVar(
		&o.certDir,
		"webhook-cert-dir",
		"",
		"folder with tls.crt, tls.key and optionally ca.crt, reloaded when they change; without it Fescue creates and renews a certificate",
	)
	flags.StringVar(
		&o.secret,
		"webhook-secret",
		"",
		"NAMESPACE/NAME of the Secret with the certificate that Fescue creates (default \"CONFIGURATION"+secretSuffix+
			"\" in the Service's namespace, or in default)",
	)
	flags.DurationVar(&o.validity, "webhook-cert-validity", certificate.DefaultValidity,
		"validity of certificates that Fescue creates; they are renewed after two thirds of it")
	flags.StringVar(&o.clientCA, "webhook-client-ca", "",
		"file with CA certificates; clients of the webhooks must present a certificate that one of them has signed")
	flags.StringVar(&o.tlsMinVersion, "tls-min-version", "1.3", "minimum TLS version of the webhooks: 1.2 or 1.3")
	flags.BoolVar(&o.http2, "enable-http2", false, "serve the webhooks over HTTP/2 as well")
	flags.DurationVar(
		&o.stopDelay,
		"shutdown-delay-duration",
		0,
		"how long the webhooks keep answering after SIGTERM, until the API server stops calling them; a second signal ends it",
	)
	flags.BoolVar(&o.allowPrivileged, "allow-privileged-injection", false,
		"allow objects to inject privileged containers, hostPath volumes and host namespaces")
}

// enabled reports whether the webhooks are on.
func (o *webhookOptions) enabled() bool { return o.url != "" || o.service != "" }

// complete validates the flags and computes what they imply.
func (o *webhookOptions) complete() error {
	switch {
	case o.url != "" && o.service != "":
		return errBothAddresses
	case !o.enabled():
		for name, value := range map[string]string{"--webhook-listen": o.listen, "--webhook-cert-dir": o.certDir,
			"--webhook-secret": o.secret, "--webhook-client-ca": o.clientCA} {
			if value != "" {
				return fmt.Errorf("%s: requires --webhook-url or --webhook-service, which turn the webhooks on", name)
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
	if o.validity < time.Second || o.validity > maxValidity {
		return fmt.Errorf("--webhook-cert-validity: invalid value %s: must be between 1s and %s", o.validity, maxValidity)
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
		if o.secretNamespace, o.secretName, ok = strings.Cut(o.secret, "/"); !ok || o.secretNamespace == "" ||
			o.secretName == "" {
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
		return fmt.Errorf("--webhook-client-ca: %s contains no certificate in PEM format", o.clientCA)
	}
	return nil
}

// completeAddress computes the address that the API server calls, and with it the host of the
// certificate.
func (o *webhookOptions) completeAddress() error {
	if o.url != "" {
		u, err := url.Parse(o.url)
		if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" ||
			u.User != nil {
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

// ConversionWebhook returns what converts objects, for the values of the flags --webhook-url and
// --webhook-service, of which at most one is set.
func ConversionWebhook(url, service string) (crds.Webhook, error) {
	o := webhookOptions{url: url, service: service}
	if !o.enabled() {
		return crds.Webhook{}, nil
	}
	if url != "" && service != "" {
		return crds.Webhook{}, errBothAddresses
	}
	err := o.completeAddress()
	return o.conversion(), err
}

var errBothAddresses = errors.New("--webhook-url and --webhook-service: only one of them can be set")

// conversion returns how the API server reaches the webhook that converts objects.
func (o *webhookOptions) conversion() crds.Webhook {
	w := crds.Webhook{URL: strings.TrimSuffix(o.url, "/")}
	if s := o.reference; s != nil {
		w.Service = &apiextensionsv1.ServiceReference{Namespace: s.Namespace, Name: s.Name, Port: s.Port}
	}
	return w
}

// registration returns how the API server reaches the webhooks.
func (o *webhookOptions) registration(namespaces []string, user string) admission.Webhooks {
	w := admission.Webhooks{Name: o.name, URL: o.url, Service: o.reference, Namespaces: namespaces, User: user}
	if o.reference != nil {
		w.Namespace = o.reference.Namespace
	}
	return w
}
