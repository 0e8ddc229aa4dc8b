// Package crds creates the CustomResourceDefinitions of kinds and installs them on a cluster.
// The files in its folder are the CRDs of the shipped kinds. It knows the API machinery's
// types. It does not know CUE or what kinds do.
package crds

import (
	"bytes"
	"encoding/hex"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/fescue-dev/fescue/cue/kind"
)

// HashAnnotation is on a CRD and has the hash of the kind that it was created from. Processes whose
// kind has another hash do not run it, so that two versions of a kind do not undo each other's work.
const HashAnnotation = "fescue.dev/kind-hash"

// OtherVersion returns the hash that a CRD has instead of that of a kind; it is empty if the kind may
// run with it. What is not a hash was written by hand, and is of no other version.
func OtherVersion(k *kind.Kind, crd *unstructured.Unstructured) string {
	installed := crd.GetAnnotations()[HashAnnotation]
	if _, err := hex.DecodeString(installed); err != nil || len(installed) != len(k.Hash) || installed == k.Hash {
		return ""
	}
	return installed
}

// YAML prints the CRDs of kinds as one stream of documents; bare ones have no
// descriptions. at is what converts the objects of kinds with conversions.
func YAML(bare bool, at Webhook, kinds ...*kind.Kind) ([]byte, error) {
	var out bytes.Buffer
	for i, k := range kinds {
		object, err := Object(k, bare)
		if err != nil {
			return nil, err
		}
		if err := CallAt(object, k, at); err != nil {
			return nil, err
		}
		b, err := yaml.Marshal(object.Object)
		if err != nil {
			return nil, fmt.Errorf("CRD of %s: %w", kind.TypeName(k.GroupVersionKind), err)
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(b)
	}
	return out.Bytes(), nil
}

// Size returns the size in bytes of a kind's CRD as JSON, the form in which the API server
// stores it.
func Size(k *kind.Kind, bare bool) (int, error) {
	object, err := Object(k, bare)
	if err != nil {
		return 0, err
	}
	b, err := object.MarshalJSON()
	return len(b), err
}

// Object returns the CRD of a kind as its author writes it: without the status that
// the Go type always has. If the kind has conversions, the API server calls them as those of a default
// installation: CallAt changes that.
func Object(k *kind.Kind, bare bool) (*unstructured.Unstructured, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(k.Definition())
	if err != nil {
		return nil, fmt.Errorf("CRD of %s: %w", kind.TypeName(k.GroupVersionKind), err)
	}
	delete(object, "status")
	crd := &unstructured.Unstructured{Object: object}
	annotations := crd.GetAnnotations()
	if annotations == nil {
		annotations = make(map[string]string)
	}
	annotations[HashAnnotation] = k.Hash
	crd.SetAnnotations(annotations)
	if bare {
		dropDescriptions(object)
	}
	return crd, CallAt(crd, k, Webhook{})
}

// dropDescriptions removes the descriptions within a part of a CRD. A field that is
// called description has a schema and no text there, and values of objects are left
// alone.
func dropDescriptions(part any) {
	switch part := part.(type) {
	case map[string]any:
		if _, isText := part["description"].(string); isText {
			delete(part, "description")
		}
		for name, inner := range part {
			if name != "default" && name != "enum" {
				dropDescriptions(inner)
			}
		}
	case []any:
		for _, inner := range part {
			dropDescriptions(inner)
		}
	}
}
