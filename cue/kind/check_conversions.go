package kind

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// checkConversions checks the conversions of the kind against the schemas of both versions and, if that
// finds no mistake, with generated objects.
func (k *Kind) checkConversions(known *types.Catalog) (mistakes []*LoadError, advice []Advice) {
	for _, v := range k.Versions {
		if v.conversion != nil {
			c := newChecker(k, nil)
			c.types = known
			c.ofConversion(v, v.conversion.name).conversion(v)
			mistakes = append(mistakes, c.mistakes...)
		}
	}
	if len(mistakes) > 0 {
		return mistakes, nil
	}
	for _, v := range k.Versions {
		if v == k.Version || !k.Converts() {
			continue
		}
		for _, way := range []roundTrip{{kind: k, from: v, to: k.Version, other: v}, {kind: k, from: k.Version, to: v, other: v}} {
			mistake, a := way.try()
			if mistake != nil { // the other direction most likely has it as well
				mistakes = append(mistakes, mistake)
				break
			}
			advice = append(advice, a...)
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
				c.report(f.node, "%s.%s: a conversion cannot change it", direction.name, fixed)
			}
		}
		c.check(m.parts, c.types.FromRootSchema(direction.to.Schema).Relaxed(), direction.name)
	}
	if len(c.mistakes) > 0 {
		return
	}
	c.required(v, c.kind.Version, toStoredName)
	c.required(c.kind.Version, v, fromStoredName)
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

// required reports fields that a version requires, and that objects of the other version may not
// have, if the conversion does not state them.
func (c *checker) required(from, to *Version, direction string) {
	at := c.controller.literals[0]
	var node ast.Node = at
	if m := c.controller.fields[direction]; m != nil {
		node = m.node
	}
	conversion := from.conversion
	if conversion == nil {
		conversion = to.conversion
	}
	c.requiredIn(from, to, from.Schema, to.Schema, conversion.stated[direction], direction, node)
}

func (c *checker) requiredIn(from, to *Version, had, wants *schemaProps, by *stated, path string, node ast.Node) {
	for _, name := range slices.Sorted(maps.Keys(wants.Properties)) {
		if slices.Contains(fixedFields, name) && !strings.Contains(path, ".") {
			continue
		}
		var inner *stated
		if by != nil {
			inner = by.fields[name]
		}
		if inner != nil && inner.whole {
			continue
		}
		below, hasField := had.Properties[name]
		want := wants.Properties[name]
		required := slices.Contains(wants.Required, name)
		isKept := hasField && (slices.Contains(had.Required, name) || below.Default != nil)
		at := path + "." + name
		switch {
		case inner == nil && required && want.Default == nil && !isKept:
			why := "has no such field"
			if hasField {
				why = "need not have it"
			}
			c.report(node, "%s: must be stated: %s requires it, and %s %s", at, to.GroupVersionKind.Version, from.GroupVersionKind.Version, why)
			return // others would be reported at the same place
		case inner == nil && hasField && below.Type != want.Type && below.Type != "" && want.Type != "":
			c.report(node, "%s: must be stated: it is of type %s in %s, and of type %s in %s", at, below.Type, from.GroupVersionKind.Version, want.Type, to.GroupVersionKind.Version)
			return
		case want.Type == "object" && (hasField || inner != nil):
			c.requiredIn(from, to, &below, &want, inner, at, node)
		}
	}
}

const (
	// roundTripSamples is how many valid objects of a version are converted there and back when the
	// kind loads, and roundTripSeeds how many are generated for that at most.
	roundTripSamples = 30
	roundTripSeeds   = 600
)

// roundTrip converts generated objects of a version to another one and back.
type roundTrip struct {
	kind     *Kind
	from, to *Version
	other    *Version // which of them is not stored
}

// direction is the conversion that it begins with.
func (r *roundTrip) direction(back bool) string {
	if (r.from == r.other) != back {
		return toStoredName
	}
	return fromStoredName
}

func (r *roundTrip) position() schema.Position {
	if c := r.other.conversion; c != nil {
		return c.at
	}
	return r.other.schema.Position
}

// try returns what is wrong with the conversion, or which fields only the annotation restores.
func (r *roundTrip) try() (*LoadError, []Advice) {
	var set, lost = make(map[string]int), make(map[string]int)
	invalid := make(map[string]string)
	tried, sample := 0, r.from.Sampler()
	for seed := uint64(0); seed < roundTripSeeds && tried < roundTripSamples; seed++ {
		object := sample(rand.New(rand.NewPCG(seed, 1)))
		if len(r.kind.Problems(object)) > 0 {
			continue
		}
		tried++
		if object = r.from.withDefaults(object); len(annotationsOf(object)) == 0 {
			object = withAnnotations(object, nil) // as the API server has it
		}
		if err := r.one(object, set, lost, invalid); err != nil {
			return err, nil
		}
	}
	if mistake := r.neverBack(set, lost); mistake != nil {
		return mistake, nil
	}
	return nil, r.advice(lost, invalid)
}

// one converts an object, and counts the fields that it has and that were lost.
func (r *roundTrip) one(object map[string]any, set, lost map[string]int, invalid map[string]string) *LoadError {
	from, to := r.from.GroupVersionKind.Version, r.to.GroupVersionKind.Version
	converted, err := r.kind.convertStep(object, r.from, r.to)
	if err != nil {
		return r.mistake(err, object, "%s cannot be applied to an object that %s allows: %v", r.direction(false), from, err)
	}
	for _, p := range schema.Validate(r.to.schema, converted) {
		switch {
		case strings.HasPrefix(p.Field, "metadata."), p.Type == field.ErrorTypeTypeInvalid && p.Field == "status":
		case p.Type == field.ErrorTypeRequired, p.Type == field.ErrorTypeForbidden, p.Type == field.ErrorTypeTypeInvalid:
			return r.mistake(nil, object, "%s turns an object that %s allows into one that is no valid %s: %v", r.direction(false), from, to, p.Error)
		default:
			invalid[p.Field] = p.ErrorBody()
		}
	}
	again, err := r.kind.convertStep(converted, r.to, r.from)
	if err != nil {
		return r.mistake(err, object, "%s cannot be applied to what %s returns: %v", r.direction(true), r.direction(false), err)
	}
	_, again = keptOf(again, to)
	if err := sameJSON("an object differs after it was converted there and back, which is a bug in Fescue", again, object); err != nil {
		return r.mistake(nil, object, "%v", err)
	}
	countFields(withoutFixed(object), "", set)
	k, _ := keptOf(converted, from)
	for path := range k {
		lost[shownPointer(path)]++
	}
	return nil
}

// mistake returns an error that shows the object, at the place of a cause.
func (r *roundTrip) mistake(cause error, object map[string]any, format string, args ...any) *LoadError {
	at := r.position()
	if failure, ok := errors.AsType[*EvaluationError](cause); ok && failure.Position.File != "" {
		at = failure.Position
	}
	shown := withoutFixed(object)
	delete(shown, "status")
	text, _ := json.Marshal(shown)
	return &LoadError{Kind: r.kind.GroupVersionKind.Kind, File: at.File, Line: at.Line, Reason: fmt.Sprintf(format, args...) + "; the object has " + abridged(string(text))}
}

// maxShownObject is how much of an object a mistake shows.
const maxShownObject = 300

func abridged(text string) string {
	if len(text) > maxShownObject {
		return strings.ToValidUTF8(text[:maxShownObject], "") + "…"
	}
	return text
}

// countFields counts the fields of an object.
func countFields(value map[string]any, prefix string, into map[string]int) {
	for name, inner := range value {
		into[prefix+name]++
		if below, ok := inner.(map[string]any); ok {
			countFields(below, prefix+name+".", into)
		}
	}
}

// minLost is how many objects have to have a field before it counts as never restored.
const minLost = 3

// neverBack returns the mistake of a field that the conversion reads, but whose value never comes
// back: one direction does not undo the other.
func (r *roundTrip) neverBack(set, lost map[string]int) *LoadError {
	c := r.other.conversion
	if c == nil {
		return nil
	}
	gives := objectName
	if r.from != r.other {
		gives = storedName
	}
	for _, path := range sortedKeys(lost) {
		isRead := slices.ContainsFunc(c.reads[gives], func(read string) bool { return read == path || strings.HasPrefix(read, path+".") })
		if isRead && set[path] >= minLost && lost[path] == set[path] {
			return &LoadError{Kind: r.kind.GroupVersionKind.Kind, File: c.at.File, Line: c.at.Line, Reason: fmt.Sprintf(
				"%s of %s is lost: %s reads it, but %s never returns its value", path, r.from.GroupVersionKind.Version, r.direction(false), r.direction(true))}
		}
	}
	return nil
}

// advice names the fields that the other version cannot say, and those of which it is told what it
// does not allow.
func (r *roundTrip) advice(lost map[string]int, invalid map[string]string) (all []Advice) {
	from, to := r.from.GroupVersionKind.Version, r.to.GroupVersionKind.Version
	if paths := sortedKeys(lost); len(paths) > 0 {
		all = append(all, Advice{paths[0], r.position(), fmt.Sprintf(
			"%s cannot express all of %s of %s: objects keep it in the annotation %s", to, shownList(paths), from, KeptPrefix+from)})
	}
	if paths := sortedKeys(invalid); len(paths) > 0 {
		all = append(all, Advice{paths[0], r.position(), fmt.Sprintf(
			"some objects that %s allows are not valid as %s: %s: %s", from, to, paths[0], invalid[paths[0]])})
	}
	return all
}

func shownList(paths []string) string {
	more := len(paths) - maxUnbounded
	if more > 0 {
		return strings.Join(paths[:maxUnbounded], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(paths, ", ")
}
