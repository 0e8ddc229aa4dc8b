package proof

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/format"
	"cuelang.org/go/cue/parser"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/internal/testing/kindmaker"
)

var (
	generatedKinds = flag.Uint64("generated-kinds", 100, "how many kinds TestGeneratedKinds makes and compares")
	firstKind      = flag.Uint64("first-kind", 0, "seed of the first of them, so that ranges add up")
	pairsOfAKind   = flag.Int("pairs-of-a-kind", 5, "for how many objects, with their children, each of them decides")
)

// loadSource loads the kind of a source.
func loadSource(source string) (load.Draft, error) {
	kinds, err := load.FromText(kindmaker.File(source))
	if err != nil {
		return load.Draft{}, err
	}
	if len(kinds) != 1 {
		return load.Draft{}, errors.New("it is not one kind")
	}
	return kinds[0], nil
}

// pair is an object with its children.
type pair struct{ object, observed map[string]any }

// pairOf returns a pair for a generated kind, with children that fit what is read of them. It has no object if there
// seems to be no valid one.
func pairOf(p *pairs, children []kindmaker.Child) (made pair) {
	made.object, _ = p.next()
	if made.object == nil {
		return made
	}
	for range p.random.IntN(8) { // the larger an object, the more of the kind has a value
		if object, _ := p.next(); len(text(object)) > len(text(made.object)) {
			made.object = object
		}
	}
	made.observed = make(map[string]any)
	for _, c := range children {
		if p.random.IntN(6) == 0 || c.Guard == "for" {
			continue
		}
		if !c.IsSet {
			made.observed[c.Name] = childLike(p)
			continue
		}
		members := make([]any, 1+p.random.IntN(3))
		for i := range members {
			members[i] = childLike(p)
		}
		made.observed[c.Name] = members
	}
	made.observed["many"] = []any{childLike(p), childLike(p)}[:p.random.IntN(3)]
	if p.random.IntN(4) > 0 {
		made.observed["one"] = childLike(p)
	}
	return made
}

// childLike returns a child, parts of which are absent.
func childLike(p *pairs) map[string]any {
	some := func(fields map[string]any) map[string]any {
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if p.random.IntN(8) == 0 {
				delete(fields, name)
			}
		}
		return fields
	}
	text := func() string { return []string{"a", "b", "x1", "Running", "q"}[p.random.IntN(5)] }
	return some(map[string]any{
		"metadata": some(map[string]any{"name": text(), "labels": some(map[string]any{"app": text(), "a": text(), "b": text()})}),
		"status":   some(map[string]any{"phase": text(), "n": int64(p.random.IntN(5)), "ready": p.random.IntN(2) == 0, "items": []any{text(), text()}[:p.random.IntN(3)]}),
		"data":     some(map[string]any{"a": text()}),
		"spec":     some(map[string]any{"size": int64(p.random.IntN(4))}),
	})
}

// verdict is how the decisions of a kind about a pair differ.
type verdict int

// The verdicts, from none to the worst.
const (
	same      verdict = iota
	unbounded         // it takes many steps, for which CUE's evaluator has no budget
	failing           // CUE's evaluator panics
	endless           // it, or the search for a smaller kind, takes too much time or memory
	// unclear is something absent for the one and wrong for the other.
	unclear
	// unordered is what CUE's evaluator decides as Fescue does if the fields of the behaviour stand in another order.
	unordered
	// different are other children, or another text.
	different
)

// judge compares what the compiled behaviour and CUE's evaluator decide.
// isWhole means that both have a whole decision, which is the same.
func judge(k load.Draft, p pair) (v verdict, isWhole bool, difference error) {
	b := k.NewBudget()
	compiled, err := k.Decide(b, p.object, p.observed)
	if b.Taken() > maxCompared {
		return unbounded, false, nil
	}
	defer func() {
		if r := recover(); r != nil {
			v, isWhole, difference = failing, false, fmt.Errorf("CUE's evaluator fails: %v", r)
		}
	}()
	c := newComparison(k)
	whole, errEvaluated := c.evaluated(p.object, p.observed)
	if errEvaluated != nil {
		return different, false, errEvaluated
	}
	evaluated, errEvaluated := k.DecisionOf(whole, k.PhaseOf(p.object))
	if difference = c.sameResult("", sorted(decisionResult(withoutHidden(compiled, evaluated, whole))), sorted(decisionResult(evaluated)), err, errEvaluated); difference != nil {
		v = different
		if errors.Is(difference, errNotCompared) || errEvaluated != nil && waits(compiled) || err != nil && waits(evaluated) {
			v = unclear
		}
	}
	var failure *kind.EvaluationError
	if errors.As(errEvaluated, &failure) && failure.Path == "" {
		return unclear, false, difference // for CUE, all that is beside it is wrong
	}
	if err != nil || errEvaluated != nil {
		worst, absentForCUE, err := judgeParts(k, p, whole)
		if absentForCUE && errors.Is(difference, errOnlyFescue) {
			v = unclear
		}
		if worst > v {
			v, difference = worst, err
		}
	}
	if v != different {
		c.anyOrder = true
		switch err := c.compareRest(p.object, whole, errEvaluated != nil); {
		case errors.Is(err, errNotCompared), errors.Is(err, errOnlyCUE) && errEvaluated != nil:
			v, difference = unclear, err
		case err != nil:
			v, difference = different, err
		}
	}
	if v == different && wrongHidden(whole) {
		v = unclear
	}
	return v, v == same && err == nil && errEvaluated == nil, difference
}

// wrongHidden reports whether something is wrong in a hidden field: CUE's evaluator selects nothing from a struct with such a field, and
// Fescue does.
func wrongHidden(whole kind.Piece) bool {
	value := whole.(evaluatedPiece).value
	fields, err := value.Fields(cue.Hidden(true), cue.Definitions(true))
	if err != nil {
		return true // it is so wrong that there are none
	}
	for fields.Next() {
		if failed := fields.Value().Err(); fields.Selector().PkgPath() != "" && failed != nil && !cue.IsIncomplete(failed) {
			return true
		}
	}
	return false
}

// orders is in how many orders of the fields of a behaviour CUE's evaluator is asked again.
const orders = 12

// dependsOnOrder reports whether CUE's evaluator and the compiled behaviour decide the same about a pair if the fields of the
// behaviour stand in another order, which means nothing in CUE.
func dependsOnOrder(made generated, p pair) bool {
	random := rand.New(rand.NewPCG(made.seed, 7))
	for range orders {
		file, err := parser.ParseFile("kind.cue", made.Source)
		if err != nil {
			return false
		}
		for _, declaration := range file.Decls {
			field := declaration.(*ast.Field)
			if name, _, err := ast.LabelName(field.Label); err != nil || name != "#KController" {
				continue
			}
			for _, part := range syntax.Conjuncts(field.Value) {
				if literal, ok := part.(*ast.StructLit); ok {
					random.Shuffle(len(literal.Elts), func(i, j int) { literal.Elts[i], literal.Elts[j] = literal.Elts[j], literal.Elts[i] })
				}
			}
		}
		source, err := format.Node(file)
		if err != nil {
			return false
		}
		k, err := loadSource(string(source))
		if err != nil {
			continue
		}
		if v, _, _ := judge(k, p); v == same {
			return true
		}
	}
	return false
}

// waits reports whether something absent is read for a decision.
func waits(d *kind.Decision) bool {
	if d == nil {
		return false
	}
	b, _ := json.Marshal(d)
	return bytes.Contains(b, []byte(`"Absent"`)) || len(d.Undecided) > 0 || bytes.Contains(b, []byte(kind.ReasonWaiting))
}

// judgeParts compares the parts of a decision, of which one is an error that hides the others. absentForCUE means that those that
// are wrong for Fescue wait for CUE's evaluator.
func judgeParts(k load.Draft, p pair, whole kind.Piece) (worst verdict, absentForCUE bool, difference error) {
	onlyWrong, alsoAbsent := 0, 0
	compiled := k.Run(k.NewBudget(), p.object, p.observed)
	compare := func(path string, a, b kind.Piece) {
		got, want := outcomeOf(a, path), outcomeOf(b, path)
		if got == want {
			return
		}
		if got == wrongOutcome {
			onlyWrong++
			if want == absentOutcome {
				alsoAbsent++
			}
		}
		found := different
		if strings.HasPrefix(got, "!") || strings.HasPrefix(want, "!") {
			found = unclear // what is wrong in a field that is not read, or beside what is selected, is wrong for one of them
		}
		if worst < found {
			worst, difference = found, fmt.Errorf("%s: compiled %s\nCUE %s", path, got, want)
		}
	}
	compareAll := func(prefix string, paths []string, a, b kind.Piece) {
		for _, path := range paths {
			compare(prefix+"."+path, partAt(a, path), partAt(b, path))
		}
	}
	compareAll("", partsOfChildren, compiled, whole)
	for _, phase := range slices.Sorted(maps.Keys(k.Phases)) {
		compareAll(phase, partsOfChildren, compiled.Field("phases").Field(phase), whole.Field("phases").Field(phase))
	}
	compareAll("", partsOfStatus, compiled, whole)
	return worst, alsoAbsent > 0 && alsoAbsent == onlyWrong, difference
}

// partsOfChildren and partsOfStatus are the paths of the parts of a generated behaviour.
var partsOfChildren, partsOfStatus = func() (children, status []string) {
	for i := range 5 {
		for _, part := range []string{"template", "when", "ready", "replicas", "update"} {
			children = append(children, fmt.Sprintf("children.c%d.%s", i, part))
		}
	}
	for _, name := range []string{"st", "sn", "sf", "sb", "sl", "sm", "sr", "so"} {
		status = append(status, "status."+name)
	}
	return children, status
}()

// partAt returns the part of a behaviour at a path.
func partAt(p kind.Piece, path string) kind.Piece {
	for name := range strings.SplitSeq(path, ".") {
		p = p.Field(name)
	}
	return p
}

// These are outcomes of parts without a value.
const (
	missingOutcome = "! does not exist"
	wrongOutcome   = "! is wrong"
	absentOutcome  = "! waits"
)

// outcomeOf describes a part of a behaviour; that of one without a value begins with "!".
func outcomeOf(p kind.Piece, path string) string {
	if !p.Exists() {
		return missingOutcome
	}
	data, absent, err := p.Data(path, "")
	switch {
	case err != nil:
		return wrongOutcome
	case len(absent) > 0:
		return absentOutcome
	}
	b, _ := json.Marshal(sorted(data))
	return string(b)
}

// sorted returns a value in which the texts are as those of sortedTexts.
func sorted(value any) any {
	plain, err := plainJSON(value)
	if err != nil {
		return err.Error()
	}
	return sortedTexts(plain)
}

func numbered(text string) (decoded any, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	err = d.Decode(&decoded)
	return decoded, err
}

// negativeZero is the 0 that CUE has for 0 times a negative number, which Fescue writes without the sign (docs/cue.md).
var negativeZero = regexp.MustCompile(`(^|[^\w.-])-0\b([^.]|$)`)

// sortedTexts returns a value in which the fields of texts of JSON, and the lines of other texts that end like one of YAML,
// are sorted. Their order is known to differ from CUE's (docs/cue.md): so the comparison does not see a difference in that
// order alone, nor in what a text says by the order of its lines.
func sortedTexts(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			value[name] = sortedTexts(field)
		}
	case []any:
		for i, element := range value {
			value[i] = sortedTexts(element)
		}
	case string:
		value = negativeZero.ReplaceAllString(value, "${1}0${2}")
		if decoded, err := numbered(value); err == nil && value != "" && strings.ContainsAny(value[:1], "{[") {
			b, _ := json.Marshal(sortedTexts(decoded))
			return string(b)
		}
		if strings.HasSuffix(value, "\n") {
			lines := strings.Split(value, "\n")
			slices.Sort(lines)
			return strings.Join(lines, "\n")
		}
	}
	return value
}

// generated is a kind that was made.
type generated struct {
	seed uint64
	kindmaker.Made
}

func generate(seed uint64) generated { return generated{seed, kindmaker.Make(seed)} }

// tally counts what the comparison of generated kinds found.
type tally struct {
	sync.Mutex      `json:"-"`
	Verdicts        map[verdict]int
	Loaded, Objects int
	// Wholes are the objects about which both have a decision, and that of CUE's evaluator is the same.
	Wholes  int
	Reasons map[string]int // why kinds do not load
	Table   constructs
}

func newTally() *tally {
	return &tally{Verdicts: make(map[verdict]int), Reasons: make(map[string]int), Table: make(constructs)}
}

// TestGeneratedKinds makes whole kinds, and compares what they decide with what CUE's evaluator says. The same seeds make
// the same kinds, so ranges of them add up:
//
//	make test-kinds FIRST=20000 KINDS_MADE=10000
//
// One kind is that of one seed: -run TestGeneratedKinds -first-kind 78 -generated-kinds 1.
func TestGeneratedKinds(t *testing.T) {
	t.Parallel()
	start := time.Now()
	found := newTally()
	if *generatedKinds > kindsOfAProcess {
		inParallel(kindsOfAProcess, func(first, end uint64) { found.inProcess(t, first, end) })
	} else {
		inParallel(1, func(seed, _ uint64) { found.kind(t, seed) })
	}
	found.report(t, time.Since(start))
}

// inParallel calls a function for ranges of the seeds of a size, as many at once as there are processors.
func inParallel(size uint64, compare func(first, end uint64)) {
	var running errgroup.Group
	running.SetLimit(runtime.GOMAXPROCS(0))
	end := *firstKind + *generatedKinds
	for first := *firstKind; first < end; first += size {
		running.Go(func() error {
			compare(first, min(first+size, end))
			return nil
		})
	}
	_ = running.Wait() // nothing returns an error
}

// kind makes a kind, and compares what it decides.
func (f *tally) kind(t *testing.T, seed uint64) {
	made := generate(seed)
	k, err := loadSource(made.Source)
	if err != nil {
		f.Lock()
		defer f.Unlock()
		f.Reasons[reasonOfRejection(err)]++
		return
	}
	again, err := loadSource(made.Source)
	if err != nil || dumpOf(programsOf(k)) != dumpOf(programsOf(again)) {
		t.Errorf("seed %d: the same text gives another program, or %v:\n%s", seed, err, made.Source)
		return
	}
	f.Lock()
	f.Loaded++
	f.Table.add(t, made.Source)
	f.Unlock()
	pairs := newPairs(k, nil)
	pairs.random = rand.New(rand.NewPCG(seed, 6))
	for range *pairsOfAKind {
		p := pairOf(pairs, made.Children)
		if p.object == nil {
			return
		}
		verdict, isWhole, difference := judge(k, p)
		if verdict == different && dependsOnOrder(made, p) {
			verdict = unordered
		}
		f.Lock()
		f.Objects++
		f.Verdicts[verdict]++
		if isWhole {
			f.Wholes++
		}
		f.Unlock()
		if verdict == different {
			t.Errorf("seed %d: %v", seed, difference)
			s := shrink(made.Source, k, p, difference)
			t.Logf("seed %d: the smallest kind is\n%s\nits object %s\nand its children %s:\n%v", seed, s.source, text(s.pair.object), text(s.pair.observed), s.difference)
			return
		}
	}
}

// report prints what was found.
func (f *tally) report(t *testing.T, took time.Duration) {
	t.Logf("seeds %d to %d: %d kinds load, %d objects in %v: %d differ, and of %d whole decisions are the same; %d are absent for one and wrong for the other in part, %d are as in CUE if the fields stand in another order, %d exceed the budget, for %d CUE's evaluator fails, and %d kinds take too much time or memory",
		*firstKind, *firstKind+*generatedKinds-1, f.Loaded, f.Objects, took.Round(time.Second), f.Verdicts[different], f.Wholes, f.Verdicts[unclear], f.Verdicts[unordered], f.Verdicts[unbounded], f.Verdicts[failing], f.Verdicts[endless])
	for _, reason := range slices.Sorted(maps.Keys(f.Reasons)) {
		t.Logf("%d do not load: %s", f.Reasons[reason], reason)
	}
	t.Log(f.Table)
	if *generatedKinds < 50 {
		return // chance decides about so few
	}
	require.GreaterOrEqual(t, f.Loaded*2, int(*generatedKinds), "most kinds load")
	require.GreaterOrEqual(t, f.Wholes*2, f.Objects, "of most objects, whole decisions are compared")
}

// The compiled form of a kind follows from its text: it is the same in all loads.
func TestLoadsAreTheSame(t *testing.T) {
	t.Parallel()
	first := allKinds(t)
	for name, kinds := range allKinds(t) {
		require.Len(t, kinds, len(first[name]))
		for i, k := range kinds {
			require.Equal(t, dumpOf(programsOf(first[name][i])), dumpOf(programsOf(k)), "%s/%s", name, k.GroupVersionKind.Kind)
		}
	}
}

var details = regexp.MustCompile(`.*kind K: |"[^"]*"|[\w.\[\]…]*\d[\w.\[\]…]*`)

// reasonOfRejection returns why a kind is rejected, without what is its own.
func reasonOfRejection(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return details.ReplaceAllString(line, "…")
}
