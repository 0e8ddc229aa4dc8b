package main

import (
	"context"
	"errors"
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
)

// absent says what is not there; other errors say that this could not be found out.
type absent string

func (a absent) Error() string { return string(a) }

// missing says what keeps a kind from being run: its CRD, or rights.
func missing(ctx context.Context, c *clients, k *kind.Kind, namespaces []string) error {
	return errors.Join(checkInstalled(c, k), checkRights(ctx, c, k, namespaces))
}

// checkInstalled reports a kind that the API server does not serve.
func checkInstalled(c *clients, k *kind.Kind) error {
	served, err := c.typed.Discovery().ServerResourcesForGroupVersion(k.GroupVersionKind.GroupVersion().String())
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("ask for the resources of %s: %w", k.GroupVersionKind.GroupVersion(), err)
	}
	if served != nil && slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == k.Names.Plural }) {
		return nil
	}
	return absent(fmt.Sprintf("the API server does not serve %s: install the CRDs with 'fescue crd | kubectl apply -f -' or start with --install-crds", k.Name()))
}

// checkRights reports what a kind needs and the API server does not allow.
func checkRights(ctx context.Context, c *clients, k *kind.Kind, namespaces []string) error {
	rights, err := install.ForKind(k, func(gvk schema.GroupVersionKind) (schema.GroupResource, error) {
		mapping, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if meta.IsNoMatchError(err) {
			return schema.GroupResource{}, nil // the engine waits for a type that is not served
		}
		if err != nil {
			return schema.GroupResource{}, err
		}
		return mapping.Resource.GroupResource(), nil
	})
	if err != nil {
		return fmt.Errorf("ask for the types of children: %w", err)
	}
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var refused []string
	for _, right := range rights {
		for _, namespace := range namespaces {
			attributes := attributesOf(right, namespace)
			review, err := c.typed.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
				&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes}}, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("ask for our rights: %w", err)
			}
			if !review.Status.Allowed {
				refused = append(refused, describeRight(attributes))
			}
		}
	}
	if len(refused) > 0 {
		return absent(fmt.Sprintf("missing rights: %s; bind the roles that 'fescue manifests' prints to the user or service account that Fescue runs as", strings.Join(refused, ", ")))
	}
	return nil
}

func attributesOf(right install.Right, namespace string) authorizationv1.ResourceAttributes {
	resource, subresource, _ := strings.Cut(right.Resource, "/")
	return authorizationv1.ResourceAttributes{
		Group: right.Group, Resource: resource, Subresource: subresource, Verb: right.Verb, Name: right.Name, Namespace: namespace,
	}
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
