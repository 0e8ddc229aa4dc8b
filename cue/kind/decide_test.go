package kind

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	fescuecue "github.com/fescue-dev/fescue/cue"
)

var (
	decisions = flag.Int("decisions", 60, "pairs of an object and its children that are generated for each kind in TestDecisionsLikeCUE")
	onlyKinds = flag.String("only-kinds", "", "regular expression for the archives and kinds in TestDecisionsLikeCUE, as in shipped/At")
)

// pairs generates objects of a kind, with their children.
type pairs struct {
	kind     *Kind
	sample   func(*rand.Rand) map[string]any
	random   *rand.Rand
	literals []string // of the source
	numbers  []int64
	likely   []map[string]any // objects as people write them; half of those that are generated are like one of them
}

// quoted finds the texts in a source, which are the interesting values of what it reads.
var quoted = regexp.MustCompile(`"([^"\\\n]{0,40})"`)

// compared finds the texts and numbers that something is compared with.
var compared = regexp.MustCompile(`[=!]= *"([^"\\\n]+)"|[<>=]=? *(\d{1,6})`)

// newPairs returns a generator whose texts and numbers are those at the edges of conditions in a
// source, among others.
func newPairs(k *Kind, source string, random *rand.Rand) *pairs {
	p := &pairs{kind: k, sample: k.Sampler(), literals: literalsIn(source), numbers: []int64{-1, 0, 1, 2, 3}, random: random}
	for _, match := range compared.FindAllStringSubmatch(source, -1) {
		if match[1] != "" {
			p.literals = append(p.literals, match[1], match[1], match[1], match[1], match[1])
			continue
		}
		if n, err := strconv.ParseInt(match[2], 10, 64); err == nil {
			p.numbers = append(p.numbers, n-1, n, n+1)
		}
	}
	return p
}

func literalsIn(source string) (found []string) {
	for _, match := range quoted.FindAllStringSubmatch(source, -1) {
		found = append(found, match[1])
	}
	return append(found, "", "x", "1", "2030-01-01T00:00:00Z")
}

// next returns a valid object with its defaults, in one of the phases, and its children. Parts of
// what the behaviour reads of them are absent, and some have another type.
func (p *pairs) next() (object, observed map[string]any) {
	k := p.kind
	for {
		object = p.sample(p.random)
		if len(p.likely) > 0 && p.random.IntN(2) == 0 {
			object = p.mixed(p.likely[p.random.IntN(len(p.likely))], object)
		}
		if len(k.Problems(object)) == 0 {
			break
		}
	}
	object = maps.Clone(k.Default(object))
	if phases := slices.Sorted(maps.Keys(k.Phases)); len(phases) > 0 {
		status, _ := object["status"].(map[string]any)
		status = maps.Clone(status)
		if status == nil {
			status = make(map[string]any)
		}
		status["phase"] = phases[p.random.IntN(len(phases))]
		status["lastPhaseTransitionTime"] = "2030-01-01T00:00:00Z"
		object["status"] = status
	}
	observed, _ = p.part(k.reads.observed, true, 0).(map[string]any)
	if observed == nil {
		observed = map[string]any{}
	}
	for name := range observed {
		if k.isList(name) {
			members := make([]any, p.random.IntN(4))
			for i := range members {
				members[i] = p.object(k.reads.observed.part(name).element(), 0)
			}
			observed[name] = members
		}
	}
	return object, observed
}

// mixed returns an object with most fields of one, and some of another.
func (p *pairs) mixed(most, some map[string]any) map[string]any {
	object := make(map[string]any)
	names := slices.AppendSeq(slices.Collect(maps.Keys(most)), maps.Keys(some))
	slices.Sort(names) // the same seed makes the same object
	for _, name := range slices.Compact(names) {
		a, isInMost := most[name]
		b, isInSome := some[name]
		inner, isStruct := a.(map[string]any)
		other, isOtherStruct := b.(map[string]any)
		switch {
		case isStruct && isOtherStruct:
			object[name] = p.mixed(inner, other)
		case isInMost && p.random.IntN(5) > 0:
			object[name] = a
		case isInSome:
			object[name] = b
		}
	}
	return object
}

// object is a part that is a struct.
func (p *pairs) object(r *reads, depth int) map[string]any {
	object := make(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(r.fields)) {
		if p.random.IntN(6) > 0 {
			object[name] = p.part(r.fields[name], false, depth+1)
		}
	}
	if r.elements != nil || r.whole {
		for range p.random.IntN(3) {
			element := r.elements
			if element == nil {
				element = &reads{}
			}
			object[p.text()] = p.part(element, false, depth+1)
		}
	}
	return object
}

func (p *pairs) part(r *reads, isStruct bool, depth int) any {
	if isStruct || len(r.fields) > 0 && p.random.IntN(30) > 0 {
		return p.object(r, depth)
	}
	if r.elements != nil && p.random.IntN(10) > 0 {
		list := make([]any, p.random.IntN(4))
		for i := range list {
			list[i] = p.part(r.elements, false, depth+1)
		}
		return list
	}
	switch n := p.random.IntN(20); {
	case n < 10:
		return p.text()
	case n < 15:
		return p.numbers[p.random.IntN(len(p.numbers))]
	case n < 17:
		return p.random.IntN(2) == 0
	case n < 18:
		return float64(p.random.IntN(8)) / 2
	case n < 19 && depth < 5:
		return map[string]any{p.text(): p.part(&reads{}, false, depth+1)}
	}
	return nil
}

func (p *pairs) text() string { return p.literals[p.random.IntN(len(p.literals))] }

// comparable returns a decision without what may differ: the wording of what is absent.
func comparable(d *Decision, err error) string {
	if err != nil {
		return "error"
	}
	d = &Decision{Next: d.Next, Status: d.Status, Deadline: d.Deadline, Children: slices.Clone(d.Children), Conditions: slices.Clone(d.Conditions), Undecided: d.Undecided}
	reduce := func(absent []Absence) []Absence {
		if len(absent) > 0 {
			return []Absence{{}}
		}
		return nil
	}
	for i := range d.Children {
		d.Children[i].Absent = reduce(d.Children[i].Absent)
	}
	for i := range d.Conditions {
		if d.Conditions[i].Status == metav1.ConditionUnknown {
			d.Conditions[i].Message = ""
		}
	}
	d.Undecided = reduce(d.Undecided)
	var next []string
	for _, t := range d.Next {
		if t.After != nil {
			next = append(next, fmt.Sprintf("%s %t %v %v", t.To, t.When, t.After.at, t.After.delay))
			continue
		}
		next = append(next, fmt.Sprintf("%s %t", t.To, t.When))
	}
	d.Next = nil
	b, err := json.Marshal(struct {
		*Decision
		Next []string
	}{d, next})
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// errBudget is of a decision that exceeds the budget: the evaluator has none, and might not end.
var errBudget = errors.New("exceeds the budget")

// differ returns how the compiled behaviour and CUE's evaluator differ about an object, and whether
// the compiled one decides something or fails.
func (k *Kind) differ(object, observed map[string]any) (decides bool, _ error) {
	compiled, err := k.decide(k.NewBudget(), object, observed)
	decides = err == nil
	if err != nil && strings.Contains(err.Error(), "takes more than") {
		return decides, errBudget
	}
	var evaluated *Decision
	v, errEvaluated := k.evaluatedBehaviour(object, observed)
	if errEvaluated == nil {
		evaluated, errEvaluated = k.decision(v, PhaseOf(object))
	}
	if got, want := comparable(compiled, err), comparable(evaluated, errEvaluated); got != want {
		return decides, fmt.Errorf("compiled %s (%s)\nCUE      %s (%s)", got, fmt.Sprint(err), want, fmt.Sprint(errEvaluated))
	}
	if err := k.differInLookups(object); err != nil || !k.Injects() {
		return decides, err
	}
	// An injection reads no child: the behaviour that was evaluated has it too. What is wrong with the
	// children can hide it there, so that it needs a behaviour without them.
	problem := k.differInInjection(object, v)
	if problem != nil || errEvaluated != nil {
		v, errEvaluated = k.evaluatedBehaviour(object, nil)
		if errEvaluated != nil {
			v = nil
		}
		problem = k.differInInjection(object, v)
	}
	return decides, problem
}

// differInInjection returns how both differ about what an object injects, which is an error for an
// evaluated behaviour that is nil.
func (k *Kind) differInInjection(object map[string]any, evaluated piece) error {
	injected, err := k.Injection(k.NewBudget(), object)
	errEvaluated := errors.New("it has no behaviour")
	var expected *Injection
	if evaluated != nil {
		expected, errEvaluated = injectionOf(evaluated)
	}
	if (err == nil) != (errEvaluated == nil) {
		return fmt.Errorf("injection: compiled %s\nCUE      %s", fmt.Sprint(err), fmt.Sprint(errEvaluated))
	}
	got, _ := json.Marshal(injected)
	want, _ := json.Marshal(expected)
	if string(got) != string(want) {
		return fmt.Errorf("injection: compiled %s\nCUE      %s", got, want)
	}
	return nil
}

// differInLookups returns how both differ about what is read for an object.
func (k *Kind) differInLookups(object map[string]any) error {
	if len(k.Lookups) == 0 {
		return nil
	}
	compiled, err := k.LookupsOf(k.NewBudget(), object)
	var evaluated []Lookup
	v, errEvaluated := k.evaluatedBehaviour(k.readable(object), nil)
	if errEvaluated == nil {
		evaluated, errEvaluated = lookupsOf(v)
	}
	texts := func(lookups []Lookup, err error) string {
		if err != nil {
			return "error"
		}
		for i := range lookups {
			if len(lookups[i].Absent) > 0 {
				lookups[i] = Lookup{Name: lookups[i].Name, ObjectName: "absent"}
			}
		}
		return strings.Join(lookupTexts(lookups), "\n")
	}
	if got, want := texts(compiled, err), texts(evaluated, errEvaluated); got != want {
		return fmt.Errorf("reads: compiled %s (%w)\nCUE      %s (%w)", got, err, want, errEvaluated)
	}
	return nil
}

// TestDecisionsLikeCUE generates objects and their children for each kind, shipped, in the corpus and
// in the examples, and compares the decisions of the compiled behaviour with those of CUE's evaluator.
func TestDecisionsLikeCUE(t *testing.T) {
	skipComparison(t)
	t.Parallel()
	only := regexp.MustCompile(*onlyKinds)
	for name, source := range kindSources(t) {
		for _, k := range source.kinds {
			name := name + "/" + k.GroupVersionKind.Kind
			if !only.MatchString(name) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := newPairs(k, source.text, nil)
				p.likely = source.samplesOf(k)
				values, failures, exceeding := 0, 0, 0
				for i := range uint64(*decisions) {
					seed := *firstSeed + i
					p.random = rand.New(rand.NewPCG(seed, 2))
					object, observed := p.next()
					decides, err := k.differ(object, observed)
					switch {
					case errors.Is(err, errBudget):
						exceeding++
					case err != nil:
						require.NoError(t, err, "seed %d: %s\nobserved %s", seed, text(object), text(observed))
					case decides:
						values++
					default:
						failures++
					}
				}
				t.Logf("%d pairs: %d decisions, %d errors, %d not compared: they exceed the budget", *decisions, values, failures, exceeding)
				require.Less(t, exceeding*10, *decisions)
			})
		}
	}
}

// A child may be named by a text that is also the name of a field of the object, here in its status.
func TestChildNamedLikeAFieldOfItsObject(t *testing.T) {
	t.Parallel()
	kinds, err := FromDir(filepath.Join(root(), "examples/workerpool"))
	require.NoError(t, err)
	object := objectOf(kinds[0], map[string]any{"workers": []any{"other", "web"}, "image": "i"})
	object["status"] = map[string]any{"childInventory": map[string]any{"created": map[string]any{"web": "uid"}}}
	decides, err := kinds[0].differ(object, nil)
	require.NoError(t, err)
	require.True(t, decides)
}

// kindSource are the kinds of a package, the texts in it, and objects that people wrote.
type kindSource struct {
	kinds   []*Kind
	text    string
	samples []map[string]any
}

// samplesOf returns the objects of a kind.
func (s kindSource) samplesOf(k *Kind) (samples []map[string]any) {
	for _, object := range s.samples {
		if k.GroupVersionKind == (&unstructured.Unstructured{Object: object}).GroupVersionKind() {
			samples = append(samples, object)
		}
	}
	return samples
}

func kindSources(t *testing.T) map[string]kindSource {
	sources := make(map[string]kindSource)
	for name, loaded := range allKinds(t) {
		file := filepath.Join(root(), "testdata/kinds", name)
		var samples []map[string]any
		switch {
		case name == "shipped":
			var text []byte
			for _, file := range []string{"at.cue", "customcluster.cue", "watcher.cue"} {
				b, err := fescuecue.Files.ReadFile(file)
				require.NoError(t, err)
				text = append(text, b...)
			}
			sources[name] = kindSource{kinds: loaded, text: string(text)}
			continue
		case strings.HasPrefix(name, "examples/"):
			file = filepath.Join(root(), name, "kind.cue")
			documents, err := os.ReadFile(filepath.Join(root(), name, "sample.yaml"))
			require.NoError(t, err)
			for document := range strings.SplitSeq(string(documents), "\n---\n") {
				var object unstructured.Unstructured // whole numbers are int64
				require.NoError(t, yaml.Unmarshal([]byte(document), &object))
				samples = append(samples, object.Object)
			}
		}
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		sources[name] = kindSource{loaded, string(b), samples}
	}
	return sources
}

// root is the folder of the repository.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "../..")
}
