package install

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/crds"
)

const (
	// DefaultNamespace is where Fescue is installed by default.
	DefaultNamespace = crds.DefaultNamespace
	// LeaseName is the Lease by which the replicas elect their leader or, with shards, agree
	// on the number of shards.
	LeaseName = "fescue"
	// name is the name of objects that exist once, and the prefix of all others.
	name = "fescue"
	// metricsPort and healthPort are the ports of the operator. They are those of
	// kubebuilder's scaffold without TLS for metrics.
	metricsPort = 8080
	healthPort  = 8081
	// securePort is the port for metrics in kubebuilder's scaffold with TLS.
	securePort = 8443
	// maxSource bounds the CUE files of one folder: a ConfigMap has at most 1 MiB
	// (validation.go in k8s.io/kubernetes/pkg/apis/core), and its name needs a little.
	maxSource = 1<<20 - 4096
)

// Options describe an installation. The zero value of each field except Image is valid. The caller has checked the
// names of namespaces, and the sources.
type Options struct {
	// Namespace is where Fescue itself lives; "" means DefaultNamespace.
	Namespace string
	// Shards is the number of shards into which the replicas divide the objects; 0 and 1 mean
	// that one replica reconciles all objects.
	Shards int
	// Image is the container image of the operator.
	Image string
	// Namespaces limits the kinds to these; none means all. Rights are then Roles.
	Namespaces []string
	// Sources are folders of further kinds; each becomes a ConfigMap that the operator
	// mounts.
	Sources []Source
	// OwnKindsOnly leaves out the kinds that come with Fescue.
	OwnKindsOnly bool
	// InstallCRDs has the operator install its CRDs itself, and gives it the rights.
	InstallCRDs bool
	// Monitoring adds a ServiceMonitor and alert rules, which need the Prometheus
	// operator's CRDs.
	Monitoring bool
	// MetricsAuth serves metrics over HTTPS to authorized clients only, and gives the
	// operator the rights to authorize them.
	MetricsAuth bool
	// Types name the resources of children that are neither built into Kubernetes nor
	// among the kinds.
	Types Types
	// APIServers are the addresses, as CIDRs, from which the API server calls the webhooks.
	// Without them, anyone can reach the webhooks.
	APIServers []string
	// Webhooks describes what admission adds; nil means no webhooks.
	Webhooks *Webhooks
}

// MaxShards bounds Options.Shards: each replica renews the Leases of its shards and reads
// all of them every two seconds.
const MaxShards = 16

// Leases returns the names of the Leases that the replicas create and hold.
func (o Options) Leases() []string {
	names := []string{LeaseName}
	if o.Shards > 1 {
		for i := range o.Shards {
			names = append(names, MemberLease(i), ShardLease(i))
		}
	}
	return names
}

// ShardLease returns the name of the Lease of a shard; the first is 0.
func ShardLease(shard int) string { return fmt.Sprintf("%s-shard-%d", LeaseName, shard) }

// MemberLease returns the name of a Lease by which a replica counts as a member of those that
// share the shards. There are as many members as shards.
func MemberLease(member int) string { return fmt.Sprintf("%s-member-%d", LeaseName, member) }

// Source is a folder with a CUE package: the content of each file under its path in the
// folder.
type Source map[string]string

// Validate returns an error for each file that a ConfigMap cannot have, and for too many bytes.
func (s Source) Validate() error {
	var errs []error
	size := 0
	for _, path := range slices.Sorted(maps.Keys(s)) {
		size += len(path) + len(s[path])
		for _, problem := range utilvalidation.IsConfigMapKey(key(path)) {
			errs = append(errs, fmt.Errorf("invalid file name %q: %s", path, problem))
		}
	}
	if size > maxSource {
		errs = append(errs, fmt.Errorf("its files have %d bytes: must be at most %d, the limit of a ConfigMap; "+
			"build an image with the files instead", size, maxSource))
	}
	return errors.Join(errs...)
}

// Webhooks describes what admission adds to an installation.
type Webhooks struct {
	// Port is where the operator serves them.
	Port int32
	// Args are the flags that make it do so.
	Args []string
	// Service is the name under which the API server reaches them.
	Service string
	// Secret is the name of the Secret with the certificate, which the operator keeps.
	Secret string
	// ReadsNamespaces means that they read the labels of namespaces.
	ReadsNamespaces bool
	// Converting are the names of the CRDs whose objects they convert.
	Converting []string
	// Configurations are the webhook configuration objects.
	Configurations []runtime.Object
}

// ClusterName returns the name of the cluster-scoped objects of an installation. It differs
// between installations that are limited to namespaces, so several can share a cluster.
func (o Options) ClusterName() string {
	if len(o.Namespaces) == 0 {
		return name
	}
	return name + "-" + cmp.Or(o.Namespace, DefaultNamespace)
}

// complete returns o with defaults, or an error for each field that is wrong.
func (o Options) complete() (Options, error) {
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	var errs []error
	if o.Shards < 0 || o.Shards > MaxShards {
		errs = append(errs, fmt.Errorf("shards: Invalid value: %d: must be between 1 and %d", o.Shards, MaxShards))
	}
	flag := field.NewPath("api-server-cidr")
	for _, cidr := range o.APIServers {
		for _, problem := range utilvalidation.IsValidCIDR(flag, cidr) {
			errs = append(errs, problem)
		}
	}
	if len(o.APIServers) > 0 && o.Webhooks == nil {
		errs = append(errs, field.Forbidden(flag, "it limits webhooks, but none are installed"))
	}
	if o.Image == "" {
		errs = append(errs, errors.New("image: Required value: the operator runs in a container"))
	}
	o.Namespaces = slices.Compact(slices.Sorted(slices.Values(o.Namespaces)))
	return o, errors.Join(errs...)
}
