package types

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate returns what in a value, as JSON is decoded, does not fit the type.
func (t *Type) Validate(value any, path *field.Path) field.ErrorList {
	kind := kindOf(value)
	if kind == Null { // the API server drops it
		return nil
	}
	if kind&t.Values == 0 && (kind != Integer || t.Values&Number == 0) {
		return field.ErrorList{field.TypeInvalid(path, value, "must be "+t.Values.String())}
	}
	var errs field.ErrorList
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if reason := t.MalformedKey(name); reason != "" {
				errs = append(errs, field.Invalid(path, name, reason))
			}
			if f := t.Field(name); f != nil {
				errs = append(errs, f.Validate(value[name], path.Child(name))...)
				continue
			}
			errs = append(errs,
				field.Forbidden(path.Child(name), "unknown field"+
					DidYouMean(name, slices.Collect(maps.Keys(t.Fields)))))
		}
		for _, name := range t.Required {
			if _, ok := value[name]; !ok {
				errs = append(errs, field.Required(path.Child(name), ""))
			}
		}
	case []any:
		for i, item := range value {
			errs = append(errs, t.Item().Validate(item, path.Index(i))...)
		}
	case int64, float64:
		if reason := t.OutOfBounds(value); reason != "" {
			errs = append(errs, field.Invalid(path, value, reason))
		}
	case string:
		if len(t.Enum) > 0 && value != "" && !slices.Contains(t.Enum, value) {
			errs = append(errs, field.NotSupported(path, value, t.Enum))
		}
		if reason := t.Malformed(value); reason != "" {
			errs = append(errs, field.Invalid(path, value, reason))
		}
		if _, err := resource.ParseQuantity(value); t.Quantity && err != nil {
			errs = append(errs, field.Invalid(path, value, "must be a quantity like 100m, 0.5, 128Mi or 1Gi"))
		}
	}
	return errs
}

// OutOfBounds returns which bound a number, an int64 or a float64, exceeds; "" if none.
func (t *Type) OutOfBounds(number any) string {
	var n float64
	switch number := number.(type) {
	case int64:
		n = float64(number)
	case float64:
		n = number
	default:
		return ""
	}
	switch tooLow, tooHigh := t.Minimum != nil && n < *t.Minimum, t.Maximum != nil && n > *t.Maximum; {
	case (tooLow || tooHigh) && t.Minimum != nil && t.Maximum != nil:
		return fmt.Sprintf("must be between %s and %s", plain(*t.Minimum), plain(*t.Maximum))
	case tooLow:
		return "must be at least " + plain(*t.Minimum)
	case tooHigh:
		return "must be at most " + plain(*t.Maximum)
	}
	return ""
}

// plain writes a number without an exponent.
func plain(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// kindOf returns the kind of a value; that of an integer may be any of Go's.
func kindOf(value any) Values {
	switch value := value.(type) {
	case nil:
		return Null
	case bool:
		return Boolean
	case string:
		return String
	case map[string]any:
		return Object
	case []any:
		return List
	case float64:
		if value == float64(int64(value)) {
			return Integer
		}
		return Number
	}
	return Integer
}
