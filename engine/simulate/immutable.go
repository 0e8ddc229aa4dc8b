package simulate

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
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
		w := immutableWalk{changeable[of]}
		errs = append(errs, w.changed(field.NewPath(names[0], names[1:]...), path, was, is)...)
	}
	if of.Kind == "PersistentVolumeClaim" {
		errs = append(errs, shrunk(live, changed)...)
	}
	return errs
}

// immutableOf returns the fields of an object that no update may change, as it is now.
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

// immutableWalk compares two states of a field.
type immutableWalk struct{ changeable sets.Set[string] }

// changed returns an error for each place below a path where two values differ. name is the path without indices.
func (w immutableWalk) changed(path *field.Path, name string, was, is any) (errs field.ErrorList) {
	if w.changeable.Has(name) {
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
				errs = append(errs, w.changed(at, name+"."+key, was[key], is[key])...)
			}
			return errs
		}
	case []any:
		if is, ok := is.([]any); ok && len(is) == len(was) {
			for i := range was {
				errs = append(errs, w.changed(path.Index(i), name, was[i], is[i])...)
			}
			return errs
		}
	default:
		if was == is || isSameQuantity(was, is) {
			return nil
		}
	}
	return field.ErrorList{field.Invalid(path, shown(is), validation.FieldImmutableErrorMsg)}
}

// isZero reports whether a value is that of a field which the API server leaves out.
func isZero(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	case nil, string, bool, int64, float64:
		return v == nil || v == "" || v == false || v == int64(0) || v == float64(0)
	}
	return false
}

// isSameQuantity reports whether two texts write the same quantity, such as 1Gi and 1024Mi.
func isSameQuantity(a, b any) bool {
	texts := [2]string{}
	for i, value := range []any{a, b} {
		text, ok := value.(string)
		if !ok {
			return false
		}
		texts[i] = text
	}
	first, err := resource.ParseQuantity(texts[0])
	if err != nil {
		return false
	}
	second, err := resource.ParseQuantity(texts[1])
	return err == nil && first.Cmp(second) == 0
}

// shown returns a value for a message, unless it is long.
func shown(value any) any {
	switch value.(type) {
	case map[string]any, []any, nil:
		return field.OmitValueType{}
	}
	return value
}
