package engine

import (
	"context"
	"encoding/json"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/fescue-dev/fescue/engine/plan"
)

// A changed template gives a child what its creation would give, defaults included. An apply drops only what an Apply
// entry of metadata.managedFields has, and only what is dropped is defaulted anew. So the Update entry of the engine,
// which has what the creation has set and defaulted, is handed over to apply first. The API server leaves the defaults
// of an apply to nobody, so a new Update entry gets them afterwards, for the next change.

// takeOver hands the Update entry of the engine over to apply, and returns the child as it was before, and is then.
func (a *applier) takeOver(ctx context.Context, s plan.Step) (before, after *unstructured.Unstructured, err error) {
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		before, err = a.client(s).Get(ctx, s.Name, metav1.GetOptions{}) // the cache has no managedFields
		if apierrors.IsNotFound(err) || err == nil && !a.isSameChild(s.Live, before) {
			return errWaiting // for its event
		}
		if err != nil {
			return err
		}
		after = before
		if !slices.ContainsFunc(before.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
			return entry.Manager == a.manager && entry.Operation == metav1.ManagedFieldsOperationUpdate &&
				entry.Subresource == ""
		}) {
			return nil // the patch would write the Apply entry with its fields in another order
		}
		patch, err := csaupgrade.UpgradeManagedFieldsPatch(before, sets.New(a.manager), a.manager)
		if err != nil || patch == nil {
			return err
		}
		after, err = a.client(s).Patch(ctx, s.Name, types.JSONPatchType, patch,
			metav1.PatchOptions{FieldManager: a.manager})
		if err == nil { // the apply that follows may fail
			a.awaitEvent(s, after)
		}
		return err
	})
	return before, after, err
}

// ownDefaults gives the engine an Update entry of the fields that an apply has left without an owner. What had none
// before, such as the work of a mutating policy, stays so.
func (a *applier) ownDefaults(
	ctx context.Context, s plan.Step, before, after *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	had, err := unowned(before)
	if err != nil {
		return nil, err
	}
	has, err := unowned(after)
	if err != nil {
		return nil, err
	}
	defaults := has.Difference(had)
	if defaults.Empty() {
		return after, nil
	}
	fields, err := defaults.ToJSON()
	if err != nil {
		return nil, err
	}
	patch, err := json.Marshal([]any{
		map[string]any{"op": "test", "path": "/metadata/uid", "value": after.GetUID()},
		map[string]any{"op": "add", "path": "/metadata/managedFields/-", "value": metav1.ManagedFieldsEntry{
			Manager: a.manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: after.GetAPIVersion(),
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(fields)),
		}},
	})
	if err != nil {
		return nil, err
	}
	return a.writer(s).Patch(ctx, s.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: a.manager})
}

// unowned returns the fields of an object that no manager has, apart from its metadata and its status.
func unowned(object *unstructured.Unstructured) (*fieldpath.Set, error) {
	owned, found := fieldpath.NewSet(), fieldpath.NewSet()
	for _, entry := range object.GetManagedFields() {
		fields := fieldpath.NewSet()
		if err := fields.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return nil, err
		}
		owned = owned.Union(fields)
	}
	for name, field := range object.Object {
		switch name {
		case "apiVersion", "kind", "metadata", "status":
		default:
			addUnowned(found, nil, fieldpath.FieldNameElement(name), field, owned)
		}
	}
	return found, nil
}

// addUnowned adds to found what is not owned of a field; owned is what is beside it.
func addUnowned(
	found *fieldpath.Set, parent fieldpath.Path, at fieldpath.PathElement, field any, owned *fieldpath.Set,
) {
	path := append(parent.Copy(), at)
	below, isParted := owned.Children.Get(at)
	switch {
	case isParted:
	case owned.Members.Has(at):
		return
	default:
		found.Insert(path)
		below = fieldpath.NewSet()
	}
	switch field := field.(type) {
	case map[string]any:
		for name, field := range field {
			addUnowned(found, path, fieldpath.FieldNameElement(name), field, below)
		}
	case []any:
		for item := range below.Children.All() {
			for _, field := range field {
				if isItem(item, field) {
					addUnowned(found, path, item, field, below)
				}
			}
		}
	}
}

// isItem reports whether an item of a list is the one that a path has by its keys.
func isItem(at fieldpath.PathElement, item any) bool {
	fields, isStruct := item.(map[string]any)
	if !isStruct || at.Key == nil {
		return false
	}
	for _, key := range *at.Key {
		if !value.Equals(value.NewValueInterface(fields[key.Name]), key.Value) {
			return false
		}
	}
	return true
}
