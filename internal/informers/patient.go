package informers

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// retryBase and retryMax bound the wait before a list or a watch that failed is sent again. It
// doubles, and is up to half as long again, so that caches do not retry in step. A reflector of
// client-go v0.37 waits up to a minute, and an informer cannot change that: after a restart of the
// API server, objects would wait for events of their children that long.
const (
	retryBase = 250 * time.Millisecond
	retryMax  = 5 * time.Second
)

// Source lists and watches the objects of a resource in one namespace.
type Source struct {
	List  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	Watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	// Client is the client that does so, which knows whether lists can be streamed.
	Client any
}

// TypedSource lists and watches with a typed client, of which api is the part for a resource; narrow
// selects the objects, and nil selects all.
func TypedSource[L runtime.Object](client any, api interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}, narrow func(*metav1.ListOptions)) Source {
	if narrow == nil {
		narrow = func(*metav1.ListOptions) {}
	}
	return Source{
		List: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			narrow(&options)
			return api.List(ctx, options)
		},
		Watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			narrow(&options)
			return api.Watch(ctx, options)
		},
		Client: client,
	}
}

// Failed is called with each failure to list or watch a resource. A nil one does nothing.
type Failed func(schema.GroupResource, error)

// NewInformer returns an informer of a source that reports failures to i.Failed and to the functions
// in also.
func (i *Informers) NewInformer(
	resource schema.GroupVersionResource,
	source Source,
	example runtime.Object,
	indexers cache.Indexers,
	also ...func(error),
) cache.SharedIndexInformer {
	return NewInformer(resource, source, example, indexers, func(resource schema.GroupResource, err error) {
		if i.Failed != nil {
			i.Failed(resource, err)
		}
		for _, tell := range also {
			tell(err)
		}
	})
}

// NewInformer returns an informer of a source. Its lists and watches are retried within retryMax.
func NewInformer(
	resource schema.GroupVersionResource, source Source, example runtime.Object, indexers cache.Indexers, report Failed,
) cache.SharedIndexInformer {
	failed := func(err error) {
		if report != nil {
			report(resource.GroupResource(), err)
		}
	}
	f := &follower{source: source, failed: failed}
	patient := &cache.ListWatch{ListWithContextFunc: f.list, WatchFuncWithContext: f.watch}
	return cache.NewSharedIndexInformerWithOptions(cache.ToListWatcherWithWatchListSemantics(patient, source.Client),
		example,
		cache.SharedIndexInformerOptions{Indexers: indexers, ObjectDescription: resource.String()})
}

// retry sends a request until it does not fail for a reason that may pass, or ctx ends.
func retry[T any](ctx context.Context, failed func(error), send func() (T, error)) (T, error) {
	backoff := wait.Backoff{Duration: retryBase, Factor: 2, Jitter: 0.5, Steps: math.MaxInt, Cap: retryMax}
	for {
		answer, err := send()
		if err == nil || ctx.Err() != nil {
			return answer, err
		}
		failed(err)
		if !mayPass(err) {
			return answer, err
		}
		timer := time.NewTimer(backoff.Step())
		select {
		case <-ctx.Done():
			timer.Stop()
			return answer, err
		case <-timer.C:
		}
	}
}

// mayPass reports whether the same request may succeed later. A reflector reacts to all other
// errors with another request: to an expired resource version, for example, with a list.
func mayPass(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return true // there is no answer
	}
	switch answer.Status().Code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable:
		return true
	}
	return false
}

// StripManagedFields is a transform that drops metadata.managedFields, which no user reads and
// which is up to a third of an object. It is for informers of decoded objects.
func StripManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil { // otherwise it is a tombstone
		accessor.SetManagedFields(nil)
	}
	return object, nil
}
