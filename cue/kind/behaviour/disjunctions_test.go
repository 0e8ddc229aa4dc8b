package behaviour

import (
	"flag"
	"strings"
	"testing"
)

var disjunctionsGenerated = flag.Uint64("disjunctions", 200, "how many disjunctions within each other are generated and compared with CUE's evaluator")

// disjunctions makes disjunctions that are within each other, and unified.
type disjunctions struct{ picker }

// generatedDisjunction returns a package with a disjunction.
func generatedDisjunction(seed uint64) string {
	g := &disjunctions{newPicker(seed, 5)}
	return packageWith(g.value(1 + g.IntN(4)))
}

func (g *disjunctions) value(d int) string {
	if d <= 0 {
		return g.pick("1", "2", "3", `"a"`, "int", "string", "{a: 1}", "{b: 2}", "{a: int}", "{a: *1 | 2}", "object.spec.n", "object.spec.absent", ">1", "[1]")
	}
	switch g.IntN(6) {
	case 0, 1, 2:
		alternatives := make([]string, 2+g.IntN(2))
		for i := range alternatives {
			alternatives[i] = g.pick("", "", "*") + g.value(d-1)
		}
		return "(" + strings.Join(alternatives, " | ") + ")"
	case 3, 4:
		return "(" + g.value(d-1) + " & " + g.value(d-1) + ")"
	default:
		return g.value(0)
	}
}

// A disjunction has the value that it has in CUE, or none.
func TestGeneratedDisjunctionsLikeCUE(t *testing.T) {
	t.Parallel()
	requireValues(t, *disjunctionsGenerated, func(seed uint64) bool {
		source := generatedDisjunction(seed)
		return newOracle(t, source).requireSameOrNone(t, seed, source)
	})
}
