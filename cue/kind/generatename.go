package kind

import (
	"maps"
)

const (
	// maxGenerateName is how much of generateName the API server takes into a name
	// (k8s.io/apiserver/pkg/storage/names).
	maxGenerateName = 58
	// anySuffix has the form of what it adds.
	anySuffix = "xxxxx"
)

// WithName returns an object with a name, so that the rest of it can be checked before the
// API server generates the name from generateName, which it does after mutating webhooks. An
// object that has a name, or neither, is returned unchanged. The object itself is not
// changed.
func WithName(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	prefix, _ := metadata["generateName"].(string)
	if name, _ := metadata["name"].(string); name != "" || prefix == "" {
		return object
	}
	metadata, object = maps.Clone(metadata), maps.Clone(object)
	metadata["name"] = prefix[:min(len(prefix), maxGenerateName)] + anySuffix
	object["metadata"] = metadata
	return object
}
