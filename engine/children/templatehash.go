package children

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// hashOf returns the hash of a template that a child is created or applied by, in two parts.
//
// The first is of the whole template. The second is of what an apply can change without effect on other fields than
// those that change: it leaves out scalars outside of spec and of lists. While it stays the same, an apply drops no
// field, and no default of the API server follows from what has changed. Any value of a list may be the key of an item.
func hashOf(template map[string]any) (string, error) {
	content, err := json.Marshal(template)
	if err != nil {
		return "", err
	}
	fields, _ := shapeOf(template).(map[string]any)
	if spec, ok := template["spec"]; ok {
		fields["spec"] = spec
	}
	shape, err := json.Marshal(fields)
	if err != nil {
		return "", err
	}
	return digest(content, 8) + "-" + digest(shape, 4), nil
}

func digest(text []byte, size int) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:size])
}

// shapeOf returns a value without the scalars outside of lists.
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

// writtenHash matches what hashOf returns.
var writtenHash = regexp.MustCompile(`^[0-9a-f]{16}-([0-9a-f]{8})$`)

// shapeHash returns the second part of the hash in the annotation of an object. It is empty if others have changed it.
func shapeHash(object *unstructured.Unstructured) string {
	groups := writtenHash.FindStringSubmatch(Annotation(object, AnnotationTemplate))
	if groups == nil {
		return ""
	}
	return groups[1]
}

// HasTemplateOf reports whether a child was last created or applied by the template that is wanted.
func HasTemplateOf(live, wanted *unstructured.Unstructured) bool {
	return TemplateHash(live) == TemplateHash(wanted)
}

// IsWrittenBy reports whether a child was last created or applied by a template.
func IsWrittenBy(live *unstructured.Unstructured, template map[string]any) bool {
	hash, err := hashOf(template)
	content, _, _ := strings.Cut(hash, "-")
	return err == nil && TemplateHash(live) == content
}

// TemplateHash returns the first part of the hash.
func TemplateHash(object *unstructured.Unstructured) string {
	content, _, _ := strings.Cut(Annotation(object, AnnotationTemplate), "-")
	return content
}

// TakesOver reports whether fields may be dropped, or defaults may follow from others, when a template is applied to a
// child that exists.
func TakesOver(live, wanted *unstructured.Unstructured) bool {
	before := shapeHash(live)
	return before == "" || before != shapeHash(wanted)
}

// WithOwnMetadata returns a copy of an object that shares everything but its metadata with it.
func WithOwnMetadata(object *unstructured.Unstructured) *unstructured.Unstructured {
	content := maps.Clone(object.Object)
	metadata, _ := content["metadata"].(map[string]any)
	content["metadata"] = maps.Clone(metadata)
	return &unstructured.Unstructured{Object: content}
}
