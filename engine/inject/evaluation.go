package inject

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/jsontext"
)

// Evaluation is what an object adds to Pods, as its kind evaluates it.
type Evaluation struct {
	kind   *kind.Kind
	object map[string]any
	result *kind.Injection
	err    error // an *kind.EvaluationError
}

// Evaluate asks an injecting kind what a valid, defaulted object of it adds to Pods. It
// evaluates CUE, so call it when the object changes and not for each Pod.
func Evaluate(b *kind.Budget, k *kind.Kind, object map[string]any) *Evaluation {
	result, err := k.Injection(b, object)
	return &Evaluation{kind: k, object: object, result: result, err: err}
}

// Add returns the part of a Pod that is merged into others. The error is an
// *kind.EvaluationError; retrying does not help, because the object or the kind is wrong.
func (e *Evaluation) Add() (map[string]any, error) {
	if e.err != nil {
		return nil, e.err
	}
	return e.result.Add, nil
}

// Injection prepares what the object adds for merging it into many Pods. An error is the
// object's or the kind's, as for Add.
func (e *Evaluation) Injection() (*Injection, error) {
	injection, err := e.injection()
	if err != nil && e.kind.ReadsSensitiveStatus() {
		return nil, errHidden
	}
	return injection, err
}

// errHidden stands for an error that may quote what no message shows.
var errHidden = errors.New("inject: is not valid: a value that is not shown is part of it")

func (e *Evaluation) injection() (*Injection, error) {
	if e.err != nil {
		return nil, e.err
	}
	u := unstructured.Unstructured{Object: e.object}
	injection, err := New(Source{
		Object:    Object{Kind: e.kind.GroupVersionKind.GroupKind(), Name: u.GetName()},
		Namespace: u.GetNamespace(), Generation: u.GetGeneration(),
		Selector: e.result.Selector, Add: e.result.Add,
	})
	if err != nil {
		return nil, fmt.Errorf("inject: %w", err)
	}
	if why := stalled(e.object); why != "" {
		injection.forbidden = &rejection{reason: Stalled, detail: why}
	}
	return injection, nil
}

// Broken returns the injection of an object that cannot be injected for a reason of its own: it adds
// nothing to any Pod, and Pods that name it are told why.
func Broken(object Object, namespace string, why error) *Injection {
	return &Injection{object: object, id: object.String(), namespace: namespace, add: nothing, broken: why.Error()}
}

var nothing, _ = jsontext.Parse([]byte("{}"))

// stalled returns why an object must not be injected as long as its condition Stalled is true; ""
// means that it may be. Its children may be missing then, or belong to others that have their
// names, and what it injects may refer to them.
func stalled(object map[string]any) string {
	found, _, _ := unstructured.NestedFieldNoCopy(object, "status", "conditions")
	conditions, _ := found.([]any)
	for _, condition := range conditions {
		c, _ := condition.(map[string]any)
		if c["type"] == kind.ConditionStalled && c["status"] == string(metav1.ConditionTrue) {
			return fmt.Sprintf(
				"the object is stalled with the reason %v, see its status: what it refers to may be missing or not its own", c["reason"])
		}
	}
	return ""
}

// Of is Evaluate and Injection in one.
func Of(b *kind.Budget, k *kind.Kind, object map[string]any) (*Injection, error) {
	return Evaluate(b, k, object).Injection()
}
