package crds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"

	"github.com/fescue-dev/fescue/cue/kind"
)

// maxFailures is how many objects that cannot be written a migration reports before it ends.
const maxFailures = 10

// Migration has all objects of a kind stored in the version that the kind stores. It can be interrupted
// and started again at any time: objects that are stored in that version already are not written.
type Migration struct {
	Client dynamic.Interface
	// DryRun counts the objects, and writes nothing.
	DryRun bool
	// Progress is called after each page of objects, with how many were looked at and how many there
	// are, as far as the API server counts them.
	Progress func(done, total int)
}

// Migrated is what a migration did.
type Migrated struct {
	// Version is the one that is stored, and Former are the others that objects may have been stored
	// in. If there are none, nothing was to do.
	Version string
	Former  []string
	// Objects is how many there are, and Rewritten how many of them were stored anew.
	Objects, Rewritten int
}

// ErrNotInstalled is the error for a kind that the cluster does not have.
var ErrNotInstalled = errors.New("its CRD is not installed")

// Run rewrites all objects, and then removes the former versions from the CRD's status.storedVersions,
// so that they can be removed from the kind.
func (m Migration) Run(ctx context.Context, k *kind.Kind) (Migrated, error) {
	result := Migrated{Version: k.GroupVersionKind.Version}
	crd, err := definitions(m.Client).Get(ctx, k.Name(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return result, fmt.Errorf("%s: %w", k.Name(), ErrNotInstalled)
	}
	if err != nil {
		return result, fmt.Errorf("read CRD %s: %w", k.Name(), err)
	}
	if result.Former, err = formerVersions(crd, k); err != nil || len(result.Former) == 0 {
		return result, err
	}
	if err := m.rewriteAll(ctx, k, &result); err != nil || m.DryRun {
		return result, err
	}
	return result, m.forget(ctx, k, result.Former)
}

// formerVersions returns the versions that objects may be stored in beside that of the kind.
func formerVersions(crd *unstructured.Unstructured, k *kind.Kind) ([]string, error) {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if version["storage"] == true && version["name"] != k.GroupVersionKind.Version {
			return nil, fmt.Errorf("CRD %s stores version %v, and the kind %s: apply the CRD of the kind first",
				k.Name(), version["name"], k.GroupVersionKind.Version)
		}
	}
	stored, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
	return slices.DeleteFunc(stored, func(version string) bool { return version == k.GroupVersionKind.Version }), nil
}

// rewriteAll updates each object without a change, which has the API server store it in the present
// version.
func (m Migration) rewriteAll(ctx context.Context, k *kind.Kind, result *Migrated) error {
	client := m.Client.Resource(k.GroupVersionResource())
	var total atomic.Int64 // the next page is read meanwhile
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		list, err := ListPage(ctx, client, options)
		if err != nil {
			return nil, err
		}
		if remaining := list.GetRemainingItemCount(); remaining != nil {
			total.CompareAndSwap(0, *remaining+int64(len(list.Items)))
		}
		return list, nil
	})
	var failures []error
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
		object, ok := item.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("list of %s has a %T", k.Name(), item)
		}
		result.Objects++
		if err := m.rewrite(ctx, client.Namespace(object.GetNamespace()), object, result); err != nil {
			if failures = append(failures, err); len(failures) == maxFailures {
				return errors.New("and maybe more")
			}
		}
		if result.Objects%int(pages.PageSize) == 0 {
			m.Progress(result.Objects, max(int(total.Load()), result.Objects))
		}
		return nil
	})
	if err != nil && len(failures) == 0 {
		return fmt.Errorf("list %s: %w", k.Name(), err)
	}
	return errors.Join(append(failures, err)...)
}

// ListPage lists a page of objects. If the pages before took longer than the API server keeps the version of
// the list, 5 minutes by default, it returns the next page of a newer version. So the pages together may lack
// objects that were created meanwhile, which a migration does not need.
func ListPage(
	ctx context.Context, client dynamic.ResourceInterface, options metav1.ListOptions,
) (*unstructured.UnstructuredList, error) {
	list, err := client.List(ctx, options)
	if next := continueAfter(err); next != "" {
		options.Continue = next
		return client.List(ctx, options)
	}
	return list, err
}

// continueAfter returns the token with which an expired list continues; it is empty for any other error.
func continueAfter(err error) string {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || !apierrors.IsResourceExpired(err) {
		return ""
	}
	return status.ErrStatus.Continue
}

// rewrite updates one object. If someone else has written it since it was read, it is stored in the
// present version as well.
func (m Migration) rewrite(
	ctx context.Context, client dynamic.ResourceInterface, object *unstructured.Unstructured, result *Migrated,
) error {
	if m.DryRun {
		return nil
	}
	written, err := client.Update(ctx, object, metav1.UpdateOptions{FieldManager: fieldManager})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("rewrite %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
	}
	if written.GetResourceVersion() != object.GetResourceVersion() {
		result.Rewritten++
	}
	return nil
}

// forget removes versions from those that objects may be stored in, unless the CRD has changed so that
// this may not be so.
func (m Migration) forget(ctx context.Context, k *kind.Kind, former []string) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		crd, err := definitions(m.Client).Get(ctx, k.Name(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		now, err := formerVersions(crd, k)
		if err != nil {
			return err
		}
		other := slices.DeleteFunc(now, func(version string) bool { return slices.Contains(former, version) })
		if len(other) > 0 {
			return fmt.Errorf("meanwhile, objects may have been stored as %s: run the migration again",
				strings.Join(other, ", "))
		}
		stored := []string{k.GroupVersionKind.Version}
		if err := unstructured.SetNestedStringSlice(crd.Object, stored, "status", "storedVersions"); err != nil {
			return err
		}
		_, err = definitions(m.Client).UpdateStatus(ctx, crd, metav1.UpdateOptions{FieldManager: fieldManager})
		return err
	})
	if err != nil {
		return fmt.Errorf("CRD %s: %w", k.Name(), err)
	}
	return nil
}
