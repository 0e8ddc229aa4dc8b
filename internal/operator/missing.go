package operator

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/operator/definitions"
)

// discover returns an error if the API server does not serve a kind.
func (c *Clients) discover(k *kind.Kind) error {
	version := k.GroupVersionKind.GroupVersion()
	served, err := c.Typed.Discovery().ServerResourcesForGroupVersion(version.String())
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("discover the resources of %s: %w", version, err)
	}
	if served != nil &&
		slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == k.Names.Plural }) {
		return nil
	}
	return definitions.NotServed(k)
}

// resourceOf returns the resource of a type; it is empty if the type is not served, which the
// engine waits for.
func (c *Clients) resourceOf(gvk schema.GroupVersionKind) (schema.GroupResource, error) {
	mapping, err := c.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return schema.GroupResource{}, nil
	}
	if err != nil {
		return schema.GroupResource{}, err
	}
	return mapping.Resource.GroupResource(), nil
}
