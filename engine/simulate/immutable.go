package simulate

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/engine/children"
)

// immutable are the fields that no update may change, by type, as the API server's validation has them
// (validation.go in k8s.io/kubernetes/pkg/apis and its folders).
var immutable = map[schema.GroupKind][]string{
	{Kind: "Pod"}:                   {"spec"},
	{Kind: "PersistentVolumeClaim"}: {"spec"},
	{Kind: "Service"}:               {"spec.clusterIP"},
	{Kind: "Secret"}:                {"type"},
	{Kind: "ResourceQuota"}:         {"spec.scopes"},
	{Group: "apps", Kind: "StatefulSet"}: {"spec.serviceName", "spec.podManagementPolicy", "spec.selector",
		"spec.volumeClaimTemplates"},
	{Group: "apps", Kind: "Deployment"}: {"spec.selector"},
	{Group: "apps", Kind: "ReplicaSet"}: {"spec.selector"},
	{Group: "apps", Kind: "DaemonSet"}:  {"spec.selector"},
	{Group: "batch", Kind: "Job"}: {"spec.selector", "spec.completionMode", "spec.podFailurePolicy",
		"spec.successPolicy", "spec.backoffLimitPerIndex", "spec.managedBy"},
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:        {"roleRef"},
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}: {"roleRef"},
	{Group: "storage.k8s.io", Kind: "StorageClass"}: {"provisioner", "parameters", "reclaimPolicy",
		"volumeBindingMode"},
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}: {"value", "preemptionPolicy"},
	{Group: "networking.k8s.io", Kind: "IngressClass"}:  {"spec.controller"},
	{Group: "node.k8s.io", Kind: "RuntimeClass"}:        {"handler"},
	{Group: "discovery.k8s.io", Kind: "EndpointSlice"}:  {"addressType"},
}

// changeable are fields within those that an update may change, if only in some ways. Paths have no indices.
var changeable = map[schema.GroupKind]sets.Set[string]{
	{Kind: "Pod"}: sets.New("spec.containers.image", "spec.initContainers.image", "spec.ephemeralContainers",
		"spec.activeDeadlineSeconds", "spec.tolerations", "spec.schedulingGates"),
	{Kind: "PersistentVolumeClaim"}: sets.New("spec.resources.requests", "spec.volumeAttributesClassName",
		"spec.volumeName"),
}

// defaulted are fields that the API server sets where they are missing. The cluster does not, so a value that only one
// of two states has may be the default.
var defaulted = sets.New("apiGroup", "apiVersion", "clusterIP", "completionMode", "defaultMode", "divisor",
	"dnsPolicy", "effect", "enableServiceLinks", "expirationSeconds", "failureThreshold", "fsType", "imagePullPolicy",
	"limits", "nodeName", "path", "periodSeconds", "podManagementPolicy", "preemptionPolicy", "priority", "procMount",
	"protocol", "reclaimPolicy", "requests", "resources", "restartPolicy", "schedulerName", "scheme",
	"securityContext", "serviceAccount", "serviceAccountName", "storageClassName", "successThreshold",
	"terminationGracePeriodSeconds", "terminationMessagePath", "terminationMessagePolicy", "timeoutSeconds", "type",
	"volumeBindingMode", "volumeMode")

// immutableErrors returns an error for each field of an object that an update changes, and that the API server lets
// nobody change.
func immutableErrors(live, changed *unstructured.Unstructured) (errs field.ErrorList) {
	of := live.GroupVersionKind().GroupKind()
	for _, path := range immutableOf(live) {
		names := strings.Split(path, ".")
		was, _, _ := unstructured.NestedFieldNoCopy(live.Object, names...)
		is, _, _ := unstructured.NestedFieldNoCopy(changed.Object, names...)
		errs = append(errs, changedBelow(field.NewPath(names[0], names[1:]...), path, was, is, changeable[of])...)
	}
	if of.Kind == "PersistentVolumeClaim" {
		errs = append(errs, shrunk(live, changed)...)
	}
	return errs
}

// immutableOf returns the fields that no update may change, given the present state of an object.
func immutableOf(live *unstructured.Unstructured) []string {
	of := live.GroupVersionKind().GroupKind()
	fields := slices.Clone(immutable[of])
	isSealed, _, _ := unstructured.NestedBool(live.Object, "immutable")
	if isSealed && (of.Kind == "Secret" || of.Kind == "ConfigMap") {
		fields = append(fields, "immutable", "data", "binaryData")
	}
	if of == (schema.GroupKind{Group: "batch", Kind: "Job"}) {
		mode, _, _ := unstructured.NestedString(live.Object, "spec", "completionMode")
		if mode != "Indexed" { // such a Job may grow and shrink
			fields = append(fields, "spec.completions")
		}
		if isSuspended, _, _ := unstructured.NestedBool(live.Object, "spec", "suspend"); !isSuspended {
			fields = append(fields, "spec.template") // a queue may change where its Pods run
		}
	}
	return fields
}

// shrunk returns an error if a claim asks for less than before.
func shrunk(live, changed *unstructured.Unstructured) field.ErrorList {
	asks := func(claim *unstructured.Unstructured) (resource.Quantity, error) {
		text, _, _ := unstructured.NestedString(claim.Object, "spec", "resources", "requests", "storage")
		return resource.ParseQuantity(text)
	}
	was, wasErr := asks(live)
	is, isErr := asks(changed)
	if wasErr != nil || isErr != nil || is.Cmp(was) >= 0 {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "resources", "requests", "storage"),
		"field can not be less than status.capacity")}
}

// changedBelow returns an error for each place below a path where two values differ. name is the path without indices,
// and except has the names of fields that may differ.
func changedBelow(path *field.Path, name string, was, is any, except sets.Set[string]) (errs field.ErrorList) {
	if except.Has(name) {
		return nil
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	if isZero(was) || isZero(is) {
		if isZero(was) && isZero(is) || defaulted.Has(last) {
			return nil
		}
		return field.ErrorList{field.Invalid(path, shown(is), validation.FieldImmutableErrorMsg)}
	}
	switch was := was.(type) {
	case map[string]any:
		if is, ok := is.(map[string]any); ok {
			names := sets.KeySet(was).Union(sets.KeySet(is))
			for _, key := range slices.Sorted(maps.Keys(names)) {
				at := path.Child(key)
				if strings.ContainsAny(key, "./") {
					at = path.Key(key)
				}
				errs = append(errs, changedBelow(at, name+"."+key, was[key], is[key], except)...)
			}
			return errs
		}
	case []any:
		if is, ok := is.([]any); ok && len(is) == len(was) {
			for i := range was {
				errs = append(errs, changedBelow(path.Index(i), name, was[i], is[i], except)...)
			}
			return errs
		}
	default:
		if was == is || children.IsSameQuantity(was, is) {
			return nil
		}
	}
	return field.ErrorList{field.Invalid(path, shown(is), validation.FieldImmutableErrorMsg)}
}

// isZero reports whether a value is that of a field which the API server leaves out.
func isZero(value any) bool {
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.Map, reflect.Slice:
		return v.Len() == 0
	}
	return !v.IsValid() || v.IsZero()
}

// shown returns a value for a message, unless it is long.
func shown(value any) any {
	switch value.(type) {
	case map[string]any, []any, nil:
		return field.OmitValueType{}
	}
	return value
}
