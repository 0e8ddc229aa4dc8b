package kind

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind/schema"
)

// selfCheckSamples is how many objects a version is tried with when it is loaded. The
// evaluator takes 2 ms for one of the largest kinds.
const selfCheckSamples = 8

// selfCheck compares the compiled form of a version with the CUE evaluator on a handful of
// objects, so that a construct that they treat differently is found when the kind is loaded,
// before it affects objects.
func (v *Version) selfCheck() error {
	sample := v.Sampler()
	for seed := range uint64(selfCheckSamples) {
		object := sample(rand.New(rand.NewPCG(seed, 0)))
		if checkLimits(object, evaluatorLimits) != nil {
			continue
		}
		if err := v.disagrees(schema.Validate(v.schema, schema.Default(v.schema, object)), object, v.evaluate(object)); err != nil {
			text, errText := json.Marshal(object)
			return errors.Join(errText, fmt.Errorf("the compiled schema and the CUE evaluator disagree, which is a bug in Fescue: %w; the object is %s", err, text))
		}
	}
	return nil
}

// evaluation is the result of the CUE evaluator for an object.
type evaluation struct {
	rejected field.ErrorList
	defaults map[string]any // of an object that it accepts
	err      error          // if there are none
}

func (v *Version) evaluate(object map[string]any) evaluation {
	var e evaluation
	e.defaults, e.rejected, e.err = v.evaluator.defaultAndValidate(object)
	return e
}

// disagrees compares the problems of an object, and its defaults if it has none, with the
// result of the CUE evaluator, which ignores attributes.
func (v *Version) disagrees(problems []Problem, object map[string]any, expected evaluation) error {
	var ours []Problem
	for _, p := range problems {
		switch {
		case v.status.Differs() && (p.Field == "status" || strings.HasPrefix(p.Field, "status.")): // the evaluator has another status
		case p.Rule == nil || !p.Rule.NotInCUE:
			ours = append(ours, p)
		case p.Type == field.ErrorTypeTypeInvalid:
			return nil // CUE may do anything with a list in place of a struct
		}
	}
	switch {
	case v.evaluated && len(problems) > 0:
		return nil // the evaluator only checks objects without other errors
	case len(expected.rejected) > 0 && len(ours) == 0 && !v.evaluated:
		return fmt.Errorf("only the CUE evaluator rejects it: %w", expected.rejected.ToAggregate())
	case len(expected.rejected) == 0 && len(ours) > 0:
		return fmt.Errorf("only the compiled form rejects it: %w", ours[0].Error)
	case len(problems) > 0 || len(expected.rejected) > 0:
		return nil
	case expected.err != nil:
		return expected.err
	}
	defaults := schema.Default(v.schema, object)
	if _, ok := expected.defaults["status"]; ok && v.status.Differs() {
		expected.defaults["status"] = defaults["status"]
	}
	return sameJSON("the defaults differ", expected.defaults, defaults)
}

// sameJSON compares two objects by their JSON, where 1 and 1.0 are the same.
func sameJSON(what string, a, b map[string]any) error {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	if err := errors.Join(errX, errY); err != nil || bytes.Equal(x, y) {
		return err
	}
	return fmt.Errorf("%s: %s and %s", what, x, y)
}

// Try evaluates the behaviour for some valid sample objects without children, in each phase. The
// results do not matter: it is for finding out, in a process that can be stopped, whether the
// evaluator is able to.
func (k *Kind) Try() {
	tried, sample := 0, k.Sampler()
	for seed := uint64(0); seed < 20*selfCheckSamples && tried < selfCheckSamples; seed++ {
		checked := k.Check(sample(rand.New(rand.NewPCG(seed, 0))))
		if len(checked.Errors) > 0 {
			continue
		}
		tried++
		_, _ = k.Injection(checked.Object)
		_, _ = k.Decide(checked.Object, nil)
		for phase := range k.Phases {
			object := maps.Clone(checked.Object)
			object["status"] = map[string]any{"phase": phase}
			_, _ = k.Decide(object, nil)
		}
	}
}
