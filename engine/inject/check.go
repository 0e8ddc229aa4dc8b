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

// Check returns what prevents a valid object from being injected into any Pod, at the fields of
// the object where these can be known. It returns nothing for kinds that do not inject and for
// invalid objects.
func Check(k *kind.Kind, object map[string]any) field.ErrorList {
	if !k.Injects() {
		return nil
	}
	b := k.NewBudget()
	checked := k.Check(b, object)
	if len(checked.Errors) > 0 {
		return nil
	}
	return Evaluate(b, k, checked.Object).Check()
}

// Check returns what prevents the object from being injected into any Pod.
func (e *Evaluation) Check() (errs field.ErrorList) {
	_, err := e.Injection()
	if err == nil {
		return nil
	}
	if evaluation, ok := errors.AsType[*kind.EvaluationError](err); ok {
		if path, ok := strings.CutPrefix(evaluation.Path, "object."); ok {
			return field.ErrorList{{Type: field.ErrorTypeInvalid, Field: path, BadValue: field.OmitValueType{},
				Detail: evaluation.Err.Error()}}
		}
		if path := fieldWith(e.object, evaluation.Value); path != nil {
			return checkSelector(evaluation, path)
		}
	}
	part, ok := errors.AsType[partError](err)
	if !ok {
		return field.ErrorList{e.atSpec(err)}
	}
	for _, err := range part {
		errs = append(errs, e.atSource(err))
	}
	return errs
}

// atSpec is an error whose field only the kind knows.
func (e *Evaluation) atSpec(err error) *field.Error {
	return field.Invalid(
		field.NewPath("spec"),
		field.OmitValueType{},
		fmt.Sprintf("nothing can be injected from it, by the rules of the kind %s: %s", e.kind.GroupVersionKind.Kind,
			err),
	)
}

// checkSelector reports what is wrong with the selector at path as the API server does.
func checkSelector(err *kind.EvaluationError, path *field.Path) field.ErrorList {
	given, _ := err.Value.(map[string]any)
	var selector metav1.LabelSelector
	if runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(given, &selector, true) == nil {
		if errs := validation.ValidateLabelSelector(&selector, validation.LabelSelectorValidationOptions{},
			path); len(errs) > 0 {
			return errs
		}
	}
	return field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Err.Error())}
}

// pathStep is a step of a field's path: .name or [index].
var pathStep = regexp.MustCompile(`\.([^.[]+)|\[([^]]*)\]`)

// atSource moves an error about what the object adds to the field of the object that the wrong
// part comes from: the one with the same content as the innermost part around the error.
func (e *Evaluation) atSource(err *field.Error) *field.Error {
	at := *err
	at.Field = ""
	var part any = e.result.Add
	for _, step := range pathStep.FindAllStringSubmatchIndex(err.Field, -1) {
		part = child(part, err.Field[max(step[2], step[4]):max(step[3], step[5])])
		if path := fieldWith(e.object, part); path != nil {
			at.Field = path.String() + err.Field[step[1]:]
			continue
		}
		path, source := containerLike(e.object, part)
		if path != nil && reflect.DeepEqual(valueAt(source, err.Field[step[1]:]), valueAt(part, err.Field[step[1]:])) {
			at.Field = path.String() + err.Field[step[1]:]
		}
	}
	if at.Field == "" {
		return e.atSpec(err)
	}
	return &at
}

// child returns the member or the item of a value, or nil.
func child(v any, name string) any {
	switch v := v.(type) {
	case map[string]any:
		return v[name]
	case []any:
		if i, err := strconv.Atoi(name); err == nil && i < len(v) {
			return v[i]
		}
	}
	return nil
}

// valueAt returns what is at a path below a value, or nil.
func valueAt(v any, path string) any {
	for _, step := range pathStep.FindAllStringSubmatchIndex(path, -1) {
		v = child(v, path[max(step[2], step[4]):max(step[3], step[5])])
	}
	return v
}

// containerLike returns the only field of an object's spec with a container of the same name and
// image: a kind may add a container with more fields than the object gives it.
func containerLike(object map[string]any, part any) (*field.Path, any) {
	container, _ := part.(map[string]any)
	if container["name"] == nil || container["image"] == nil {
		return nil, nil
	}
	return fieldWhere(object, func(v any) bool {
		m, _ := v.(map[string]any)
		return m["name"] == container["name"] && m["image"] == container["image"]
	})
}

// fieldWith returns the only field of an object's spec with a certain object or list as its
// value, or nil if there are none or several.
func fieldWith(object map[string]any, wanted any) *field.Path {
	switch wanted.(type) {
	case map[string]any, []any:
	default:
		return nil
	}
	path, _ := fieldWhere(object, func(v any) bool { return reflect.DeepEqual(v, wanted) })
	return path
}

// fieldWhere returns the only field of an object's spec whose value is wanted, and the value. The
// path is nil if there are none or several.
func fieldWhere(object map[string]any, wanted func(v any) bool) (path *field.Path, value any) {
	n := 0
	var search func(v any, at *field.Path)
	search = func(v any, at *field.Path) {
		if wanted(v) {
			path, value, n = at, v, n+1
			return
		}
		switch v := v.(type) {
		case map[string]any:
			for name, member := range v {
				search(member, at.Child(name))
			}
		case []any:
			for i, item := range v {
				search(item, at.Index(i))
			}
		}
	}
	search(object["spec"], field.NewPath("spec"))
	if n != 1 {
		return nil, nil
	}
	return path, value
}
