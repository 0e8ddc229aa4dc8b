package apiserver

import (
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// wantsMetadata reports whether a client asks for the metadata of objects alone.
func wantsMetadata(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
}

// metadataOf returns the metadata of an object alone, as a PartialObjectMetadata.
func metadataOf(object map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": metav1.SchemeGroupVersion.String(), "kind": "PartialObjectMetadata",
		"metadata": object["metadata"],
	}
}
