package podrules

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// env follows ValidateEnv and ValidateEnvFrom. Values are not shown, since they may be secret.
func (c *container) env() {
	for i := range c.Env {
		path, variable := c.path.Child("env").Index(i), &c.Env[i]
		c.invalid(path.Child("name"), variable.Name, validation.IsRelaxedEnvVarName(variable.Name)...)
		if variable.ValueFrom != nil {
			c.valueFrom(variable, path.Child("valueFrom"))
		}
	}
	for i, source := range c.EnvFrom {
		path := c.path.Child("envFrom").Index(i)
		if source.Prefix != "" {
			c.invalid(path.Child("prefix"), source.Prefix, validation.IsRelaxedEnvVarName(source.Prefix)...)
		}
		n := 0
		if ref := source.ConfigMapRef; ref != nil {
			n++
			c.objectName(path.Child("configMapRef", "name"), ref.Name, true)
		}
		if ref := source.SecretRef; ref != nil {
			n++
			c.objectName(path.Child("secretRef", "name"), ref.Name, true)
		}
		switch {
		case n == 0:
			c.invalid(path, field.OmitValueType{}, "must specify one of: `configMapRef` or `secretRef`")
		case n > 1:
			c.invalid(path, field.OmitValueType{}, "may not have more than one field specified at a time")
		}
	}
}

// valueFrom follows validateEnvVarValueFrom.
func (c *container) valueFrom(variable *corev1.EnvVar, path *field.Path) {
	n, from := 0, variable.ValueFrom
	if from.FieldRef != nil {
		n++
		c.fieldRef(from.FieldRef, path.Child("fieldRef"), envFields)
	}
	if from.ResourceFieldRef != nil {
		n++
		c.resourceFieldRef(from.ResourceFieldRef, path.Child("resourceFieldRef"))
	}
	if ref := from.ConfigMapKeyRef; ref != nil {
		n++
		c.keyRef(path.Child("configMapKeyRef"), ref.Name, ref.Key)
	}
	if ref := from.SecretKeyRef; ref != nil {
		n++
		c.keyRef(path.Child("secretKeyRef"), ref.Name, ref.Key)
	}
	if from.FileKeyRef != nil {
		n++
		c.fileKeyRef(from.FileKeyRef, path.Child("fileKeyRef"))
	}
	switch {
	case n == 0:
		c.invalid(path, field.OmitValueType{},
			"must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`")
	case variable.Value != "":
		c.invalid(path, field.OmitValueType{}, "may not be specified when `value` is not empty")
	case n > 1:
		c.invalid(path, field.OmitValueType{}, "may not have more than one field specified at a time")
	}
}

// keyRef follows validateConfigMapKeySelector and validateSecretKeySelector.
func (c *container) keyRef(path *field.Path, name, key string) {
	c.invalid(path.Child("name"), name, apivalidation.NameIsDNSSubdomain(name, false)...)
	c.invalid(path.Child("key"), key, validation.IsConfigMapKey(key)...)
}

// fileKeyRef follows validateFileKeySelector and validateFileKeyRefVolumes.
func (c *container) fileKeyRef(ref *corev1.FileKeySelector, path *field.Path) {
	c.invalid(path.Child("key"), ref.Key, validation.IsRelaxedEnvVarName(ref.Key)...)
	c.invalid(path.Child("volumeName"), ref.VolumeName, validation.IsDNS1123Label(ref.VolumeName)...)
	c.required(ref.Path, path.Child("path"))
	c.noBacksteps(path.Child("path"), ref.Path)
	switch volume := c.pod.volume(ref.VolumeName); {
	case volume == nil && c.pod.whole:
		c.add(field.NotFound(path.Child("volumeName"), ref.VolumeName))
	case volume != nil && volume.EmptyDir == nil && len(sources(volume)) > 0:
		c.invalid(path.Child("volumeName"), ref.VolumeName, "must refer to a volume of type emptyDir")
	}
}

var (
	envFields = []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
	volumeFields = []string{"metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations",
		"metadata.uid"}
)

// fieldRef follows validateObjectFieldSelector and ConvertDownwardAPIFieldLabel.
func (c *collector) fieldRef(ref *corev1.ObjectFieldSelector, path *field.Path, fields []string) {
	if ref.APIVersion != "" && ref.APIVersion != "v1" {
		c.invalid(path.Child("apiVersion"), ref.APIVersion, "must be v1")
	}
	path = path.Child("fieldPath")
	if !c.required(ref.FieldPath, path) {
		return
	}
	inner, found := strings.CutSuffix(ref.FieldPath, "']")
	list, key, split := strings.Cut(inner, "['")
	switch {
	case !found || !split || list == "":
		if ref.FieldPath != "spec.host" || !slices.Contains(fields, "spec.nodeName") { // its old name
			oneOf(c, path, ref.FieldPath, fields...)
		}
	case list == "metadata.annotations":
		c.invalid(path, ref.FieldPath, validation.IsQualifiedName(strings.ToLower(key))...)
	case list == "metadata.labels":
		c.invalid(path, ref.FieldPath, validation.IsQualifiedName(key)...)
	default:
		c.invalid(path, ref.FieldPath, "does not support subscript")
	}
}

// resourceFieldRef follows validateContainerResourceFieldSelector and
// validateContainerResourceDivisor.
func (c *collector) resourceFieldRef(ref *corev1.ResourceFieldSelector, path *field.Path) {
	if !c.required(ref.Resource, path.Child("resource")) {
		return
	}
	of, name, _ := strings.Cut(ref.Resource, ".")
	resource := corev1.ResourceName(name)
	if of != "limits" && of != "requests" || !slices.Contains(containerResources, resource) && !isHugePages(resource) {
		c.add(field.NotSupported(path.Child("resource"), ref.Resource, resourceFields))
		return
	}
	divisors := byteDivisors
	if resource == corev1.ResourceCPU {
		divisors = cpuDivisors
	}
	if divisor := ref.Divisor.DeepCopy(); !divisor.IsZero() && !slices.Contains(divisors, divisor.String()) {
		c.add(field.NotSupported(path.Child("divisor"), divisor.String(), divisors))
	}
}

var (
	resourceFields = []string{
		"limits.cpu", "limits.memory", "limits.ephemeral-storage", "requests.cpu", "requests.memory",
		"requests.ephemeral-storage",
		"limits.hugepages-*", "requests.hugepages-*",
	}
	cpuDivisors  = []string{"1m", "1"}
	byteDivisors = []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
)
