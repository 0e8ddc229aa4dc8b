package behaviour

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cuelang.org/go/cue/format"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/fescue-dev/fescue/cue/kind/budget"
	"github.com/fescue-dev/fescue/internal/testing/mutate"
)

var onlyMutants = flag.String("mutants", "", "break the evaluator in many ways, and ask whether it is noticed: all, or a part of the name of a file or of a mutant")

// neededOfMutants is the part of the mutants, without those that are explained, that has to be noticed.
const neededOfMutants = 0.98

// notMutated are functions that only count the budget, or say where something is or what it is called in messages: what is
// compared knows neither. took and note are for proofs, and unsupported, sourceOf and the like make messages.
var notMutated = regexp.MustCompile(`^(` + strings.Join([]string{
	"step", "spend", "enter", "leave", "guard", "Write", "sizeOf", "reading", "searching", "matching", "matchesIn", "submatches", "replacement", "parsing",
	"logarithm", "digits", "exponent", "loops", "values", "outputs", "constants", "note", "took", "counted", "isOpen", "NewWays", "Noting", "Count",
	"Error", "Rule", "textOf", "String", "reasonOf", "path", "pos", "Pos", "posOf", "Positions", "sourceOf", "sourceOfLoop", "referenceText", "rootOf", "unsupported", "invalidOperands",
}, "|") + `)$`)

// unseen are statements of other functions that do only that.
var unseen = regexp.MustCompile(`^(r|c|b\.r|s\.r|v\.run)\.(step|spend|enter|leave|note|depth)\b|^panic\(|^\w+\.(Path|At|Absent|Message)\b|^waits\.isOpen, waits\.Path\b|^(d\.counts|isEmpty|text|c\.own) :?= `)

// messages are functions that make a message of their arguments.
var messages = regexp.MustCompile(`^(wrong|incomplete|problemAt|mismatch|fmt\.Sprintf|fmt\.Errorf|p\.unsupported|[rc]\.spend|r\.note)$`)

// TestMutants breaks the evaluator itself, in one place at a time, and asks whether the comparison with CUE's evaluator
// notices it: first that of small sources, here, and then that of whole kinds, in cue/kind/proof. A mutant that neither notices is
// explained in testdata/mutants/explained, or missed.
func TestMutants(t *testing.T) {
	if *onlyMutants == "" {
		t.Skip("it takes minutes: make test-mutants")
	}
	mutants, overlay := mutatedPackage(t)
	left := slices.Clone(mutants)
	if *onlyMutants != "all" {
		left = slices.DeleteFunc(left, func(m mutate.Mutant) bool { return !strings.Contains(m.File+" "+m.Text(), *onlyMutants) })
	}
	tried := slices.Clone(left)
	for _, dir := range []string{".", "../proof"} {
		left = overlay.Survivors(t, dir, "TestTheseMutants", left)
	}
	explained := explanations(t)
	all, killed := make(map[string]int), make(map[string]int)
	missed := 0
	for _, m := range tried {
		all[m.File]++
		isExplained := explained.Has(m.Text())
		explained.Delete(m.Text())
		isLeft := slices.Contains(left, m)
		switch {
		case !isLeft:
			killed[m.File]++
			if isExplained {
				t.Errorf("%s:%d: %s: it is explained, and noticed", m.File, m.Line, m.Text())
			}
		case isExplained:
			all[m.File]--
		default:
			missed++
			t.Logf("%s:%d: %s: nothing notices it", m.File, m.Line, m.Text())
		}
	}
	total := 0
	for file, n := range all {
		total += n
		t.Logf("%s: %d of %d are noticed", file, killed[file], n)
	}
	t.Logf("%d of %d are noticed, and %d others are explained", total-missed, total, len(tried)-total)
	if *onlyMutants == "all" {
		require.Empty(t, explained, "explained, but there is no such mutant")
		require.GreaterOrEqual(t, float64(total-missed)/float64(total), neededOfMutants)
	}
}

// explanations are the mutants that nothing can notice: each line of the file has one, below the reason.
func explanations(t *testing.T) sets.Set[string] {
	data, err := os.ReadFile("testdata/mutants/explained")
	require.NoError(t, err)
	found := sets.New[string]()
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "# ") {
			found.Insert(line)
		}
	}
	return found
}

// mutatedPackage returns all mutants of the package, and the overlay that has them.
func mutatedPackage(t *testing.T) (mutants []mutate.Mutant, overlay *mutate.Overlay) {
	source := &mutate.Source{Skip: notMutated, Unseen: unseen, Messages: messages}
	overlay = mutate.NewOverlay(t)
	overlay.AddMutants(t, ".", source, func(text string) string {
		// What is declared when the program starts can be declared again, with a mutant.
		text = strings.Replace(text, "\nfunc init() {", "\nfunc init() { declare() }; func declare() { own = makeOwn()", 1)
		before, after, isOwn := strings.Cut(text, "\nvar own = ")
		if !isOwn {
			return text
		}
		list, after, _ := strings.Cut(after, "\n}\n")
		return before + "\nvar own []*Function; func makeOwn() []*Function { return " + list + "\n} }\n" + after
	})
	overlay.Add(t, "declare.go", "package behaviour\n\nimport \"github.com/fescue-dev/fescue/internal/testing/mutate\"\n\nfunc init() { mutate.OnSwitch(declare) }\n")
	return source.Mutants, overlay
}

// TestTheseMutants tries mutants with the sources of the other tests, if the package has some.
func TestTheseMutants(t *testing.T) {
	if !mutate.Chosen() {
		t.Skip("the package has no mutants")
	}
	var cases []func() string
	inFile := false
	add := func(source string, parts ...part) {
		if result := agreed(t, source, inFile, parts); result != nil {
			cases = append(cases, result)
		}
	}
	out := part{sampleObject(), sampleObserved(), []string{"out"}}
	within := part{sampleObject(), sampleObserved(), []string{"out", "a"}}
	for _, text := range declarations {
		add(sourceOfDeclaration(text), part{sampleObject(), sampleObserved(), []string{"observed"}})
	}
	for _, expression := range expressions {
		add(packageWith(expression), out)
	}
	for _, body := range found {
		add(packageOf(body), out, within)
		cases = append(cases, separated(packageOf(body)))
	}
	for _, text := range sources {
		add(packageOf(text), out, within)
		if strings.ContainsAny(text, "&|") || strings.Contains(text, "list.") {
			cases = append(cases, separated(packageOf(text)))
		}
	}
	for text := range rejected {
		instance := loaded(packageOf(text))
		cases = append(cases, func() string {
			_, err := Compile(instance, "X")
			return fmt.Sprint(err != nil)
		})
	}
	for text := range stricter {
		o := newOracle(t, packageOf(text))
		cases = append(cases, func() string { return outcome(o.compiled(sampleObject(), sampleObserved(), "out")) })
	}
	for text := range cyclic {
		program, err := Compile(loaded(packageOf(text)), "X")
		require.NoError(t, err, text)
		cases = append(cases, func() string { return fmt.Sprint(program.Cycle()) })
	}
	for seed := range *expressionsGenerated {
		g := &generator{picker: newPicker(seed, 1)}
		add(packageWith(g.any(1+g.IntN(3))), out)
	}
	for seed := range *behavioursGenerated {
		g := &wholes{picker: newPicker(seed, 2), names: make(map[string][]string)}
		source := packageOf(g.behaviour())
		var parts []part
		for range 4 {
			object, observed := g.objects()
			for _, path := range comparedParts {
				parts = append(parts, part{object, observed, path})
			}
		}
		add(source, parts...)
	}
	for seed := range 5 * *disjunctionsGenerated {
		add(generatedDisjunction(seed), out)
	}
	for seed := range 3 * *templatesGenerated {
		add(generatedTemplate(seed), out)
	}
	inFile = true
	for _, body := range closed {
		add(packageOf(body), out, within)
	}
	for seed := range *closedGenerated {
		add(generatedDefinitions(seed), out, within)
	}
	newPicker(1, 1).Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
	mutate.Try(cases)
}

// part is a field of a behaviour for an object and its children.
type part struct {
	object, observed map[string]any
	path             []string
}

// agreed returns how a source is compiled, which cycle it has, what the ifs of its parts read that is absent, and those of its parts'
// value, shape, wait and fit that are as they are for CUE; nil if it does not compile.
func agreed(t *testing.T, source string, inFile bool, parts []part) func() string {
	instance := loaded(source)
	if instance.Err != nil {
		return nil
	}
	if _, err := Compile(instance, "X"); err != nil {
		return nil
	}
	o := oracleOf(t, loaded(source))
	o.inFile = inFile
	var views []func(o *oracle) string
	for _, p := range parts {
		for _, v := range []struct{ compiled, evaluated func(o *oracle) string }{
			{func(o *oracle) string { return outcome(o.compiled(p.object, p.observed, p.path...)) }, func(o *oracle) string { return outcome(o.evaluated(p.object, p.observed, p.path...)) }},
			{func(o *oracle) string { return o.compiledShape(p.object, p.observed, p.path...) }, func(o *oracle) string { return o.evaluatedShape(p.object, p.observed, p.path...) }},
			{func(o *oracle) string { return o.compiledWaits(p.object, p.observed, p.path...) }, func(o *oracle) string { return o.evaluatedWaits(p.object, p.observed, p.path...) }},
			{func(o *oracle) string { return o.compiledFits(p.object, p.observed, p.path...) }, func(o *oracle) string { return o.evaluatedFits(p.object, p.observed, p.path...) }},
		} {
			if v.compiled(o) == v.evaluated(o) {
				views = append(views, v.compiled)
			}
		}
	}
	return func() string {
		program, err := Compile(instance, "X")
		if err != nil {
			return "does not compile"
		}
		var results []string
		for _, view := range views {
			results = append(results, view(&oracle{program: program}))
		}
		for _, p := range parts {
			results = append(results, fmt.Sprint(program.Run(budget.New("X"), p.object, p.observed).Lookup(p.path...).Guards()))
		}
		results = append(results, fmt.Sprint(program.Cycle()))
		return strings.Join(results, "\n")
	}
}

// outcome is a result as text; that of what has no value is only why.
func outcome(class string, data any) string {
	if class != "value" {
		return class
	}
	return fmt.Sprintf("%#v", data)
}

// separated returns how the operands of a source are separated for CUE's evaluator, and what is left when that is undone.
func separated(source string) func() string {
	instance := loaded(source)
	return func() string {
		var texts []string
		note := func() {
			for _, file := range instance.Files {
				text, err := format.Node(file)
				texts = append(texts, string(text), fmt.Sprint(err))
			}
		}
		undo := SeparateOperands(instance.Files)
		note()
		undo()
		note()
		return strings.Join(texts, "\n")
	}
}
