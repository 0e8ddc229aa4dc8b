package behaviour

import (
	"flag"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

var templatesGenerated = flag.Uint64("templates", 300, "how many templates with parameters are generated and compared with CUE's evaluator")

// templates makes structs that embed what their own fields select, and others that set those fields.
type templates struct {
	picker
	// isOpen means that what is selected may be a disjunction. There are no other disjunctions, ifs or loops then: docs/cue.md
	// lists how these differ together.
	isOpen bool
	// hasLoops means that there are loops instead of disjunctions: with both, CUE leaves out some of what they add.
	hasLoops bool
}

func (g *templates) fields(names ...string) string {
	var fields []string
	for _, name := range names {
		if g.IntN(3) > 0 {
			fields = append(fields, name+": "+g.pick("1", "2", `"s"`, "int", "string", "object.spec.n", "*1 | int", `"\(object.spec.s)"`))
		}
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// parameter returns the value of #n, as a template declares it.
func (g *templates) parameter() string {
	return g.pick("string", "string", `"a" | "b"`, `*"a" | "b"`, `*"b" | string`)
}

// embedded returns what a template embeds.
func (g *templates) embedded() string {
	table := g.pick("_t", "_u")
	selected := table + "[" + g.pick("#n", "#n", "#m", "object.spec.key") + "]"
	kinds := 12
	if g.isOpen {
		selected, kinds = table+"[#n]", 8
	}
	switch g.IntN(kinds) {
	case 0, 1:
		return selected
	case 2:
		return "#o"
	case 3:
		return table + `["\(#n)"]`
	case 4:
		return selected + " & " + g.fields("w", "x")
	case 5:
		return "{" + selected + ", " + g.pick(`v: 1`, `v: #n`, `#m: "b"`) + "}"
	case 6, 7:
		return "{let l = " + selected + ", l}"
	case 8:
		return `[if #n == "a" {` + g.fields("x", "y") + `}, ` + g.fields("v") + "][0]"
	case 9:
		return `if #n == "a" {` + selected + "}"
	}
	if g.hasLoops {
		return "for k in [#n] {" + table + "[k]}"
	}
	return "(*" + table + "[#n] | " + g.fields("v") + ")"
}

// table returns the structs of which a template embeds one.
func (g *templates) table() string {
	var rows []string
	for _, name := range []string{"a", "b", "k"} {
		row := g.fields("x", "y", "z")
		switch {
		case g.IntN(6) == 0:
			row = "{" + g.pick(`#m: "a"`, `#m: "b"`, "#o: w: 1") + ", " + g.pick("x: 1", "y: 2") + "}"
		case g.isOpen && g.IntN(3) == 0:
			row = "*" + row + " | " + g.fields("x")
		}
		rows = append(rows, name+": "+row)
	}
	return "{" + strings.Join(rows, ", ") + "}"
}

// used returns a struct that sets the parameters of the template.
func (g *templates) used() string {
	sets := []string{g.pick(`#n: "a"`, `#n: "b"`, `#n: object.spec.key`, `#n: object.spec.absent`, "#n: string")}
	for _, other := range []string{`#m: "a"`, `#o: {p: 1}`, "x: 1", "y: int"} {
		if g.IntN(3) == 0 {
			sets = append(sets, other)
		}
	}
	set := "{" + strings.Join(sets, ", ") + "}"
	switch g.IntN(5) {
	case 0:
		return "{" + set + ", " + "_p}"
	case 1:
		return set + " & _p"
	case 2:
		return `[for k in ["a", "b"] {_p & {#n: k}}]`
	}
	return "_p & " + set
}

// generatedTemplate returns a package with a template, and a use of it.
func generatedTemplate(seed uint64) string {
	g := &templates{picker: newPicker(seed, 6)}
	g.isOpen, g.hasLoops = g.IntN(3) == 0, g.IntN(2) == 0
	parts := []string{"#n: " + g.parameter(), "#m: " + g.parameter(), "#o: {...}", "c?: int"}
	for range 1 + g.IntN(3) {
		parts = append(parts, g.embedded())
	}
	g.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return packageOf("out: " + g.used() + "\n\t_p: {" + strings.Join(parts, ", ") + "}\n\t_t: " + g.table() + "\n\t_u: " + g.table())
}

// early are errors of CUE's evaluator, which reads a parameter before something else that is embedded sets it, and of parameters
// that nothing reads (docs/cue.md).
var early = regexp.MustCompile(`\.#|cycle with field|non-concrete value|non-ground value|unresolved disjunction|in empty disjunction`)

// isEarly reports whether CUE's evaluator has no value because of that. It panics about some templates as well.
func (o *oracle) isEarly() (is bool) {
	defer func() { is = is || recover() != nil }()
	class, why := o.evaluated(sampleObject(), sampleObserved(), "out")
	return class != "value" && early.MatchString(fmt.Sprint(why))
}

// A template is what it is in CUE for the parameters that a use of it sets, or has no value.
func TestGeneratedTemplatesLikeCUE(t *testing.T) {
	t.Parallel()
	requireValues(t, *templatesGenerated, func(seed uint64) bool {
		source := generatedTemplate(seed)
		o := newOracle(t, source)
		return !o.isEarly() && o.requireSameOrNone(t, seed, source)
	})
}
