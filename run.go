package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine"
)

// connectTimeout bounds the first request, so that a wrong address is reported while
// someone still looks.
const connectTimeout = 10 * time.Second

type runOptions struct {
	kubeconfig, context string
	namespaces, kinds   []string
	workers             int
	installCRDs         bool
	logFormat, logLevel string
	webhooks            webhookOptions
}

func newRunCommand() *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the kinds on a cluster",
		Long: `Run the kinds on a cluster until SIGTERM or an interrupt.

The cluster is the one of --kubeconfig, of $KUBECONFIG, of ~/.kube/config, or the
one that Fescue runs in, the first that is there.`,
		Example: "  fescue run --install-crds --kinds ./my-kinds",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return run(c, &o) },
	}
	kindsFlag(c, &o.kinds)
	flags := c.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "path of the kubeconfig file")
	flags.StringVar(&o.context, "context", "", "name of the kubeconfig context to use")
	flags.StringSliceVarP(&o.namespaces, "namespace", "n", nil, "namespaces to work in (repeatable or separated by commas); all if not given")
	flags.IntVar(&o.workers, "workers", engine.DefaultWorkers, "how many objects of one kind are worked on at a time")
	flags.BoolVar(&o.installCRDs, "install-crds", false, "install or upgrade the CRDs of the kinds first")
	o.webhooks.addFlags(flags)
	flags.StringVar(&o.logFormat, "log-format", "text", "text or json")
	flags.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	return c
}

// run connects, checks what would keep the kinds from working, and runs them.
func run(c *cobra.Command, o *runOptions) error {
	if o.workers < 1 {
		return fmt.Errorf("--workers: invalid value %d: must be at least 1", o.workers)
	}
	if err := o.webhooks.complete(); err != nil {
		return err
	}
	log, err := newLogger(c.ErrOrStderr(), o.logFormat, o.logLevel)
	if err != nil {
		return err
	}
	loaded, err := loadKinds(o.kinds)
	if err != nil {
		return err
	}
	if loaded.bad != nil { // one bad kind does not stop the others
		printErrors(c.ErrOrStderr(), loaded.bad)
	}
	kinds := loaded.all
	config, err := clusterConfig(o)
	if err != nil {
		return err
	}
	clients, err := connect(config)
	if err != nil {
		return err
	}
	ctx := c.Context()
	if o.installCRDs {
		if err := crds.Install(ctx, clients.dynamic, kinds); err != nil {
			return err
		}
		// Discovery follows a little later.
		_ = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, connectTimeout, true, func(context.Context) (bool, error) {
			return checkInstalled(clients, kinds) == nil, nil
		})
	}
	if err := checkInstalled(clients, kinds); err != nil {
		return err
	}
	if err := checkRights(ctx, clients, kinds, o.namespaces); err != nil {
		return err
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: clients.typed.EventsV1()})
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	recorder := broadcaster.NewRecorder(runtime.NewScheme(), "fescue")
	e, err := engine.New(engine.Config{
		Kinds: kinds, Client: clients.dynamic, Mapper: clients.mapper,
		Events:     recorder,
		Namespaces: o.namespaces, Workers: o.workers, Log: log,
	})
	if err != nil {
		return err
	}
	hooks, err := newWebhooks(ctx, &o.webhooks, clients, kinds, o.namespaces, recorder, log)
	if err != nil {
		return err
	}
	log.Info("running", "version", version, "server", config.Host, "kinds", len(kinds))
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return hooks.run(ctx) })
	running.Go(func() error { return e.Run(ctx) })
	return running.Wait()
}

// clusterConfig finds the cluster as kubectl does, or the one that Fescue runs in.
func clusterConfig(o *runOptions) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: o.context}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("no cluster is configured: set --kubeconfig or $KUBECONFIG, or run in a cluster")
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w; check --kubeconfig, $KUBECONFIG and --context", err)
	}
	config.UserAgent = "fescue/" + version
	// client-go would allow 5 requests a second; the API server's own priority and
	// fairness is what limits us.
	config.QPS = -1
	return config, nil
}

type clients struct {
	typed   kubernetes.Interface
	dynamic dynamic.Interface
	mapper  meta.RESTMapper
}

// connect makes the clients and asks the API server for its version, to report one
// that cannot be reached.
func connect(config *rest.Config) (*clients, error) {
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	first := rest.CopyConfig(config)
	first.Timeout = connectTimeout
	probe, err := kubernetes.NewForConfig(first)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	if _, err := probe.Discovery().ServerVersion(); err != nil {
		if apierrors.IsUnauthorized(err) {
			return nil, fmt.Errorf("the API server %s does not accept the credentials: %w; check --kubeconfig and --context", config.Host, err)
		}
		return nil, fmt.Errorf("the API server %s cannot be reached: %w; check --kubeconfig and --context", config.Host, err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(typed.Discovery()))
	return &clients{typed, untyped, mapper}, nil
}

// checkInstalled reports the kinds that the API server does not serve.
func checkInstalled(c *clients, kinds []*kind.Kind) error {
	var missing []string
	for _, k := range kinds {
		served, err := c.typed.Discovery().ServerResourcesForGroupVersion(k.GroupVersionKind.GroupVersion().String())
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("ask for the resources of %s: %w", k.GroupVersionKind.GroupVersion(), err)
		}
		if served == nil || !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == k.Names.Plural }) {
			missing = append(missing, k.Definition().Name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the API server does not serve %s: install the CRDs with 'fescue crd | kubectl apply -f -' or start with --install-crds", strings.Join(missing, ", "))
	}
	return nil
}

// checkRights reports what the kinds need and the API server does not allow.
func checkRights(ctx context.Context, c *clients, kinds []*kind.Kind, namespaces []string) error {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var missing []string
	for _, need := range neededRights(c.mapper, kinds) {
		for _, namespace := range namespaces {
			attributes := need
			attributes.Namespace = namespace
			review, err := c.typed.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
				&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes}}, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("ask for our rights: %w", err)
			}
			if !review.Status.Allowed {
				missing = append(missing, describeRight(attributes))
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("missing rights: %s; bind a ClusterRole that allows this to the user or service account that Fescue runs as", strings.Join(missing, ", "))
	}
	return nil
}

// neededRights lists what the engine does for kinds: follow objects and children,
// write status, apply and delete children, record Events.
func neededRights(mapper meta.RESTMapper, kinds []*kind.Kind) []authorizationv1.ResourceAttributes {
	var rights []authorizationv1.ResourceAttributes
	add := func(group, resource, subresource string, verbs ...string) {
		for _, verb := range verbs {
			right := authorizationv1.ResourceAttributes{Group: group, Resource: resource, Subresource: subresource, Verb: verb}
			if !slices.Contains(rights, right) {
				rights = append(rights, right)
			}
		}
	}
	add("events.k8s.io", "events", "", "create", "patch")
	for _, k := range kinds {
		add(k.GroupVersionKind.Group, k.Names.Plural, "", "list", "watch")
		add(k.GroupVersionKind.Group, k.Names.Plural, "status", "update")
		for _, owned := range k.Owns {
			// A type that is not served yet is reported by the engine.
			if mapping, err := mapper.RESTMapping(owned.GroupKind(), owned.Version); err == nil {
				add(mapping.Resource.Group, mapping.Resource.Resource, "", "get", "list", "watch", "create", "patch", "delete")
			}
		}
	}
	return rights
}

// describeRight names a right as `kubectl auth can-i` takes it.
func describeRight(r authorizationv1.ResourceAttributes) string {
	resource := r.Resource
	if r.Group != "" {
		resource += "." + r.Group
	}
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	if r.Namespace != "" {
		return r.Verb + " " + resource + " in " + r.Namespace
	}
	return r.Verb + " " + resource
}
