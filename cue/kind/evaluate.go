package kind

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"time"

	"cuelang.org/go/cue"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind/schema"
)

// cueEvaluator evaluates CUE. Objects enter as Go values or as syntax, never as text: the context
// keeps text indefinitely.
type cueEvaluator struct {
	name               string // of the kind
	ctx                *cue.Context
	schema, controller cue.Value
	reads              *packageReads
	expressions        *expressions
	split              [][]string // of checkSizes
	status             *schema.Completed
	asked              counters
}

var (
	pathApproval   = cue.ParsePath("approval")
	pathObject     = cue.ParsePath("object")
	pathConditions = cue.ParsePath("conditions")
	pathChildren   = cue.ParsePath("children")
	pathDeadline   = cue.ParsePath("deadline")
	pathNext       = cue.ParsePath("next")
	pathOnDelete   = cue.ParsePath("onDelete")
	pathStatus     = cue.ParsePath("status")
	pathTemplate   = cue.ParsePath("template")
	pathReplicas   = cue.ParsePath("replicas")
	pathStrays     = cue.ParsePath("strays")
	pathOrdered    = cue.ParsePath("ordered")
	pathIndex      = cue.ParsePath(indexName)
	pathTo         = cue.ParsePath("to")
	pathWhen       = cue.ParsePath("when")
	pathAfter      = cue.ParsePath("after")
	pathCron       = cue.ParsePath("cron")
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

// piece returns the behaviour for an object and, if they are given, its children.
func (e *cueEvaluator) piece(given map[string]any) (piece, *standIns, error) {
	v, s, err := e.behaviour(given)
	if err != nil {
		return nil, nil, err
	}
	return evaluatedPiece{v, e, s}, s, nil
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
	v = e.controller.Unify(e.ctx.BuildExpr(openData(given)))
	if err := v.LookupPath(pathObject).Err(); err != nil {
		return cue.Value{}, nil, s.error(evaluationError("object", err))
	}
	return v, s, nil
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
	return parseDeadline(text)
}

func parseDeadline(text string) (time.Duration, error) {
	deadline, err := time.ParseDuration(text)
	if err != nil || deadline <= 0 {
		return 0, fmt.Errorf("%q must be a duration like \"5m\"", text)
	}
	return deadline, nil
}

// decode turns a concrete struct into plain Go values, with the integers as int64
// that unstructured objects have.
func decode(value cue.Value, path string) (map[string]any, error) {
	if !value.Exists() {
		return nil, nil
	}
	var result map[string]any
	return result, decodeInto(value, path, &result)
}

// decodeInto is decode for any value.
func decodeInto(value cue.Value, path string, result any) error {
	b, err := value.MarshalJSON()
	if err != nil {
		return evaluationError(path, err)
	}
	if err := json.Unmarshal(bytes.TrimSpace(b), result); err != nil {
		return evaluationError(path, err)
	}
	return nil
}
