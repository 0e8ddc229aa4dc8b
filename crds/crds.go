// Package crds makes the CustomResourceDefinitions of kinds and puts them on a
// cluster. The files beside it are those of the kinds that Fescue ships. It knows
// the API machinery's types and nothing of CUE or of how kinds behave.
package crds

import (
	"bytes"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/fescue-dev/fescue/cue/kind"
)

// Definition makes the CRD of a kind.
func Definition(k *kind.Kind) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: k.Names.Plural + "." + k.GroupVersionKind.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: k.GroupVersionKind.Group,
			Names: k.Names,
			Scope: k.Scope,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name:                     k.GroupVersionKind.Version,
				Served:                   true,
				Storage:                  true,
				Schema:                   &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: k.Schema},
				Subresources:             &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				AdditionalPrinterColumns: k.Columns,
			}},
		},
	}
}

// YAML prints the CRDs of kinds as one stream of documents.
func YAML(kinds ...*kind.Kind) ([]byte, error) {
	var out bytes.Buffer
	for i, k := range kinds {
		object, err := unstructuredDefinition(k)
		if err != nil {
			return nil, err
		}
		b, err := yaml.Marshal(object.Object)
		if err != nil {
			return nil, fmt.Errorf("CRD of %s: %w", k.GroupVersionKind, err)
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(b)
	}
	return out.Bytes(), nil
}

// unstructuredDefinition is the CRD as its author writes it: without the status that
// the Go type always has.
func unstructuredDefinition(k *kind.Kind) (*unstructured.Unstructured, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(Definition(k))
	if err != nil {
		return nil, fmt.Errorf("CRD of %s: %w", k.GroupVersionKind, err)
	}
	delete(object, "status")
	return &unstructured.Unstructured{Object: object}, nil
}
