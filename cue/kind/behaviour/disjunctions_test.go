package behaviour

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var disjunctionsGenerated = flag.Uint64("disjunctions", 200, "how many disjunctions within each other are generated and compared with CUE's evaluator")

// disjunctions makes disjunctions that are within each other, and unified.
type disjunctions struct{ *rand.Rand }

func (g *disjunctions) pick(from ...string) string { return from[g.IntN(len(from))] }

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
	values := 0
	for seed := range *disjunctionsGenerated {
		g := &disjunctions{rand.New(rand.NewPCG(seed, 5))}
		source := packageWith(g.value(1 + g.IntN(4)))
		instance := loaded(source)
		require.NoError(t, instance.Err, source)
		o := oracleOf(t, instance)
		wantClass, want := o.evaluated(sampleObject(), sampleObserved(), "out")
		class, got := o.compiled(sampleObject(), sampleObserved(), "out")
		if class == "value" {
			values++
		} else if wantClass != "value" {
			class = wantClass // something is absent, and something else is wrong
		}
		if wantClass != class || class == "value" && fmt.Sprint(want) != fmt.Sprint(got) {
			t.Errorf("seed %d:\n%s\nCUE: %s %v\ncompiled: %s %v", seed, source, wantClass, want, class, got)
		}
	}
	require.Greater(t, values, int(*disjunctionsGenerated/10))
}
