package podrules

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// claim checks the volumes that are claims of persistent ones.
func (v *volume) claim() {
	if s := v.PersistentVolumeClaim; s != nil {
		v.required(s.ClaimName, v.path.Child("persistentVolumeClaim", "claimName"))
	}
	s := v.Ephemeral
	if s == nil {
		return
	}
	if v.pod.Name != "" {
		name := v.pod.Name + "-" + v.Name
		v.invalid(v.path.Child("name"), v.Name, validation.IsDNS1123Subdomain(name)...)
	}
	path := v.path.Child("ephemeral", "volumeClaimTemplate")
	if s.VolumeClaimTemplate == nil {
		v.add(field.Required(path, ""))
		return
	}
	metadata := s.VolumeClaimTemplate.ObjectMeta
	v.add(apivalidation.ValidateAnnotations(metadata.Annotations, path.Child("metadata", "annotations"))...)
	v.add(metav1validation.ValidateLabels(metadata.Labels, path.Child("metadata", "labels"))...)
	metadata.Annotations, metadata.Labels = nil, nil
	if !reflect.DeepEqual(metadata, metav1.ObjectMeta{}) {
		v.add(field.Forbidden(path.Child("metadata"), "only labels and annotations can be set"))
	}
	v.claimSpec(&s.VolumeClaimTemplate.Spec, path.Child("spec"))
}

// claimSpec follows ValidatePersistentVolumeClaimSpec.
func (v *volume) claimSpec(spec *corev1.PersistentVolumeClaimSpec, path *field.Path) {
	if len(spec.AccessModes) == 0 {
		v.add(field.Required(path.Child("accessModes"), "at least 1 access mode is required"))
	}
	for i, mode := range spec.AccessModes {
		oneOf(v.collector, path.Child("accessModes").Index(i), mode, corev1.ReadWriteOnce, corev1.ReadOnlyMany,
			corev1.ReadWriteMany, corev1.ReadWriteOncePod)
	}
	if slices.Contains(spec.AccessModes, corev1.ReadWriteOncePod) &&
		slices.ContainsFunc(spec.AccessModes,
			func(m corev1.PersistentVolumeAccessMode) bool { return m != corev1.ReadWriteOncePod }) {
		v.add(field.Forbidden(path.Child("accessModes"), "may not use ReadWriteOncePod with other access modes"))
	}
	if spec.Selector != nil {
		v.add(metav1validation.ValidateLabelSelector(spec.Selector, metav1validation.LabelSelectorValidationOptions{},
			path.Child("selector"))...)
	}
	storage := path.Child("resources", "requests").Key(string(corev1.ResourceStorage))
	if quantity, found := spec.Resources.Requests[corev1.ResourceStorage]; !found {
		v.add(field.Required(storage, ""))
	} else if quantity.Sign() <= 0 {
		v.invalid(storage, quantity.String(), "must be greater than zero")
	}
	v.className(path.Child("storageClassName"), spec.StorageClassName)
	v.className(path.Child("volumeAttributesClassName"), spec.VolumeAttributesClassName)
	if spec.VolumeMode != nil {
		oneOf(v.collector, path.Child("volumeMode"), *spec.VolumeMode, corev1.PersistentVolumeBlock,
			corev1.PersistentVolumeFilesystem)
	}
	v.dataSources(spec, path)
}

// className follows ValidateClassName.
func (v *volume) className(path *field.Path, name *string) {
	if name != nil && *name != "" {
		v.invalid(path, *name, apivalidation.NameIsDNSSubdomain(*name, false)...)
	}
}

// dataSources follows validateDataSource and validateDataSourceRef.
func (v *volume) dataSources(spec *corev1.PersistentVolumeClaimSpec, path *field.Path) {
	source, ref := spec.DataSource, spec.DataSourceRef
	if source != nil {
		v.dataSource(source.APIGroup, source.Kind, source.Name, path.Child("dataSource"))
	}
	if ref == nil {
		return
	}
	v.dataSource(ref.APIGroup, ref.Kind, ref.Name, path.Child("dataSourceRef"))
	namespaced := ref.Namespace != nil && *ref.Namespace != ""
	if namespaced {
		v.invalid(path.Child("dataSourceRef", "namespace"), *ref.Namespace,
			validation.IsDNS1123Label(*ref.Namespace)...)
	}
	switch {
	case source == nil:
	case namespaced:
		v.invalid(path.Child("dataSource"), field.OmitValueType{},
			"may not be specified when dataSourceRef.namespace is specified")
	case !reflect.DeepEqual(source.APIGroup, ref.APIGroup) || source.Kind != ref.Kind || source.Name != ref.Name:
		v.invalid(path.Child("dataSource"), field.OmitValueType{}, "must match dataSourceRef")
	}
}

func (v *volume) dataSource(group *string, kind, name string, path *field.Path) {
	v.required(name, path.Child("name"))
	v.required(kind, path.Child("kind"))
	switch {
	case group != nil && *group != "":
		v.invalid(path.Child("apiGroup"), *group, validation.IsDNS1123Subdomain(*group)...)
	case kind != "PersistentVolumeClaim" && kind != "":
		v.invalid(path.Child("kind"), kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
	}
}
