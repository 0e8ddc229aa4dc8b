package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// Namespaces follows the labels of all namespaces, so that no request has to ask for them.
type Namespaces struct {
	factory informers.SharedInformerFactory
	lister  corelisters.NamespaceLister
	synced  func() bool
	// wait is how long a namespace that is not known is waited for.
	wait time.Duration
}

// NewNamespaces wires the informer, which needs the rights to list and watch namespaces.
func NewNamespaces(client kubernetes.Interface) *Namespaces {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(onlyLabels))
	namespaces := factory.Core().V1().Namespaces()
	return &Namespaces{factory, namespaces.Lister(), namespaces.Informer().HasSynced, namespaceWait}
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

// Ready is nil once all namespaces are known.
func (n *Namespaces) Ready() error {
	if !n.synced() {
		return errors.New("the namespaces are still being read")
	}
	return nil
}

const (
	// namespaceWait is enough: the watch tells of a new namespace milliseconds after the API
	// server has let objects into it.
	namespaceWait = time.Second
	namespacePoll = 5 * time.Millisecond
)

// Labels are those of a namespace. One that is not known, since it is new or nothing is known
// yet, is waited for a moment; it is then an error.
func (n *Namespaces) Labels(ctx context.Context, name string) (map[string]string, error) {
	var labels map[string]string
	err := wait.PollUntilContextTimeout(ctx, namespacePoll, n.wait, true, func(context.Context) (bool, error) {
		namespace, err := n.lister.Get(name)
		if err != nil {
			return false, nil
		}
		labels = namespace.Labels
		return true, nil
	})
	switch {
	case err == nil:
		return labels, nil
	case n.Ready() != nil:
		return nil, n.Ready()
	}
	return nil, fmt.Errorf("the namespace %q is not known yet", name)
}
