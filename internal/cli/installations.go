package cli

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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

// otherInstallations finds the installations in other namespaces than own, by their Deployments.
// Installations that are being removed do not count.
func otherInstallations(ctx context.Context, c *operator.Clients, own string) ([]installation, error) {
	list, err := c.Typed.AppsV1().Deployments(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{LabelSelector: install.OperatorSelector()})
	if err != nil {
		return nil, fmt.Errorf("look for other installations: list deployments: %w", err)
	}
	var others []installation
	for i := range list.Items {
		if d := &list.Items[i]; d.Namespace != own && d.DeletionTimestamp == nil {
			others = append(others, installation{d.Namespace, install.WorksIn(d)})
		}
	}
	return others, nil
}

// isShared reports whether all installations share an object: a CRD, or a role for users.
func isShared(object *unstructured.Unstructured) bool {
	return isDefinition(object) || install.IsUserRole(object)
}
