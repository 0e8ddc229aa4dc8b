package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/pager"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
)

// Unloaded returns the names, sorted, of the CRDs that were created from kinds which are not among these: kinds that
// were renamed, moved to another group or removed, and those of other installations. Nothing else shows that no process
// runs the objects of such a CRD. It reads the metadata of all CRDs once; their schemas are up to a megabyte each.
func (c *Clients) Unloaded(ctx context.Context, kinds []*kind.Kind) (names []string, err error) {
	list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return c.Metadata.Resource(crds.Resource).List(ctx, options)
	}
	err = pager.New(list).EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		crd, err := meta.Accessor(object)
		if err != nil {
			return err
		}
		_, isOurs := crd.GetAnnotations()[crds.HashAnnotation]
		if isOurs && !slices.ContainsFunc(kinds, func(k *kind.Kind) bool { return k.Name() == crd.GetName() }) {
			names = append(names, crd.GetName())
		}
		return nil
	})
	slices.Sort(names)
	return names, err
}

// HasObjects reports whether a CRD has objects in a namespace; one that is cluster-scoped has them in any. It reads no
// more than one.
func (c *Clients) HasObjects(ctx context.Context, crd, namespace string) (bool, error) {
	plural, group, _ := strings.Cut(crd, ".")
	gvk, err := c.Mapper.KindFor(schema.GroupVersionResource{Group: group, Resource: plural})
	if meta.IsNoMatchError(err) {
		return false, nil // it is not served
	}
	if err != nil {
		return false, err
	}
	mapping, err := c.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return false, err
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		namespace = metav1.NamespaceAll
	}
	found, err := c.Metadata.Resource(mapping.Resource).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return false, fmt.Errorf("list %s: %w", crd, err)
	}
	return len(found.Items) > 0, nil
}

// newUnloadedMetric returns the metric that reportUnloaded sets.
func newUnloadedMetric() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "fescue_kinds_unloaded",
		Help: "1 for a CRD that was created from a kind which this replica did not load at its start.",
	}, []string{"controller"})
}

// reportUnloaded names in the log, and in the metric, the CRDs whose objects this process does not run, as they are
// now. Another installation may run them. An operator that has only decorators has no rights to CRDs.
func (p *operator) reportUnloaded(ctx context.Context, kinds []*kind.Kind) {
	if len(kinds) == 0 {
		return
	}
	var names []string
	err := atStart(func() (err error) {
		names, err = p.Unloaded(ctx, kinds)
		return err
	})
	switch {
	case apierrors.IsForbidden(err):
		p.log.Info("the operator may not list CRDs, so it does not report those without a kind", "error", err)
		return
	case err != nil:
		p.log.Warn("CRDs could not be listed to report those without a kind", "error", err)
		return
	case len(names) == 0:
		return
	}
	for _, name := range names {
		p.unloaded.WithLabelValues(name).Set(1)
	}
	p.log.Info("CRDs were created from kinds that this process did not load; unless another installation runs them, nothing reconciles their objects", "crds", names)
}
