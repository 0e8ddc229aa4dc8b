package proof

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/binding"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

const (
	// maxPairs is how many pairs of an object and its children a proof compares at most. CUE's evaluator takes 0.5 to
	// 5 ms for one.
	maxPairs = 120
	// idlePairs is how many pairs in a row may show nothing new, a way that was not taken before, until a proof ends.
	idlePairs = 24
	// maxCompared is how many steps of its budget a decision may take to be compared: CUE's evaluator has none, and its
	// time grows with the square of what is computed.
	maxCompared = 50_000
	// pairsPerContext is how many pairs CUE's evaluator computes in one context, which keeps them all: 70 pairs of a
	// kind as large as an ApplicationSet take more than 256 MiB.
	pairsPerContext = 4
	// maxShrinks is how often a proof asks again for a smaller pair that shows a difference.
	maxShrinks = 60
)

// Obstacle is why nothing was compared, where no limit was in the way.
const Obstacle = "no valid object was found, or each takes too many steps"

// Prove compares the compiled behaviour with CUE's evaluator: for objects that the schema makes, in each of the phases,
// and children that have what the behaviour reads of them, in part. The pairs follow from the source, so each proof of
// a kind is the same. known are types of children, and may be nil.
func Prove(draft load.Draft, known *types.Catalog) load.Proof {
	k, pkg := draft.Kind, draft.Source
	pkg.Proving.Lock()
	defer pkg.Proving.Unlock()
	proof := load.Proof{Kind: k.LoadName()}
	ways := behaviour.NewWays(k.Program)
	alone := *k
	alone.Program = k.Program.Noting(ways)
	noting := load.Draft{Kind: &alone, Source: pkg}
	c := newComparison(noting)
	c.anyOrder = marshals(pkg)
	p := newPairs(noting, known)
	p.keepsTypes = known != nil
	for seed, idle := uint64(0), 0; seed < maxPairs && idle < idlePairs; seed++ {
		if seed%pairsPerContext == pairsPerContext-1 {
			c.Source = pkg.InNewContext()
		}
		p.random = rand.New(rand.NewPCG(seed, 1))
		object, observed := p.next()
		if object == nil { // nor would another seed find one soon
			proof.NotCompared++
			break
		}
		err := c.compare(object, observed)
		idle++
		if all, taken := ways.Count(); taken > proof.Taken || all != proof.Ways {
			proof.Ways, proof.Taken, idle = all, taken, 0
		}
		switch {
		case errors.Is(err, errNotCompared):
			proof.NotCompared++
		case err != nil:
			proof.Difference = c.difference(object, observed, err)
			return proof
		default:
			proof.Compared++
		}
	}
	if proof.Compared > 0 && !c.decided {
		proof.Stalls = c.stalls.Error()
	}
	return proof
}

// comparison compares the compiled behaviour of a kind with CUE's evaluator.
type comparison struct {
	load.Draft
	expressions func() *expressions
	// anyOrder leaves out the order of the characters of texts, and hashes in them: docs/cue.md says that the order of
	// fields in what json.Marshal and yaml.Marshal return is Fescue's own.
	anyOrder bool
	// decided means that the behaviour has decided about some object, and stalls is why it could not about the last.
	decided bool
	stalls  error
}

func newComparison(draft load.Draft) *comparison {
	return &comparison{Draft: draft,
		expressions: sync.OnceValue(func() *expressions { return expressionsOf(draft.Source.Instance) })}
}

// marshals reports whether the source of kinds calls json.Marshal or yaml.Marshal.
func marshals(p *syntax.Package) (found bool) {
	syntax.WalkSources(p.Instance, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			path, name := binding.Selected(selector)
			found = found || (path == "encoding/json" || path == "encoding/yaml") &&
				strings.HasPrefix(name, "Marshal")
		}
		return !found
	})
	return found
}

// difference describes a difference by the smallest pair that shows it.
func (k *comparison) difference(object, observed map[string]any, err error) *syntax.LoadError {
	left := maxShrinks
	differs := func(object, observed map[string]any) bool {
		if left--; left < 0 || len(k.Problems(object)) > 0 {
			return false
		}
		smaller := k.compare(k.Default(object), observed)
		if smaller == nil || errors.Is(smaller, errNotCompared) {
			return false
		}
		err = smaller
		return true
	}
	observed = shrunk(observed, func(smaller map[string]any) bool { return differs(object, smaller) })
	for _, part := range []string{"status", "spec", "metadata"} {
		whole, isStruct := object[part].(map[string]any)
		if !isStruct {
			continue
		}
		with := func(smaller map[string]any) map[string]any {
			changed := maps.Clone(object)
			changed[part] = smaller
			return changed
		}
		object = with(shrunk(whole, func(smaller map[string]any) bool { return differs(with(smaller), observed) }))
	}
	place := syntax.PositionOf(k.Source.Definitions[syntax.BehaviourOf(k.LoadName())][0])
	return &syntax.LoadError{Check: mistake.DiffersFromCUE, Kind: k.LoadName(), File: place.File, Line: place.Line,
		Reason: fmt.Sprintf(
			"Fescue and CUE disagree, which is a bug in Fescue, or one of the differences in docs/cue.md: %v; given %s",
			err, shownJSON(map[string]any{behaviour.ObjectName: object, behaviour.ObservedName: observed}))}
}

// shrunk returns an object without the fields that it can lose.
func shrunk(object map[string]any, still func(map[string]any) bool) map[string]any {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		smaller := maps.Clone(object)
		delete(smaller, name)
		if still(smaller) {
			object = smaller
		}
	}
	return object
}

// errNotCompared is of a pair about which one of the two evaluators says nothing.
var errNotCompared = errors.New("not compared")

// errOnlyFescue and errOnlyCUE are of a difference that is an error for one of them.
var (
	errOnlyFescue = errors.New("only Fescue finds an error")
	errOnlyCUE    = errors.New("only CUE finds an error")
)

// compare returns how the compiled behaviour and CUE's evaluator differ about an object and its children.
func (k *comparison) compare(object, observed map[string]any) (err error) {
	b := k.NewBudget()
	compiled, errCompiled := k.Decide(b, object, observed)
	k.decided, k.stalls = k.decided || errCompiled == nil, errCompiled
	if b.Taken() > maxCompared {
		return fmt.Errorf("%w: it takes more than %d steps", errNotCompared, maxCompared)
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: CUE's evaluator fails: %v", errNotCompared, r)
		}
	}()
	var evaluated *kind.Decision
	v, errEvaluated := k.evaluated(object, observed)
	if errEvaluated == nil {
		evaluated, errEvaluated = k.DecisionOf(v, k.PhaseOf(object))
	}
	if err := k.sameResult("", decisionResult(withoutHidden(compiled, evaluated, v)), decisionResult(evaluated),
		errCompiled, errEvaluated); err != nil {
		return err
	}
	return k.compareRest(object, v, errEvaluated != nil)
}

// withoutHidden returns a decision without what an if or a loop around children waits for, if CUE's evaluator does not
// say that because something is wrong in a child, or with a field that its struct cannot have.
func withoutHidden(compiled, evaluated *kind.Decision, whole kind.Piece) *kind.Decision {
	p, isEvaluated := whole.(evaluatedPiece)
	if !isEvaluated || compiled == nil || evaluated == nil || len(evaluated.Undecided) > 0 {
		return compiled
	}
	failed := p.value.LookupPath(load.PathChildren).Err()
	if failed == nil || cue.IsIncomplete(failed) {
		return compiled
	}
	known := *compiled
	known.Undecided = nil
	return &known
}

// compareRest returns how both differ about what is read for an object, and about what it injects. isWrong means that
// the evaluated behaviour has no decision.
func (k *comparison) compareRest(object map[string]any, evaluated kind.Piece, isWrong bool) error {
	if err := k.compareLookups(object); err != nil || !k.Injects() {
		return err
	}
	// An injection reads no child: the behaviour that was evaluated has it too. What is wrong with the
	// children can hide it there, so that it needs a behaviour without them.
	problem := k.compareInjection(object, evaluated)
	if problem == nil && !isWrong {
		return nil
	}
	alone, err := k.evaluated(object, nil)
	if err != nil {
		alone = nil
	}
	return k.compareInjection(object, alone)
}

// compareInjection returns how both differ about what an object injects, which is an error for an
// evaluated behaviour that is nil.
func (k *comparison) compareInjection(object map[string]any, evaluated kind.Piece) error {
	injected, err := k.Injection(k.NewBudget(), object)
	errEvaluated := errors.New("it has no behaviour")
	var expected *kind.Injection
	if evaluated != nil {
		expected, errEvaluated = kind.InjectionOf(evaluated)
	}
	return k.sameResult("inject", injected, expected, err, errEvaluated)
}

// compareLookups returns how both differ about what is read for an object.
func (k *comparison) compareLookups(object map[string]any) error {
	if len(k.Lookups) == 0 {
		return nil
	}
	compiled, err := k.LookupsOf(k.NewBudget(), object)
	var evaluated []kind.Lookup
	v, errEvaluated := k.evaluated(k.Readable(object), nil)
	if errEvaluated == nil {
		evaluated, errEvaluated = kind.LookupsOf(v)
	}
	return k.sameResult(kind.ReadsName, lookupResult(compiled), lookupResult(evaluated), err, errEvaluated)
}

// operandErrors are CUE's messages that do not say whether something is absent or wrong: about a disjunction within an
// operand, where it counts the errors of the alternatives, a call within one, an operand of a text or a name that has
// only a type, and what is absent in a struct that is unified with a disjunction.
var operandErrors = regexp.MustCompile(
	`incomplete value _( |$)|error in call to [^ :]+( \(|$)|(error in call to|invalid interpolation|-hand value).*: \d+ errors in empty disjunction|` +
		`invalid interpolation: non-concrete value|key value of dynamic field must be concrete`,
)

// cyclicReference is in CUE's message about a field that refers to itself. CUE 0.17.1 has it also for some fields under
// two ifs of which the inner one does not hold; Fescue finds the cycles that there are.
const cyclicReference = "cyclic reference to field"

// sameResult returns how two results differ. Two errors are the same.
func (k *comparison) sameResult(path string, compiled, evaluated any, errCompiled, errEvaluated error) error {
	switch {
	case errCompiled != nil && errEvaluated != nil:
		return nil
	case errors.Is(errEvaluated, errNotCompared):
		return errEvaluated
	case errCompiled == nil && errEvaluated != nil && strings.Contains(errEvaluated.Error(), cyclicReference):
		return fmt.Errorf("%w: CUE finds a cycle: %w", errNotCompared, errEvaluated)
	case errCompiled != nil:
		return fmt.Errorf("%w: %w", errOnlyFescue, errCompiled)
	case errEvaluated != nil && (operandErrors.MatchString(errEvaluated.Error()) ||
		slices.ContainsFunc(absentMessages,
			func(message string) bool { return strings.Contains(errEvaluated.Error(), message) })):
		// in a computed name, for example
		return fmt.Errorf("%w: CUE counts as wrong what reads something absent: %w", errNotCompared, errEvaluated)
	case errEvaluated != nil:
		return fmt.Errorf("%w: %w", errOnlyCUE, errEvaluated)
	}
	x, errX := plainJSON(compiled)
	y, errY := plainJSON(evaluated)
	if err := cmp.Or(errX, errY); err != nil {
		return err
	}
	if path, x, y, differ := k.firstDifference(path, x, y); differ {
		return fmt.Errorf("%s is %s for Fescue and %s for CUE", strings.TrimPrefix(path, "."), x, y)
	}
	return nil
}

// plainJSON returns a value as JSON has it.
func plainJSON(value any) (plain any, err error) {
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &plain)
	}
	return plain, err
}

// firstDifference finds where two values differ first, and returns what each of them has there as text.
func (k *comparison) firstDifference(path string, x, y any) (at, ofX, ofY string, differ bool) {
	a, isStruct := x.(map[string]any)
	b, isOtherStruct := y.(map[string]any)
	if isStruct && isOtherStruct {
		for _, name := range sets.List(sets.KeySet(a).Union(sets.KeySet(b))) {
			if at, ofX, ofY, differ := k.firstDifference(kind.FieldPath(path, name), fieldOrNone(a, name),
				fieldOrNone(b, name)); differ {
				return at, ofX, ofY, true
			}
		}
		return "", "", "", false
	}
	list, isList := x.([]any)
	other, isOtherList := y.([]any)
	if isList && isOtherList && len(list) == len(other) {
		for i := range list {
			if at, ofX, ofY, differ := k.firstDifference(fmt.Sprintf("%s[%d]", path, i), list[i], other[i]); differ {
				return at, ofX, ofY, true
			}
		}
		return "", "", "", false
	}
	same := reflect.DeepEqual(x, y) || k.anyOrder && sameCharacters(x, y)
	return path, shownJSON(x), shownJSON(y), !same
}

// hashed finds what may be a hash in a text.
var hashed = regexp.MustCompile(`[0-9a-f]{8,}`)

// sameCharacters reports whether two texts, or what they have in base64, have the same characters, but for those of
// hashes.
func sameCharacters(x, y any) bool {
	a, isText := x.(string)
	b, isOtherText := y.(string)
	if decoded, err := base64.StdEncoding.DecodeString(a); err == nil {
		if other, err := base64.StdEncoding.DecodeString(b); err == nil {
			a, b = string(decoded), string(other)
		}
	}
	characters := func(text string) []byte {
		sorted := hashed.ReplaceAllFunc([]byte(text),
			func(hash []byte) []byte { return bytes.Repeat([]byte("#"), len(hash)) })
		slices.Sort(sorted)
		return sorted
	}
	return isText && isOtherText && bytes.Equal(characters(a), characters(b))
}

// missing stands for a field that is not there.
type missing struct{}

func fieldOrNone(object map[string]any, name string) any {
	if value, ok := object[name]; ok {
		return value
	}
	return missing{}
}

func shownJSON(value any) string {
	if value == (missing{}) {
		return "missing"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// isWaiting reduces what something waits for to whether it waits: the wording may differ.
func isWaiting(absent []kind.Absence) bool { return len(absent) > 0 }

// decisionResult returns a decision without what may differ: the wording of what is absent.
func decisionResult(d *kind.Decision) any {
	if d == nil {
		return nil
	}
	children := make(map[string]any)
	for _, c := range d.Children {
		waits := isWaiting(c.Absent)
		c.Absent = nil
		membersWait := false
		if c.Set != nil {
			set := *c.Set
			membersWait, set.Absent = isWaiting(set.Absent), nil
			c.Set = &set
		}
		children[strings.TrimPrefix(c.Phase+"."+c.Name, ".")] = map[string]any{"is": c, "waits": waits,
			"membersWait": membersWait}
	}
	conditions := make(map[string]any)
	for _, c := range d.Conditions {
		if c.Status == metav1.ConditionUnknown {
			c.Message = ""
		}
		conditions[c.Type] = c
	}
	var next []string
	for _, t := range d.Next {
		text := fmt.Sprintf("%s %t", t.To, t.When)
		if t.After != nil {
			text += fmt.Sprintf(" after %v %v", t.After.At, t.After.Delay)
		}
		if t.Cron != nil {
			text += fmt.Sprintf(" at %v, within %v", t.Cron.Times.Next(time.Unix(0, 0).In(t.Cron.Location)),
				t.StartingDeadline)
		}
		next = append(next, text)
	}
	return map[string]any{
		"children": children, "conditions": conditions, "next": next, "status": d.Status, "deadline": d.Deadline,
		"waits": isWaiting(d.Undecided),
	}
}

// lookupResult returns lookups without the wording of what is absent.
func lookupResult(lookups []kind.Lookup) any {
	found := make(map[string]any)
	for _, l := range lookups {
		switch {
		case isWaiting(l.Absent):
			found[l.Name] = "waits"
		case l.Selector != nil:
			found[l.Name] = map[string]any{"type": l.Type, "namespace": l.Namespace, "selector": l.Selector.String()}
		default:
			found[l.Name] = map[string]any{"type": l.Type, "namespace": l.Namespace, "name": l.ObjectName}
		}
	}
	return found
}
