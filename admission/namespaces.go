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

// Namespaces caches the labels of all namespaces, so that no request has to wait for them.
type Namespaces struct {
	factory informers.SharedInformerFactory
	lister  corelisters.NamespaceLister
	synced  func() bool
	// wait is how long Labels waits for a namespace that is not known.
	wait time.Duration
}

// NewNamespaces wires the informer, which needs the rights to list and watch namespaces.
func NewNamespaces(client kubernetes.Interface) *Namespaces {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(onlyLabels))
	namespaces := factory.Core().V1().Namespaces()
	return &Namespaces{factory, namespaces.Lister(), namespaces.Informer().HasSynced, namespaceWait}
}

// onlyLabels drops everything else of a namespace.
func onlyLabels(object any) (any, error) {
	namespace, ok := object.(*corev1.Namespace)
	if !ok {
		return object, nil
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace.Name, ResourceVersion: namespace.ResourceVersion, Labels: namespace.Labels}}, nil
}

// Run watches the namespaces until ctx ends.
func (n *Namespaces) Run(ctx context.Context) {
	n.factory.StartWithContext(ctx)
	<-ctx.Done()
	n.factory.Shutdown()
}

// Ready returns nil once all namespaces are known.
func (n *Namespaces) Ready() error {
	if !n.synced() {
		return errors.New("the namespaces are still being read")
	}
	return nil
}

const (
	// namespaceWait is enough: the watch reports a new namespace milliseconds after the API
	// server accepts objects in it.
	namespaceWait = time.Second
	namespacePoll = 5 * time.Millisecond
)

// Labels returns the labels of a namespace. It waits briefly for a namespace that is not known,
// because it is new or the cache is not in sync yet, and then fails.
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
