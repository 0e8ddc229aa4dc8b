package behaviour

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/load"
	"cuelang.org/go/cue/token"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/fescue-dev/fescue/cue/kind/budget"
)

// oracle is a struct X, compiled and for CUE's evaluator.
type oracle struct {
	program *Program
	value   cue.Value // of the package
	context *cue.Context
	// inFile has CUE's evaluator unify in a file. Its API opens what definitions close, but keeps the order of fields.
	inFile bool
}

// instanceOf loads a package of one file.
func instanceOf(t testing.TB, source string) *build.Instance {
	t.Helper()
	instance := loaded(source)
	require.NoError(t, instance.Err)
	return instance
}

func loaded(source string) *build.Instance {
	overlay := map[string]load.Source{
		"/x/cue.mod/module.cue": load.FromString("module: \"x.example@v0\"\nlanguage: version: \"v0.17.0\"\n"),
		"/x/x.cue":              load.FromString(source),
		"/x/lib/lib.cue":        load.FromString("package lib\n\n#L: {a: _l, b?: int}\na: 7\n_l: 1\n#A: {#B}\n#B: {#A, x: 1}\n"),
	}
	return load.Instances([]string{"."}, &load.Config{Dir: "/x", Overlay: overlay})[0]
}

func newOracle(t testing.TB, source string) *oracle {
	t.Helper()
	return oracleOf(t, instanceOf(t, source))
}

func oracleOf(t testing.TB, instance *build.Instance) *oracle {
	t.Helper()
	program, err := Compile(instance, "X")
	require.NoError(t, err)
	ctx := cuecontext.New()
	SeparateOperands(instance.Files)
	value := ctx.BuildInstance(instance)
	require.NoError(t, instance.Err)
	return &oracle{program: program, value: value, context: ctx}
}

// compiled is the class of a result, and the result.
func (o *oracle) compiled(object, observed map[string]any, path ...string) (class string, data any) {
	v := o.program.Run(budget.New("X"), object, observed).Lookup(path...)
	if !v.Exists() {
		return "absent", nil
	}
	data, problem := v.Data()
	switch {
	case problem == nil:
		return "value", data
	case problem.IsIncomplete:
		return "incomplete", problem.Error()
	}
	return "error", problem.Error()
}

// compiledShape describes a struct or a list without its values.
func (o *oracle) compiledShape(object, observed map[string]any, path ...string) string {
	v := o.program.Run(budget.New("X"), object, observed).Lookup(path...)
	names, _ := v.Fields()
	elements, _ := v.Elements()
	slices.Sort(names)
	return fmt.Sprint(v.Exists(), v.IsStruct(), names, len(elements))
}

// compiledWaits reports whether a field has no value because something is absent.
func (o *oracle) compiledWaits(object, observed map[string]any, path ...string) string {
	_, problem := o.program.Run(budget.New("X"), object, observed).Lookup(path...).Data()
	return fmt.Sprint(problem != nil && problem.IsIncomplete && problem.Absent != "")
}

// evaluatedWaits is compiledWaits by CUE's evaluator.
func (o *oracle) evaluatedWaits(object, observed map[string]any, path ...string) string {
	class, why := o.evaluated(object, observed, path...)
	return fmt.Sprint(class == "incomplete" && strings.Contains(fmt.Sprint(why), "undefined field: "))
}

// compiledFits reports whether data fits what is declared of it.
func (o *oracle) compiledFits(object, observed map[string]any, path ...string) string {
	problem := o.program.Run(budget.New("X"), object, observed).Lookup(path...).Fits()
	return fmt.Sprint(problem == nil || problem.IsIncomplete)
}

// evaluatedShape is compiledShape by CUE's evaluator.
func (o *oracle) evaluatedShape(object, observed map[string]any, path ...string) string {
	v := o.lookup(object, observed, path...)
	var names []string
	fields, err := v.Fields()
	for err == nil && fields.Next() {
		if name := fields.Selector(); name.LabelType() == cue.StringLabel {
			names = append(names, name.Unquoted())
		}
	}
	slices.Sort(names)
	length := 0
	for elements, err := v.List(); err == nil && elements.Next(); {
		length++
	}
	return fmt.Sprint(v.Exists(), v.IncompleteKind() == cue.StructKind || len(names) > 0, names, length)
}

// evaluatedFits is compiledFits by CUE's evaluator.
func (o *oracle) evaluatedFits(object, observed map[string]any, path ...string) string {
	return fmt.Sprint(o.lookup(object, observed, path...).Validate() == nil)
}

// lookup returns a field for CUE's evaluator.
func (o *oracle) lookup(object, observed map[string]any, path ...string) cue.Value {
	given := map[string]any{"object": object}
	if observed != nil {
		given["observed"] = observed
	}
	selectors := make([]cue.Selector, len(path))
	for i, name := range path {
		selectors[i] = cue.Str(name)
	}
	encoded := o.context.Encode(given)
	if !o.inFile {
		return o.value.LookupPath(cue.ParsePath("X")).Unify(encoded).LookupPath(cue.MakePath(selectors...))
	}
	unified := ast.NewBinExpr(token.AND, ast.NewIdent("X"), encoded.Syntax().(ast.Expr))
	file := &ast.File{Decls: []ast.Decl{&ast.EmbedDecl{Expr: unified}}}
	return o.context.BuildFile(file, cue.Scope(o.value)).LookupPath(cue.MakePath(selectors...))
}

func (o *oracle) evaluated(object, observed map[string]any, path ...string) (class string, data any) {
	v := o.lookup(object, observed, path...)
	if !v.Exists() {
		return "absent", nil
	}
	b, err := v.MarshalJSON()
	switch {
	case err == nil:
		return "value", asStored(b)
	case cue.IsIncomplete(err) || isIncompleteText(err.Error()) || strings.Contains(err.Error(), "empty disjunction") && cue.IsIncomplete(v.Validate(cue.Concrete(true))):
		return "incomplete", err.Error()
	}
	return "error", err.Error()
}

// asStored returns what the API server would store of a JSON text of CUE, which writes 2.0 for a whole float.
func asStored(text []byte) any {
	var written, stored any
	if err := json.Unmarshal(text, &written); err != nil {
		panic(err)
	}
	text, err := json.Marshal(written)
	if err != nil {
		panic(err)
	}
	if err := json.Unmarshal(text, &stored); err != nil {
		panic(err)
	}
	return stored
}

// isIncompleteText finds incomplete values among errors that CUE's encoder of JSON does not mark.
func isIncompleteText(text string) bool {
	for _, part := range []string{"undefined field: ", "cannot convert incomplete value", "field is required but not present", "empty list in call to or", "must be concrete, found _|_"} {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// expressions are compared with CUE's evaluator.
var expressions = []string{
	`1 + 2`, `object.spec.n`, `object.spec.n + 1`, `object.spec.n * 2.5`, `7 / 2`, `6 / 2`, `-object.spec.n`, `1 / 0`,
	`div(7, 2)`, `mod(-7, 2)`, `quo(-7, 2)`, `rem(-7, 2)`, `div(1, 0)`, `9223372036854775807 + 1`, `1.5 + 1.5`, `0x10`, `1Ki`,
	`object.spec.absent`, `object.spec.absent + 1`, `object.spec.s`, `object.spec.s + "x"`, `object.spec.s + 1`, `"\(object.spec.s)-\(object.spec.n)"`,
	`"\(object.spec.absent)"`, `"\(object.spec)"`, `"\(1.50)"`, `"\(true)"`, `'\(object.spec.s)x'`, `"a" * 3`, `3 * "a"`,
	`object.spec.s == "text"`, `object.spec.s != "text"`, `object.spec.s == 1`, `object.spec.n < 5`, `object.spec.n >= 3`, `"a" < "b"`, `1 < "a"`,
	`object.spec.b && true`, `object.spec.b || false`, `!object.spec.b`, `!1`, `false && object.spec.absent`, `true || object.spec.absent`,
	`object.spec.s =~ "^te"`, `object.spec.s !~ "^te"`, `object.spec.s =~ "("`, `1 =~ "a"`,
	`object.spec.absent != _|_`, `object.spec.absent == _|_`, `object.spec.s != _|_`, `observed.pod != _|_`, `observed.pod.status.phase == "Running"`,
	`*object.spec.absent | "fallback"`, `*object.spec.s | "fallback"`, `object.spec.absent | "fallback"`, `*"a" | "b"`, `"a" | "b"`, `(*"a" | "b") & "b"`, `(*1 | 2 | 3) & (1 | *2)`, `(*1|2) | 3`, `1 | (*2|3)`,
	`*1 | int`, `(*1 | int) & 5`, `(*1 | int) & "a"`, `(*"a" | string) + "b"`, `int & 5`, `int & "a"`, `string`, `>5 & 7`, `>5 & 3`, `<10 & >=2 & int & 5`, `!=3 & 4`, `!=3 & 3`, `=~"^a" & "abc"`, `=~"^a" & "xbc"`, `uint8 & 300`, `int32 & 5`,
	`null`, `*null | string`, `bool & true`, `null & 1`, `"a" & "a"`, `1 & 1.0`, `1 == 1.0`, `[1, 2] == [1, 2]`, `[1, 2] == [1, 3]`, `{a: 1} == {a: 1}`,
	`[1, 2, 3][1]`, `[1, 2, 3][5]`, `object.spec.list[0]`, `object.spec.list[9]`, `object.spec.list[0:2]`, `object.spec.list[1:]`, `object.spec.list[:9]`, `object.spec.map["a"]`, `object.spec.map["nope"]`, `object.spec.map[object.spec.key]`,
	`len(object.spec.list)`, `len(object.spec.map)`, `len(object.spec.s)`, `len("é")`, `len(5)`, `len({a: 1, _b: 2, c?: 3})`,
	`[for x in object.spec.list {x}]`, `[for i, x in object.spec.list {"\(i)=\(x)"}]`, `[for x in object.spec.list if x != "b" {x}]`, `[for x in object.spec.list let y = x + "!" {y}]`, `[for k, v in object.spec.map {"\(k)-\(v)"}]`, `[for x in object.spec.absent {x}]`, `[for x in 5 {x}]`, `[1, for x in object.spec.list {x}, 2]`, `[for x in object.spec.list if x {x}]`,
	`{for k, v in object.spec.map {(k): v}}`, `{for k, v in object.spec.map {"x-\(k)": v}}`, `{(object.spec.key): 1}`, `{"\(object.spec.s)": {a: 1}}`, `{(object.spec.n): 1}`, `{a!: 1} & {a: 1, (object.spec.key): 2}`, `{a!: string} & {b: 1, (object.spec.key): 2}`, `{a: 1, b: a, (object.spec.key): a}.b`, `{(object.spec.absent): 1}`,
	`{if object.spec.b {a: 1}, b: 2}`, `{if object.spec.absent != _|_ {a: 1}, b: 2}`, `{if object.spec.absent {a: 1}, b: 2}`, `{if object.spec.n {a: 1}, b: 2}`, `{a: 1, if a > 0 {b: 2}}`, `{a: b, b: c, c: 1}`, `{a: b, b: a}`, `{a: b, b: a, a: 1}`,
	`{a: 1} & {b: 2}`, `{a: 1} & {a: 2}`, `{a: int} & {a: 2}`, `{a: {x: 1}, a: {y: 2}}`, `{a?: 1}`, `{a?: 1, a: int}`, `{a!: int}`, `{a!: int, a: 1}`, `{[string]: int, a: 1}`, `{[string]: int, a: "x"}`, `{[=~"^a"]: int, b: "x"}`, `{[N=string]: {name: N}, a: {}, b: {}}`,
	`{for k, v in object.spec.map {let x = v, (k): y: x}}`, `{for k, v in object.spec.map {let x = k + "!", (k): {let z = x + v, y: z, w: z}}}`, `{let x = a, a: object.spec.n, b: x} & {let x = a, a: int, c: x}`,
	`{#D: {n: int, let x = n + 1, m: x}, a: #D & {n: 1}, b: #D & {n: 2}}`, `{let x = y, let y = object.spec.n, a: x}`, `{let x = object.spec.absent, a: x, b: 1}`, `{(*{n: 1} | {n: 2}) & {n: int, let x = n, m: x}}`, `{let x = [for v in object.spec.list {v}], for v in x {(v): len(x)}}`,
	`{let x = object.spec.n, a: x + 1}`, `{Y=a: 1, b: Y}`, `{_h: 1, a: _h}`, `{#D: 1, a: #D}`, `{#D: {x: int, y: *1 | int}, a: #D & {x: 5}}`, `{#D, x: 1, #D: {x: int, y: x}}`, `{a: {b: c}, c: 1}`, `{a: {b: c, c: 2}, c: 1}`, `{"a": 1, b: 2}`, `{"#a": 1, "_b": 2}`, `{a: {x: int, y: x + 1}, b: a & {x: 5}}.b.y`,
	`{object.spec.map, extra: "e"}`, `{object.spec.map, a: "other"}`, `object.spec.map & {c: "3"}`, `[object.spec.map]`, `{5}`, `{[1]}`, `{#x: 1, 5}`, `{if object.spec.b {5}}`, `{object.spec}.s`,
	`[...int]`, `[1, ...int] & [1, 2, 3]`, `[1, ...int] & [1, "a"]`, `[1, 2] & [1, 2, 3]`, `[int, string] & [1, "a"]`, `[...{a: int, b: *2 | int}] & [{a: 1}]`, `object.spec.list & [...string]`, `object.spec.list & [...int]`,
	`strings.ToUpper(object.spec.s)`, `strings.Fields("a b  c")`, `strings.Join(object.spec.list, ",")`, `strings.Join([1], ",")`, `strings.Join("a", ",")`, `strings.Join(object.spec.list, 1)`, `regexp.ReplaceAll(1, "a", "b")`, `regexp.FindAll("a", 1, 1)`, `strings.Replace(1, "a", "b", 1)`, `math.Floor(null)`, `json.Indent(1, "", "")`, `strings.Repeat("a", "b")`, `list.Range("a", 1, 1)`, `list.Concat(1)`, `list.Sort(1, list.Ascending)`, `list.Sort([2, 1], 5)`, `len(null)`, `len(true)`, `or(1)`, `and(1)`, `list.Contains(1, 1)`, `struct.MinFields(1) & [1]`, `strings.Split("a,b", ",")`, `strings.Repeat("ab", 3)`, `strings.Replace("aab", "a", "x", -1)`, `strings.MaxRunes(3) & "abcd"`, `strings.MinRunes(3) & "abcd"`, `strings.MaxRunes(3) & object.spec.absent`, `strings.ToUpper(5)`, `strings.SliceRunes("abc", 1, 5)`, `strings.HasPrefix("abc", "ab")`, `strings.TrimSuffix(object.spec.s, "t")`, `strings.Contains(object.spec.s, "ex")`, `strings.ToTitle("a b")`, `strings.Index("abc", "c")`, `strings.ToUpper(object.spec.absent)`,
	`list.Contains(["Succeeded", "Failed"], observed.pod.status.phase)`, `list.Contains(object.spec.list, "a")`, `list.Concat([[1], [2, 3]])`, `list.Concat([[1], *object.spec.absent | []])`, `list.Concat([1])`, `list.FlattenN([1, [2, [3]]], 1)`, `list.FlattenN([1, [2, [3]]], -1)`, `list.Range(0, 5, 2)`, `list.Range(0, 5, 0)`, `list.Range(5, 0, 1)`, `list.Range(0, 2, 0.5)`, `list.Repeat([1, 2], 2)`, `list.Reverse([1, 2, 3])`, `list.Slice([1, 2, 3], 1, 2)`, `list.Slice([1, 2, 3], 1, 9)`, `list.Take([1, 2, 3], 2)`, `list.Drop([1, 2, 3], 2)`, `list.Sum([1, 2.5])`, `list.Sum(object.spec.list)`, `list.Max([1, 5, 2])`, `list.Min([])`, `list.Avg([1, 2])`, `list.Sort([3, 1, 2], list.Ascending)`, `list.Sort([3, 1, 2], list.Descending)`, `list.SortStrings(["b", "a"])`, `list.Sort([{n: 2}, {n: 1}], {x: {}, y: {}, less: x.n < y.n})`, `list.UniqueItems([1, 1])`, `list.UniqueItems() & [1, 2]`, `list.MaxItems(1) & [1, 2]`, `list.MinItems(1) & [1, 2]`, `list.IsSortedStrings(["a", "b"])`, `list.Sort([1, "a"], list.Ascending)`,
	`math.Floor(2.7)`, `math.Ceil(2.1)`, `math.Round(2.5)`, `math.Pow(2, 10)`, `math.Sqrt(2)`, `math.Abs(-3)`, `math.Pi`, `math.MultipleOf(6, 4)`, `math.Log10(1000)`, `math.Floor("a")`,
	`list.MaxItems(3) & [for x in object.spec.list {x}]`, `list.MaxItems(1) & [for x in object.spec.list {x}]`, `{a: list.UniqueItems(), a: [for x in object.spec.list {1}]}`, `struct.MinFields(3) & {for k, v in object.spec.map {(k): v}}`, `list.MinItems(1) & [for x in object.spec.list {object.spec.absent}]`,
	`(*object.spec.absent | {}) & (*{k: 1} | {})`, `(*{k: 1} | {}) & (*object.spec.absent | {})`, `(*{k: 1} | {}) & (*{k: 2} | {})`, `(*{k: 1} | {}) & (*object.spec.absent | {}) & (*{k: 1, l: 2} | {})`, `(*object.spec.absent | {k: 1} | {k: 2}) & (*{k: 2} | {})`, `({k: 1} | *{k: 2}) & (*{k: 1, z: 1} | {})`, `(*(*object.spec.absent | {x: 1}) | {})`, `((*object.spec.absent | {k: 1}) | {}) & (*{k: 1} | {})`,
	`[for x in ["a"] {(*object.spec.absent | string)}]`, `{string}`, `{a: {(*object.spec.absent | int)}}`, `{c: object.spec.absent} == {d: 1}`, `[object.spec.absent] == [1, 2]`, `list.Concat([[1], [object.spec.absent]]) == [1]`, `list.Contains(object.spec.list, {if object.spec.absent {a: 1}})`, `list.Contains([1], {(object.spec.absent): 1})`,
	`time.Time & "2020-01-01T00:00:00Z"`, `time.Time & "nope"`, `time.Duration & "5m"`, `time.ParseDuration("1h")`, `time.Parse(time.RFC3339, "2020-01-01T00:00:00Z")`, `time.Unix(0, 0)`, `time.FormatDuration(3600000000000)`, `time.ToUnix("2020-01-01T00:00:00Z")`, `time.Split("2020-01-02T03:04:05Z")`, `time.ParseDuration("x")`, `time.Format(time.RFC3339Date) & "2020-01-01"`, `time.Format("2020-01-01", time.RFC3339Date)`,
	`strconv.Atoi("12")`, `strconv.Atoi("x")`, `strconv.FormatInt(255, 16)`, `strconv.ParseBool("true")`, `strconv.ParseFloat("1.5", 64)`, `strconv.FormatFloat(1.5, 102, 2, 64)`, `strconv.Quote("a\"b")`, `strconv.ParseInt("ff", 16, 64)`, `strconv.FormatBool(true)`,
	`regexp.Match("^a", "abc")`, `regexp.Find("b+", "abbc")`, `regexp.FindNamedSubmatch(#"(?P<x>\d)"#, "a1")`, `regexp.FindSubmatch(#"(\d)"#, "a1")`, `regexp.Find("z", "abbc")`, `regexp.ReplaceAll("b", "abc", "x")`, `regexp.Valid & "("`, `regexp.Valid & "a"`,
	`struct.MinFields(1) & {a: 1}`, `struct.MaxFields(1) & {a: 1, b: 2}`, `struct.MaxFields(5) & object.spec.map`,
	`net.IPv4 & "1.2.3.4"`, `net.IPv4("1.2.3.4")`, `net.IP & "x"`, `net.JoinHostPort("a", 80)`, `net.JoinHostPort("a", "80")`, `net.SplitHostPort("a:80")`, `net.FQDN & "a.b"`, `net.InCIDR("10.0.0.1", "10.0.0.0/8")`, `net.ParseIP("1.2.3.4")`, `net.PathEscape("a b")`,
	`path.Base("/a/b")`, `path.Base("/a/b", path.Unix)`, `path.Join(["a", "b"], path.Unix)`, `path.Ext("a.txt")`, `path.Dir("/a/b", "unix")`, `path.Clean("a//b")`,
	`template.Execute("{{.a}}-{{.n}}", {a: object.spec.s, n: 3})`, `template.Execute("{{range .}}{{.}},{{end}}", object.spec.list)`, `template.Execute("{{", {})`,
	`json.Marshal({b: 1, a: [1.50, true, null, "<é>"]})`, `json.Marshal(object.spec)`, `json.Marshal({a: object.spec.absent})`, `json.Unmarshal("{\"a\": [1, 2.0]}")`, `json.Unmarshal("nope")`, `json.Indent("{}", "", "  ")`, `json.MarshalStream([1, {a: 2}])`,
	`yaml.Marshal({b: 1, a: [1.50, true, null, "x"]})`, `yaml.Unmarshal("a: [1, x]")`, `yaml.MarshalStream([{a: 1}, 2])`,
	`base64.Encode(null, "abc")`, `base64.Decode(null, "YWJj")`, `base64.Decode(null, "!")`, `hex.Encode("abc")`, `hex.Decode("616263")`,
	`hex.Encode(md5.Sum("a"))`, `hex.Encode(sha1.Sum("a"))`, `hex.Encode(sha256.Sum256("a"))`, `hex.Encode(sha512.Sum512("a"))`, `hex.Encode(hmac.Sign(hmac.SHA256, "k", "d"))`, `uuid.SHA1("6ba7b810-9dad-11d1-80b4-00c04fd430c8", "a")`, `uuid.Valid & "x"`,
	`close({a: 1}) & {a: int}`, `and([int, >3, 5])`, `and([])`, `or([1, 2]) & 2`, `or([])`, `or([for k, v in object.spec.map {v}]) & "2"`, `and([for x in [1, 1] {x}])`,
	`observed.pods[0].status.phase`, `len([for p in observed.pods if p.status.phase == "Running" {1}])`, `[for p in observed.pods {p.metadata.name}]`, `observed["pod"].status.phase`, `observed[object.spec.key].x`, `*observed[object.spec.key].x | 7`,
	`{_p: {for n, c in observed {(n): c}}, x: _p["pod"] != _|_}.x`, `{_p: {for n in object.spec.list {(n): {v: n}}}, x: _p["a"].v}.x`, `{_p: {for n in object.spec.list {(n): {v: n}}}, x: _p["zzz"].v}.x`,
	`{a: [1, 2, 3], b: [for x in a {x * 2}], c: list.Sum(b)}`, `{kind: "a", x: {"\(kind)": 1}}`, `{a: {b: {c: object.spec.n}}}.a.b.c`, `{for x in object.spec.list {"\(x)": {name: x, up: strings.ToUpper(name)}}}`, `_|_`, `{a: _|_}`, `{a: 1} | {b: 2}`, `*{a: 1} | {b: 2}`, `({a: 1} | {b: 2}) & {a: int, c: 3}`, `({k: "x", a: 1} | {k: "y", b: 2}) & {k: "y"}`, `({k: "x", a: 1} | {k: "y", b: 2}) & {k: "z"}`,
	`{a: *1 | int, b: a + 1}`, `{a: *1 | int, a: 5, b: a + 1}`, `{x: {a: 1, b: 2}, y: [for k, v in x {k}]}`, `{x: {b: 1, a: 2}, y: [for k, v in x {k}]}`, `{x: {b: 1} & {a: 2, c: 3}, y: [for k, v in x {k}]}`, `{x: {if true {z: 1}, b: 1, for k in ["d", "c"] {(k): 1}, a: 2}, y: [for k, v in x {k}]}`, `{x: {(object.spec.s): 1, b: 2, "\(object.spec.key)": 3, a: 1}, y: [for k, v in x {k}]}`, `{x: {if true {z: 1}, for k in ["d", "c"] {(k): 1, q: 1}, b: 1, if true {(object.spec.s): 1, y: 1}, a: 2}, y: [for k, v in x {k}]}`, `{x: {_d, b: 1, a: 2, _e}, _d: {z: 1, y: 2}, _e: {"0": 1}, y: [for k, v in x {k}]}`, `{x: {b: 1, a: 2} & object.spec.map, y: [for k, v in x {k}]}`, `{x: {object.spec.map, A: 2}, y: [for k, v in x {k}]}`,
	`{x: {a: 1, "b": 2}, y: x.b}`, `{a: [{b: 1}], c: a[0].b}`, `{a: "x", b: "\(a)y", c: {d: b}}`, `"multi \(strings.Join([for x in object.spec.list {"<\(x)>"}], "")) end"`, `[if object.spec.b {1}, if !object.spec.b {2}]`, `{a: {}}`, `{a: []}`, `1.0`, `100000000000000000000`, `1e3`, `3.0 * 2`, `10 / 4`, `1/3`, `"\(1/3)"`, `"\(10.0)"`, `"\(1e3)"`, `2 * 0.5`, `0.1 + 0.2`,
}

func headerFor(body string) string {
	var b strings.Builder
	b.WriteString("package x\n\nimport (\n")
	for _, path := range []string{"strings", "list", "math", "math/bits", "time", "strconv", "regexp", "struct", "net", "path", "text/template", "encoding/json", "encoding/yaml", "encoding/base64", "encoding/hex", "crypto/md5", "crypto/sha1", "crypto/sha256", "crypto/sha512", "crypto/hmac", "uuid"} {
		if strings.Contains(body, path[strings.LastIndex(path, "/")+1:]+".") {
			fmt.Fprintf(&b, "\t%q\n", path)
		}
	}
	for name, path := range map[string]string{"lib": "x.example/lib", "qualified": "x.example/lib:lib"} {
		if strings.Contains(body, name+".") {
			fmt.Fprintf(&b, "\t%s %q\n", name, path)
		}
	}
	b.WriteString(")\n\n")
	return b.String()
}

// packageOf is a package with X, which has a body. After a line with ---, there is the rest of the package.
func packageOf(text string) string {
	body, rest, _ := strings.Cut(text, "\n\t---\n")
	source := "X: {\n\tobject: {...}\n\tobserved: {...}\n\t" + body + "\n}\n" + rest + "\n"
	return headerFor(source) + source
}

// packageWith is a package with X, whose field out is an expression.
func packageWith(expression string) string { return packageOf("out: " + expression) }

func sampleObject() map[string]any {
	return map[string]any{"apiVersion": "x/v1", "kind": "X", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{
		"n": int64(3), "s": "text", "b": true, "f": 1.5, "key": "k", "list": []any{"a", "b", "c"}, "map": map[string]any{"a": "1", "b": "2"},
	}}
}

func sampleObserved() map[string]any {
	return map[string]any{
		"pod":  map[string]any{"status": map[string]any{"phase": "Running"}},
		"pods": []any{map[string]any{"metadata": map[string]any{"name": "p0"}, "status": map[string]any{"phase": "Running"}}, map[string]any{"metadata": map[string]any{"name": "p1"}}},
	}
}

// requireLikeCUE requires that the field out of a package means what it means in CUE: it has the same value, or none for the same
// reason. It reports whether there is a value.
func requireLikeCUE(t *testing.T, source string) (o *oracle, hasValue bool) {
	t.Helper()
	o = newOracle(t, source)
	return o, o.requireSame(t)
}

func (o *oracle) requireSame(t *testing.T) (hasValue bool) {
	t.Helper()
	wantClass, want := o.evaluated(sampleObject(), sampleObserved(), "out")
	class, got := o.compiled(sampleObject(), sampleObserved(), "out")
	require.Equal(t, wantClass, class, "CUE: %v\ncompiled: %v", want, got)
	if class != "value" {
		return false
	}
	require.Equal(t, want, got)
	return true
}

// requireSameOrNone requires that the field out has the same value as in CUE, or none for any reason: something may be absent, and
// something else wrong. It reports whether there is one.
func (o *oracle) requireSameOrNone(t *testing.T, seed uint64, source string) (hasValue bool) {
	t.Helper()
	wantClass, want := o.evaluated(sampleObject(), sampleObserved(), "out")
	class, got := o.compiled(sampleObject(), sampleObserved(), "out")
	if class != "value" && wantClass != "value" {
		return false
	}
	if wantClass != class || fmt.Sprint(want) != fmt.Sprint(got) {
		t.Errorf("seed %d:\n%s\nCUE: %s %v\ncompiled: %s %v", seed, source, wantClass, want, class, got)
	}
	return class == "value"
}

// requireValues requires that a tenth of what is generated has a value.
func requireValues(t *testing.T, generated uint64, hasValue func(seed uint64) bool) {
	t.Helper()
	values := 0
	for seed := range generated {
		if hasValue(seed) {
			values++
		}
	}
	t.Logf("%d of %d have a value", values, generated)
	require.Greater(t, values, int(generated/10))
}

// picker chooses at random what generators make.
type picker struct{ *rand.Rand }

func newPicker(seed, stream uint64) picker { return picker{rand.New(rand.NewPCG(seed, stream))} }

func (p picker) pick(from ...string) string { return from[p.IntN(len(from))] }

// An expression has the value that it has in CUE, or none for the same reason.
func TestExpressionsLikeCUE(t *testing.T) {
	t.Parallel()
	for _, expression := range expressions {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			requireLikeCUE(t, packageWith(expression))
		})
	}
}
