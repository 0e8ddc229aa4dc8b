package kind

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	cueerrors "cuelang.org/go/cue/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// fieldErrors turns what the CUE evaluator reports into Kubernetes field errors. CUE
// has no kinds of error, so they are distinguished by the formats of its messages, which
// the tests pin for the version in go.mod. root is the first element of CUE's paths.
func fieldErrors(err error, object map[string]any, root string) field.ErrorList {
	var result field.ErrorList
	enums := make(map[string]*field.Error)
	supported := make(map[string][]string)
	for _, e := range cueerrors.Errors(err) {
		elements := slices.Clone(e.Path())
		if len(elements) > 0 && elements[0] == root {
			elements = elements[1:]
		}
		path, value := locate(object, elements)
		message := messageOf(e)
		switch {
		case strings.Contains(message, "field is required but not present"), strings.HasPrefix(message, "incomplete value"):
			result = append(result, field.Required(path, ""))
		case strings.Contains(message, "field not allowed"):
			result = append(result, field.Forbidden(path, unknownField))
		case isDisjunction(message):
			enums[path.String()] = field.NotSupported(path, value, []string(nil))
		case conflictOfValues.MatchString(message):
			if _, inEnum := enums[path.String()]; !inEnum {
				result = append(result, field.NotSupported(path, value, []string{otherValue(message, value)}))
				continue
			}
			supported[path.String()] = append(supported[path.String()], otherValue(message, value))
		case strings.Contains(message, "mismatched types"):
			result = append(result, field.TypeInvalid(path, value, typeMessage(message, value)))
		default:
			result = append(result, field.Invalid(path, value, ruleOf(message)))
		}
	}
	for name, unsupported := range enums {
		// CUE also tries an enum's values where another rule has failed.
		if slices.ContainsFunc(result, func(e *field.Error) bool { return e.Field == name }) {
			continue
		}
		unsupported.Detail = field.NotSupported(nil, nil, supported[name]).Detail
		result = append(result, unsupported)
	}
	return result
}

// isDisjunction reports whether a message counts the errors of a disjunction; a message
// for each of its values follows.
func isDisjunction(message string) bool {
	return strings.Contains(message, "errors in empty disjunction")
}

// conflictOfValues is CUE's message for a value that differs from the required one; the
// order of the two varies.
var conflictOfValues = regexp.MustCompile(`^conflicting values (\S+|"[^"]*") and (\S+|"[^"]*")$`)

// otherValue returns the value of such a message that the object does not have.
func otherValue(message string, value any) string {
	m := conflictOfValues.FindStringSubmatch(message)
	if other := unquoted(m[1]); other != fmt.Sprint(value) {
		return other
	}
	return unquoted(m[2])
}

var outOfBound = regexp.MustCompile(`\((out of bound|does not satisfy) (.*?)\)(: .*)?$`)

// ruleOf returns the part of a message that names the rule, without the value that the
// field error shows anyway.
func ruleOf(message string) string {
	if m := outOfBound.FindStringSubmatch(message); m != nil {
		return "must satisfy " + m[2]
	}
	return message
}

var mismatch = regexp.MustCompile(`mismatched types (\S+) and (\S+)\)`)

func typeMessage(message string, value any) string {
	m := mismatch.FindStringSubmatch(message)
	if m == nil {
		return message
	}
	wanted, actual := m[1], m[2]
	if isKind(value, wanted) {
		wanted, actual = actual, wanted
	}
	return "must be " + wanted + ", is " + actual
}

// isKind reports whether CUE calls the type of a plain Go value by name.
func isKind(value any, name string) bool {
	switch value.(type) {
	case string:
		return name == "string"
	case bool:
		return name == "bool"
	case int64:
		return name == "int"
	case float64:
		return name == "float"
	case []any:
		return name == "list"
	case map[string]any:
		return name == "struct"
	}
	return name == "null"
}

// locate converts a CUE path to the path of a field, and looks up its value.
func locate(object any, elements []string) (*field.Path, any) {
	var path *field.Path
	value := object
	for _, element := range elements {
		switch v := value.(type) {
		case []any:
			i, err := strconv.Atoi(element)
			path, value = path.Index(i), nil
			if err == nil && i < len(v) {
				value = v[i]
			}
		case map[string]any:
			name := unquoted(element)
			path, value = path.Child(name), v[name]
		default:
			path, value = path.Child(unquoted(element)), nil
		}
	}
	if path == nil {
		path = field.NewPath("")
	}
	return path, value
}

// unquoted returns the field name that an element of a CUE path stands for.
func unquoted(element string) string {
	if name, err := strconv.Unquote(element); err == nil {
		return name
	}
	return element
}
