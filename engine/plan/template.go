package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fescue-dev/fescue/cue/kind"
)

// The labels of every child. Children are watched by the first and found by the
// second. The last is for children of a phase, which stay when it is left.
const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "fescue"
	labelOwnerUID  = "fescue.dev/owner-uid"
	labelChild     = "fescue.dev/child"
	labelPhase     = "fescue.dev/phase"
)

var ownLabels = []string{labelManagedBy, labelOwnerUID, labelChild, labelPhase}

const (
	// annotationTemplate holds a hash of the template that a child was last made or
	// corrected by. It tells a changed template from fields that the API server or
	// others have changed.
	annotationTemplate = "fescue.dev/template"
	// annotationOwner names the object that a child was made for. It finds the children
	// of an object that came back from a backup with another UID, and they without
	// their owner references (velero#4707).
	annotationOwner = "fescue.dev/owner"
)

// ownerName is how annotationOwner names an object.
func ownerName(k *kind.Kind, name string) string {
	return k.Name() + "/" + name
}

// childObject completes the template of a child: with a name, the owner's namespace,
// the labels by which it is found, a hash of the template, and a controller reference.
// The name is that of the child, and of a set the part that all its members' names begin
// with.
func childObject(k *kind.Kind, owner *unstructured.Unstructured, child kind.Child) (*unstructured.Unstructured, error) {
	template, err := json.Marshal(child.Template)
	if err != nil {
		return nil, err
	}
	if err := checkMetadata(child.Template); err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(child.Template)}
	if namespace := object.GetNamespace(); namespace != "" && namespace != owner.GetNamespace() {
		return nil, fmt.Errorf("metadata.namespace: Invalid value: %q: must be the namespace of its object, %q", namespace, owner.GetNamespace())
	}
	object.SetNamespace(owner.GetNamespace())
	limit := maxName
	if child.Set != nil {
		limit -= maxSuffix
	}
	if object.GetName() == "" {
		object.SetName(shortened(owner.GetName()+"-"+child.Name, limit))
	} else if child.Set != nil {
		object.SetName(shortened(object.GetName(), limit))
	}
	hash := sha256.Sum256(template)
	object.SetAnnotations(merged(object.GetAnnotations(), map[string]string{
		annotationTemplate: hex.EncodeToString(hash[:8]),
		annotationOwner:    ownerName(k, owner.GetName()),
	}))
	labels := map[string]string{labelManagedBy: managedBy, labelOwnerUID: string(owner.GetUID()), labelChild: child.Name}
	if child.Phase != "" {
		labels[labelPhase] = child.Phase
	}
	object.SetLabels(merged(object.GetLabels(), labels))
	object.SetOwnerReferences([]metav1.OwnerReference{ownerReference(k, owner)})
	return object, nil
}

// checkMetadata refuses what the accessors of unstructured objects would take for absent.
// A set's labels decide what is deleted as a stray.
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
	if name, isString := metadata["name"].(string); metadata["name"] != nil && (!isString || name == "") {
		return fmt.Errorf("metadata.name: Invalid value: %v: must be a name", metadata["name"])
	}
	return nil
}

func ownerReference(k *kind.Kind, owner *unstructured.Unstructured) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: k.GroupVersionKind.GroupVersion().String(), Kind: k.GroupVersionKind.Kind,
		Name: owner.GetName(), UID: owner.GetUID(),
		Controller: new(true), BlockOwnerDeletion: new(true),
	}
}

const (
	// maxName is the limit of most types for the name of an object.
	maxName = validation.DNS1123SubdomainMaxLength
	// maxSuffix is room for a dash and the number of a member.
	maxSuffix = 7
)

// shortened cuts a name to at most limit characters and ends it with a hash of the
// whole, so that different long names stay different.
func shortened(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	hash := sha256.Sum256([]byte(name))
	suffix := hex.EncodeToString(hash[:4])
	return strings.TrimRight(name[:limit-1-len(suffix)], "-.") + "-" + suffix
}

// memberName names a member of a set. The numbers are the same on every pass, so that
// one that is based on a stale cache meets the member that exists and makes no other.
func memberName(prefix string, number int) string {
	return prefix + "-" + strconv.Itoa(number)
}

// memberNumber is the number in the name of a member.
func memberNumber(prefix, name string) (number int, ok bool) {
	text, found := strings.CutPrefix(name, prefix+"-")
	number, err := strconv.Atoi(text)
	return number, found && err == nil && number >= 0 && memberName(prefix, number) == name
}

// merged is a with what b says over it.
func merged(a, b map[string]string) map[string]string {
	if a == nil {
		return b
	}
	maps.Copy(a, b)
	return a
}
