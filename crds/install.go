package crds

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/fescue-dev/fescue/cue/kind"
)

// fieldManager owns the fields of installed CRDs.
const fieldManager = "fescue-crds"

// installedByAnnotation is on a CRD and names the process that installed it last. So each process that installs a CRD
// changes its version, even if nothing else differs, and what a frozen process sends later is a conflict, while there
// is one.
const installedByAnnotation = "fescue.dev/installed-by"

// noVersion is a resourceVersion that no object has: the first write of etcd makes 2. An apply that names it creates an
// object, and is a conflict if there is one.
const noVersion = "1"

// ErrTerminating reports that a CRD is being deleted: it is that of the kind until the last of its objects is gone.
var ErrTerminating = errors.New("it is being deleted")

// Apply creates or upgrades the CRD of a kind by server-side apply, and returns the fields that objects lose by that.
// The API server may serve it later, or never: see Accepted. A CRD that changes meanwhile is a conflict. Apply returns
// ErrTerminating for one that is being deleted, and writes it only if it belongs to another version of the kind. at is
// what converts objects, if the kind has conversions, and by is the identity of this process.
func Apply(ctx context.Context, client dynamic.Interface, k *kind.Kind, at Webhook, by string) ([]Dropped, error) {
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
	var terminating error
	if installed.GetDeletionTimestamp() != nil {
		terminating = fmt.Errorf("install CRD %s: %w", object.GetName(), ErrTerminating)
		if installed.Annotations[HashAnnotation] == k.Hash {
			return nil, terminating
		}
	}
	object.SetAnnotations(labels.Merge(object.GetAnnotations(), map[string]string{installedByAnnotation: by}))
	// A process that was frozen meanwhile replaces no newer one.
	object.SetUID(installed.UID)
	object.SetResourceVersion(cmp.Or(installed.ResourceVersion, noVersion))
	apply := func() error {
		_, err := definitions(client).Apply(ctx, object.GetName(), object,
			metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
		return err
	}
	err = apply()
	if apierrors.IsInvalid(err) && k.Versions.Converts() { // maybe it has a URL and a Service now
		version, errPatch := callOnlyAt(ctx, client, object, at)
		switch {
		case errPatch == nil:
			object.SetResourceVersion(version)
			err = apply()
		case apierrors.IsConflict(errPatch):
			err = errPatch
		}
	}
	if err != nil {
		return nil, fmt.Errorf("install CRD %s: %w", object.GetName(), err)
	}
	return droppedBy(installed, k.Definition()), terminating
}

// callOnlyAt has the version of a CRD that object names call a webhook, instead of what it calls now, and returns its
// new version.
func callOnlyAt(
	ctx context.Context, client dynamic.Interface, object *unstructured.Unstructured, at Webhook,
) (version string, err error) {
	patch, err := at.Patch()
	if err != nil {
		return "", err
	}
	patch["metadata"] = map[string]any{"uid": object.GetUID(), "resourceVersion": object.GetResourceVersion()}
	text, err := json.Marshal(patch)
	if err != nil {
		return "", err
	}
	patched, err := definitions(client).Patch(ctx, object.GetName(), types.MergePatchType, text,
		metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return "", err
	}
	return patched.GetResourceVersion(), nil
}

// installedOf reads the installed CRD of a kind. If there is none, the result has no versions. The operator may list
// CRDs, and not get them.
func installedOf(
	ctx context.Context, client dynamic.Interface, k *kind.Kind,
) (*apiextensionsv1.CustomResourceDefinition, error) {
	installed := &apiextensionsv1.CustomResourceDefinition{}
	list, err := definitions(client).List(ctx,
		metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, k.Name()).String()})
	for i := 0; err == nil && i < len(list.Items); i++ {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, installed)
	}
	if err != nil {
		return nil, fmt.Errorf("read CRD %s: %w", k.Name(), err)
	}
	return installed, nil
}

// Resource is that of CRDs.
var Resource = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

func definitions(client dynamic.Interface) dynamic.NamespaceableResourceInterface {
	return client.Resource(Resource)
}

// Accepted returns nil if the API server serves a CRD, or else why it does not, in its own words. One that is being
// deleted is served until its last object is gone.
func Accepted(crd *unstructured.Unstructured) error {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	established := false
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		isTrue := condition["status"] == string(apiextensionsv1.ConditionTrue)
		switch condition["type"] {
		case string(apiextensionsv1.NamesAccepted):
			if condition["status"] == string(apiextensionsv1.ConditionFalse) {
				return fmt.Errorf("the API server does not accept the CRD %s: %v: %v", crd.GetName(),
					condition["reason"], condition["message"])
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
