package crds

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Dropped are fields that objects may have by the CRD that was installed before, and not by the one that replaced it.
// The API server answers without them, and the next write of an object removes them.
type Dropped struct {
	// Version is that of the API. A version that only one of the two CRDs has is not compared.
	Version string
	// Fields are paths like spec.containers[*].image, sorted; spec.labels.* are those that no schema lists.
	Fields []string
}

// maxDropped is how many fields a text names.
const maxDropped = 5

func (d Dropped) String() string {
	names, more := d.Fields, ""
	if len(names) > maxDropped {
		names, more = names[:maxDropped], fmt.Sprintf(" and %d more", len(names)-maxDropped)
	}
	return fmt.Sprintf(
		"version %s of the installed CRD has %s%s, and the new one has not: objects lose these fields when they are next written",
		d.Version, strings.Join(names, ", "), more)
}

// droppedBy compares two CRDs.
func droppedBy(installed, wanted *apiextensionsv1.CustomResourceDefinition) (all []Dropped) {
	for _, before := range installed.Spec.Versions {
		i := slices.IndexFunc(wanted.Spec.Versions,
			func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == before.Name })
		if i < 0 || before.Schema == nil || wanted.Spec.Versions[i].Schema == nil {
			continue
		}
		after := wanted.Spec.Versions[i].Schema.OpenAPIV3Schema
		if fields := droppedFields(before.Schema.OpenAPIV3Schema, after, ""); len(fields) > 0 {
			all = append(all, Dropped{before.Name, fields})
		}
	}
	return all
}

// givenFields are those at the top of an object that users do not write, or that every schema has.
var givenFields = sets.New("apiVersion", "kind", "metadata", "status")

// droppedFields returns the paths of what one schema keeps and another does not. An object whose value has another type
// is invalid, and loses nothing.
func droppedFields(before, after *apiextensionsv1.JSONSchemaProps, path string) (paths []string) {
	if before == nil || after == nil || before.Type != after.Type && before.Type != "" {
		return nil
	}
	if before.Items != nil && after.Items != nil {
		return droppedFields(before.Items.Schema, after.Items.Schema, path+"[*]")
	}
	at := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	for _, name := range slices.Sorted(maps.Keys(before.Properties)) {
		if path == "" && givenFields.Has(name) {
			continue
		}
		field := before.Properties[name]
		if same, exists := after.Properties[name]; exists {
			paths = append(paths, droppedFields(&field, &same, at(name))...)
		} else if after.AdditionalProperties != nil {
			paths = append(paths, droppedFields(&field, after.AdditionalProperties.Schema, at(name))...)
		} else if !keepsUnknown(after) {
			paths = append(paths, at(name))
		}
	}
	switch {
	case before.AdditionalProperties == nil && !keepsUnknown(before), keepsUnknown(after):
	case after.AdditionalProperties != nil && before.AdditionalProperties != nil:
		paths = append(paths, droppedFields(before.AdditionalProperties.Schema, after.AdditionalProperties.Schema,
			at("*"))...)
	case after.AdditionalProperties == nil && after.Type == "object":
		paths = append(paths, at("*"))
	}
	return paths
}

func keepsUnknown(s *apiextensionsv1.JSONSchemaProps) bool {
	return s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields
}
