package load

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/budget"
	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
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
func selfCheck(pkg *syntax.Package, v *kind.Version) error {
	sample := v.Sampler()
	for seed := range uint64(selfCheckSamples) {
		object := sample(rand.New(rand.NewPCG(seed, 0)))
		if kind.IsLarger(object, selfCheckValues) {
			continue
		}
		b := budget.New(v.GroupVersionKind.Kind)
		if err := Disagrees(v, schema.Validate(b, v.Compiled, schema.Default(b, v.Compiled, object)), object,
			Evaluate(pkg, v, object)); err != nil {
			text, errText := json.Marshal(object)
			return errors.Join(errText,
				fmt.Errorf(
					"the compiled schema and the CUE evaluator disagree, which is a bug in Fescue: %w; the object is %s", err, text))
		}
	}
	return nil
}

// Evaluation is the result of the CUE evaluator for an object.
type Evaluation struct {
	Rejected error          // why it rejects the object
	defaults map[string]any // of an object that it accepts, without a status that the engine completes
	Err      error          // if there are none
}

// Evaluate has the CUE evaluator judge an object.
func Evaluate(pkg *syntax.Package, v *kind.Version, object map[string]any) (e Evaluation) {
	unified := pkg.Definition(v.DefinitionName).Unify(cuecontext.New().Encode(withoutCompleted(v, object)))
	if e.Rejected = unified.Validate(cue.Concrete(true), cue.Final()); e.Rejected != nil {
		return e
	}
	text, err := unified.MarshalJSON()
	if e.Err = err; err == nil {
		e.Err = json.Unmarshal(text, &e.defaults)
	}
	return e
}

// withoutCompleted returns an object without a status that the fields of the engine complete.
func withoutCompleted(v *kind.Version, object map[string]any) map[string]any {
	if v.Status.Differs() {
		object = maps.Clone(object)
		delete(object, "status")
	}
	return object
}

// Disagrees compares the problems of an object, and its defaults if it has none, with the
// result of the CUE evaluator, which ignores attributes.
func Disagrees(v *kind.Version, problems []kind.Problem, object map[string]any, expected Evaluation) error {
	var ours []kind.Problem
	for _, p := range problems {
		switch {
		case v.Status.Differs() && (p.Field == "status" || strings.HasPrefix(p.Field, "status.")):
			// the evaluator has another status
		case p.Rule == nil || !p.Rule.NotInCUE:
			ours = append(ours, p)
		case p.Type == field.ErrorTypeTypeInvalid:
			return nil // CUE may do anything with a list in place of a struct
		}
	}
	switch {
	case expected.Rejected != nil && len(ours) == 0:
		return fmt.Errorf("only the CUE evaluator rejects it: %w", expected.Rejected)
	case expected.Rejected == nil && len(ours) > 0:
		return fmt.Errorf("only the compiled form rejects it: %w", ours[0].Error)
	case len(problems) > 0 || expected.Rejected != nil:
		return nil
	case expected.Err != nil:
		return expected.Err
	}
	return kind.SameJSON("the defaults differ", expected.defaults,
		withoutCompleted(v, schema.Default(budget.New(v.GroupVersionKind.Kind), v.Compiled, object)))
}
