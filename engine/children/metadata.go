package children

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Label returns a label of an object; it is empty if the object does not have it. GetLabels copies all
// of them.
func Label(object *unstructured.Unstructured, name string) string {
	value, _ := entry(object, "labels", name)
	return value
}

// Annotation returns an annotation as Label does.
func Annotation(object *unstructured.Unstructured, name string) string {
	value, _ := entry(object, "annotations", name)
	return value
}

// entry returns an entry of one of the maps of an object's metadata, and whether there is one.
func entry(object *unstructured.Unstructured, of, name string) (value string, found bool) {
	text, _, _ := unstructured.NestedFieldNoCopy(object.Object, "metadata", of, name) // what is no map has no entries
	value, found = text.(string)
	return value, found
}
