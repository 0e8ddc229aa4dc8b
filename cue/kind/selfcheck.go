package kind

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind/budget"
	"github.com/fescue-dev/fescue/cue/kind/schema"
)

// selfCheckSamples is how many objects a version is tried with when it is loaded. The
// evaluator takes 2 ms for one of the largest kinds.
const selfCheckSamples = 8

// selfCheckValues is how many values such an object may have: the time of the evaluator grows with the square
// of the entries of one map.
const selfCheckValues = 20_000

// selfCheck compares the compiled form of a version with the CUE evaluator on a handful of
// objects, so that a construct that they treat differently is found when the kind is loaded,
// before it affects objects.
func (pkg *kindsPackage) selfCheck(v *Version) error {
	sample := v.Sampler()
	for seed := range uint64(selfCheckSamples) {
		object := sample(rand.New(rand.NewPCG(seed, 0)))
		if IsLarger(object, selfCheckValues) {
			continue
		}
		b := budget.New(v.GroupVersionKind.Kind)
		if err := v.disagrees(schema.Validate(b, v.Compiled, schema.Default(b, v.Compiled, object)), object, pkg.evaluate(v, object)); err != nil {
			text, errText := json.Marshal(object)
			return errors.Join(errText, fmt.Errorf("the compiled schema and the CUE evaluator disagree, which is a bug in Fescue: %w; the object is %s", err, text))
		}
	}
	return nil
}

// evaluation is the result of the CUE evaluator for an object.
type evaluation struct {
	rejected error          // why it rejects the object
	defaults map[string]any // of an object that it accepts, without a status that the engine completes
	err      error          // if there are none
}

// evaluate has the CUE evaluator judge an object.
func (pkg *kindsPackage) evaluate(v *Version, object map[string]any) (e evaluation) {
	unified := pkg.definition(v.DefinitionName).Unify(cuecontext.New().Encode(v.withoutCompleted(object)))
	if e.rejected = unified.Validate(cue.Concrete(true), cue.Final()); e.rejected != nil {
		return e
	}
	text, err := unified.MarshalJSON()
	if e.err = err; err == nil {
		e.err = json.Unmarshal(text, &e.defaults)
	}
	return e
}

// withoutCompleted returns an object without a status that the fields of the engine complete.
func (v *Version) withoutCompleted(object map[string]any) map[string]any {
	if v.Status.Differs() {
		object = maps.Clone(object)
		delete(object, "status")
	}
	return object
}

// disagrees compares the problems of an object, and its defaults if it has none, with the
// result of the CUE evaluator, which ignores attributes.
func (v *Version) disagrees(problems []Problem, object map[string]any, expected evaluation) error {
	var ours []Problem
	for _, p := range problems {
		switch {
		case v.Status.Differs() && (p.Field == "status" || strings.HasPrefix(p.Field, "status.")): // the evaluator has another status
		case p.Rule == nil || !p.Rule.NotInCUE:
			ours = append(ours, p)
		case p.Type == field.ErrorTypeTypeInvalid:
			return nil // CUE may do anything with a list in place of a struct
		}
	}
	switch {
	case expected.rejected != nil && len(ours) == 0:
		return fmt.Errorf("only the CUE evaluator rejects it: %w", expected.rejected)
	case expected.rejected == nil && len(ours) > 0:
		return fmt.Errorf("only the compiled form rejects it: %w", ours[0].Error)
	case len(problems) > 0 || expected.rejected != nil:
		return nil
	case expected.err != nil:
		return expected.err
	}
	return sameJSON("the defaults differ", expected.defaults, v.withoutCompleted(schema.Default(budget.New(v.GroupVersionKind.Kind), v.Compiled, object)))
}

// sameJSON compares two values by their JSON, where 1 and 1.0 are the same.
func sameJSON(what string, a, b any) error {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	if err := errors.Join(errX, errY); err != nil || bytes.Equal(x, y) {
		return err
	}
	return fmt.Errorf("%s: %s and %s", what, x, y)
}
