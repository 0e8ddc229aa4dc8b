package kind

import "maps"

const (
	// maxGenerateName is how much of generateName the API server takes into a name
	// (k8s.io/apiserver/pkg/storage/names).
	maxGenerateName = 58
	// anySuffix has the form of what it adds.
	anySuffix = "xxxxx"
)

// WithName is an object that has a name, so that all else about it can be judged before the
// API server makes one of its generateName, which it does after mutating webhooks have seen
// it. One that has a name already, or none of both, is returned as it is; the object is not
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
