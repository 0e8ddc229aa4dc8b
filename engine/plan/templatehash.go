package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// templateHash identifies the template of a child.
//
// A child is created by a POST, and its fields then belong to an Update entry of
// metadata.managedFields. An apply drops only fields of an Apply entry, so what a POST has set would
// stay. That does not matter as long as the template has the same fields, which is what shape
// identifies. shape is empty once the fields of the POST were handed over to apply.
type templateHash struct{ content, shape string }

// hashOf returns the hash of a template that a child is created by.
func hashOf(template map[string]any) (templateHash, error) {
	content, err := json.Marshal(template)
	if err != nil {
		return templateHash{}, err
	}
	shape, err := json.Marshal(shapeOf(template))
	if err != nil {
		return templateHash{}, err
	}
	return templateHash{digest(content, 8), digest(shape, 4)}, nil
}

func digest(text []byte, size int) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:size])
}

// shapeOf returns a value without what an apply can change without dropping a field: the scalars
// outside of lists. Any value of a list may be the key of an item.
func shapeOf(value any) any {
	switch value := value.(type) {
	case map[string]any:
		shape := make(map[string]any, len(value))
		for name, field := range value {
			shape[name] = shapeOf(field)
		}
		return shape
	case []any:
		return value
	}
	return nil
}

func (h templateHash) String() string {
	if h.shape == "" {
		return h.content
	}
	return h.content + "-" + h.shape
}

var writtenHash = regexp.MustCompile(`^([0-9a-f]{16})(?:-([0-9a-f]{8}))?$`)

// recordedHash returns the templateHash in the annotation of an object; it reports false for one that
// others have changed.
func recordedHash(object *unstructured.Unstructured) (h templateHash, ok bool) {
	groups := writtenHash.FindStringSubmatch(Annotation(object, annotationTemplate))
	if groups == nil {
		return templateHash{}, false
	}
	return templateHash{groups[1], groups[2]}, true
}

// sameTemplate reports whether a child was last created or applied by the template that is wanted.
func sameTemplate(live, wanted *unstructured.Unstructured) bool {
	return contentHash(live) == contentHash(wanted)
}

// contentHash returns the part of the hash that stays the same when fields are handed over.
func contentHash(object *unstructured.Unstructured) string {
	content, _, _ := strings.Cut(Annotation(object, annotationTemplate), "-")
	return content
}

// applicable returns a template as it is applied to a child that exists, and whether the fields of
// its creation must be handed over to apply first.
func applicable(live, wanted *unstructured.Unstructured) (template *unstructured.Unstructured, takesOver bool) {
	now, _ := recordedHash(wanted)
	before, isIntact := recordedHash(live)
	if isIntact && before.shape == now.shape {
		return wanted, false
	}
	now.shape = ""
	return annotated(wanted, annotationTemplate, now.String()), !isIntact || before.shape != ""
}

// annotated returns an object with an annotation. It shares everything but its metadata with the one
// that is given.
func annotated(object *unstructured.Unstructured, name, value string) *unstructured.Unstructured {
	result := WithOwnMetadata(object)
	result.SetAnnotations(merged(object.GetAnnotations(), map[string]string{name: value})) // GetAnnotations copies
	return result
}

// WithOwnMetadata returns a copy of an object that shares everything but its metadata with it.
func WithOwnMetadata(object *unstructured.Unstructured) *unstructured.Unstructured {
	content := maps.Clone(object.Object)
	metadata, _ := content["metadata"].(map[string]any)
	content["metadata"] = maps.Clone(metadata)
	return &unstructured.Unstructured{Object: content}
}
