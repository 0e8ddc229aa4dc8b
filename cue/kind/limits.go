package kind

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// limits bound an object; they are checked first.
type limits struct {
	depth  int // of structs and lists within each other
	values int // in all
}

var (
	// compiledLimits are those of the compiled form. Its time grows with the number of
	// values, times the depth of nested disjunctions. Kubernetes' own JSON reader stops at a
	// depth of 10,000; no schema that people write has 100. The API server accepts requests
	// of 3 MiB, and a value takes at least two bytes.
	compiledLimits = limits{depth: 128, values: 3 << 20 / 2}
	// evaluatorLimits are those of the CUE evaluator, which takes time that grows with
	// the square of the entries of one map (19.8 s for 100,000) and cannot be stopped.
	evaluatorLimits = limits{depth: 64, values: 20_000}
)

// checkLimits is the first to walk an object; it reports the first limit that the object
// exceeds.
func checkLimits(object map[string]any, l limits) *field.Error {
	left := l.values
	var way []any
	switch exceeds(object, l.depth, &left, &way) {
	case tooDeep:
		return field.Invalid(pathOf(way), field.OmitValueType{}, fmt.Sprintf("must not be nested deeper than %d levels", l.depth))
	case tooMany:
		return field.Invalid(pathOf(way), field.OmitValueType{}, fmt.Sprintf("must not have more than %d values", l.values))
	}
	return nil
}

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
