package behaviour

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/parser"
	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind/budget"
)

var (
	generatedReads = flag.Uint64("reads", 2000, "how many behaviours TestGeneratedReadsAreEnough makes")
	firstReads     = flag.Uint64("first-reads", 0, "seed of the first of them")
)

// A generated behaviour that is given the parts that Reads names computes what it does with all.
func TestGeneratedReadsAreEnough(t *testing.T) {
	t.Parallel()
	compiled := uint64(0)
	for seed := *firstReads; seed < *firstReads+*generatedReads; seed++ {
		g := &readsMaker{picker: newPicker(seed, 81)}
		text := g.behaviour()
		program := compiledText(text)
		if program == nil {
			continue
		}
		compiled++
		of, children := program.Reads()
		for range 6 {
			object, observed := g.given()
			all, isExceeded := resultsOf(program, object, observed)
			if isExceeded {
				continue // what is read takes fewer steps
			}
			partOfObject, _ := of.In(object).(map[string]any)
			partOfObserved, _ := children.In(observed).(map[string]any)
			part, _ := resultsOf(program, partOfObject, partOfObserved)
			require.Equal(t, all, part, "seed %d:\n%s\nobject %v\nobserved %v", seed, text, object, observed)
		}
	}
	require.Greater(t, compiled, *generatedReads/10)
}

// compiledText compiles #X of a text; nil if it does not compile.
func compiledText(text string) *Program {
	file, err := parser.ParseFile("x.cue", text)
	if err != nil {
		return nil
	}
	instance := &build.Instance{}
	if instance.AddSyntax(file) != nil {
		return nil
	}
	program, err := Compile(instance, "#X")
	if err != nil || program.Cycle() != nil {
		return nil
	}
	return program
}

// resultsOf returns what a program computes, and whether that took more than its budget.
func resultsOf(p *Program, object, observed map[string]any) (results map[string]string, isExceeded bool) {
	b := budget.New("x")
	b.Take(budget.Steps - 6_000)
	results = make(map[string]string)
	value := p.Run(b, object, observed)
	names, problem := value.Fields()
	if problem != nil {
		results["!"] = problem.Error()
	}
	for _, name := range names {
		if name == ObjectName || name == ObservedName {
			results[name] = fmt.Sprint(value.Lookup(name).Exists())
			continue
		}
		data, problem := value.Lookup(name).Data()
		if results[name] = fmt.Sprint("value ", data); problem != nil {
			results[name] = fmt.Sprint("problem ", problem.IsIncomplete, " ", problem.Absent)
		}
	}
	if problem := value.Lookup(ObservedName).Fits(); problem != nil {
		results["fits"] = fmt.Sprint("problem ", problem.IsIncomplete)
	}
	return results, b.IsExceeded()
}

// readsMaker makes behaviours that read parts of what is given in all forms that the language has. Names tell types, so
// that most of what it makes has a value: set and list are lists of structs, phase and z are texts, n is a number, and the
// others are structs.
type readsMaker struct {
	picker
	structs, lists, texts []string // names in scope: variables, lets, aliases, by what they are
	made                  int
	defs                  []string
	embeddable            []string // hidden fields that the behaviour can embed
	library               []string // at the top of the package
}

var (
	structNames = []string{"pod", "x", "y", "status", "m", "object", "observed", "spec"}
	listNames   = []string{"set", "list"}
	textNames   = []string{"phase", "z"}
)

func (g *readsMaker) name() string {
	return g.pick(g.pick(structNames...), g.pick(structNames...), g.pick(listNames...), g.pick(textNames...), "n")
}

func (g *readsMaker) fresh(prefix string) string {
	g.made++
	return fmt.Sprintf("%s%d", prefix, g.made)
}

// scoped makes a text within which names can be added.
func (g *readsMaker) scoped(make func() string) string {
	a, b, c := slices.Clip(g.structs), slices.Clip(g.lists), slices.Clip(g.texts)
	defer func() { g.structs, g.lists, g.texts = a, b, c }()
	return make()
}

func (g *readsMaker) sel(name string) string {
	switch g.IntN(12) {
	case 0:
		return `["` + name + `"]`
	case 1:
		return `["\("` + name + `")"]`
	case 2:
		if g.IntN(3) == 0 {
			return "[" + g.text(0) + "]"
		}
	}
	return "." + name
}

func (g *readsMaker) str(d int) string { // a struct
	if len(g.structs) > 0 && g.IntN(5) < 2 {
		return g.pick(g.structs...)
	}
	if d <= 0 {
		return g.pick("object.spec", "observed.pod", "observed.pod", "observed.m", "object.status", "observed.set[0]", g.pick("object", "observed", "observed.pod"))
	}
	switch g.IntN(16) {
	case 0:
		return g.list(d-1) + g.pick("[0]", "[1]", "[object.spec.n]", "[0]")
	case 1:
		return "(*" + g.str(d-1) + " | " + g.pick("{}", "{x: 1}", g.str(d-1)) + ")"
	case 2:
		return "(" + g.str(d-1) + " & " + g.pick("{...}", "{x?: _, ...}", g.structure(d-1)) + ")"
	case 3:
		return g.structure(d - 1)
	case 4:
		return "[if " + g.boolean(d-1) + " {" + g.str(d-1) + "}, " + g.str(d-1) + "][0]"
	case 5:
		if len(g.defs) > 0 {
			return "(" + g.pick(g.defs...) + " & {in: " + g.str(d-1) + "})" + g.pick("", ".in")
		}
	case 6:
		return g.pick("and([", "or([") + g.str(d-1) + "])"
	case 7:
		return "close(" + g.str(d-1) + ")"
	case 8:
		return "{" + g.pick(structNames...) + ": " + g.str(d-1) + "}"
	case 9:
		n := g.pick(structNames...)
		return "{" + n + ": " + g.str(d-1) + "}" + g.sel(n)
	}
	return g.str(d-1) + g.sel(g.pick(structNames...))
}

func (g *readsMaker) list(d int) string {
	if len(g.lists) > 0 && g.IntN(4) == 0 {
		return g.pick(g.lists...)
	}
	if d > 0 {
		switch g.IntN(10) {
		case 0:
			return g.list(d-1) + g.pick("[0:1]", "[1:]", "[:1]", "[object.spec.n:]")
		case 1:
			return "[" + g.str(d-1) + ", " + g.str(d-1) + "]"
		case 2, 3:
			return g.scoped(func() string { return "[" + g.clauses(d) + " {" + g.str(d-1) + "}]" })
		case 4:
			return "(*" + g.list(d-1) + " | [])"
		case 5:
			return "list.Concat([" + g.list(d-1) + ", " + g.list(d-1) + "])"
		case 6:
			return "list.Sort(" + g.list(d-1) + ", {x: {}, y: {}, less: x" + g.sel("n") + " < y.n})"
		case 7:
			return "(" + g.list(d-1) + " & " + g.pick("[...]", "[..._]", "list.MaxItems(2)", "[...{...}]", "[...{n?: int, ...}]") + ")"
		}
	}
	return g.pick("observed.set", g.str(max(d-1, 0))+g.sel(g.pick(listNames...)))
}

func (g *readsMaker) text(d int) string {
	if len(g.texts) > 0 && g.IntN(3) == 0 {
		return g.pick(g.texts...)
	}
	if d > 0 {
		switch g.IntN(9) {
		case 0:
			return `"\(` + g.text(d-1) + `)-\(` + g.text(d-1) + `)"`
		case 1:
			return "(*" + g.text(d-1) + ` | "d")`
		case 2:
			return "json.Marshal(" + g.pick(g.str(d-1), g.list(d-1)) + ")"
		case 3:
			return "[if " + g.boolean(d-1) + " {" + g.text(d-1) + `}, "e"][0]`
		case 4:
			return "[for k, _ in " + g.str(d-1) + " {k}][0]"
		case 5:
			return `(` + g.text(d-1) + ` & !="q")`
		}
	}
	return g.str(max(d, 1)) + g.sel(g.pick(textNames...))
}

func (g *readsMaker) boolean(d int) string {
	switch g.IntN(10) {
	case 0, 1:
		return "(" + g.str(d-1) + g.sel(g.name()) + g.pick(" != ", " == ") + "_|_)"
	case 2:
		return "(_|_ != " + g.pick(g.list(d-1)+"[1]", g.expr(d-1)) + ")"
	case 3:
		return "(" + g.text(d-1) + " == " + g.pick(`"a"`, g.text(d-1)) + ")"
	case 4:
		return "(len(" + g.pick(g.list(d-1), g.str(d-1)) + ") > " + g.pick("0", "1", "3") + ")"
	case 5:
		return "(" + g.str(d-1) + " == " + g.str(d-1) + ")"
	case 6:
		return "!" + g.boolean(d-1)
	case 7:
		return "(" + g.str(d-1) + g.sel("n") + " < " + g.pick("1", g.str(d-1)+".n") + ")"
	case 8:
		return "list.Contains(" + g.list(d-1) + ", " + g.str(d-1) + ")"
	}
	return "true"
}

// variable is a new name, or now and then one that hides another.
func (g *readsMaker) variable() string {
	if g.IntN(10) == 0 {
		return g.pick("object", "observed", "pod", "x")
	}
	return g.fresh("v")
}

// clauses returns those of a comprehension, and adds their variables.
func (g *readsMaker) clauses(d int) string {
	var clauses []string
	for i := range 1 + g.IntN(3) {
		switch c := g.IntN(8); {
		case i > 0 && c == 0, i == 0 && c == 1:
			clauses = append(clauses, "if "+g.boolean(d-1))
		case i > 0 && c < 3:
			v, x := g.variable(), ""
			switch g.IntN(3) {
			case 0:
				x = g.str(d - 1)
				g.structs = append(g.structs, v)
			case 1:
				x = g.list(d - 1)
				g.lists = append(g.lists, v)
			default:
				x = g.text(d - 1)
				g.texts = append(g.texts, v)
			}
			clauses = append(clauses, "let "+v+" = "+x)
		case c == 4, c == 5:
			k, v, x := g.fresh("k"), g.variable(), g.str(d-1)
			g.texts = append(g.texts, k)
			g.structs = append(g.structs, v)
			clauses = append(clauses, "for "+k+", "+v+" in "+x)
		default:
			v, x := g.variable(), g.list(d-1)
			g.structs = append(g.structs, v)
			clauses = append(clauses, "for "+v+" in "+x)
		}
	}
	return strings.Join(clauses, " ")
}

// typed is a value for a field of a name.
func (g *readsMaker) typed(name string, d int) string {
	switch {
	case slices.Contains(structNames, name):
		return g.pick(g.str(d), g.structure(d))
	case slices.Contains(listNames, name):
		return g.list(d)
	case slices.Contains(textNames, name):
		return g.text(d)
	}
	return g.pick("1", g.str(d)+".n", "len("+g.list(d)+")")
}

func (g *readsMaker) field(d int) string {
	n := g.name()
	switch g.IntN(14) {
	case 0, 1:
		return g.scoped(func() string { return g.clauses(d) + " {" + g.field(d-1) + "}" })
	case 2:
		return `"\(` + g.text(d-1) + `)": ` + g.expr(d-1)
	case 3:
		return "(" + g.text(d-1) + "): " + g.expr(d-1)
	case 4:
		return g.scoped(func() string {
			k := g.fresh("N")
			g.texts = append(g.texts, k)
			return "[" + k + "=string]: " + g.pick("_", "{...}", g.expr(d-1))
		})
	case 5:
		return `[=~"^` + g.pick("x", "p", "o") + `"]: ` + g.pick("_", "{...}", g.expr(d-1))
	case 6:
		return n + "?: " + g.typed(n, d-1)
	case 7:
		h := g.pick("#", "_") + g.fresh("d")
		return h + ": " + g.typed(n, d-1) + ", " + n + ": " + h
	case 8:
		n = g.pick(structNames...)
		return g.scoped(func() string {
			a := g.fresh("A")
			g.structs = append(g.structs, a+"."+g.pick(structNames...))
			return n + ": " + a + "={" + g.fields(d-1) + "}"
		})
	}
	return n + ": " + g.typed(n, d-1)
}

func (g *readsMaker) fields(d int) string {
	return g.scoped(func() string {
		var fields []string
		if g.IntN(3) == 0 {
			fields = append(fields, g.let(d-1))
		}
		if g.IntN(6) == 0 {
			a, n := g.fresh("X"), g.pick(structNames...)
			fields = append(fields, a+"="+n+": "+g.str(d-1))
			g.structs = append(g.structs, a)
		}
		if g.IntN(6) == 0 {
			fields = append(fields, g.str(d-1))
		}
		for range 1 + g.IntN(2) {
			fields = append(fields, g.field(d))
		}
		if g.IntN(4) == 0 {
			fields = append(fields, "...")
		}
		return strings.Join(fields, ", ")
	})
}

// let is a let clause, to which the names are added.
func (g *readsMaker) let(d int) string {
	l := g.fresh("l")
	switch g.IntN(3) {
	case 0:
		x := g.list(d)
		g.lists = append(g.lists, l)
		return "let " + l + " = " + x
	case 1:
		x := g.text(d)
		g.texts = append(g.texts, l)
		return "let " + l + " = " + x
	}
	x := g.str(d)
	g.structs = append(g.structs, l)
	return "let " + l + " = " + x
}

func (g *readsMaker) structure(d int) string { return "{" + g.fields(max(d, 0)) + "}" }

func (g *readsMaker) expr(d int) string {
	d = max(d, 0)
	switch g.IntN(12) {
	case 0:
		return g.str(d)
	case 1:
		return g.list(d)
	case 2:
		return g.boolean(d)
	case 3:
		return "len(" + g.pick(g.list(d), g.str(d)) + ")"
	case 4:
		if d > 0 {
			return g.scoped(func() string { return "[" + g.clauses(d) + " {" + g.expr(d-1) + "}]" })
		}
	case 5:
		if d > 0 {
			return g.structure(d - 1)
		}
	case 6:
		return "(struct." + g.pick("MinFields", "MaxFields") + "(2) & " + g.str(d) + ")"
	case 7:
		if len(g.defs) > 0 {
			return "(" + g.pick(g.defs...) + " & {in: " + g.str(d) + "}).out"
		}
	case 8:
		return "(" + g.expr(d-1) + " | *" + g.expr(d-1) + ")"
	}
	return g.text(d)
}

// declaration is what is declared of a value of what is given, whose fields may refer to each other.
func (g *readsMaker) declaration(name string, d int) string {
	switch {
	case slices.Contains(textNames, name):
		return g.pick("string", `"a"`, `*"a" | string`, `!="b"`, "_")
	case name == "n":
		return g.pick("int", "_", ">0", "*1 | int")
	case slices.Contains(listNames, name):
		if d > 0 && g.IntN(3) > 0 {
			return "[..." + g.declaration(g.pick(structNames...), d-1) + "]"
		}
		return g.pick("[...]", "[..._]", "_", "[...{...}]", "[_, ...]")
	}
	if d <= 0 {
		return g.pick("_", "{...}", "{x?: _, ...}", `{phase?: "a", ...}`, "{phase?: string, ...}", "{x?: {...}}")
	}
	switch g.IntN(9) {
	case 0:
		return g.declaration(name, d-1) + " & " + g.declaration(name, d-1)
	case 1:
		return "(" + g.pick("", "*") + g.declaration(name, d-1) + " | " + g.declaration(name, 0) + ")"
	case 2:
		return g.declaration(name, 0)
	}
	return g.scoped(func() string {
		var fields, own []string
		for range 1 + g.IntN(2) {
			n := g.name()
			if d > 2 {
				n = g.pick("pod", "pod", "m", "set", "x", "spec", "status")
			}
			own = append(own, n)
		}
		alias := ""
		if g.IntN(4) == 0 {
			a := g.fresh("O")
			alias = a + "="
			g.structs = append(g.structs, a)
		}
		for _, n := range own {
			fields = append(fields, n+g.pick("?: ", "?: ", ": ", "!: ")+g.declaration(n, d-1))
		}
		for _, n := range own {
			switch {
			case slices.Contains(structNames, n):
				g.structs = append(g.structs, n, n)
			case slices.Contains(listNames, n):
				g.lists = append(g.lists, n, n)
			case n != "n":
				g.texts = append(g.texts, n, n)
			}
		}
		if g.IntN(3) == 0 {
			fields = append(fields, g.let(1))
		}
		if g.IntN(2) == 0 {
			fields = append(fields, g.field(1))
		}
		if g.IntN(8) > 0 {
			fields = append(fields, "...")
		}
		return alias + "{" + strings.Join(fields, ", ") + "}"
	})
}

// stated is what is said of the behaviour itself.
func (g *readsMaker) stated(d int) string {
	switch g.IntN(10) {
	case 0:
		return "object: " + g.declaration("object", 3)
	case 1, 2, 3:
		return "observed: " + g.declaration("observed", 3)
	case 4:
		return g.scoped(func() string { return g.clauses(1) + " {" + g.stated(d-1) + "}" })
	case 5, 6:
		h := g.fresh(g.pick("_h", "_h", "#h"))
		inner := ""
		switch g.IntN(3) {
		case 0:
			inner = g.pick("_", "{observed: "+g.declaration("observed", 3)+", ...}", "{observed: "+g.declaration("observed", 2)+"}")
		default:
			inner = g.pick("", g.fresh("Q")+"=") + "{" + g.scoped(func() string { return g.body(d-1, 1+g.IntN(2)) }) + g.pick("", "\n...") + "}"
		}
		g.embeddable = append(g.embeddable, h)
		return h + ": " + inner + g.pick("", "\n"+h)
	case 7:
		h := g.fresh(g.pick("#h", "_t"))
		g.library = append(g.library, h+": {"+g.pick("", "object: _\n")+"observed: "+g.declaration("observed", 3)+"\n"+g.pick("", "...", `r1: _`)+"}")
		return g.pick(h, "if "+g.boolean(1)+" {"+h+"}", "_i: "+h+"\n_i", h+" & {...}")
	case 8:
		return g.pick(`[=~"^o"]: {...}`, "[string]: _")
	}
	if len(g.embeddable) > 0 {
		h := g.pick(g.embeddable...)
		return g.pick(h, h+": {"+g.scoped(func() string { return g.body(0, 1) })+"}", "if "+g.boolean(1)+" {"+h+"}", "if "+g.boolean(1)+" {"+h+": {"+g.scoped(func() string { return g.stated(d - 1) })+"}}", h+" & {"+g.scoped(func() string { return g.body(0, 1) })+"}")
	}
	return g.fresh("r") + ": " + g.expr(d)
}

func (g *readsMaker) body(d, n int) string {
	d = max(d, 0)
	var lines []string
	for range n {
		switch g.IntN(9) {
		case 0, 1, 2:
			lines = append(lines, g.stated(d))
		case 3:
			l := g.let(d)
			name := strings.Fields(l)[1]
			lines = append(lines, l, g.fresh("r")+": "+name)
		case 4:
			h := g.fresh("_h")
			lines = append(lines, h+": "+g.str(d))
			g.structs = append(g.structs, h)
		case 5:
			a, h := g.fresh("S"), g.fresh("_s")
			lines = append(lines, g.scoped(func() string {
				g.structs = append(g.structs, a+"."+g.pick("object", "observed", g.pick(structNames...)), a+"."+g.pick("object", "observed"))
				return h + ": " + a + "={" + g.fields(d) + "}"
			}), g.pick("", h))
		case 6:
			f := g.fresh("_f")
			lines = append(lines, f+": {in: _, out: "+g.scoped(func() string {
				g.structs = append(g.structs, "in", "in")
				return g.expr(d)
			})+"}")
			g.defs = append(g.defs, f)
		default:
			lines = append(lines, g.fresh("r")+": "+g.expr(d))
		}
	}
	return strings.Join(lines, "\n")
}

// behaviour returns a package.
func (g *readsMaker) behaviour() string {
	head := "#X: {"
	if g.IntN(5) == 0 {
		g.library = append(g.library, "#B: {"+g.scoped(func() string { return g.body(1, 2) })+"\nobject: _, observed: _, ...}")
		g.structs, g.lists, g.texts, g.defs, g.embeddable = nil, nil, nil, nil, nil
		head = "#X: #B & {"
	}
	tail := ""
	if g.IntN(2) == 0 {
		tail = "\nr0: [observed.pod." + g.name() + " != _|_, for v in observed.set {v" + g.pick("", ".z", ".x.z") + "}]\nr00: observed." + g.name() + g.pick("", "."+g.name())
	}
	body := head + g.body(g.IntN(3), 2+g.IntN(3)) + tail + "\nobject: _, observed: _}\n" + strings.Join(g.library, "\n")
	return importsFor(body) + body
}

func importsFor(body string) (imports string) {
	for _, path := range []string{"list", "struct", "encoding/json"} {
		if strings.Contains(body, path[strings.LastIndex(path, "/")+1:]+".") {
			imports += fmt.Sprintf("import %q\n", path)
		}
	}
	return imports
}

// value is data for a name.
func (g *readsMaker) value(name string, d int) any {
	if g.IntN(14) == 0 {
		return []any{"a", "px", int64(0), true, nil, []any{}, map[string]any{}}[g.IntN(7)]
	}
	switch {
	case slices.Contains(listNames, name):
		list := make([]any, min(1+g.IntN(3), 2))
		for i := range list {
			list[i] = g.value("x", d-1)
		}
		return list
	case slices.Contains(textNames, name):
		return g.pick("a", "b", "x", "pod", "zz")
	case name == "n":
		return int64(g.IntN(2))
	}
	s := make(map[string]any)
	for _, n := range []string{"phase", "z", "n"} {
		if g.IntN(5) > 0 {
			s[n] = g.value(n, 0)
		}
	}
	if d > 0 {
		for _, n := range structNames {
			if g.IntN(2) > 0 {
				s[n] = g.value(n, d-1)
			}
		}
		for _, n := range listNames {
			if g.IntN(3) > 0 {
				s[n] = g.value(n, d-1)
			}
		}
	}
	return s
}

func (g *readsMaker) given() (object, observed map[string]any) {
	object = map[string]any{"spec": g.value("spec", 3), "status": g.value("status", 2), "x": g.value("x", 2), "phase": "a"}
	observed = map[string]any{"m": g.value("m", 2), "x": g.value("x", 2)}
	if g.IntN(6) > 0 {
		observed["pod"] = g.value("pod", 3)
	}
	if g.IntN(6) > 0 {
		observed["set"] = g.value("set", 3)
	}
	return object, observed
}
