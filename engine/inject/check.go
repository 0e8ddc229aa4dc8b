package inject

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind"
)

// Check is what keeps a valid object from being injected into any Pod, at the fields of the
// object where they can be known. Of kinds that inject nothing, and for objects that are not
// valid, there is none.
func Check(k *kind.Kind, object map[string]any) field.ErrorList {
	if !k.Injects() {
		return nil
	}
	defaulted, errs := k.DefaultAndValidate(object)
	if len(errs) > 0 {
		return nil
	}
	_, err := Of(k, defaulted)
	if err == nil {
		return nil
	}
	if evaluation, ok := errors.AsType[*kind.EvaluationError](err); ok {
		if path, ok := strings.CutPrefix(evaluation.Path, "object."); ok {
			return field.ErrorList{{Type: field.ErrorTypeInvalid, Field: path, BadValue: field.OmitValueType{}, Detail: evaluation.Err.Error()}}
		}
		if path := whereIn(defaulted, evaluation.Value); path != nil {
			return checkSelector(evaluation, path)
		}
	}
	part, ok := errors.AsType[partError](err)
	if !ok {
		return field.ErrorList{unplaced(k, err)}
	}
	said, _ := k.Injection(defaulted) // as before
	for _, e := range part {
		errs = append(errs, placed(k, e, said.Add, defaulted))
	}
	return errs
}

// unplaced is an error that only the kind knows the field of.
func unplaced(k *kind.Kind, err error) *field.Error {
	return field.Invalid(field.NewPath("spec"), field.OmitValueType{}, fmt.Sprintf("nothing can be injected of it, by the rules of the kind %s: %s", k.GroupVersionKind.Kind, err))
}

// checkSelector says as the API server does what is wrong with a selector that an object has at path.
func checkSelector(err *kind.EvaluationError, path *field.Path) field.ErrorList {
	said, _ := err.Value.(map[string]any)
	var selector metav1.LabelSelector
	if runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(said, &selector, true) == nil {
		if errs := validation.ValidateLabelSelector(&selector, validation.LabelSelectorValidationOptions{}, path); len(errs) > 0 {
			return errs
		}
	}
	return field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Err.Error())}
}

// pathStep is a step of a field's path: .name or [index].
var pathStep = regexp.MustCompile(`\.([^.[]+)|\[([^]]*)\]`)

// placed is an error of what an object adds at the object's field that it comes from: the one
// that has the same content as the innermost part around what is wrong.
func placed(k *kind.Kind, err *field.Error, add, object map[string]any) *field.Error {
	at := *err
	at.Field = ""
	var part any = add
	for _, step := range pathStep.FindAllStringSubmatchIndex(err.Field, -1) {
		switch p := part.(type) {
		case map[string]any:
			part = p[err.Field[max(step[2], step[4]):max(step[3], step[5])]]
		case []any:
			i, convErr := strconv.Atoi(err.Field[max(step[2], step[4]):max(step[3], step[5])])
			if convErr != nil || i >= len(p) {
				return unplaced(k, err)
			}
			part = p[i]
		default:
			part = nil
		}
		if path := whereIn(object, part); path != nil {
			at.Field = path.String() + err.Field[step[1]:]
		}
	}
	if at.Field == "" {
		return unplaced(k, err)
	}
	return &at
}

// whereIn is the one field of an object's spec that is a certain object or list; nil if there is
// none, or several.
func whereIn(object map[string]any, wanted any) (found *field.Path) {
	switch wanted.(type) {
	case map[string]any, []any:
	default:
		return nil
	}
	n := 0
	var look func(v any, path *field.Path)
	look = func(v any, path *field.Path) {
		if reflect.DeepEqual(v, wanted) {
			found, n = path, n+1
			return
		}
		switch v := v.(type) {
		case map[string]any:
			for name, member := range v {
				look(member, path.Child(name))
			}
		case []any:
			for i, item := range v {
				look(item, path.Index(i))
			}
		}
	}
	look(object["spec"], field.NewPath("spec"))
	if n != 1 {
		return nil
	}
	return found
}
