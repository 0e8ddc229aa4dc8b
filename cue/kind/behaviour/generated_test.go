package behaviour

import (
	"encoding/json"
	"flag"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var expressionsGenerated = flag.Uint64("expressions", 500, "how many expressions are generated and compared with CUE's evaluator")

// generator makes expressions, most of them with a value. It leaves out what is known to differ from CUE: errors in
// fields that nobody reads, required fields and an unknown if in a struct of which one field is read, and the
// order of the fields that comprehensions add.
type generator struct {
	picker
	variables []string
}

// The functions below return expressions of a kind, mostly; d is how deep these are at most.
func (g *generator) number(d int) string {
	if d <= 0 || g.IntN(4) == 0 {
		if len(g.variables) > 0 && g.IntN(3) == 0 {
			return g.pick(g.variables...)
		}
		return g.pick("0", "1", "2", "3", "1.5", "-1", "object.spec.n", "object.spec.f", "object.spec.absent", "object.spec.s")
	}
	switch g.IntN(12) {
	case 0, 1:
		return "(" + g.number(d-1) + g.pick("+", "-", "*", "/") + g.number(d-1) + ")"
	case 2:
		return "len(" + g.any(d-1) + ")"
	case 3:
		return "list." + g.pick("Sum", "Max", "Min", "Avg") + "(" + g.list(d-1) + ")"
	case 4:
		return g.list(d-1) + "[" + g.number(d-2) + "]"
	case 5:
		return "(*" + g.number(d-1) + " | " + g.pick("int", "number", g.number(d-1)) + ")"
	case 6:
		return "(" + g.number(d-1) + " & " + g.pick("int", "number", ">0", "<=2", ">=0 & <3", "!=1", "uint8") + ")"
	case 7:
		return g.pick("div", "mod") + "(" + g.number(d-1) + ", " + g.number(d-1) + ")"
	case 8:
		return g.plain(d-1) + "." + g.pick("a", "b", "c")
	case 9:
		return "[if " + g.boolean(d-1) + " {" + g.number(d-1) + "}, " + g.number(d-1) + "][0]"
	case 10:
		return "strconv.Atoi(" + g.text(d-1) + ")"
	default:
		return "{let v = " + g.number(d-1) + ", x: v + 1}.x"
	}
}

func (g *generator) text(d int) string {
	if d <= 0 || g.IntN(4) == 0 {
		if len(g.variables) > 0 && g.IntN(3) == 0 {
			return g.pick(g.variables...)
		}
		return g.pick(`"a"`, `"b"`, `""`, `"12"`, "object.spec.s", "object.spec.key", "object.spec.absent", "observed.pod.status.phase", "observed.pods[1].status.phase", "object.metadata.name")
	}
	switch g.IntN(9) {
	case 0:
		return "(" + g.text(d-1) + " + " + g.text(d-1) + ")"
	case 1:
		return `"x\(` + g.any(d-1) + `)"`
	case 2:
		return "strings.Join(" + g.list(d-1) + `, ",")`
	case 3:
		return "strings." + g.pick("ToUpper", "TrimSpace") + "(" + g.text(d-1) + ")"
	case 4:
		return "(*" + g.text(d-1) + " | " + g.pick("string", g.text(d-1)) + ")"
	case 5:
		return g.plain(d-1) + "." + g.pick("a", "b", "c")
	case 6:
		return "(" + g.text(d-1) + " & " + g.pick("string", `=~"^[a-z]"`, `!="a"`, "strings.MinRunes(1)", "strings.MaxRunes(2)") + ")"
	case 7:
		return g.pick("json.Marshal", "yaml.Marshal") + "(" + g.pick(g.plain(d-1), g.number(d-1), g.text(d-1)) + ")"
	default:
		return g.list(d-1) + "[" + g.pick("0", "1") + "]"
	}
}

func (g *generator) boolean(d int) string {
	if d <= 0 {
		return g.pick("true", "false", "object.spec.b", "object.spec.absent")
	}
	switch g.IntN(11) {
	case 0:
		return "(" + g.number(d-1) + g.pick("==", "!=", "<", ">=", ">") + g.number(d-1) + ")"
	case 1:
		return "(" + g.text(d-1) + g.pick("==", "!=", "<") + g.text(d-1) + ")"
	case 2:
		return "(" + g.boolean(d-1) + g.pick("&&", "||") + g.boolean(d-1) + ")"
	case 3:
		return "!" + g.boolean(d-1)
	case 4:
		return "list.Contains(" + g.list(d-1) + ", " + g.any(d-1) + ")"
	case 5:
		return "(" + g.pick("object.spec.absent", "object.spec.n", "observed.pod", "observed.nope.x", "object.spec.map.a", "object.spec.map.q") + g.pick("==", "!=") + "_|_)"
	case 6:
		return "(" + g.text(d-1) + g.pick("=~", "!~") + `"^a")`
	case 7:
		return "strings.HasPrefix(" + g.text(d-1) + ", " + g.text(d-1) + ")"
	case 8:
		return "(*" + g.boolean(d-1) + " | bool)"
	case 9:
		return "(" + g.list(d-1) + " == " + g.list(d-1) + ")"
	default:
		return "(" + g.structure(d-1) + " == " + g.structure(d-1) + ")"
	}
}

func (g *generator) within(name string, f func()) {
	g.variables = append(g.variables, name)
	f()
	g.variables = g.variables[:len(g.variables)-1]
}

func (g *generator) list(d int) string {
	if d <= 0 {
		return g.pick("[]", "[1, 2]", `["a", "b"]`, "object.spec.list", "object.spec.absent", "[object.spec.n]", "[for p in observed.pods {p.metadata.name}]")
	}
	v := "v" + strconv.Itoa(len(g.variables))
	switch g.IntN(10) {
	case 0:
		return "[" + g.any(d-1) + ", " + g.any(d-1) + "]"
	case 1, 2:
		l, out := g.list(d-1), ""
		g.within(v, func() { out = g.any(d - 1) })
		return "[for " + v + " in " + l + " {" + out + "}]"
	case 3:
		l, c, out := g.list(d-1), "", ""
		g.within(v, func() { c, out = g.boolean(d-1), g.any(d-1) })
		return "[for " + v + " in " + l + " if " + c + " {" + out + "}]"
	case 4:
		return "[if " + g.boolean(d-1) + " {" + g.any(d-1) + "}]"
	case 5:
		s, out := g.structure(d-1), ""
		g.within(v, func() { out = g.any(d - 1) })
		return "[for k, " + v + " in " + s + " {" + out + "}]"
	case 6:
		return "list." + g.pick("Concat([", "Concat([[1], ") + g.list(d-1) + "])"
	case 7:
		return "list." + g.pick("Reverse(", "SortStrings(") + g.list(d-1) + ")"
	case 8:
		return "(" + g.list(d-1) + " & " + g.pick("list.MaxItems(2)", "list.MinItems(1)", "[...]", "[...int]", "[...string]", "[_, ...]") + ")"
	default:
		return "(*" + g.list(d-1) + " | [...])"
	}
}

func (g *generator) field(d int) string {
	switch g.IntN(8) {
	case 0:
		return "if " + g.boolean(d) + " {" + g.pick("a", "b", "c", "d") + ": " + g.any(d) + "}"
	case 1:
		v := "w" + strconv.Itoa(len(g.variables))
		l, out := g.list(d), ""
		g.within(v, func() { out = g.any(d) })
		return "for i, " + v + ` in ` + l + ` {"` + g.pick("a", "k") + `\(i)": ` + out + "}"
	case 2:
		return "(" + g.text(d) + "): " + g.any(d)
	case 3:
		return g.pick("a", "b", "c") + ": " + g.pick("int", "string", "*1 | int", "{...}", "[...]")
	case 4:
		return g.pick("a?", "b?") + ": " + g.any(d)
	default:
		return g.pick("a", "b", "c", "d") + ": " + g.any(d)
	}
}

func (g *generator) structure(d int) string {
	if d <= 0 {
		return g.pick("{}", "{a: 1}", "{a: 1, b: \"x\"}", "object.spec.map", "object.spec", "observed.pod", "object.spec.absent")
	}
	if g.IntN(6) == 0 {
		return "(" + g.structure(d-1) + " & " + g.structure(d-1) + ")"
	}
	var fields []string
	for range 1 + g.IntN(3) {
		fields = append(fields, g.field(d-1))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

func (g *generator) plain(d int) string {
	var fields []string
	for range 1 + g.IntN(3) {
		fields = append(fields, g.pick("a", "b", "c")+": "+g.pick(g.number(d-1), g.text(d-1), g.boolean(d-1), "int", "*1 | int"))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

func (g *generator) any(d int) string {
	switch g.IntN(5) {
	case 0:
		return g.number(d)
	case 1:
		return g.text(d)
	case 2:
		return g.boolean(d)
	case 3:
		return g.list(d)
	default:
		return g.structure(d)
	}
}

// A generated expression that has a value has the same in CUE. The reverse does not hold: CUE gives a value where a
// constraint of an argument does not hold, and the compiled expression an error.
func TestGeneratedExpressionsLikeCUE(t *testing.T) {
	t.Parallel()
	values := 0
	for seed := range *expressionsGenerated {
		g := &generator{picker: newPicker(seed, 1)}
		expression := g.any(1 + g.IntN(3))
		instance := loaded(packageWith(expression))
		if instance.Err != nil {
			continue
		}
		o := oracleOf(t, instance)
		class, got := o.compiled(sampleObject(), sampleObserved(), "out")
		if class != "value" {
			continue
		}
		values++
		wantClass, want := o.evaluated(sampleObject(), sampleObserved(), "out")
		require.Equal(t, "value", wantClass, "seed %d: %s\nCUE: %v\ncompiled: %v", seed, expression, want, got)
		wantText, err := json.Marshal(want) // 0/3 is 0 in CUE, and 0.0 here
		require.NoError(t, err)
		gotText, err := json.Marshal(got)
		require.NoError(t, err)
		require.Equal(t, string(wantText), string(gotText), "seed %d: %s", seed, expression)
	}
	require.Greater(t, values, int(*expressionsGenerated/3))
}
