package cli

import (
	"context"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/internal/operator"
)

// installation is an installation of Fescue on the cluster.
type installation struct {
	// namespace is the namespace that it is installed in.
	namespace string
	// worksIn are the namespaces that it is limited to; none means all.
	worksIn []string
}

// owns reports whether objects in a namespace belong to the installation.
func (i installation) owns(namespace string) bool {
	return len(i.worksIn) == 0 || slices.Contains(i.worksIn, namespace)
}

// otherInstallations finds the installations in other namespaces than own: those with a Deployment whose account has
// a ClusterRole of Fescue. Anyone may write a Deployment. Installations that are being removed do not count.
func otherInstallations(ctx context.Context, c *operator.Clients, own string) ([]installation, error) {
	bindings, err := c.Typed.RbacV1().ClusterRoleBindings().List(ctx,
		metav1.ListOptions{LabelSelector: install.Selector()})
	if err != nil {
		return nil, fmt.Errorf("look for other installations: list clusterrolebindings: %w", err)
	}
	bound := sets.New[string]()
	for i := range bindings.Items {
		for _, subject := range bindings.Items[i].Subjects {
			bound.Insert(subject.Namespace)
		}
	}
	list, err := c.Typed.AppsV1().Deployments(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{LabelSelector: install.OperatorSelector()})
	if err != nil {
		return nil, fmt.Errorf("look for other installations: list deployments: %w", err)
	}
	var others []installation
	for i := range list.Items {
		if d := &list.Items[i]; d.Namespace != own && bound.Has(d.Namespace) && d.DeletionTimestamp == nil {
			others = append(others, installation{d.Namespace, install.WorksIn(d)})
		}
	}
	return others, nil
}

// requireOwn returns an error if one of the objects to remove serves an installation in another namespace: all that
// work in all namespaces have the same ClusterRole and webhook configurations, and all that work in one the same Role.
func (r *remover) requireOwn(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		wanted, err := servedNamespaces(object)
		if err != nil {
			return err
		}
		if len(wanted) == 0 {
			continue
		}
		client, resource, err := r.clientFor(object)
		if err != nil {
			return err
		}
		live, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s %s: %w", resource, object.GetName(), err)
		}
		served, err := servedNamespaces(live)
		if err != nil {
			return err
		}
		if len(served) > 0 && !slices.Contains(served, r.o.Namespace) {
			return fmt.Errorf("%s %s belongs to the installation in namespace %s, not to one in %s, so nothing was removed: "+
				"set --namespace and --namespaced as you did for 'fescue manifests'", resource, object.GetName(), served[0],
				r.o.Namespace)
		}
	}
	return nil
}

// servedNamespaces returns the namespaces of the accounts that an object binds, and of the Services that it has the API
// server call.
func servedNamespaces(object *unstructured.Unstructured) (namespaces []string, err error) {
	var of struct {
		Subjects []rbacv1.Subject `json:"subjects"`
		Webhooks []struct {
			ClientConfig admissionregistrationv1.WebhookClientConfig `json:"clientConfig"`
		} `json:"webhooks"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &of); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	for _, subject := range of.Subjects {
		namespaces = append(namespaces, subject.Namespace)
	}
	for _, webhook := range of.Webhooks {
		if service := webhook.ClientConfig.Service; service != nil {
			namespaces = append(namespaces, service.Namespace)
		}
	}
	return namespaces, nil
}

// isShared reports whether all installations share an object: a CRD, or a role for users.
func isShared(object *unstructured.Unstructured) bool {
	return isDefinition(object) || install.IsUserRole(object)
}
