package crds

import (
	"context"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/fescue-dev/fescue/cue/kind"
)

const (
	// fieldManager owns the fields of installed CRDs.
	fieldManager = "fescue-crds"
	// establishTimeout bounds the wait for the API server to serve a CRD, which
	// takes well under a second on an idle one.
	establishTimeout = 30 * time.Second
)

// Apply creates or upgrades the CRD of a kind by server-side apply, and returns the fields that objects lose by that. The API
// server may serve it later, or never: see Accepted. at is what converts objects, if the kind has conversions.
func Apply(ctx context.Context, client dynamic.Interface, k *kind.Kind, at Webhook) ([]Dropped, error) {
	object, err := Object(k, false)
	if err != nil {
		return nil, err
	}
	if err := CallAt(object, k, at); err != nil {
		return nil, err
	}
	installed, err := installedOf(ctx, client, k)
	if err != nil {
		return nil, err
	}
	apply := func() error {
		_, err := definitions(client).Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
		return err
	}
	err = apply()
	if apierrors.IsInvalid(err) && k.Versions.Converts() { // maybe it has a URL and a Service now
		if patch, errPatch := at.Patch(); errPatch == nil {
			if _, errPatch = definitions(client).Patch(ctx, object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}); errPatch == nil {
				err = apply()
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("install CRD %s: %w", object.GetName(), err)
	}
	return droppedBy(installed, k.Definition()), nil
}

// installedOf reads the installed CRD of a kind. If there is none, the result has no versions. The operator may list CRDs, and
// not get them.
func installedOf(ctx context.Context, client dynamic.Interface, k *kind.Kind) (*apiextensionsv1.CustomResourceDefinition, error) {
	installed := &apiextensionsv1.CustomResourceDefinition{}
	list, err := definitions(client).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, k.Name()).String()})
	for i := 0; err == nil && i < len(list.Items); i++ {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, installed)
	}
	if err != nil {
		return nil, fmt.Errorf("read CRD %s: %w", k.Name(), err)
	}
	return installed, nil
}

// Install applies the CRDs of kinds, and returns when the API server serves them all. at is what converts the objects
// of kinds with conversions.
func Install(ctx context.Context, client dynamic.Interface, kinds []*kind.Kind, at Webhook) error {
	for _, k := range kinds {
		if _, err := Apply(ctx, client, k, at); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, establishTimeout)
	defer cancel()
	for _, k := range kinds {
		if err := awaitAccepted(ctx, client, k.Name()); err != nil {
			return err
		}
	}
	return nil
}

func awaitAccepted(ctx context.Context, client dynamic.Interface, name string) error {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	var problem error
	_, err := watchtools.UntilWithSync(ctx, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = selector
			return definitions(client).List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			return definitions(client).Watch(ctx, options)
		},
	}, &unstructured.Unstructured{}, nil, func(event watch.Event) (bool, error) {
		object, ok := event.Object.(*unstructured.Unstructured)
		if ok {
			problem = Accepted(object)
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

// Resource is that of CRDs.
var Resource = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

func definitions(client dynamic.Interface) dynamic.NamespaceableResourceInterface {
	return client.Resource(Resource)
}

// Accepted returns nil if the API server serves a CRD, or else why it does not, in its own words. One that is being deleted is served
// until its last object is gone.
func Accepted(crd *unstructured.Unstructured) error {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	established := false
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		isTrue := condition["status"] == string(apiextensionsv1.ConditionTrue)
		switch condition["type"] {
		case string(apiextensionsv1.NamesAccepted):
			if condition["status"] == string(apiextensionsv1.ConditionFalse) {
				return fmt.Errorf("the API server does not accept the CRD %s: %v: %v", crd.GetName(), condition["reason"], condition["message"])
			}
		case string(apiextensionsv1.Established):
			established = isTrue
		}
	}
	if !established {
		return fmt.Errorf("the API server does not serve the CRD %s yet", crd.GetName())
	}
	return nil
}
