package children

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fescue-dev/fescue/cue/kind"
)

// Complete completes the template of a child: with a name, a namespace if its type has one,
// the labels by which it is found, a hash of the template, and a controller reference.
// For a set, the name is the prefix of its members' names.
func Complete(
	k *kind.Kind, owner *unstructured.Unstructured, child kind.Child, isNamespaced bool,
) (*unstructured.Unstructured, error) {
	hash, err := hashOf(child.Template)
	if err != nil {
		return nil, err
	}
	if err := checkMetadata(child.Template); err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(child.Template)}
	namespace := NamespaceOf(k, owner, child)
	switch own := owner.GetNamespace(); {
	case !isNamespaced && namespace != "":
		return nil, fmt.Errorf("metadata.namespace: Invalid value: %q: a %s has no namespace", namespace,
			object.GetKind())
	case isNamespaced && namespace == "":
		return nil, fmt.Errorf("metadata.namespace: Required value: a %s is namespaced, and its object is not",
			object.GetKind())
	case own != "" && namespace != own && !slices.Contains(k.Elsewhere, object.GroupVersionKind()):
		return nil, fmt.Errorf("metadata.namespace: Invalid value: %q: must be the namespace of its object, %q",
			namespace, own)
	}
	object.SetNamespace(namespace)
	object.SetName(ObjectName(owner, child))
	object.SetAnnotations(merged(object.GetAnnotations(), map[string]string{AnnotationTemplate: hash}))
	Origin{Child: child.Name, Phase: child.Phase, Outlives: child.OnDelete == kind.Orphan}.Mark(k, owner, object)
	return object, nil
}

// TypeOf returns the type of a child.
func TypeOf(child kind.Child) schema.GroupVersionKind {
	return (&unstructured.Unstructured{Object: child.Template}).GroupVersionKind()
}

// NamespaceOf returns the namespace of a child: the one in its template, or else its owner's if its type has one.
func NamespaceOf(k *kind.Kind, owner *unstructured.Unstructured, child kind.Child) string {
	stated, _, err := unstructured.NestedString(child.Template, "metadata", "namespace")
	switch {
	case err == nil && stated != "": // checkMetadata rejects what is not a string
		return stated
	case slices.Contains(k.OwnsOfCluster, TypeOf(child)):
		return ""
	}
	return owner.GetNamespace()
}

// Called returns the name of a child for people: with its namespace if it has one that is not the owner's.
func Called(child, owner metav1.Object) string {
	if namespace := child.GetNamespace(); namespace != "" && IsElsewhere(owner, child) {
		return namespace + "/" + child.GetName()
	}
	return child.GetName()
}

// ObjectName returns the name of a child or, of a set, the prefix of its members' names.
func ObjectName(owner *unstructured.Unstructured, child kind.Child) string {
	name, _, err := unstructured.NestedString(child.Template, "metadata", "name")
	limit := maxName
	if child.Set != nil {
		limit -= maxSuffix
	}
	switch {
	case err != nil || name == "": // checkMetadata rejects what is not a string
		return shortened(owner.GetName()+"-"+child.Name, limit)
	case child.Set != nil:
		return shortened(name, limit)
	}
	return name
}

// checkMetadata rejects what the accessors of unstructured objects would treat as absent. A
// set's labels decide which unmanaged objects are deleted.
func checkMetadata(template map[string]any) error {
	metadata, isStruct := template["metadata"].(map[string]any)
	if template["metadata"] != nil && !isStruct {
		return fmt.Errorf("metadata: Invalid value: %v: must be a struct", template["metadata"])
	}
	for _, name := range []string{"labels", "annotations"} {
		values, isStruct := metadata[name].(map[string]any)
		if metadata[name] != nil && !isStruct {
			return fmt.Errorf("metadata.%s: Invalid value: %v: must be a struct of strings", name, metadata[name])
		}
		for key, value := range values {
			if _, isString := value.(string); !isString {
				return fmt.Errorf("metadata.%s.%s: Invalid value: %v: must be a string", name, key, value)
			}
		}
	}
	if namespace := metadata["namespace"]; namespace != nil {
		if _, isString := namespace.(string); !isString {
			return fmt.Errorf("metadata.namespace: Invalid value: %v: must be a name", namespace)
		}
	}
	if name, isString := metadata["name"].(string); metadata["name"] != nil && (!isString || name == "") {
		return fmt.Errorf("metadata.name: Invalid value: %v: must be a name", metadata["name"])
	}
	return nil
}

const (
	// maxName is the limit of most types for the name of an object.
	maxName = validation.DNS1123SubdomainMaxLength
	// maxSuffix is room for what MemberName appends, with numbers of up to six digits.
	maxSuffix = 1 + hashDigits + 1 + 6
	// hashDigits is how much of a template's hash is in the names of members. Two templates with the
	// same digits do no harm, because the numbers differ.
	hashDigits = 5
)

// shortened cuts a name to at most limit characters and appends a hash of the whole, so
// that different long names stay different.
func shortened(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	hash := sha256.Sum256([]byte(name))
	suffix := hex.EncodeToString(hash[:4])
	return strings.TrimRight(name[:limit-1-len(suffix)], "-.") + "-" + suffix
}

// merged returns a with the entries of b, which replace those of a.
func merged(a, b map[string]string) map[string]string {
	if a == nil {
		return b
	}
	maps.Copy(a, b)
	return a
}
