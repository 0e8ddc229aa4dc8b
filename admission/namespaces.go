package admission

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// Namespaces follows the labels of all namespaces, so that no request has to ask for them.
type Namespaces struct {
	factory informers.SharedInformerFactory
	lister  corelisters.NamespaceLister
}

// NewNamespaces wires the informer, which needs the rights to list and watch namespaces.
func NewNamespaces(client kubernetes.Interface) *Namespaces {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(onlyLabels))
	return &Namespaces{factory, factory.Core().V1().Namespaces().Lister()}
}

// onlyLabels is what is kept of a namespace.
func onlyLabels(object any) (any, error) {
	namespace, ok := object.(*corev1.Namespace)
	if !ok {
		return object, nil
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace.Name, ResourceVersion: namespace.ResourceVersion, Labels: namespace.Labels}}, nil
}

// Run follows the namespaces until ctx ends.
func (n *Namespaces) Run(ctx context.Context) {
	n.factory.StartWithContext(ctx)
	<-ctx.Done()
	n.factory.Shutdown()
}

// Labels are those of a namespace; one that is not known, since it is new, has none yet.
func (n *Namespaces) Labels(name string) map[string]string {
	namespace, err := n.lister.Get(name)
	if err != nil {
		return nil
	}
	return namespace.Labels
}
