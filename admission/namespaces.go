package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/internal/informers"
)

// Namespaces caches the labels of all namespaces, so that no request has to wait for them.
type Namespaces struct {
	informer cache.SharedIndexInformer
	// wait is how long Labels waits for a namespace that is not known.
	wait time.Duration
}

// NewNamespaces wires the informer, which needs the rights to list and watch namespaces. failed
// receives its failures.
func NewNamespaces(client kubernetes.Interface, failed informers.Failed) *Namespaces {
	source := informers.TypedSource(client, client.CoreV1().Namespaces(), nil)
	informer := informers.NewInformer(corev1.SchemeGroupVersion.WithResource("namespaces"), source, &corev1.Namespace{},
		nil, failed)
	if err := informer.SetTransform(onlyLabels); err != nil {
		panic(err) // only a started informer returns one
	}
	return &Namespaces{informer, namespaceWait}
}

// onlyLabels drops everything else of a namespace.
func onlyLabels(object any) (any, error) {
	namespace, ok := object.(*corev1.Namespace)
	if !ok {
		return object, nil
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace.Name,
		ResourceVersion: namespace.ResourceVersion, Labels: namespace.Labels}}, nil
}

// Run watches the namespaces until ctx ends.
func (n *Namespaces) Run(ctx context.Context) {
	n.informer.RunWithContext(ctx)
}

// Ready returns nil once all namespaces are known.
func (n *Namespaces) Ready() error {
	if !n.informer.HasSynced() {
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
		object, _, err := n.informer.GetStore().GetByKey(name)
		namespace, ok := object.(*corev1.Namespace)
		if err != nil || !ok {
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
