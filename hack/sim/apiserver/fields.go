package apiserver

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// fields keeps the managedFields of the objects of a resource, and merges what is applied, by the library of the API
// server: one manager for the objects and one for their status.
type fields struct{ whole, status *managedfields.FieldManager }

// ofKubernetes knows the types of Kubernetes: which lists are sets or maps.
var ofKubernetes = applyconfigurations.NewTypeConverter(scheme.Scheme)

func newFields(r Resource) (f fields, err error) {
	kind := r.GroupVersion().WithKind(r.Kind)
	if f.whole, err = newFieldManager(r, kind, "", "status"); err != nil {
		return f, err
	}
	f.status, err = newFieldManager(r, kind, "status", "metadata", "spec")
	return f, err
}

// newFieldManager returns one of a resource or its status; reset are the fields that it cannot write.
func newFieldManager(
	r Resource, kind schema.GroupVersionKind, subresource string, reset ...string,
) (*managedfields.FieldManager, error) {
	filters := make(map[fieldpath.APIVersion]fieldpath.Filter)
	if r.HasStatus {
		set := fieldpath.NewSet()
		for _, name := range reset {
			set.Insert(fieldpath.MakePathOrDie(name))
		}
		filters[fieldpath.APIVersion(kind.GroupVersion().String())] = fieldpath.NewExcludeSetFilter(set)
	}
	if !r.isCustom() {
		return managedfields.NewDefaultFieldManager(ofKubernetes, objects{}, objects{}, objects{}, kind,
			kind.GroupVersion(), subresource, filters)
	}
	types, err := typesOf(r)
	if err != nil {
		return nil, err
	}
	return managedfields.NewDefaultCRDFieldManager(types, objects{}, r.rules, objects{}, kind, kind.GroupVersion(),
		subresource, filters)
}

// typesOf returns those of a version of a CRD.
func typesOf(r Resource) (managedfields.TypeConverter, error) {
	types, err := builder.BuildOpenAPIV3(r.CRD, r.Version, builder.Options{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.CRD.Name, err)
	}
	return managedfields.NewTypeConverter(types.Components.Schemas, r.CRD.Spec.PreserveUnknownFields)
}

// objects makes unstructured objects, and converts none.
type objects struct{}

func (objects) Default(runtime.Object) {}

func (objects) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	return emptyObject(kind), nil
}

func (objects) Convert(any, any, any) error {
	return errors.New("objects of one version are not converted")
}

func (objects) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (objects) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func emptyObject(kind schema.GroupVersionKind) *unstructured.Unstructured {
	object := new(unstructured.Unstructured)
	object.SetGroupVersionKind(kind)
	return object
}

// of returns the manager that writes an object, or its status.
func (f fields) of(status bool) *managedfields.FieldManager {
	if status {
		return f.status
	}
	return f.whole
}

// written returns an object as a manager has written it, with its managedFields. live is what was there; empty if
// nothing was.
func (f fields) written(
	status bool, live, object *unstructured.Unstructured, manager string,
) *unstructured.Unstructured {
	return f.of(status).UpdateNoErrors(live, object.DeepCopy(), manager).(*unstructured.Unstructured)
}

// applied returns a live object, or an empty one, with what a manager applies to it.
func (f fields) applied(
	status bool, live, given *unstructured.Unstructured, manager string, force bool,
) (*unstructured.Unstructured, error) {
	merged, err := f.of(status).Apply(live.DeepCopy(), given, manager, force)
	switch {
	case err == nil:
		return merged.(*unstructured.Unstructured), nil
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown:
		return nil, plain(err.Error())
	}
	return nil, err
}

// isSame reports whether a write changes nothing but times in managedFields: it is dropped.
func isSame(object, live *unstructured.Unstructured) bool {
	const metadata, managedFields, at = "metadata", "managedFields", "time"
	fields := func(o *unstructured.Unstructured) map[string]any {
		all, _ := o.Object[metadata].(map[string]any)
		return all
	}
	managers := func(o *unstructured.Unstructured) []any {
		all, _ := fields(o)[managedFields].([]any)
		return all
	}
	return sameBut(metadata, object.Object, live.Object) && sameBut(managedFields, fields(object), fields(live)) &&
		slices.EqualFunc(managers(object), managers(live), func(a, b any) bool {
			one, isOne := a.(map[string]any)
			other, isOther := b.(map[string]any)
			return isOne && isOther && sameBut(at, one, other)
		})
}

// sameBut reports whether two structs are the same but for a field.
func sameBut(name string, a, b map[string]any) bool {
	without := func(fields map[string]any) map[string]any {
		fields = maps.Clone(fields)
		delete(fields, name)
		return fields
	}
	return equality.Semantic.DeepEqual(without(a), without(b))
}
