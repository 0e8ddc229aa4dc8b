// Package kindmaker makes kinds at random, for tests: the same seed makes the same kind.
package kindmaker

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// kindMaker makes whole kinds: a schema, hidden fields that refer to each other in any order, and a behaviour that reads
// them. What it makes has the type that its place needs, so that most of the kinds load.
//
// It leaves out what docs/cue.md lists as different from CUE:
//   - what is selected from a struct with an if, a loop or a computed name that may wait: the guards of those are sure;
//   - what is wrong in a field that nothing reads: functions that fail for most texts have constants, what may fail is an alternative, and children have their types;
//   - a loop over a map whose values are absent as an argument of list.SortStrings: an if takes it for no error, for CUE;
//   - whether a list is sorted of which an element is absent: it is not, for CUE, and Fescue waits; nor is such a list sorted by a field;
//   - the elements of list.FlattenN, for which CUE waits where they are sorted or in a loop;
//   - a default in a definition beside one that is chosen from others: CUE takes the latter, and without a definition none;
//   - several alternatives that are left, which each evaluator tells or not beside what is absent: TestGeneratedDisjunctionsLikeCUE has them;
//   - what is read while an if within it is decided by that: a struct with ifs is referred to only by what is ranked above it;
//   - the order of fields in texts: inOrder compares texts without it, and hashes are of texts whose order is known;
//   - names of fields that are computed from alternatives: such names are sure.
//
// uuid.Valid is left out as well: CUE v0.17.1 panics where its result is a field, and an if takes it for false.
type kindMaker struct {
	*rand.Rand

	object, observed, hidden, variables []leaf
	// rank is that of the field that is made. It refers to fields of a lower rank, and a field that is not sure now and
	// then to one of a higher rank, or to itself.
	rank   int
	isSure bool
	// ofObject leaves out what reads children.
	ofObject bool

	children []Child
	phases   []string
	made     int // names
	last     string
}

// leaf is something that an expression can refer to.
type leaf struct {
	path, of string
	// sure means that it has a value for all objects.
	sure bool
	rank int
	// isWhole is a struct with ifs or loops.
	isWhole bool
}

// Child is a child of a kind that was made.
type Child struct {
	Name, apiVersion, kind string
	phase                  string
	// Guard is if or for, if the child stands in one.
	Guard            string
	IsSet, isOrdered bool
}

// Made is a kind that was made.
type Made struct {
	// Source is its text without the package and the imports.
	Source   string
	Children []Child
}

// Make makes the kind of a seed. Not every one loads.
func Make(seed uint64) Made {
	g := &kindMaker{Rand: rand.New(rand.NewPCG(seed, 5))}
	source := g.kind()
	return Made{source, g.children}
}

// packages are those that the grammar uses.
var packages = []string{
	"strings", "list", "math", "strconv", "struct", "regexp", "net", "path", "time", "uuid", "text/template", "encoding/json", "encoding/yaml",
	"encoding/hex", "encoding/base64", "crypto/md5", "crypto/sha1", "crypto/sha256", "crypto/sha512", "crypto/hmac", "fescue.dev/cue/contract",
}

// File returns a file with a package clause and the imports that a source needs.
func File(source string) string {
	var b strings.Builder
	b.WriteString("package k\n\nimport (\n")
	for _, path := range packages {
		name := path[strings.LastIndex(path, "/")+1:]
		if path == "text/template" {
			name = "texttemplate" // children have a template
		}
		if regexp.MustCompile(`(^|[^\w."])` + name + `\.[A-Z#]`).MatchString(source) {
			fmt.Fprintf(&b, "\t%s %q\n", name, path)
		}
	}
	return b.String() + ")\n\n" + source
}

// grammar has the expressions of each type. A plain map has no if, loop or computed name that may wait: fields are selected
// from such ones. <T> is an expression of a type, which is sure if the whole has to be; <T?>
// need not be, and <T!> has to be; <T.> cannot be wrong either. <T=> is a reference, and <=> the same again. $v:T is a new variable, which what follows @
// can refer to, and $v the same again. # is a number that nothing else has.
var grammar = map[string][]string{
	"text": {
		`"\(<scalar>)"`, `"\(<scalar>)-x-\(<scalar>)"`, `"<\(<text>)>"`, `(*<text?> | <text>)`, `(*<text?> | <text>)`, `(<text> | *<text>)`,
		`(<text> & string)`, `(<text> & !="nope")`, `(<text> & strings.MaxRunes(3000))`, `(<text> + <text>)`, `[if <bool> {<text>}, <text>][0]`, `[if <text=> != _|_ {<=>}, <text>][0]`,
		`strings.ToUpper(<text>)`, `strings.ToLower(<text>)`, `strings.ToTitle(<text>)`, `strings.ToCamel(<text>)`, `strings.TrimSpace(<text>)`, `strings.Trim(<text>, "a")`, `strings.TrimPrefix(<text>, <text>)`, `strings.TrimSuffix(<text>, "b")`,
		`strings.TrimLeft(<text>, "ab")`, `strings.TrimRight(<text>, "ab")`, `strings.Replace(<text>, "a", <text>, -1)`, `strings.Join(<texts>, <text>)`, `strings.Join([<text>, <text>], ",")`, `strings.Repeat(<text>, 2)`, `strings.SliceRunes(<text> + "abc", 0, 2)`,
		`strconv.FormatInt(<int>, 10)`, `strconv.FormatBool(<bool>)`, `strconv.Quote(<text>)`, `strconv.QuoteToASCII(<text>)`, `strconv.FormatFloat(<num>, 102, 2, 64)`, `strconv.Unquote(strconv.Quote(<text>))`,
		`json.Marshal(<scalar>)`, `json.Marshal(<texts>)`, `json.Marshal(<ints>)`, `json.Marshal(<ordered>)`, `json.Indent(json.Marshal(<ordered>), "", " ")`, `json.Compact("[1, 2]")`, `json.HTMLEscape(<text>)`, `json.MarshalStream([<text>, <int>])`,
		`yaml.Marshal(<scalar>)`, `yaml.Marshal(<ordered>)`, `yaml.Marshal(<texts>)`, `yaml.MarshalStream([<text>, <ordered>])`,
		`hex.Encode(sha256.Sum256(<text>))`, `hex.Encode(sha256.Sum256(json.Marshal(<ordered>)))`, `hex.Encode(md5.Sum(<text>))`, `hex.Encode(sha1.Sum(<text>))`, `hex.Encode(sha512.Sum512(<text>))`, `hex.Encode(hmac.Sign(hmac.SHA256, "k", <text>))`, `base64.Encode(null, <text>)`,
		`regexp.ReplaceAll("[a-c]", <text>, "z")`, `regexp.ReplaceAllLiteral("[a-c]", <text>, "$")`, `regexp.QuoteMeta(<text>)`, `regexp.Find("[a-z]", <text> + "a")`,
		`path.Base(<text>, path.Unix)`, `path.Join([<text>, "b"], path.Unix)`, `path.Ext(<text>, path.Unix)`, `path.Dir(<text>, path.Unix)`, `path.Clean(<text>, path.Unix)`, `net.PathEscape(<text>)`, `net.QueryEscape(<text>)`, `net.JoinHostPort("h", <int>)`,
		`texttemplate.Execute("{{.}}-x", <text>)`, `texttemplate.Execute("{{range .}}{{.}},{{end}}", <texts>)`, `texttemplate.Execute("{{.a}}-{{.n}}", <ordered>)`, `uuid.SHA1("6ba7b810-9dad-11d1-80b4-00c04fd430c8", <text>)`, `uuid.MD5("6ba7b810-9dad-11d1-80b4-00c04fd430c8", <text>)`,
		`time.Unix(len(<text>), 0)`, `time.FormatString(time.RFC3339Date, "2020-01-02T03:04:05Z")`, `time.FormatDuration(len(<text>) * time.Second)`,
		`{let $l:text = <text>, @x: "\($l)-\(<scalar>)"}.x`, `{a: <text>, b: a}.b`, `{a: {b: c}, c: <text>}.a.b`, `{Y=a: <text>, b: Y}.b`, `{_a: <text>, b: _a + "!"}.b`,
		`(#D & {a: <text>}).t`, `(#D & {a: <text>, n: <int.>}).t`, `{#D, a: <text>}.t`, `(#P & {a: <text>}).t`, `(#E & {a: <text>}).t`,
		`(*<plain?>["a"] | <text>)`, `(*<texts?>[0] | <text>)`, `(*<plain?>.b | <text>)`, `or([<text>])`, `and([string, <text>])`, `([<text>, <text>] & [...string])[1]`,
	},
	"text?": {`(*<texts>[0] | <text>)`, `<plain>["a"]`, `<plain>.b`, `<plain>[<text>]`, `(*(<text> & "a") | <text>)`},
	"int": {
		`len(<text>)`, `len(<texts>)`, `len(<map>)`, `len(<ints>)`, `(<int> + <int>)`, `(<int> - <int>)`, `(<int> * 2)`, `div(<int>, 3)`, `mod(<int>, 3)`, `quo(<int>, 3)`, `rem(<int>, 3)`, `(-<int>)`,
		`list.Sum(<ints>)`, `list.Product(<ints>)`, `list.Max([<int>, <int>])`, `list.Min([<int>, 2])`, `(*<int?> | <int>)`, `(*<int?> | <int>)`, `(<int> & int)`, `(<int> & number)`, `(<int> & <100000000)`, `[if <bool> {<int>}, <int>][0]`,
		`[if <int=> != _|_ {<=>}, <int>][0]`, `strings.Count(<text>, "a")`, `strings.Index(<text>, <text>)`, `strings.LastIndex(<text>, "a")`, `strings.IndexAny(<text>, "ab")`, `strings.Compare(<text>, <text>)`,
		`math.Floor(<num>)`, `math.Ceil(<num>)`, `math.Round(<num>)`, `math.Trunc(<num>)`, `math.RoundToEven(<num>)`, `math.Abs(<int>)`, `strconv.Atoi("\(<int>)")`, `strconv.ParseInt(strconv.FormatInt(<int>, 10), 10, 64)`,
		`{let $l:int = <int>, @x: $l + 1}.x`, `(#D & {a: "q", n: <int.>}).n`, `{a: *1 | int, if <bool.> {a: 2}}.a`, `len([for $v:text in <texts> @if <bool> {$v}])`, `len({for $k:text, $v:text in <map> @{"k\($k)": <int>}})`, `time.ParseDuration("90s")`, `len(<ordered>)`,
	},
	"int?": {`(*<ints>[0] | <int>)`, `(*div(<int>, <int>) | <int>)`},
	"num": {
		`(<int> / 4)`, `(<int> / 3)`, `(<num> * 2)`, `(<num> + <int>)`, `(<num> - 0.5)`, `list.Avg([<int>, <num>])`, `list.Sum([<num>, <int>])`, `list.Max([<num>, 2.5])`, `math.Sqrt(2.25)`, `math.Pow(2, 3)`, `strconv.ParseFloat("1.5", 64)`,
		`(*<num?> | <num>)`, `(-<num>)`, `math.Exp(0)`, `[if <bool> {<num>}, <num>][0]`, `math.Abs(<num>)`, `(<num> & number)`,
	},
	"bool": {
		`(<int> < <int>)`, `(<int> >= <int>)`, `(<int> == <int>)`, `(<num> > <int>)`, `(<text> == <text>)`, `(<text> != <text>)`, `(<text> < <text>)`, `(<text> =~ "^a")`, `(<text> !~ "b$")`, `(!<bool>)`, `(<bool> && <bool>)`, `(<bool> || <bool>)`,
		`(<ref> != _|_)`, `(<ref> != _|_)`, `(<ref> == _|_)`, `list.Contains(<texts>, <text>)`, `list.Contains(<ints>, <int>)`, `strings.HasPrefix(<text>, <text>)`, `strings.HasSuffix(<text>, "a")`, `strings.Contains(<text>, "a")`, `strings.ContainsAny(<text>, "ab")`,
		`regexp.Match("^a", <text>)`, `(*<bool?> | <bool>)`, `(*<bool?> | <bool>)`, `(<texts> == <texts>)`, `(<map> == <map>)`, `(<ints> != <ints>)`, `(<ordered> == <ordered>)`, `list.UniqueItems(<texts.>)`, `list.IsSortedStrings(<texts.>)`, `list.IsSorted(<ints.>, list.Ascending)`,
		`net.IPv4("10.0.0.1")`, `net.FQDN(<text>)`, `net.IP("10.0.0.1")`, `json.Valid(json.Marshal(<text>))`, `strconv.ParseBool("true")`, `math.Signbit(<num>)`, `math.MultipleOf(<int>, 2)`, `list.MaxItems(<texts>, 3)`, `list.MinItems(<ints>, 2)`, `struct.MinFields(<map>, 1)`,
		`strings.MaxRunes(<text>, 3)`, `strings.MinRunes(<text>, 3)`, `path.Match("a*", <text>, path.Unix)`, `path.IsAbs(<text>, path.Unix)`, `[if <bool> {<bool>}, <bool>][0]`, `(<bool> & bool)`,
	},
	"texts": {
		`[<text>, <text>]`, `[<text>, if <bool> {<text>}]`, `[if <bool> {<text>}, if <bool> {<text>}]`, `[for $v:text in <texts> @if <bool> {<text>}]`, `[for $i:int, $v:text in <texts> @{"\($i)-\($v)"}]`, `[for $v:text in <texts> @let $l:text = "\($v)!" @if <bool> {$l}]`,
		`[for $v:text in <texts> @for $w:text in <texts> @{$v + $w}]`, `list.SortStrings([for $k:text, $v:text in <map!> @{"\($k)=\($v)"}])`, `[for $v:int in <ints> @{"\($v)"}]`, `[for $v:text in <texts> @if $v != <text> if <bool> {$v}]`,
		`list.Concat([<texts>, <texts>])`, `list.Concat([[<text>], <texts>])`, `strings.Split(<text>, "-")`, `strings.Fields(<text>)`, `strings.SplitN(<text>, "-", 2)`, `strings.SplitAfter(<text>, "a")`, `list.Sort(<texts>, list.Ascending)`, `list.Sort(<texts>, list.Descending)`,
		`list.SortStable(<texts>, {x: string, y: string, less: len(x) < len(y)})`, `list.SortStrings(<texts>)`, `list.Reverse(<texts>)`, `list.Take(<texts>, 1)`, `list.Drop(<texts>, 1)`, `list.Slice(list.Concat([<texts>, ["a", "b"]]), 0, 2)`, `list.Repeat(<texts>, 2)`,
		`(*<texts?> | <texts>)`, `(*<texts?> | <texts>)`, `(*<texts?> | [])`, `(<texts> & [...string])`, `(<texts> & [...])`, `(<texts> & list.MaxItems(1000))`, `regexp.FindAll("[a-z]", <text> + "a", -1)`, `[<text>, "b", <text>][0:2]`, `[for $q:any in list.Sort([{n: <text!>}, {n: <text!>}], {x: {}, y: {}, less: x.n < y.n}) {$q.n}]`,
		`{a: <texts>, b: a}.b`, `{let $l:texts = <texts>, @x: list.Concat([$l, [<text>]])}.x`, `[if <bool> {<texts>}, <texts>][0]`, `and([<texts>])`,
	},
	"ints": {
		`[<int>, <int>]`, `[for $v:int in <ints> @{<int>}]`, `[for $v:int in <ints> @if <bool> {$v + 1}]`, `list.Range(0, 3, 1)`, `list.Concat([<ints>, [1]])`, `list.Sort(<ints>, list.Descending)`, `[for $v:text in <texts> @{len($v)}]`, `(*<ints?> | <ints>)`, `list.Reverse(<ints>)`, `(<ints> & [...int])`, `([<int>, ...int] & [_, <int>])`,
	},
	"map": {
		`{a: <text>, "b-c": <text>}`, `{a: <text>, if <bool> {b: <text>}}`, `{if <bool> {if <bool> {b: <text>}, c: <text>}}`, `{a: <text>, if <bool> if <bool> {b: <text>}, if <bool> {d: <text>}}`, `{"k#-\(<text!>)": <text>}`, `{(<text!>): <text>}`,
		`{for $k:text, $v:text in <map> @{"x#\($k)": $v}}`, `{for $k:text, $v:text in <map> @if <bool> {($k): $v}}`, `{for $i:int, $v:text in <texts> @{"i#\($i)": <text>}}`, `{for $v:text in <texts> @let $l:text = "\($v)!" {"l#-\($v)": $l}}`,
		`{a: <text>, for $i:int, $v:text in <texts> @if <bool> {"y#\($i)": $v}}`, `(<map> & {u#: <text>})`, `({u#: <text>} & <map>)`, `{<map>, u#: <text>}`, `{u#: <text>, <map>}`, `(*<map?> | <map>)`, `(*<map?> | <map>)`, `(*<map?> | {})`, `(*{a: <text?>} | {b: <text>})`,
		`{[string]: string, a: <text>}`, `{[=~"^a"]: string, ab: <text>, c: <text>}`, `({[string]: string} & <map>)`, `{[N=string]: *"v-\(N)" | string, a: _, b: <text>}`, `{#M, p: <text>}`, `(#M & {p: <text>})`, `{a: <text>, let $l:text = <text>, @b: $l}`,
		`regexp.FindNamedSubmatch("(?P<X>[a-z]*)", <text>)`, `{a?: string, b: <text>}`, `{a: string, a: <text>}`, `{a: *"q" | string, if <bool> {a: <text>}}`, `({a: *"q" | string} & {a: <text>})`, `{_r: <text>, b: _r}`, `(struct.MaxFields(1000) & <map>)`, `{a: b, b: <text>}`, `{a: {<map>}}.a`,
	},
	"plain": {
		`{a: <text>, "b-c": <text>}`, `{a: <text>, b: a}`, `{a?: string, b: <text>}`, `(<plain> & {u#: <text>})`, `{<plain>, u#: <text>}`, `(*<plain?> | <plain>)`, `(*<plain?> | {})`, `(#M & {p: <text>, a: <text>})`, `{a: *"q" | string, b: <text>}`,
		`regexp.FindNamedSubmatch("(?P<X>[a-z]*)", <text>)`, `(*{a: <text?>} | {b: <text>})`, `{if <bool.> {a: <text>}, b: <text>}`, `{for $k:text, $v:text in <map.> @{($k): $v}}`, `{(<text.>): <text>, b: <text>}`,
	},
	"scalar":  {`<text>`, `<text>`, `<int>`, `<num>`, `<bool>`},
	"ordered": {`{a: <text>, n: <int>}`, `{n: <int>, l: <texts>, a: <text>}`, `{a: <scalar>, n: {b: <bool>, x: <num>}}`},
	"any":     {`<scalar>`, `<texts>`, `<map>`, `<ints>`},
}

// literals are the constants of each type.
var literalsOfTypes = map[string][]string{
	"text": {`"a"`, `"b"`, `"x1"`, `"a-b"`, `"q"`}, "int": {"0", "1", "2", "5"}, "num": {"2.5", "0.5", "3.0"}, "bool": {"true", "false"},
	"texts": {`["a", "b"]`, "[]", `["c"]`}, "ints": {"[1, 2]", "[]", "[3]"}, "map": {`{a: "1"}`, `{b: "x", a: "y"}`, "{}"}, "plain": {`{a: "1"}`, `{b: "x", a: "y"}`, "{}"},
}

var gap = regexp.MustCompile(`<([a-z]+)([?!=.]?)>|<=>|\$([a-z])(?::([a-z]+))?|@|([a-z])#`)

func (g *kindMaker) pick(from ...string) string { return from[g.IntN(len(from))] }

// reaches reports whether what is made can refer to something.
func (g *kindMaker) reaches(l leaf, of string, sure bool) bool {
	isOne := of == "" || l.of == of || of == "map" && l.of == "plain" || of == "plain" && l.of == "map" && strings.HasPrefix(l.path, "ob")
	if !isOne || sure && !l.sure {
		return false
	}
	return l.rank < g.rank || !g.isSure && !l.isWhole && g.IntN(12) == 0
}

// reference returns a reference of a type, or "" if nothing has that.
func (g *kindMaker) reference(of string, sure bool) string {
	sources := [][]leaf{g.object, g.object, g.hidden, g.hidden, g.variables, g.variables}
	if !g.ofObject {
		sources = append(sources, g.observed)
	} else {
		sources = [][]leaf{g.object, g.variables}
	}
	g.Shuffle(len(sources), func(i, j int) { sources[i], sources[j] = sources[j], sources[i] })
	for _, source := range sources {
		from := slices.DeleteFunc(slices.Clone(source), func(l leaf) bool { return !g.reaches(l, of, sure) })
		if len(from) > 0 {
			return from[g.IntN(len(from))].path
		}
	}
	return ""
}

// certain returns a constant, or a reference of a type to what each object has.
func (g *kindMaker) certain(of string) string {
	from := literalsOfTypes[of]
	for _, l := range g.object {
		if l.of == of && l.sure {
			from = append(slices.Clip(from), l.path)
		}
	}
	return g.pick(from...)
}

// expr returns an expression of a type. d is how deep it is at most.
func (g *kindMaker) expr(of string, d int, sure bool) string {
	constants, hasLeaves := literalsOfTypes[of]
	if hasLeaves && (d <= 0 || g.IntN(3) == 0) {
		if found := g.reference(of, sure); found != "" && g.IntN(8) > 0 {
			return found
		}
		return g.pick(constants...)
	}
	productions := grammar[of]
	if !sure && g.IntN(12) == 0 && len(grammar[of+"?"]) > 0 {
		productions = grammar[of+"?"]
	}
	return g.fill(g.pick(productions...), d-1, sure)
}

// fill fills the gaps of a text of the grammar.
func (g *kindMaker) fill(production string, d int, sure bool) string {
	named := make(map[string]string)
	var declared []leaf
	known := len(g.variables)
	defer func() { g.variables = g.variables[:known] }()
	g.made++
	number := strconv.Itoa(g.made)
	return gap.ReplaceAllStringFunc(production, func(text string) string {
		match := gap.FindStringSubmatch(text)
		switch {
		case text == "<=>":
			return g.last
		case text == "@":
			g.variables = append(g.variables, declared...)
			declared = nil
			return ""
		case match[5] != "":
			return match[5] + number
		case match[4] != "":
			g.made++
			named[match[3]] = match[3] + strconv.Itoa(g.made)
			declared = append(declared, leaf{path: named[match[3]], of: match[4], sure: sure, rank: -1})
			return named[match[3]]
		case match[3] != "":
			return named[match[3]]
		case match[1] == "ref":
			if g.ofObject {
				return g.reference("", false)
			}
			return g.referenceOrChild()
		case match[2] == ".":
			return g.certain(match[1])
		case match[2] == "=":
			g.last = g.reference(match[1], false)
			if g.last == "" {
				g.last = "object.metadata.name"
			}
			return g.last
		}
		return g.expr(match[1], d, match[2] == "!" || sure && match[2] != "?")
	})
}

// referenceOrChild returns a reference of any type, or that of a child.
func (g *kindMaker) referenceOrChild() string {
	if len(g.children) > 0 && g.IntN(4) == 0 {
		return "observed." + g.children[g.IntN(len(g.children))].Name
	}
	return g.reference("", false)
}

// specification returns the fields of the spec.
func (g *kindMaker) specification() string {
	fields := []struct {
		field, path, of string
		sure            bool
	}{
		{`t0!: string`, "t0", "text", true}, {`t1?: string`, "t1", "text", false}, {`t2: *"d" | string`, "t2", "text", true}, {`t3: *"a" | "b" | "c"`, "t3", "text", true}, {`t4?: "x" | "a"`, "t4", "text", false}, {`t5?: strings.MaxRunes(5)`, "t5", "text", false},
		{`n0!: int & >=0 & <=9`, "n0", "int", true}, {`n1?: int & >=-100 & <=100`, "n1", "int", false}, {`n2: *3 | int & >=0 & <=5`, "n2", "int", true}, {`f0?: number`, "f0", "num", false}, {`f1: *1.5 | number`, "f1", "num", true},
		{`b0: *false | bool`, "b0", "bool", true}, {`b1?: bool`, "b1", "bool", false}, {`l0?: [...string]`, "l0", "texts", false}, {`l1: [...string]`, "l1", "texts", true}, {`l2?: [...int]`, "l2", "ints", false},
		{`m0?: {[string]: string}`, "m0", "map", false}, {`m1?: struct.MaxFields(40) & {[string]: string}`, "m1", "map", false},
	}
	g.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	var texts []string
	for _, f := range fields[:4+g.IntN(len(fields)-4)] {
		texts = append(texts, f.field)
		g.object = append(g.object, leaf{path: "object.spec." + f.path, of: f.of, sure: f.sure, rank: -1})
	}
	if g.IntN(2) == 0 {
		texts = append(texts, `r0?: {x?: string, y: *1 | int, in?: {v?: string, w: *"w" | string}}`)
		g.object = append(g.object, leaf{path: "object.spec.r0.x", of: "text", rank: -1}, leaf{path: "object.spec.r0.y", of: "int", rank: -1}, leaf{path: "object.spec.r0.in.w", of: "text", rank: -1}, leaf{path: "object.spec.r0.in.v", of: "text", rank: -1}, leaf{path: "object.spec.r0", of: "any", rank: -1})
	}
	if g.IntN(2) == 0 {
		texts = append(texts, `items?: [...{name!: string, size?: int}]`)
		g.object = append(g.object, leaf{path: "[for i in object.spec.items {i.name}]", of: "texts", rank: -1}, leaf{path: "[for i in *object.spec.items | [] {i.name}]", of: "texts", sure: true, rank: -1}, leaf{path: "[for i in object.spec.items if i.size != _|_ {i.size}]", of: "ints", rank: -1},
			leaf{path: "[for i in object.spec.items {i.size}]", of: "ints", rank: -1}, leaf{path: "[for i in object.spec.items {*i.size | 1}]", of: "ints", rank: -1})
	}
	g.object = append(g.object, leaf{path: "object.metadata.name", of: "text", sure: true, rank: -1}, leaf{path: "object.metadata.labels", of: "map", rank: -1}, leaf{path: "object.metadata.labels.app", of: "text", rank: -1})
	return strings.Join(texts, "\n\t\t")
}

// plan decides which children and phases there are, and what can be read of the children.
func (g *kindMaker) plan() {
	if g.IntN(3) == 0 {
		g.phases = []string{"A", "B", "C"}[:2+g.IntN(2)]
	}
	for i := range 2 + g.IntN(3) {
		c := Child{Name: fmt.Sprintf("c%d", i), apiVersion: g.pick("v1", "things.example.com/v1"), kind: "Thing"}
		if c.apiVersion == "v1" {
			c.kind = g.pick("ConfigMap", "Secret")
		}
		if len(g.phases) > 0 && g.IntN(3) == 0 {
			c.phase = g.pick(g.phases...)
		}
		switch g.IntN(6) {
		case 0, 1:
			c.Guard = "if"
		case 2:
			c.Guard = "for"
		case 3:
			c.IsSet, c.isOrdered = true, g.IntN(2) == 0
			c.apiVersion, c.kind = "things.example.com/v1", "Thing"
		}
		g.children = append(g.children, c)
		of := "observed." + c.Name
		switch {
		case c.Guard == "for":
		case c.IsSet:
			g.observe("[for p in "+of+` if p.status.phase == "Running" {p.metadata.name}]`, "texts")
			g.observe("len("+of+")", "int")
			g.observe("[for p in "+of+` {*p.status.n | 0}]`, "ints")
			g.observe(of+"[0].metadata.name", "text")
		case c.kind == "Thing":
			g.observe(of+".status.phase", "text")
			g.observe(of+".status.n", "int")
			g.observe(of+".status.ready", "bool")
			g.observe(of+".status.items", "texts")
			g.observe(of+".metadata.labels", "map")
			g.observe(of+".status", "any")
		default:
			g.observe(of+".data.a", "text")
			g.observe(of+".metadata.labels", "map")
		}
	}
}

func (g *kindMaker) observe(path, of string) {
	g.observed = append(g.observed, leaf{path: path, of: of, rank: -1})
}

// piece of a hidden field: what one of its expressions is for.
type slot struct {
	field, part string // the part is empty for the field itself
	of          string
	sure        bool
	before      string // what stands before the expression, as in if … {o: …}
	after       string
	rank        int
}

// partsOf returns the fields of a struct, and an if, a computed name and a loop in it.
func (g *kindMaker) partsOf(name string) []*slot {
	parts := []*slot{{field: name, part: "a", of: "text", sure: g.IntN(2) == 0}, {field: name, part: "n", of: g.pick("int", "bool", "map"), sure: g.IntN(2) == 0}}
	if g.IntN(2) == 0 {
		parts = append(parts, &slot{field: name, part: "l", of: "texts", sure: g.IntN(2) == 0})
	}
	if g.IntN(2) == 0 {
		parts = append(parts, &slot{field: name, of: "bool", sure: true, before: "if ", after: ` {o: ` + g.pick(`"o"`, `a`, `"\(a)-o"`) + "}"})
	}
	if g.IntN(4) == 0 {
		parts = append(parts, &slot{field: name, of: "text", sure: true, before: `"k-\(`, after: `)": ` + g.pick(`"k"`, `a`)})
	}
	if g.IntN(4) == 0 {
		parts = append(parts, &slot{field: name, of: "texts", sure: true, before: "for i, v in ", after: ` {"v-\(i)": v}`})
	}
	return parts
}

// hiddenFields returns fields that refer to each other in any order.
func (g *kindMaker) hiddenFields() (body []string) {
	var slots []*slot
	wholes := make(map[string][]*slot)
	var order []string
	for i := range 2 + g.IntN(6) {
		name := fmt.Sprintf("_h%d", i)
		order = append(order, name)
		if g.IntN(3) > 0 {
			slots = append(slots, &slot{field: name, of: g.pick("text", "text", "int", "num", "bool", "texts", "ints", "map", "plain"), sure: g.IntN(2) == 0})
			continue
		}
		parts := g.partsOf(name)
		wholes[name] = parts
		slots = append(slots, parts...)
	}
	g.Shuffle(len(slots), func(i, j int) { slots[i], slots[j] = slots[j], slots[i] })
	for rank, s := range slots {
		s.rank = rank
		switch {
		case s.part != "":
			g.hidden = append(g.hidden, leaf{path: s.field + "." + s.part, of: s.of, sure: s.sure, rank: rank})
		case s.before == "":
			g.hidden = append(g.hidden, leaf{path: s.field, of: s.of, sure: s.sure, rank: rank})
		}
	}
	for _, name := range order {
		if parts := wholes[name]; parts != nil {
			whole := leaf{path: name, of: "any", isWhole: true}
			for _, s := range parts {
				whole.rank = max(whole.rank, s.rank)
			}
			g.hidden = append(g.hidden, whole)
		}
	}
	made := make(map[*slot]string)
	for _, s := range slots {
		g.rank, g.isSure = s.rank, s.sure
		if s.before != "" { // other fields are selected beside it
			made[s] = s.before + g.certain(s.of) + s.after
			continue
		}
		made[s] = g.expr(s.of, 2+g.IntN(2), s.sure)
	}
	g.rank, g.isSure = math.MaxInt, false
	for _, name := range order {
		parts := wholes[name]
		if parts == nil {
			for _, s := range slots {
				if s.field == name {
					body = append(body, name+": "+made[s])
				}
			}
			continue
		}
		var texts []string
		for _, s := range parts {
			text := made[s]
			if s.part != "" {
				text = s.part + ": " + text
			}
			texts = append(texts, text)
		}
		body = append(body, name+": {"+strings.Join(texts, ", ")+"}")
	}
	return body
}

// say fills a text of the grammar for a part of the behaviour; what is sure says so.
func (g *kindMaker) say(text string) string { return g.fill(text, 2+g.IntN(2), false) }

// some returns those of some texts that are chosen, each with a chance of one half, filled.
func (g *kindMaker) some(texts ...string) (chosen []string) {
	for _, text := range texts {
		if g.IntN(2) == 0 {
			chosen = append(chosen, g.say(text))
		}
	}
	return chosen
}

// template returns the template of a child.
func (g *kindMaker) template(c Child) string {
	parts := []string{fmt.Sprintf("apiVersion: %q, kind: %q", c.apiVersion, c.kind)}
	parts = append(parts, g.some(`metadata: labels: <map>`, `metadata: annotations: {note: <text>, if <bool> {more: <text>}}`)...)
	switch c.kind {
	case "ConfigMap":
		parts = append(parts, g.some(g.pick(`data: <map>`, `data: {a: <text>, "cfg.json": json.Marshal(<any>)}`, `data: {c: <text>, if <bool> {d: <text>}}`))...)
	case "Secret":
		parts = append(parts, g.some(g.pick(`stringData: <map>`, `stringData: {a: <text>}`))...)
	default:
		parts = append(parts, g.some(`spec: s: <text>`, `spec: n: <int>`, `spec: f: <num>`, `spec: b: <bool>`, `spec: l: <texts>`, `spec: m: <map>`, `spec: {if <bool> {o: <text>, if <bool> {p: <any>}}}`, `spec: {let $l:text = <text>, @q: $l, r: [$l, <text>]}`,
			`spec: items: [{name: <text>, value: <any>}, if <bool> {name: "more", value: <any>}]`, `spec: ll: [for $v:text in <texts> @{name: $v, if <bool> {value: <text>}}]`, `spec: x: <any>`, `spec: {for $k:text, $v:text in <map> @{"z#-\($k)": {v: $v, w: <text>}}}`, `spec: y: yaml.Marshal(<any>)`)...)
	}
	if c.IsSet {
		parts = append(parts, `metadata: labels: set: object.metadata.name`)
	}
	if c.isOrdered && g.IntN(3) > 0 {
		parts = append(parts, g.pick(`spec: number: index`, g.say(`spec: name: "\(<text>)-\(index)"`), `metadata: annotations: number: "\(_number)"`, `spec: {if index > 0 {before: index - 1}}`))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// child returns a child, with the if or for around it.
func (g *kindMaker) child(c Child) string {
	template := "template: " + g.template(c)
	var parts []string
	if c.IsSet {
		parts = append(parts, g.say(g.pick(`replicas: 2`, `replicas: len(<texts>)`, `replicas: mod(<int>, 4)`, `replicas: mod(*<int?> | 2, 4)`, `replicas: [if <bool> {1}, 3][0]`)))
		if c.isOrdered {
			parts = append(parts, "ordered: true")
		}
		parts = append(parts, g.some(g.pick(`maxUnavailable: "50%"`, `maxUnavailable: [if <bool> {1}, "30%"][0]`), `update: "Recreate"`)...)
	} else {
		parts = append(parts, g.some(`when: <bool>`, `ready: <bool>`, g.pick(`update: "Never"`, `update: [if <bool> {"Recreate"}, "Apply"][0]`, `if <bool> {update: "Recreate"}`), `onDelete: "Orphan"`)...)
	}
	body := "{" + strings.Join(append(parts, template), ", ") + "}"
	switch c.Guard {
	case "if":
		return g.say(g.pick("if <bool> {", "if <bool> if <bool> {", "if <bool!> {")) + c.Name + ": " + body + "}"
	case "for":
		return g.say(g.pick(`for $k:text in <texts> @{"`+c.Name+`-\($k)": {template: {apiVersion: "`+c.apiVersion+`", kind: "`+c.kind+`", metadata: annotations: {key: $k, note: <text>}}}}`,
			`for $k:text, $v:text in <map> @if <bool> {"`+c.Name+`-\($k)": {when: <bool>, template: {apiVersion: "`+c.apiVersion+`", kind: "`+c.kind+`", metadata: annotations: {key: $v}}}}`))
	}
	return c.Name + ": " + body
}

// childrenOf returns the children of a phase, or of the kind.
func (g *kindMaker) childrenOf(phase string) string {
	var texts []string
	for _, c := range g.children {
		if c.phase == phase {
			texts = append(texts, g.child(c))
		}
	}
	return "children: {" + strings.Join(texts, "\n\t\t") + "}"
}

// phase returns a phase, with the ways to others.
func (g *kindMaker) phase(name string) string {
	var next []string
	for range 1 + g.IntN(2) {
		to := g.pick(g.phases...)
		next = append(next, g.say(g.pick(`{to: "`+to+`", when: <bool>}`, `if <bool> {to: "`+to+`", after: "5s"}`, `{to: "`+to+`", after: "\(mod(<int!>, 60))s"}`, `{to: "`+to+`", when: <bool>, after: [if <bool> {"1m"}, "2m"][0]}`, `if <bool> {to: "`+to+`", when: <bool>}`, `{to: "`+to+`", cron: "0 \(mod(<int!>, 5)) * * *"}`)))
	}
	return name + ": {" + g.childrenOf(name) + "\n\t\tnext: [" + strings.Join(next, ", ") + "]}"
}

// inner makes a part that follows from the object alone.
func (g *kindMaker) inner(text string) string {
	g.ofObject = true
	defer func() { g.ofObject = false }()
	return g.say(text)
}

// kind returns the source of a kind, without its imports.
func (g *kindMaker) kind() string {
	g.rank = math.MaxInt
	spec := g.specification()
	g.plan()
	hidden := g.hiddenFields()
	var body []string
	for i := range g.IntN(3) {
		of := g.pick("text", "int", "texts", "map")
		body = append(body, fmt.Sprintf("let l%d = %s\n\t_u%d: l%d", i, g.expr(of, 2, false), i, i))
		g.hidden = append(g.hidden, leaf{path: fmt.Sprintf("l%d", i), of: of, rank: math.MaxInt - 1})
	}
	body = append(hidden, body...)
	body = append(body, "status: {"+strings.Join(g.some(`st: <text>`, `sn: <int>`, `sf: <num>`, `sb: <bool>`, `sl: <texts>`, `sm: <map>`, `sr: {p: <text>, q: <int>}`, `if <bool> {so: <text>}`), "\n\t\t")+"}")
	body = append(body, "conditions: {"+strings.Join(g.some(`Fine: {status: <bool>, reason: "Because", message: <text>}`, `if <bool> {Open: status: <bool>}`, `Shown: {status: <bool>, if <bool> {message: <text>}}`), "\n\t\t")+"}")
	if g.IntN(3) == 0 {
		parts := g.inner(g.pick(`one: {apiVersion: "v1", kind: "ConfigMap", name: <text>}`, `if <bool> {one: {apiVersion: "v1", kind: "ConfigMap", name: "settings"}}`, `many: {apiVersion: "v1", kind: "ConfigMap", selector: matchLabels: {app: <text>}}`))
		body = append(body, "reads: {"+parts+"}")
		g.observe("observed.one.data.a", "text")
		g.observe("[for o in observed.many {o.data.a}]", "texts")
	}
	body = append(body, g.childrenOf(""))
	status := ""
	if len(g.phases) > 0 {
		status = "phase?: \"" + strings.Join(g.phases, `" | "`) + "\", "
		var phases []string
		for _, phase := range g.phases {
			phases = append(phases, g.phase(phase))
		}
		body = append(body, `initial: "A"`, "phases: {"+strings.Join(phases, "\n\t\t")+"}")
	} else if g.IntN(3) == 0 {
		body = append(body, g.inner(g.pick(`deadline: "5m"`, `if <bool!> {deadline: "2m"}`, `deadline: [if <bool> {"1m"}, "3m"][0]`)))
	}
	if g.IntN(8) == 0 {
		body = append(body, `inject: {annotation: "gen.example.com/ks", add: {`+g.inner(`metadata: labels: {a: <text>}, spec: {containers: [{name: "app", env: [{name: "A", value: <text>}, if <bool> {name: "B", value: <text!>}]}], if <bool> {priorityClassName: <text!>}}`)+"}}")
	}
	for i := len(body) - 1; i > 0; i-- { // fields stand in any order
		j := g.IntN(i + 1)
		body[i], body[j] = body[j], body[i]
	}
	return `#P: {a: string, n: *1 | int, t: "\(a)-\(n)"}

#K: {
	apiVersion!: "gen.example.com/v1"
	kind!:       "K"
	metadata!: {name!: string, namespace?: string, labels?: {[string]: string}, ...}
	spec!: {
		` + spec + `
	}
	status?: {contract.#Status, contract.#ScheduleStatus, ` + status + `st?: string, sn?: int, sf?: number, sb?: bool, sl?: [...string], sm?: {[string]: string}, sr?: {p?: string, q!: int}, so?: string}
}

#KController: contract.#Controller & {
	object!: #K
	observed: _
	index: _
	names: plural: "ks"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}, {apiVersion: "v1", kind: "Secret"}, {apiVersion: "things.example.com/v1", kind: "Thing"}]
	#D: {a: string, n: *1 | int, t: "\(a)-\(n)"}
	#E: {a: string, t: "\(a)-\(object.metadata.name)"}
	#M: {[string]: string}
	_number: index + 1
	` + strings.Join(body, "\n\t") + `
}
`
}
