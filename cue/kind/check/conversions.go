package check

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/facts"
	"github.com/fescue-dev/fescue/cue/kind/infer"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/place"
	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// conversions checks the further versions of the kind against the stored one and, if that finds no
// mistake, with generated objects.
func conversions(
	k *kind.Kind, pkg *syntax.Package, known *types.Catalog,
) (mistakes []*syntax.LoadError, advice []kind.Advice) {
	for _, v := range k.Versions[1:] {
		var found []*syntax.LoadError
		if v.Conversion != nil {
			found = conversion(k, v, facts.Conversion(k, pkg, v, v.Conversion.Name, known), known)
		}
		if len(found) == 0 {
			found = counterpartsOf(k, pkg, v)
		}
		mistakes = append(mistakes, found...)
	}
	if len(mistakes) > 0 {
		return mistakes, nil
	}
	for _, v := range k.Versions[1:] {
		for _, way := range []roundTrip{{k, v, v, k.Version}, {k, v, k.Version, v}} {
			if way.from == k.Version && !v.Served {
				continue // it is never asked for
			}
			mistake, found := way.try()
			if mistake != nil { // the other direction most likely has it as well
				return append(mistakes, mistake), nil
			}
			advice = append(advice, found...)
		}
	}
	return mistakes, advice
}

// conversion reports what does not fit the types of the two versions.
func conversion(k *kind.Kind, v *kind.Version, r *infer.Reader, known *types.Catalog) []*syntax.LoadError {
	f := newFitter(r)
	for _, direction := range []struct {
		name, gives, other string
		to                 *kind.Version
	}{{kind.ToStoredName, behaviour.ObjectName, kind.StoredName, k.Version},
		{kind.FromStoredName, kind.StoredName, behaviour.ObjectName, v}} {
		m := r.Definition.Fields[direction.name]
		if m == nil {
			continue
		}
		otherSide(r, m.Parts, direction.name, direction.gives, direction.other)
		for _, fixed := range kind.FixedFields {
			if field := r.Definition.Peek(direction.name).Fields[fixed]; field != nil {
				r.Report(mistake.CopiedField, field.Node, "%s.%s: a conversion copies it as it is: leave it out",
					direction.name, fixed)
			}
		}
		f.check(m.Parts, known.FromRootSchema(direction.to.Schema).Relaxed(), direction.name)
	}
	return r.Mistakes
}

// otherSide reports where a direction reads what it yields.
func otherSide(r *infer.Reader, parts []infer.Part, direction, gives, other string) {
	for _, p := range parts {
		ast.Walk(p.Expr, func(n ast.Node) bool {
			if ident, ok := n.(*ast.Ident); ok && ident.Name == other && r.IsOwn(ident) {
				r.Report(mistake.ReadsResult, ident, "%s cannot read %s: it follows from %s", direction, other, gives)
			}
			return true
		}, nil)
	}
}

const (
	// roundTripSamples is how many valid objects of a version are converted there and back when the
	// kind loads, and roundTripSeeds how many are generated for that at most.
	roundTripSamples = 30
	roundTripSeeds   = 600
)

// roundTrip converts generated objects of a version to another one.
type roundTrip struct {
	kind     *kind.Kind
	version  *kind.Version // which of the two is not stored
	from, to *kind.Version
}

func (r *roundTrip) direction() string {
	if r.to == r.version {
		return kind.FromStoredName
	}
	return kind.ToStoredName
}

// try returns what is wrong with the conversion, or which values the other version does not allow.
func (r *roundTrip) try() (*syntax.LoadError, []kind.Advice) {
	invalid := make(map[string]string)
	tried, sample := 0, r.from.Sampler()
	for seed := uint64(0); seed < roundTripSeeds && tried < roundTripSamples; seed++ {
		object := sample(rand.New(rand.NewPCG(seed, 1)))
		if len(r.kind.Problems(object)) > 0 {
			continue
		}
		tried++
		if err := r.one(object, invalid); err != nil {
			return err, nil
		}
	}
	paths := slices.Sorted(maps.Keys(invalid))
	if len(paths) == 0 {
		return nil, nil
	}
	return nil, []kind.Advice{{Check: mistake.NarrowVersion, Field: paths[0], Position: position(r.version), Text: fmt.Sprintf("some objects that %s allows are not valid as %s: %s: %s",
		r.from.GroupVersionKind.Version, r.to.GroupVersionKind.Version, paths[0], invalid[paths[0]])}}
}

// one converts an object, and collects what the other version does not allow in it.
func (r *roundTrip) one(object map[string]any, invalid map[string]string) *syntax.LoadError {
	from, to := r.from.GroupVersionKind.Version, r.to.GroupVersionKind.Version
	b := r.kind.NewBudget()
	converted, failures := r.kind.Versions.ConvertOnce(b, r.from.WithDefaults(b, object), r.from, r.to)
	if len(failures) > 0 {
		return r.mistake(mistake.FailedConversion, failures[0].Err, object,
			"%s cannot be applied to an object that %s allows: %v", r.direction(), from, failures[0].Err)
	}
	problems := schema.Validate(b, r.to.Compiled, converted)
	for _, p := range problems {
		switch {
		case strings.HasPrefix(p.Field, "metadata."), p.Type == field.ErrorTypeTypeInvalid && p.Field == "status":
		case p.Type == field.ErrorTypeRequired, p.Type == field.ErrorTypeForbidden,
			p.Type == field.ErrorTypeTypeInvalid:
			return r.mistake(mistake.FailedConversion, nil, object,
				"%s turns an object that %s allows into one that is no valid %s: %v", r.direction(), from, to, p.Error)
		default:
			invalid[p.Field] = p.ErrorBody()
		}
	}
	stored := object
	if r.from == r.version {
		stored = converted
	}
	if !r.version.Served || r.from == r.version && len(problems) > 0 {
		return nil // it is never read in the version, or never stored
	}
	if _, lost := r.kind.Versions.FromStored(b, stored, r.version); len(lost) > 0 {
		return r.mistake(mistake.LossyConversion, nil, object, "an object that %s allows loses a part: %v", from,
			lost[0])
	}
	return nil
}

// mistake returns an error that shows the object, at the place of a cause.
func (r *roundTrip) mistake(
	check mistake.Check, cause error, object map[string]any, format string, args ...any,
) *syntax.LoadError {
	at := position(r.version)
	if failure, ok := errors.AsType[*kind.EvaluationError](cause); ok && failure.Position.File != "" {
		at = failure.Position
	}
	return &syntax.LoadError{
		Check:  check,
		Kind:   r.kind.GroupVersionKind.Kind,
		File:   at.File,
		Line:   at.Line,
		Reason: fmt.Sprintf(format, args...) + "; the object has " + kind.Shown(kind.WithoutFixed(object), true),
	}
}

// position returns the place of the conversion of a version or, if it has none, of its schema.
func position(v *kind.Version) place.Position {
	if v.Conversion != nil {
		return v.Conversion.At
	}
	return v.Compiled.Position
}
