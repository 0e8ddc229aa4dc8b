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

// installation is one that a cluster has.
type installation struct {
	// namespace is where it lives.
	namespace string
	// worksIn are the namespaces that it is limited to; none means all.
	worksIn []string
}

// owns tells whether objects in a namespace are the installation's.
func (i installation) owns(namespace string) bool {
	return len(i.worksIn) == 0 || slices.Contains(i.worksIn, namespace)
}

// installationsBeside finds the installations that live in other namespaces than own, by
// their Deployments. One that is being removed does not count.
func installationsBeside(ctx context.Context, c *operator.Clients, own string) ([]installation, error) {
	list, err := c.Typed.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: install.OperatorSelector()})
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

// isShared tells whether an object is for the whole cluster, however many installations
// there are: a CRD, or a role that is for people.
func isShared(object *unstructured.Unstructured) bool {
	return isDefinition(object) || install.IsUserRole(object)
}
