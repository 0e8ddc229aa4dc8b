package informers

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
)

// follower sends the lists and watches of one reflector, one at a time.
//
// After etcd was restored from an older copy, a watch that starts from a resource version of before is in the API
// server's future: the API server sends nothing until it has counted that far. Its answers to lists and to watches
// that begin with all objects show it, but a reflector sends neither while it can resume its watch. So the follower
// compares the versions before it resumes a watch that broke.
type follower struct {
	source Source
	failed func(error)
	// ends is when the API server was to end the last watch; it is zero before the first watch and after a list.
	ends time.Time
}

// endSlack is how far from its time a watch may end without being taken for broken.
const endSlack = 5 * time.Second

func (f *follower) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	f.ends = time.Time{}
	return retry(ctx, f.failed, func() (runtime.Object, error) { return f.source.List(ctx, options) })
}

func (f *follower) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	resumes := options.SendInitialEvents == nil && options.ResourceVersion != "" && options.ResourceVersion != "0"
	isBroken := !f.ends.IsZero() && time.Since(f.ends).Abs() > endSlack
	w, err := retry(ctx, f.failed, func() (watch.Interface, error) {
		if resumes && isBroken {
			if err := f.notRestored(ctx, options.ResourceVersion); err != nil {
				return nil, err
			}
		}
		isBroken = true // unless this succeeds
		return f.source.Watch(ctx, options)
	})
	if options.TimeoutSeconds != nil {
		f.ends = time.Now().Add(time.Duration(*options.TimeoutSeconds) * time.Second)
	}
	return w, err
}

// notRestored returns an error, after which a reflector reads all objects again, if the API server does not know a
// resource version yet.
func (f *follower) notRestored(ctx context.Context, seen string) error {
	found, err := f.source.List(ctx, metav1.ListOptions{Limit: versionOnly})
	if err != nil {
		return err
	}
	list, err := meta.ListAccessor(found)
	if err != nil {
		return err
	}
	if older := olderThan(list.GetResourceVersion(), seen); older != nil {
		return older
	}
	return nil
}

// versionOnly is the limit of a list that is sent for its resource version, and not for its objects.
const versionOnly = 1

// olderThan returns an error that makes a reflector read all objects again if a resource version is older than one
// that was seen before. Versions that cannot be compared are not.
func olderThan(version, seen string) *apierrors.StatusError {
	if order, err := resourceversion.CompareResourceVersion(version, seen); err != nil || order >= 0 {
		return nil
	}
	return apierrors.NewResourceExpired(
		fmt.Sprintf("the API server is at resource version %s, and %s was seen before, "+
			"so etcd was restored from an older copy: reading all objects again", version, seen))
}
