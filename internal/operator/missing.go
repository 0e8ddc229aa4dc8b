package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine"
)

// notServed is the error for a kind that the API server does not serve.
func notServed(k *kind.Kind) error {
	return engine.Absent(fmt.Sprintf("the API server does not serve %s: install the CRDs with 'fescue crd | kubectl apply -f -' or start with --install-crds", k.Name()))
}

// discover returns an error if the API server does not serve a kind.
func (c *Clients) discover(k *kind.Kind) error {
	version := k.GroupVersionKind.GroupVersion()
	served, err := c.Typed.Discovery().ServerResourcesForGroupVersion(version.String())
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("discover the resources of %s: %w", version, err)
	}
	if served != nil && slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == k.Names.Plural }) {
		return nil
	}
	return notServed(k)
}

// checkRights returns an error that lists the rights that a kind needs and the operator does not
// have.
func (p *operator) checkRights(ctx context.Context, k *kind.Kind) error {
	rights, err := install.ForKind(k, p.resourceOf)
	if err != nil {
		return fmt.Errorf("discover the types of children: %w", err)
	}
	namespaces := p.options.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var denied []string
	for _, right := range rights {
		for _, namespace := range namespaces {
			attributes := attributesOf(right, namespace)
			review, err := p.Typed.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
				&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes}}, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("review the operator's rights: %w", err)
			}
			if !review.Status.Allowed {
				denied = append(denied, right.In(namespace))
			}
		}
	}
	if len(denied) > 0 {
		return engine.Absent(fmt.Sprintf("missing rights: %s; bind the roles that 'fescue manifests' prints to the user or service account that Fescue runs as", strings.Join(denied, ", ")))
	}
	return nil
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

// attributesOf returns a right in a namespace, in the form of an access review.
func attributesOf(right install.Right, namespace string) authorizationv1.ResourceAttributes {
	resource, subresource, _ := strings.Cut(right.Resource, "/")
	return authorizationv1.ResourceAttributes{
		Group: right.Group, Resource: resource, Subresource: subresource, Verb: right.Verb, Name: right.Name, Namespace: namespace,
	}
}
