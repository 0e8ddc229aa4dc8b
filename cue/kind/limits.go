package kind

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// These bound an object, and are checked first: the time of a validation grows with the number of
// values, times the depth of nested disjunctions.
const (
	// MaxObjectDepth bounds structs and lists within each other. Kubernetes' own JSON reader stops at
	// 10,000; no schema that people write has 100.
	MaxObjectDepth = 128
	// MaxObjectValues bounds the values in all. The API server accepts requests of 3 MiB, and a value
	// takes at least two bytes.
	MaxObjectValues = 3 << 20 / 2
)

// CheckLimits is the first to walk an object; it reports the first limit that the object
// exceeds.
func CheckLimits(object map[string]any) *field.Error {
	left := MaxObjectValues
	var way []any
	switch exceeds(object, MaxObjectDepth, &left, &way) {
	case tooDeep:
		return field.Invalid(pathOf(way), field.OmitValueType{},
			fmt.Sprintf("must not be nested deeper than %d levels", MaxObjectDepth))
	case tooMany:
		return field.Invalid(pathOf(way), field.OmitValueType{},
			fmt.Sprintf("must not have more than %d values", MaxObjectValues))
	}
	return nil
}

// IsLarger reports whether an object has more than a number of values, or is nested too deeply.
func IsLarger(object map[string]any, values int) bool {
	var way []any
	return exceeds(object, MaxObjectDepth, &values, &way) != none
}

// excess is which limit is exceeded.
type excess int

const (
	none excess = iota
	tooDeep
	tooMany
)

// exceeds counts the values in a struct or a list by its length, without visiting scalars.
// It collects the path to the value that exceeds a limit on the way back, innermost step
// first, so that an object within the limits costs nothing more.
func exceeds(value any, depth int, left *int, way *[]any) excess {
	switch value := value.(type) {
	case map[string]any:
		if reason := count(len(value), depth, left); reason != none {
			return reason
		}
		for name, v := range value {
			if reason := exceeds(v, depth-1, left, way); reason != none {
				*way = append(*way, name)
				return reason
			}
		}
	case []any:
		if reason := count(len(value), depth, left); reason != none {
			return reason
		}
		for i, v := range value {
			if reason := exceeds(v, depth-1, left, way); reason != none {
				*way = append(*way, i)
				return reason
			}
		}
	}
	return none
}

// count is for a struct or a list with n values, in which depth levels may follow.
func count(n, depth int, left *int) excess {
	*left -= n
	switch {
	case *left < 0:
		return tooMany
	case depth <= 0 && n > 0:
		return tooDeep
	}
	return none
}

// pathOf builds a path from its steps, innermost first.
func pathOf(way []any) *field.Path {
	if len(way) == 0 {
		return field.NewPath("")
	}
	var path *field.Path
	for _, step := range slices.Backward(way) {
		if i, ok := step.(int); ok {
			path = path.Index(i)
		} else {
			path = path.Child(step.(string))
		}
	}
	return path
}
