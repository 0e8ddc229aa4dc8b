package kind

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cuelang.org/go/cue"
	cueerrors "cuelang.org/go/cue/errors"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind/schema"
)

// cueEvaluator evaluates CUE. Objects enter as Go values: CUE text would be compiled, and the
// context keeps everything compiled indefinitely.
type cueEvaluator struct {
	name               string // of the kind
	ctx                *cue.Context
	schema, controller cue.Value
	sets               map[string]SetFacts
	reads              *packageReads
	split              [][]string // of checkSizes
	status             *schema.Completed
	asked              counters
}

var (
	pathApproval       = cue.ParsePath("approval")
	pathObject         = cue.ParsePath("object")
	pathChildren       = cue.ParsePath("children")
	pathDeadline       = cue.ParsePath("deadline")
	pathNext           = cue.ParsePath("next")
	pathStatus         = cue.ParsePath("status")
	pathTemplate       = cue.ParsePath("template")
	pathUpdate         = cue.ParsePath("update")
	pathReplicas       = cue.ParsePath("replicas")
	pathMaxUnavailable = cue.ParsePath("maxUnavailable")
	pathStrays         = cue.ParsePath("strays")
	pathTo             = cue.ParsePath("to")
	pathWhen           = cue.ParsePath("when")
	pathAfter          = cue.ParsePath("after")
)

// unified unifies an object with its schema, without a status that the engine's fields complete.
func (e *cueEvaluator) unified(object map[string]any) (unified cue.Value, admitted map[string]any, s *standIns, err error) {
	if e.status.Differs() {
		object = maps.Clone(object)
		delete(object, "status")
	}
	admitted, s, err = e.reads.names.admit(object)
	if err != nil {
		return cue.Value{}, nil, nil, err
	}
	return e.schema.Unify(e.ctx.Encode(admitted)), admitted, s, nil
}

func (e *cueEvaluator) errorsOf(unified cue.Value, object map[string]any) field.ErrorList {
	return fieldErrors(unified.Validate(cue.Concrete(true), cue.Final()), object, "#"+e.name)
}

func (e *cueEvaluator) withDefaults(object map[string]any) (map[string]any, error) {
	unified, _, s, err := e.unified(object)
	if err != nil {
		return nil, err
	}
	defaulted, err := decode(unified, "#"+e.name)
	return e.withStatus(s.restore(defaulted), object), s.error(err)
}

// withStatus gives an object with defaults the status that was not unified.
func (e *cueEvaluator) withStatus(defaulted, object map[string]any) map[string]any {
	if status, ok := object["status"]; ok && defaulted != nil && e.status.Differs() {
		defaulted["status"] = status
	}
	return defaulted
}

// defaultAndValidate is both in one evaluation; an object with errors has no defaults.
func (e *cueEvaluator) defaultAndValidate(object map[string]any) (map[string]any, field.ErrorList, error) {
	unified, admitted, s, err := e.unified(object)
	if err != nil {
		return nil, nil, err
	}
	if errs := e.errorsOf(unified, admitted); len(errs) > 0 {
		return nil, s.fieldErrors(errs), nil
	}
	defaulted, err := decode(unified, "#"+e.name)
	return e.withStatus(s.restore(defaulted), object), nil, s.error(err)
}

// entering returns the part of an object that the behaviour can read, or an error if it is too
// large for the evaluator.
func (e *cueEvaluator) entering(object map[string]any) (map[string]any, *field.Error) {
	object = e.reads.names.within(object, e.reads.object)
	if err := checkLimits(object, evaluatorLimits); err != nil {
		return nil, err
	}
	return object, checkSplit(object, e.split)
}

// admitted is entering for an evaluation.
func (e *cueEvaluator) admitted(object map[string]any) (map[string]any, error) {
	object, err := e.entering(object)
	if err != nil {
		return nil, &EvaluationError{Path: "object." + err.Field, Err: errors.New(err.Detail)}
	}
	return object, nil
}

// behaviour unifies the behaviour with what it gets: the object, as far as #X describes it, and
// the children if they are given. Names in what is read from the result have to be restored.
func (e *cueEvaluator) behaviour(given map[string]any) (v cue.Value, s *standIns, err error) {
	if object, ok := given["object"].(map[string]any); ok {
		given["object"] = e.status.WithoutAdded(object)
	}
	given, s, err = e.reads.names.admit(given)
	if err != nil {
		return cue.Value{}, nil, err
	}
	v = e.controller.Unify(e.ctx.Encode(given))
	if err := v.LookupPath(pathObject).Err(); err != nil {
		return cue.Value{}, nil, s.error(evaluationError("object", err))
	}
	return v, s, nil
}

func (e *cueEvaluator) decide(object, observed map[string]any) (*Decision, error) {
	v, s, err := e.behaviour(map[string]any{"object": object, "observed": observed})
	if err != nil {
		return nil, err
	}
	d, err := e.decision(v, s, PhaseOf(object))
	return d, s.error(err)
}

// decision reads what the behaviour wants of an object in a phase.
func (e *cueEvaluator) decision(v cue.Value, s *standIns, phase string) (*Decision, error) {
	d := &Decision{}
	if err := e.addChildren(d, v, s, "", ""); err != nil {
		return nil, evaluationError("children", err)
	}
	if phase != "" {
		path := "phases." + phase
		value := v.LookupPath(cue.MakePath(cue.Str("phases"), cue.Str(phase)))
		if !value.Exists() {
			return nil, &EvaluationError{Path: "object.status.phase", Err: errors.New("the kind has no phase " + phase)}
		}
		if err := e.addChildren(d, value, s, phase, path+"."); err != nil {
			return nil, evaluationError(path+".children", err)
		}
		if err := addTransitions(d, value, path+".next"); err != nil {
			return nil, evaluationError(path+".next", err)
		}
	}
	slices.SortStableFunc(d.Children, func(a, b Child) int { return strings.Compare(a.Name, b.Name) })
	var err error
	if d.Deadline, err = deadlineOf(v); err != nil {
		return nil, evaluationError("deadline", err)
	}
	d.Status, err = decode(v.LookupPath(pathStatus), "status")
	d.Status = s.restore(d.Status)
	return d, err
}

func addTransitions(d *Decision, phase cue.Value, path string) error {
	next := phase.LookupPath(pathNext)
	// A condition that reads something absent may be an error of the whole list.
	for _, err := range cueerrors.Errors(next.Err()) {
		if !isUndefined(err) {
			return evaluationError(path, err)
		}
	}
	for i := 0; ; i++ {
		value := next.LookupPath(cue.MakePath(cue.Index(i)))
		if !value.Exists() {
			return nil
		}
		to, err := value.LookupPath(pathTo).String()
		if err != nil {
			return evaluationError(path+".to", err)
		}
		t := Transition{To: to}
		if after := value.LookupPath(pathAfter); after.Exists() {
			text, err := after.String()
			if err != nil {
				return evaluationError(path+".after", err)
			}
			if t.After, err = ParseTrigger(text); err != nil {
				return evaluationError(path+".after", err)
			}
		} else if t.When, err = condition(value.LookupPath(pathWhen)); err != nil {
			return evaluationError(path+".when", err)
		}
		d.Next = append(d.Next, t)
	}
}

// deadlineOf reads how long an object may take to become ready; 0 means any time.
func deadlineOf(controller cue.Value) (time.Duration, error) {
	value := controller.LookupPath(pathDeadline)
	if !value.Exists() {
		return 0, nil
	}
	text, err := value.String()
	if err != nil {
		return 0, err
	}
	deadline, err := time.ParseDuration(text)
	if err != nil || deadline <= 0 {
		return 0, fmt.Errorf("%q must be a duration like \"5m\"", text)
	}
	return deadline, nil
}

// condition reads a condition. A condition that reads something absent does not hold.
func condition(value cue.Value) (bool, error) {
	holds, err := value.Bool()
	if err != nil && (cue.IsIncomplete(err) || isUndefined(err)) {
		return false, nil
	}
	return holds, err
}

// isUndefined reports whether an error is a reference to an absent field. CUE counts it as
// incomplete only in open structs, and what is filled into a definition is closed. References
// into the object's own schema are checked when the kind loads.
func isUndefined(err error) bool {
	e, ok := errors.AsType[cueerrors.Error](err)
	return ok && strings.HasPrefix(messageOf(cueerrors.Errors(e)[0]), "undefined field: ")
}

// decode turns a concrete struct into plain Go values, with the integers as int64
// that unstructured objects have.
func decode(value cue.Value, path string) (map[string]any, error) {
	if !value.Exists() {
		return nil, nil
	}
	b, err := value.MarshalJSON()
	if err != nil {
		return nil, evaluationError(path, err)
	}
	var result map[string]any
	if err := json.Unmarshal(bytes.TrimSpace(b), &result); err != nil {
		return nil, evaluationError(path, err)
	}
	return result, nil
}

// evaluationError names the place that CUE names, or path if it names none.
func evaluationError(path string, err error) error {
	if already, ok := errors.AsType[*EvaluationError](err); ok {
		return already
	}
	if list, ok := errors.AsType[cueerrors.Error](err); ok {
		first := cueerrors.Errors(list)[0]
		if elements := first.Path(); len(elements) > 1 {
			path = strings.Join(elements[1:], ".")
		}
		err = errors.New(messageOf(first))
	}
	return &EvaluationError{Path: path, Err: err}
}
