package podrules

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// env follows ValidateEnv and ValidateEnvFrom. Values are not shown, since they may be secret.
func (v *validator) env(c *corev1.Container, path *field.Path) {
	for i := range c.Env {
		path, variable := path.Child("env").Index(i), &c.Env[i]
		v.invalid(path.Child("name"), variable.Name, validation.IsRelaxedEnvVarName(variable.Name)...)
		if variable.ValueFrom != nil {
			v.valueFrom(variable, path.Child("valueFrom"))
		}
	}
	for i, source := range c.EnvFrom {
		path := path.Child("envFrom").Index(i)
		if source.Prefix != "" {
			v.invalid(path.Child("prefix"), source.Prefix, validation.IsRelaxedEnvVarName(source.Prefix)...)
		}
		n := 0
		if ref := source.ConfigMapRef; ref != nil {
			n++
			v.objectName(path.Child("configMapRef", "name"), ref.Name, true)
		}
		if ref := source.SecretRef; ref != nil {
			n++
			v.objectName(path.Child("secretRef", "name"), ref.Name, true)
		}
		switch {
		case n == 0:
			v.invalid(path, field.OmitValueType{}, "must specify one of: `configMapRef` or `secretRef`")
		case n > 1:
			v.invalid(path, field.OmitValueType{}, "may not have more than one field specified at a time")
		}
	}
}

// objectName follows ValidateConfigMapName and ValidateSecretName; with prefix, the name may end
// with a dash.
func (v *validator) objectName(path *field.Path, name string, prefix bool) {
	if v.required(name, path) {
		v.invalid(path, name, apivalidation.NameIsDNSSubdomain(name, prefix)...)
	}
}

// valueFrom follows validateEnvVarValueFrom.
func (v *validator) valueFrom(variable *corev1.EnvVar, path *field.Path) {
	n, from := 0, variable.ValueFrom
	if from.FieldRef != nil {
		n++
		v.fieldRef(from.FieldRef, path.Child("fieldRef"), envFields)
	}
	if from.ResourceFieldRef != nil {
		n++
		v.resourceFieldRef(from.ResourceFieldRef, path.Child("resourceFieldRef"))
	}
	if ref := from.ConfigMapKeyRef; ref != nil {
		n++
		v.keyRef(path.Child("configMapKeyRef"), ref.Name, ref.Key)
	}
	if ref := from.SecretKeyRef; ref != nil {
		n++
		v.keyRef(path.Child("secretKeyRef"), ref.Name, ref.Key)
	}
	if from.FileKeyRef != nil {
		n++
		v.fileKeyRef(from.FileKeyRef, path.Child("fileKeyRef"))
	}
	switch {
	case n == 0:
		v.invalid(path, field.OmitValueType{}, "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`")
	case variable.Value != "":
		v.invalid(path, field.OmitValueType{}, "may not be specified when `value` is not empty")
	case n > 1:
		v.invalid(path, field.OmitValueType{}, "may not have more than one field specified at a time")
	}
}

// keyRef follows validateConfigMapKeySelector and validateSecretKeySelector.
func (v *validator) keyRef(path *field.Path, name, key string) {
	v.invalid(path.Child("name"), name, apivalidation.NameIsDNSSubdomain(name, false)...)
	v.invalid(path.Child("key"), key, validation.IsConfigMapKey(key)...)
}

// fileKeyRef follows validateFileKeySelector and validateFileKeyRefVolumes.
func (v *validator) fileKeyRef(ref *corev1.FileKeySelector, path *field.Path) {
	v.invalid(path.Child("key"), ref.Key, validation.IsRelaxedEnvVarName(ref.Key)...)
	v.invalid(path.Child("volumeName"), ref.VolumeName, validation.IsDNS1123Label(ref.VolumeName)...)
	v.required(ref.Path, path.Child("path"))
	v.noBacksteps(path.Child("path"), ref.Path)
	switch volume := v.volume(ref.VolumeName); {
	case volume == nil && v.whole:
		v.add(field.NotFound(path.Child("volumeName"), ref.VolumeName))
	case volume != nil && volume.EmptyDir == nil && len(sources(volume)) > 0:
		v.invalid(path.Child("volumeName"), ref.VolumeName, "must refer to a volume of type emptyDir")
	}
}

var (
	envFields = []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
	volumeFields = []string{"metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "metadata.uid"}
)

// fieldRef follows validateObjectFieldSelector and ConvertDownwardAPIFieldLabel.
func (v *validator) fieldRef(ref *corev1.ObjectFieldSelector, path *field.Path, fields []string) {
	if ref.APIVersion != "" && ref.APIVersion != "v1" {
		v.invalid(path.Child("apiVersion"), ref.APIVersion, "must be v1")
	}
	path = path.Child("fieldPath")
	if !v.required(ref.FieldPath, path) {
		return
	}
	inner, found := strings.CutSuffix(ref.FieldPath, "']")
	list, key, split := strings.Cut(inner, "['")
	switch {
	case !found || !split || list == "":
		if ref.FieldPath != "spec.host" || !slices.Contains(fields, "spec.nodeName") { // its old name
			oneOf(v, path, ref.FieldPath, fields...)
		}
	case list == "metadata.annotations":
		v.invalid(path, ref.FieldPath, validation.IsQualifiedName(strings.ToLower(key))...)
	case list == "metadata.labels":
		v.invalid(path, ref.FieldPath, validation.IsQualifiedName(key)...)
	default:
		v.invalid(path, ref.FieldPath, "does not support subscript")
	}
}

// resourceFieldRef follows validateContainerResourceFieldSelector and
// validateContainerResourceDivisor.
func (v *validator) resourceFieldRef(ref *corev1.ResourceFieldSelector, path *field.Path) {
	if !v.required(ref.Resource, path.Child("resource")) {
		return
	}
	of, name, _ := strings.Cut(ref.Resource, ".")
	resource := corev1.ResourceName(name)
	if of != "limits" && of != "requests" || !slices.Contains(containerResources, resource) && !isHugePages(resource) {
		v.add(field.NotSupported(path.Child("resource"), ref.Resource, resourceFields))
		return
	}
	divisors := byteDivisors
	if resource == corev1.ResourceCPU {
		divisors = cpuDivisors
	}
	if divisor := ref.Divisor.DeepCopy(); !divisor.IsZero() && !slices.Contains(divisors, divisor.String()) {
		v.add(field.NotSupported(path.Child("divisor"), divisor.String(), divisors))
	}
}

var (
	resourceFields = []string{
		"limits.cpu", "limits.memory", "limits.ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage",
		"limits.hugepages-*", "requests.hugepages-*",
	}
	cpuDivisors  = []string{"1m", "1"}
	byteDivisors = []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
)

// nonNegative rejects negative quantities.
func (v *validator) nonNegative(path *field.Path, quantity resource.Quantity) {
	if quantity.Sign() < 0 {
		v.invalid(path, quantity.String(), "must be greater than or equal to 0")
	}
}
