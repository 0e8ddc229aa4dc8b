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
	"github.com/fescue-dev/fescue/cue/kind/place"
	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// checkConversions checks the further versions of the kind against the stored one and, if that finds no
// mistake, with generated objects.
func checkConversions(k *kind.Kind, pkg *syntax.Package, known *types.Catalog) (mistakes []*syntax.LoadError, advice []kind.Advice) {
	for _, v := range k.Versions[1:] {
		var found []*syntax.LoadError
		if v.Conversion != nil {
			c := New(k, pkg, nil)
			c.types = known
			c.OfConversion(v, v.Conversion.Name).conversion(v)
			found = c.Mistakes
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
func (c *Checker) conversion(v *kind.Version) {
	for _, direction := range []struct {
		name, gives, other string
		from, to           *kind.Version
	}{{kind.ToStoredName, behaviour.ObjectName, kind.StoredName, v, c.kind.Version}, {kind.FromStoredName, kind.StoredName, behaviour.ObjectName, c.kind.Version, v}} {
		m := c.Controller.Fields[direction.name]
		if m == nil {
			continue
		}
		c.otherSide(m.Parts, direction.name, direction.gives, direction.other)
		for _, fixed := range kind.FixedFields {
			if f := c.structureOf(c.Controller, direction.name).Fields[fixed]; f != nil {
				c.report(f.Node, "%s.%s: a conversion copies it as it is: leave it out", direction.name, fixed)
			}
		}
		c.check(m.Parts, c.types.FromRootSchema(direction.to.Schema).Relaxed(), direction.name)
	}
}

// otherSide reports where a direction reads what it yields.
func (c *Checker) otherSide(parts []Part, direction, gives, other string) {
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
	return nil, []kind.Advice{{Field: paths[0], Position: position(r.version), Text: fmt.Sprintf("some objects that %s allows are not valid as %s: %s: %s",
		r.from.GroupVersionKind.Version, r.to.GroupVersionKind.Version, paths[0], invalid[paths[0]])}}
}

// one converts an object, and collects what the other version does not allow in it.
func (r *roundTrip) one(object map[string]any, invalid map[string]string) *syntax.LoadError {
	from, to := r.from.GroupVersionKind.Version, r.to.GroupVersionKind.Version
	b := r.kind.NewBudget()
	converted, failures := r.kind.ConvertOnce(b, r.from.WithDefaults(b, object), r.from, r.to)
	if len(failures) > 0 {
		return r.mistake(failures[0].Err, object, "%s cannot be applied to an object that %s allows: %v", r.direction(), from, failures[0].Err)
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
	if _, lost := r.kind.FromStored(b, stored, r.version); len(lost) > 0 {
		return r.mistake(nil, object, "an object that %s allows loses a part: %v", from, lost[0])
	}
	return nil
}

// mistake returns an error that shows the object, at the place of a cause.
func (r *roundTrip) mistake(cause error, object map[string]any, format string, args ...any) *syntax.LoadError {
	at := position(r.version)
	if failure, ok := errors.AsType[*kind.EvaluationError](cause); ok && failure.Position.File != "" {
		at = failure.Position
	}
	return &syntax.LoadError{
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

// StatedBy returns which fields the parts of a value state.
func (c *Checker) StatedBy(parts []Part) *kind.Stated {
	s := c.Gather(parts)
	if len(s.literals) == 0 || len(s.others) > 0 || len(s.dynamic) > 0 {
		return &kind.Stated{Whole: true}
	}
	by := &kind.Stated{Fields: make(map[string]*kind.Stated)}
	for _, name := range s.Order {
		if m := s.Fields[name]; !m.Constraint {
			by.Fields[name] = c.StatedBy(m.Parts)
		}
	}
	return by
}

// OfConversion has the checker look at the conversion of a version.
func (c *Checker) OfConversion(v *kind.Version, name string) *Checker {
	alone := *c.kind
	alone.Phases = nil // the names of phases may differ between versions
	c.kind = &alone
	c.given = map[string]Value{
		behaviour.ObjectName: {t: types.Unknown, path: behaviour.ObjectName, owner: v.GroupVersionKind.Version},
		kind.StoredName:      {t: types.Unknown, path: kind.StoredName, owner: alone.GroupVersionKind.Version},
	}
	if c.types != nil {
		for name, of := range map[string]*kind.Version{behaviour.ObjectName: v, kind.StoredName: alone.Version} {
			given := c.given[name]
			given.t = c.types.FromRootSchema(of.Schema)
			c.given[name] = given
		}
	}
	c.Controller = nil
	c.Controller = c.Gather(c.topLevel(Part{in: c.pkg.Instance}, name))
	c.own = make(map[ast.Node]bool)
	for _, s := range c.Controller.literals {
		c.own[s] = true
	}
	c.Mistakes, c.found = nil, make(map[string]bool)
	return c
}
