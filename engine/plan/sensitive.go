package plan

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
)

// Messages about what a kind decides must not show values of Secrets that it reads. What depends on them is found by
// deciding a second time, as if these values were others: whatever is the same then shows nothing of them.

// hide prepares the second decision, which is made when the first message needs it, if a kind may see what is
// sensitive.
func (p *Plan) hide(v *View, decide func(*unstructured.Unstructured, *View) *Plan) {
	if !p.Kind.SeesSensitive() {
		return
	}
	p.hidden = sync.OnceValue(func() *Plan { return decide(v.hide(p.Kind, p.Object, true)) })
	if p.failure != nil {
		p.Stalled.Message = p.describe(p.failure)
		return
	}
	if !p.Kind.Behaviour.NamesChildren() {
		return
	}
	// They are labels, and stand in the messages about children. What comes back is only suspected, and must not stall.
	if other := decide(v.hide(p.Kind, p.Object, false)); other.failure == nil &&
		!slices.Equal(p.childNames(), other.childNames()) {
		stalled := stalled(p,
			errors.New("the names of its children depend on a value that is not shown: name them after something else"))
		stalled.hidden = p.hidden
		*p = *stalled
	}
}

func (p *Plan) childNames() (names []string) {
	for _, child := range p.Children {
		names = append(names, child.Name)
	}
	slices.Sort(names)
	return names
}

// describe returns the text of an error of the evaluation.
func (p *Plan) describe(err error) string {
	if other := p.hidden().failure; other != nil && other.Error() == err.Error() {
		return err.Error()
	}
	if e, ok := errors.AsType[*kind.EvaluationError](err); ok {
		return e.WithoutValues()
	}
	return "what the kind decides depends on a value that is not shown"
}

// concealChild describes an error about a child without values that are sensitive. It wraps err.
func (p *Plan) concealChild(child string, err error) error {
	own, other := p.child(child), p.hidden().child(child)
	switch {
	case reflect.DeepEqual(own, other) && !p.Kind.DependsOnSensitive(child): // or what it was before may be quoted
		return fmt.Errorf("child %q: %w", child, err)
	case own == nil || other == nil:
		return &concealedError{err, "a child whose name is not shown: " + concealed(err, nil)}
	}
	return &concealedError{err, fmt.Sprintf("child %q: %s", child, concealed(err, other.Template))}
}

// ConcealStatus is the same for an error about the status that the kind computes.
func (p *Plan) ConcealStatus(err error) error {
	if p.hidden == nil {
		return err
	}
	other := p.hidden()
	if reflect.DeepEqual(p.Projection, other.Projection) && reflect.DeepEqual(p.Conditions, other.Conditions) &&
		!p.Kind.ReadsSensitiveStatus() {
		return err // neither what it is nor what it was before may be quoted
	}
	if hasNoAnswer(err) {
		return err
	}
	return &concealedError{err, concealed(err, map[string]any{"status": other.Projection})}
}

// Conceal is the same for an error about requests for the object itself that do not depend on a decision.
func Conceal(k *kind.Kind, err error) error {
	if !k.ReadsSensitiveStatus() || hasNoAnswer(err) {
		return err
	}
	return &concealedError{err, concealed(err, nil)}
}

// hasNoAnswer reports whether an error is one of the connection, which quotes nothing.
func hasNoAnswer(err error) bool {
	_, isRequest := errors.AsType[*url.Error](err)
	return isRequest || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func (p *Plan) child(name string) *kind.Child {
	if i := slices.IndexFunc(p.Children, func(c kind.Child) bool { return c.Name == name }); i >= 0 {
		return &p.Children[i]
	}
	return nil
}

// concealedError is an error whose text is not shown.
type concealedError struct {
	err  error
	text string
}

func (e *concealedError) Error() string { return e.text }

func (e *concealedError) Unwrap() error { return e.err }

// concealed describes an answer of the API server by its reason, and the fields that it is about with the type of each
// error, as far as the known object has them, which was computed without what is sensitive.
func concealed(err error, known map[string]any) string {
	const why = "a value that is not shown is part of it"
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return "no details: " + why
	}
	text := fmt.Sprintf("the API server rejects it (%s)", status.ErrStatus.Reason)
	if details := status.ErrStatus.Details; details != nil {
		var fields []string
		for _, cause := range details.Causes {
			fields = append(fields, fmt.Sprintf("%s: %s", knownPart(cause.Field, known), cause.Type))
		}
		if len(fields) > 0 {
			text += ": " + strings.Join(fields, ", ")
		}
	}
	return text + "; " + why
}

// knownPart returns the path of a field up to the first name that the known object does not have: it may be a part of a
// name that follows from a sensitive value.
func knownPart(path string, known any) string {
	var part []string
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		var isKnown bool
		switch value := known.(type) {
		case map[string]any:
			known, isKnown = value[name]
		case []any:
			i, err := strconv.Atoi(name)
			if isKnown = err == nil && 0 <= i && i < len(value); isKnown {
				known = value[i]
			}
		}
		if !isKnown {
			return strings.Join(append(part, "…"), ".")
		}
		part = append(part, name)
	}
	return strings.Join(part, ".")
}

// hide returns an object and a view in which what is sensitive has other values, and what may have come back of it as
// well if that is asked for.
func (v *View) hide(
	k *kind.Kind, object *unstructured.Unstructured, comesBack bool,
) (*unstructured.Unstructured, *View) {
	hidden := *v
	hidden.Budget = k.NewBudget() // the first decision may have taken all of the other
	hidden.Children = slices.Clone(v.Children)
	for i, child := range hidden.Children {
		if k.Lookups.AreSensitive(child.Object.GroupVersionKind()) || comesBack && k.DependsOnSensitive(child.Name) {
			hidden.Children[i].Object = &unstructured.Unstructured{Object: hideIn(child.Object.Object)}
		}
	}
	if v.Found != nil {
		found := *v.Found
		found.values = maps.Clone(found.values)
		for name, value := range found.values {
			if k.Lookups.AreSensitive(found.types[name]) {
				found.values[name] = hideValue(value)
			}
		}
		if found.Err != nil && k.DecoratesSensitive() { // it is about the object itself
			found.Err = errors.New("what the kind reads is not known")
		}
		hidden.Found = &found
	}
	if k.DecoratesSensitive() {
		object = &unstructured.Unstructured{Object: hideIn(object.Object)}
	}
	hidden.hidesStatus = comesBack && k.ReadsSensitiveStatus()
	return object, &hidden
}

// hideStatus returns an object with other values in the fields of the status that the kind may have computed from
// sensitive ones.
func hideStatus(k *kind.Kind, object map[string]any) map[string]any {
	status, _ := object["status"].(map[string]any)
	hidden := make(map[string]any, len(status))
	for name, value := range status {
		if k.IsOwnStatus(name) {
			value = others(value, "-")
		}
		hidden[name] = value
	}
	object = maps.Clone(object)
	object["status"] = hidden
	return object
}

// hideValue returns one object, or a list of objects, with other values.
func hideValue(value any) any {
	switch value := value.(type) {
	case map[string]any:
		return hideIn(value)
	case []any:
		list := make([]any, len(value))
		for i := range value {
			list[i] = hideValue(value[i])
		}
		return list
	}
	return value
}

// hideIn returns an object with other values. What identifies it stays, and so do the labels and the type of
// a Secret: they are not secret.
func hideIn(object map[string]any) map[string]any {
	isSecret := kind.IsSecret((&unstructured.Unstructured{Object: object}).GroupVersionKind())
	hidden := make(map[string]any, len(object))
	for name, value := range object {
		switch {
		case name == "apiVersion" || name == "kind" || name == "type" && isSecret:
			hidden[name] = value
		case name == "metadata":
			metadata, _ := runtime.DeepCopyJSONValue(value).(map[string]any)
			// kubectl apply keeps the whole object in one
			if annotations, ok := metadata["annotations"].(map[string]any); ok {
				metadata["annotations"] = hideAnnotations(annotations)
			}
			hidden[name] = metadata
		case name == "data" && isSecret:
			hidden[name] = others(value, base64.StdEncoding.EncodeToString([]byte("-")))
		default:
			hidden[name] = others(value, "-")
		}
	}
	return hidden
}

// hideAnnotations returns annotations with other values, apart from those by which the engine recognizes a child.
func hideAnnotations(annotations map[string]any) map[string]any {
	hidden := make(map[string]any, len(annotations))
	for name := range annotations {
		hidden[name] = "-"
		if slices.Contains(children.OwnAnnotations, name) || name == children.AnnotationEntered {
			hidden[name] = annotations[name]
		}
	}
	return hidden
}

// others returns a value of the same structure in which each text is another one, each number 0 and each
// boolean false.
func others(value any, text string) any {
	switch value := value.(type) {
	case map[string]any:
		result := make(map[string]any, len(value))
		for name, field := range value {
			result[name] = others(field, text)
		}
		return result
	case []any:
		result := make([]any, len(value))
		for i, element := range value {
			result[i] = others(element, text)
		}
		return result
	case string:
		return text
	case int64:
		return int64(0)
	case float64:
		return 0.0
	case bool:
		return false
	}
	return value
}
