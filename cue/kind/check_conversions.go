package kind

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// checkConversions checks the further versions of the kind against the stored one and, if that finds no
// mistake, with generated objects.
func checkConversions(k *Kind, pkg *kindsPackage, known *types.Catalog) (mistakes []*LoadError, advice []Advice) {
	for _, v := range k.Versions[1:] {
		var found []*LoadError
		if v.Conversion != nil {
			c := newChecker(k, pkg, nil)
			c.types = known
			c.ofConversion(v, v.Conversion.Name).conversion(v)
			found = c.mistakes
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
func (c *checker) conversion(v *Version) {
	for _, direction := range []struct {
		name, gives, other string
		from, to           *Version
	}{{toStoredName, objectName, storedName, v, c.kind.Version}, {fromStoredName, storedName, objectName, c.kind.Version, v}} {
		m := c.controller.fields[direction.name]
		if m == nil {
			continue
		}
		c.otherSide(m.parts, direction.name, direction.gives, direction.other)
		for _, fixed := range fixedFields {
			if f := c.structureOf(c.controller, direction.name).fields[fixed]; f != nil {
				c.report(f.node, "%s.%s: a conversion copies it as it is: leave it out", direction.name, fixed)
			}
		}
		c.check(m.parts, c.types.FromRootSchema(direction.to.Schema).Relaxed(), direction.name)
	}
}

// otherSide reports where a direction reads what it yields.
func (c *checker) otherSide(parts []part, direction, gives, other string) {
	for _, p := range parts {
		ast.Walk(p.expr, func(n ast.Node) bool {
			if ident, ok := n.(*ast.Ident); ok && ident.Name == other && c.own[ident.Scope] {
				c.report(ident, "%s cannot read %s: it follows from %s", direction, other, gives)
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
	kind     *Kind
	version  *Version // which of the two is not stored
	from, to *Version
}

func (r *roundTrip) direction() string {
	if r.to == r.version {
		return fromStoredName
	}
	return toStoredName
}

// try returns what is wrong with the conversion, or which values the other version does not allow.
func (r *roundTrip) try() (*LoadError, []Advice) {
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
	return nil, []Advice{{paths[0], r.version.position(), fmt.Sprintf("some objects that %s allows are not valid as %s: %s: %s",
		r.from.GroupVersionKind.Version, r.to.GroupVersionKind.Version, paths[0], invalid[paths[0]])}}
}

// one converts an object, and collects what the other version does not allow in it.
func (r *roundTrip) one(object map[string]any, invalid map[string]string) *LoadError {
	from, to := r.from.GroupVersionKind.Version, r.to.GroupVersionKind.Version
	b := r.kind.NewBudget()
	converted, failures := r.kind.convertOnce(b, r.from.withDefaults(b, object), r.from, r.to)
	if len(failures) > 0 {
		return r.mistake(failures[0].err, object, "%s cannot be applied to an object that %s allows: %v", r.direction(), from, failures[0].err)
	}
	problems := schema.Validate(b, r.to.Compiled, converted)
	for _, p := range problems {
		switch {
		case strings.HasPrefix(p.Field, "metadata."), p.Type == field.ErrorTypeTypeInvalid && p.Field == "status":
		case p.Type == field.ErrorTypeRequired, p.Type == field.ErrorTypeForbidden, p.Type == field.ErrorTypeTypeInvalid:
			return r.mistake(nil, object, "%s turns an object that %s allows into one that is no valid %s: %v", r.direction(), from, to, p.Error)
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
	if _, lost := r.kind.fromStored(b, stored, r.version); len(lost) > 0 {
		return r.mistake(nil, object, "an object that %s allows loses a part: %v", from, lost[0])
	}
	return nil
}

// mistake returns an error that shows the object, at the place of a cause.
func (r *roundTrip) mistake(cause error, object map[string]any, format string, args ...any) *LoadError {
	at := r.version.position()
	if failure, ok := errors.AsType[*EvaluationError](cause); ok && failure.Position.File != "" {
		at = failure.Position
	}
	return &LoadError{Kind: r.kind.GroupVersionKind.Kind, File: at.File, Line: at.Line, Reason: fmt.Sprintf(format, args...) + "; the object has " + shown(withoutFixed(object), true)}
}

// position returns the place of the conversion of a version or, if it has none, of its schema.
func (v *Version) position() schema.Position {
	if v.Conversion != nil {
		return v.Conversion.At
	}
	return v.Compiled.Position
}
