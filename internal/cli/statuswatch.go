package cli

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/informers"
	"github.com/fescue-dev/fescue/internal/operator"
)

// watchStatus prints the rows of all objects and then each row that changes, until ctx ends.
func watchStatus(ctx context.Context, c *operator.Clients, kinds []*kind.Kind, namespace string, p *statusPrinter) error {
	var mu sync.Mutex
	var first []statusRow
	var failure error
	started := false
	shown := make(map[types.UID]string)
	seen := func(k *kind.Kind, object any) {
		u, ok := object.(*unstructured.Unstructured)
		if !ok {
			return
		}
		row := rowOf(k, u)
		mu.Lock()
		defer mu.Unlock()
		text := fmt.Sprintf("%s %s %s %v", row.Health, row.Phase, row.Reason, row.Message)
		if shown[u.GetUID()] == text {
			return
		}
		shown[u.GetUID()] = text
		if !started {
			first = append(first, row)
			return
		}
		if failure == nil {
			failure = p.print([]statusRow{row})
		}
	}
	var synced []cache.InformerSynced
	for _, k := range kinds {
		resource, where := k.GroupVersionResource(), namespaceFor(k, namespace)
		_, err := c.Dynamic.Resource(resource).Namespace(where).List(ctx, metav1.ListOptions{Limit: 1})
		if apierrors.IsNotFound(err) {
			continue // its CRD is not installed
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", k.Name(), err)
		}
		informer := dynamicinformer.NewFilteredDynamicInformer(c.Dynamic, resource, where, 0, nil, nil).Informer()
		if err := informer.SetTransform(informers.StripManagedFields); err != nil {
			return fmt.Errorf("watch %s: %w", k.Name(), err)
		}
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { seen(k, object) },
			UpdateFunc: func(_, object any) { seen(k, object) },
		})
		if err != nil {
			return fmt.Errorf("watch %s: %w", k.Name(), err)
		}
		synced = append(synced, registration.HasSynced)
		go informer.RunWithContext(ctx)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil // interrupted
	}
	mu.Lock()
	started, failure = true, p.print(first)
	mu.Unlock()
	<-ctx.Done()
	mu.Lock()
	defer mu.Unlock()
	return failure
}
