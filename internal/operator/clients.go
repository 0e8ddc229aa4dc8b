package operator

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"

	"github.com/fescue-dev/fescue/internal/informers"
	"github.com/fescue-dev/fescue/internal/projection"
)

// connectTimeout bounds the first request, so that a wrong address is reported while the user
// still watches.
const connectTimeout = 10 * time.Second

// ClusterOptions select a cluster.
type ClusterOptions struct {
	// Kubeconfig is a file, and Context a context in it. Both may be empty.
	Kubeconfig, Context string
	// UserAgent names the program in the API server's audit log.
	UserAgent string
}

// AddFlags adds --kubeconfig and --context.
func (o *ClusterOptions) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "path of the kubeconfig file")
	flags.StringVar(&o.Context, "context", "", "name of the kubeconfig context to use")
}

// Config finds the cluster as kubectl does, or else the one that the process runs in, and the
// default namespace there.
func (o *ClusterOptions) Config() (config *rest.Config, namespace string, err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: o.Context})
	config, err = loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", errors.New("no cluster is configured: set --kubeconfig or $KUBECONFIG, or run in a cluster")
	}
	if err == nil {
		namespace, _, err = loader.Namespace()
	}
	if err != nil {
		return nil, "", fmt.Errorf("kubeconfig: %w; check --kubeconfig, $KUBECONFIG and --context", err)
	}
	config.UserAgent = o.UserAgent
	// client-go would allow 5 requests a second. The API server's priority and fairness limits
	// the rate instead.
	config.QPS = -1
	return config, namespace, nil
}

// Clients reach one API server.
type Clients struct {
	Typed    kubernetes.Interface
	Dynamic  dynamic.Interface
	Metadata metadata.Interface
	Caches   informers.Client
	Mapper   meta.RESTMapper
	// host is the address of the API server.
	host string
	// limited is for requests that clients of the operator cause. They share a low rate limit,
	// so that they cannot crowd out the operator's own requests.
	limited kubernetes.Interface
}

// Connect creates the clients, and fails if the API server does not answer.
func Connect(config *rest.Config) (*Clients, error) {
	c, err := newClients(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	first := rest.CopyConfig(config)
	first.Timeout = connectTimeout
	probe, err := kubernetes.NewForConfig(first)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	err = atStart(func() error {
		_, err := probe.Discovery().ServerVersion()
		return err
	})
	switch {
	case apierrors.IsUnauthorized(err):
		return nil, fmt.Errorf("the API server %s does not accept the credentials: %w; check --kubeconfig and --context", config.Host, err)
	case err != nil:
		return nil, fmt.Errorf("the API server %s cannot be reached: %w; check --kubeconfig and --context", config.Host,
			err)
	}
	return c, nil
}

// startBackoff is how often, and for how long, to send a request without which a process cannot start: for about twenty
// seconds.
var startBackoff = wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 7}

// atStart sends a request again while the API server answers that it is overloaded or has failed, as one that is being
// restarted does for some seconds.
func atStart(send func() error) error {
	return retry.OnError(startBackoff, func(err error) bool {
		var answer apierrors.APIStatus
		return errors.As(err, &answer) && (answer.Status().Code == http.StatusTooManyRequests ||
			answer.Status().Code >= http.StatusInternalServerError)
	}, send)
}

func newClients(config *rest.Config) (*Clients, error) {
	c := &Clients{host: config.Host}
	var err error
	if c.Typed, err = newTyped(config); err != nil {
		return nil, err
	}
	if c.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.Metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.Caches, err = informers.NewClient(config); err != nil {
		return nil, err
	}
	slow := rest.CopyConfig(config)
	slow.QPS, slow.Burst = rest.DefaultQPS, rest.DefaultBurst
	if c.limited, err = newTyped(slow); err != nil {
		return nil, err
	}
	c.Mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.Typed.Discovery()))
	return c, nil
}

// newTyped returns a client for the built-in types that encodes them as Kubernetes' own components do: an Event takes
// the API server and the operator less as protobuf than as JSON. It logs no warnings, which might quote the key of the
// webhooks.
func newTyped(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.WarningHandlerWithContext = rest.NoWarnings{}
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return kubernetes.NewForConfig(config)
}

// newWriter returns a dynamic client that decodes no more of the answers than the engine needs.
func newWriter(config *rest.Config) (dynamic.Interface, error) {
	config = dynamic.ConfigFor(config)
	config.NegotiatedSerializer = projection.Answers(config.NegotiatedSerializer)
	config.GroupVersion, config.APIPath = nil, "/" // each request has its own path
	client, err := rest.UnversionedRESTClientFor(config)
	return dynamic.New(client), err
}
