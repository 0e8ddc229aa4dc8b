package behaviour

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var behavioursGenerated = flag.Uint64("behaviours", 150, "how many behaviours are generated and compared with CUE's evaluator")

// wholes makes behaviours: hidden fields that refer to each other, and children that read them. Left out is what
// docs/cue.md lists as different: selections from a struct with an if, the order of fields, alternatives in computed names,
// and what is wrong in a field that nothing reads.
type wholes struct {
	picker
	// names are the fields so far, by type.
	names map[string][]string
	body  []string
}

// known returns a field of a type that was made before, or another expression.
func (g *wholes) known(of, otherwise string) string {
	if names := g.names[of]; len(names) > 0 && g.IntN(4) > 0 {
		return names[g.IntN(len(names))]
	}
	return otherwise
}

func (g *wholes) number() string {
	n := g.known("number", g.pick("1", "2.5", "object.spec.n", "object.spec.absent", "object.spec.f"))
	switch g.IntN(8) {
	case 0:
		return "(*" + n + " | " + g.known("number", "7") + ")"
	case 1:
		return n + g.pick("+", "-", "*", "/") + g.known("number", "2")
	case 2:
		return "len(" + g.pick(g.list(), g.structure(), g.text()) + ")"
	case 3:
		return "(" + n + " & " + g.pick("number", "<1000") + ")"
	case 4:
		return "(*object.spec." + g.pick("n", "f", "absent") + " | " + n + ")"
	}
	return n
}

func (g *wholes) text() string {
	s := g.known("text", g.pick(`"a"`, "object.spec.s", "object.spec.key", "object.spec.absent", "object.metadata.name", "observed.pod.status.phase"))
	switch g.IntN(9) {
	case 0:
		return "(*" + s + " | " + g.known("text", `"d"`) + ")"
	case 1:
		return `"\(` + g.pick(s, g.known("number", "3"), g.known("bool", "true")) + `)-x"`
	case 2:
		return "strings.Join([" + s + ", " + g.known("text", `"j"`) + `], ",")`
	case 3:
		return "json.Marshal([" + g.known("list", s) + "])"
	case 4:
		return "yaml.Marshal(" + g.pick(s, g.known("number", "0.5")) + ")"
	case 5:
		return "(*object.spec." + g.pick("s", "key", "absent") + " | " + s + ")"
	case 6:
		return "strings.ToUpper(" + s + ")"
	}
	return s
}

func (g *wholes) boolean() string {
	switch g.IntN(7) {
	case 0:
		return "(" + g.known("any", "object.spec.absent") + g.pick("!=", "==") + "_|_)"
	case 1:
		return "(" + g.known("number", "object.spec.n") + g.pick("<", ">", "==", "!=") + g.known("number", "2") + ")"
	case 2:
		return "(" + g.known("text", "object.spec.s") + g.pick("==", "!=", "<") + g.known("text", `"a"`) + ")"
	case 3:
		return "list.Contains(" + g.known("list", "object.spec.list") + ", " + g.known("text", `"a"`) + ")"
	case 4:
		return "(*object.spec." + g.pick("b", "absent") + " | " + g.pick("true", "false") + ")"
	}
	return g.known("bool", g.pick("true", "object.spec.b", "object.spec.absent", "!object.spec.b"))
}

func (g *wholes) list() string {
	l := g.known("list", g.pick("[]", `["a", "b"]`, "object.spec.list", "object.spec.absent", "[1, 2.0]"))
	switch g.IntN(7) {
	case 0:
		return "[for i, v in " + l + " if " + g.boolean() + ` {"\(i)\(v)"}]`
	case 1:
		return "[" + g.text() + ", if " + g.boolean() + " {" + g.text() + "}]"
	case 2:
		return "(*" + l + " | " + g.known("list", "[1]") + ")"
	case 3:
		return "list.Concat([" + l + ", " + g.known("list", `["c"]`) + "])"
	case 4:
		return "list.SortStrings([for k, v in " + g.known("struct", "object.spec.map") + " {k}])"
	}
	return l
}

func (g *wholes) field(name string) string {
	switch g.IntN(5) {
	case 0:
		return "if " + g.boolean() + " {" + name + ": " + g.text() + "}"
	case 1:
		return `"` + name + `-\(` + g.known("text", "object.metadata.name") + `)": ` + g.number()
	case 2:
		return name + ": " + g.number()
	}
	return name + ": " + g.text()
}

func (g *wholes) structure() string {
	s := g.known("struct", g.pick("{}", "object.spec.map", "object.spec.absent", "{a: object.spec.absent, b: 1}"))
	switch g.IntN(7) {
	case 0, 1:
		return "{" + g.field("a") + ", " + g.field("b") + "}"
	case 2:
		return "{for k, v in " + g.pick(s, g.list()) + ` {"k\(k)": ` + g.pick("v", g.number()) + "}}"
	case 3:
		return "(*" + s + " | " + g.known("struct", `{d: "e"}`) + ")"
	case 4:
		return "(" + s + " & {" + g.field("c") + "})"
	case 5:
		return "{" + s + ", " + g.field("e") + "}"
	}
	return s
}

// make adds a field, of which others can be made.
func (g *wholes) make(name string) {
	of := g.pick("number", "text", "bool", "list", "struct")
	x := map[string]func() string{"number": g.number, "text": g.text, "bool": g.boolean, "list": g.list, "struct": g.structure}[of]()
	g.body = append(g.body, name+": "+x)
	selected := name
	if of == "struct" && strings.HasPrefix(x, "{a: ") && !strings.Contains(x, "if ") && !strings.Contains(x, `"b-`) {
		g.names["text"] = append(g.names["text"], name+"."+g.pick("a", "b", "c"))
	}
	g.names[of], g.names["any"] = append(g.names[of], selected), append(g.names["any"], selected)
}

// behaviour returns the body of a behaviour with the children c0, c1 and c2.
func (g *wholes) behaviour() string {
	for i := range 2 + g.IntN(5) {
		if g.IntN(5) == 0 {
			g.make(fmt.Sprintf("let l%d", i))
			last := g.names["any"][len(g.names["any"])-1]
			for of, names := range g.names {
				for j, name := range names {
					if name == last || strings.HasPrefix(name, last+".") {
						g.names[of][j] = strings.TrimPrefix(name, "let ")
					}
				}
			}
			g.body[len(g.body)-1] = strings.Replace(g.body[len(g.body)-1], ": ", " = ", 1) + fmt.Sprintf("\n\t_u%d: l%d", i, i)
			continue
		}
		g.make(fmt.Sprintf("_h%d", i))
	}
	var children []string
	for i := range 3 {
		fields := []string{"s: " + g.structure(), "t: " + g.text(), g.field("f")}
		child := fmt.Sprintf("c%d: {%s}", i, strings.Join(fields, ", "))
		if g.IntN(3) == 0 {
			child = "if " + g.boolean() + " {" + child + "}"
		}
		children = append(children, child)
	}
	g.body = append(g.body, "children: {"+strings.Join(children, "\n\t")+"}", "status: "+g.structure())
	return strings.Join(g.body, "\n\t")
}

// objects returns an object and its children, some parts of which are absent.
func (g *wholes) objects() (object, observed map[string]any) {
	object, observed = sampleObject(), sampleObserved()
	spec := object["spec"].(map[string]any)
	for _, name := range []string{"n", "s", "b", "f", "key", "list", "map"} {
		if g.IntN(3) == 0 {
			delete(spec, name)
		}
	}
	if g.IntN(2) == 0 {
		delete(observed, "pod")
	}
	return object, observed
}

// comparedParts are the paths of what a generated behaviour has.
var comparedParts = [][]string{{"children", "c0"}, {"children", "c1"}, {"children", "c2"}, {"status"}}

// A generated behaviour is what it is in CUE: each child, and the status.
func TestGeneratedBehavioursLikeCUE(t *testing.T) {
	t.Parallel()
	compared, values := 0, 0
	for seed := range *behavioursGenerated {
		g := &wholes{picker: newPicker(seed, 2), names: make(map[string][]string)}
		source := packageOf(g.behaviour())
		instance := loaded(source)
		if instance.Err != nil {
			continue // an import that nothing uses, or a let clause
		}
		program, err := Compile(instance, "X")
		if err != nil {
			continue
		}
		o := oracleOf(t, instance)
		o.program = program
		for range 4 {
			object, observed := g.objects()
			for _, path := range comparedParts {
				wantClass, want := o.evaluated(object, observed, path...)
				class, got := o.compiled(object, observed, path...)
				if wantClass == "absent" && class != "value" { // it is not known whether there is one
					if of, _ := o.evaluated(object, observed, path[0]); of != "value" {
						class = wantClass
					}
				}
				if wantClass == "error" && class == "incomplete" || wantClass == "incomplete" && class == "error" {
					class = wantClass // something is absent, and something else is wrong
				}
				compared++
				require.Equal(t, wantClass, class, "seed %d, %v of %v, %v:\n%s\nCUE: %v\ncompiled: %v", seed, path, object["spec"], observed, source, want, got)
				if class == "value" {
					values++
					require.Equal(t, want, got, "seed %d, %v of %v, %v:\n%s", seed, path, object["spec"], observed, source)
				}
			}
		}
	}
	require.Greater(t, values, compared/10)
}
