package kind

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// maxDepth is well above any schema that people write and below what makes the
	// evaluator slow; Kubernetes' own JSON reader stops at 10,000.
	maxDepth = 64
	// maxValues bounds the values in one object. The API server stores 1.5 MiB at
	// most, and the evaluator takes time that grows with the square of the entries
	// of one map (19.8 s for 100,000).
	maxValues = 20_000
)

// checkLimits walks an object before anything else does, and reports the first
// limit that it exceeds.
func checkLimits(object map[string]any) *field.Error {
	left := maxValues
	if path, reason := exceeds(object, nil, maxDepth, &left); reason != "" {
		return field.Invalid(path, field.OmitValueType{}, reason)
	}
	return nil
}

func exceeds(value any, path *field.Path, depth int, left *int) (*field.Path, string) {
	*left--
	switch {
	case *left < 0:
		return path, fmt.Sprintf("must not have more than %d values", maxValues)
	case depth < 0:
		return path, fmt.Sprintf("must not be nested deeper than %d levels", maxDepth)
	}
	switch value := value.(type) {
	case map[string]any:
		for name, v := range value {
			if p, reason := exceeds(v, path.Child(name), depth-1, left); reason != "" {
				return p, reason
			}
		}
	case []any:
		for i, v := range value {
			if p, reason := exceeds(v, path.Index(i), depth-1, left); reason != "" {
				return p, reason
			}
		}
	}
	return nil, ""
}
