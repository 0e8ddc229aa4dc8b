package testcluster

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/retry"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
)

// establishTimeout bounds the wait for the API server to serve CRDs, which takes well under a second on an idle one.
const establishTimeout = 30 * time.Second

// InstallCRDs applies the CRDs of kinds, and returns when the API server serves them all, or why it does not. at is
// what converts the objects of kinds with conversions.
func InstallCRDs(ctx context.Context, client dynamic.Interface, kinds []*kind.Kind, at crds.Webhook) error {
	for _, k := range kinds {
		apply := func() error {
			_, err := crds.Apply(ctx, client, k, at, "test")
			return err
		}
		// Other tests install the shipped kinds as well, and so do their operators.
		if err := retry.RetryOnConflict(retry.DefaultBackoff, apply); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, establishTimeout)
	defer cancel()
	for _, k := range kinds {
		if err := awaitAccepted(ctx, client.Resource(crds.Resource), k.Name()); err != nil {
			return err
		}
	}
	return nil
}

func awaitAccepted(ctx context.Context, definitions dynamic.ResourceInterface, name string) error {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	var problem error
	_, err := watchtools.UntilWithSync(ctx, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = selector
			return definitions.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			return definitions.Watch(ctx, options)
		},
	}, &unstructured.Unstructured{}, nil, func(event watch.Event) (bool, error) {
		object, ok := event.Object.(*unstructured.Unstructured)
		if ok {
			problem = crds.Accepted(object)
		}
		if ok && object.GetDeletionTimestamp() != nil {
			problem = fmt.Errorf("the CRD %s is being deleted", object.GetName())
		}
		return ok && problem == nil, nil
	})
	if err != nil && problem != nil {
		return problem
	}
	return err
}
