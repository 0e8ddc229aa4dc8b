package behaviour

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sources are behaviours of which each needs a part of the evaluator that no other test needs: without it, TestMutants misses
// mistakes. After ---, there is the rest of the package.
var sources = []string{
	// Names
	`out: [_top, #top.a, _top]
	---
	_top: 1
	#top: {a: _top + 1}`,
	`out: first + second
	---
	let first = 1
	let second = first + 1`,
	`out: #t & {t: {a: 2}}
	---
	#t: {a: int, t?: #t}`,
	`out: [lib.#L.a, lib.#L.a, lib.a, lib.#L & {b: 2}]`, `out: {lib.#L, b: 3}`, `out: qualified.#L.a`,
	`out: {_a: 1, b: {_a: 2, c: _a}, c: _a}`, `out: {Y=a: 1, b: a, c: Y}`, `out: {Z="a-b": 1, b: Z}`, `out: {a: Y={b: 1, c: Y.b}}`, `out: {"_a": 1, "#b": 2, b: 3}`, `out: {"_a": 1, "#b": 2}["_a"]`,
	`_d: {"_a": 1, "#b": {c: 1}}, out: [for k, v in _d {k}]`, `out: {object: 5, index: 2}`, `out: {index: 1}.index`,
	// Literals
	`out: ["""
		a
		  b
		""", #"a\#(1)"b\#(2)c"#, '''
		x\(1)
		''', 'a\(1)b']`, `out: """
		a \(object.spec.n) b
		  \(object.spec.s)
		c
		"""`,
	`out: -"a"`, `out: +"a"`, `out: +5`, `out: -object.spec.f`, `out: +object.spec.n`, `out: +object.spec.s`, `out: (1 & int) | 2 & 3`, `out: 1 & 1 | 2 & 3`, `out: 1 | 1 & 2`,
	// Bounds and types
	`out: !=null & 1`, `out: !=null & null`, `out: !=true & false`, `out: >"a" & "b"`, `out: >"b" & "a"`, `out: >'a' & 'b'`, `out: >='b' & 'a'`, `out: >=1.5 & 1.5`, `out: >1.5 & 1.5`, `out: <=2 & 2`, `out: <2 & 2`, `out: =~1 & "a"`, `out: >true & 1`, `out: !="a" & 1`, `out: !="a" & "b"`,
	`out: !=1 & "a"`, `out: !=1 & 2.0`, `out: !={} & 1`, `out: !~"^a" & "ba"`, `out: !~"^a" & "ab"`, `out: !~"^a" & 'x'`, `out: <null & 1`, `out: >5 & "a"`, `out: !='a' & 'b'`, `out: !='a' & 'a'`, `out: =~"(" & "a"`, `out: >5 & int`, `out: >5 & 6 & <7`, `out: uint8 & 255`,
	`out: uint8 & 256`, `out: int8 & -128`, `out: int8 & -129`, `out: uint & -1`, `out: uint & 5`, `out: uint & 0`, `out: float32 & 1e39`, `out: float32 & -1e39`, `out: float32 & 1`, `out: uint8 & "a"`, `out: rune & 1114111`, `out: rune & 1114112`, `out: float & 1`, `out: float & 1.5`,
	`out: float64 & 1`, `out: float64 & 1e309`, `out: uint8 & 255.0`, `out: bytes & 'a'`, `out: bytes & "a"`, `out: float & 1.0`, `out: number & "a"`, `out: bool & 1`, `out: 'a' & 'a'`, `out: 'a' & 'b'`, `out: 1.5 & 1.5`, `out: 1.5 & 1.50`, `out: 1.5 & 2.5`, `out: {#a: 1} & 5`, `out: {#a: 1, 5}`,
	`out: {a?: int, 5}`, `out: {a?: int} & 5`, `out: null & null`, `out: string & {}`, `out: [] & {}`, `out: uint64 & 18446744073709551615`, `out: uint64 & 18446744073709551616`, `out: int128 & 5`,
	// Patterns
	`out: {[int]: 5, a: 1}`, `out: {["a"]: 5, a: int, b: 1}`, `out: {["a" | "b"]: 5, a: int}`, `out: {[>"b"]: 5, c: int, a: 1}`, `out: {[strings.MinRunes(2)]: 5, ab: int, a: 1}`, `out: {[bool]: 5, a: 1}`, `out: {[_]: 5, a: int}`, `out: {[object.spec.absent]: 5, a: 1}`,
	`out: {[string]: 5, a: 6}`, `out: {[string]: int, _h: "a", b: _h, #d: "x"}`, `out: {[N=string]: {n: N, b: string}, a: b: "x"}`, `out: {[string]: 5, "_a": int}`, `out: {["_a"]: 5, "_a": int, _a: "x"}`,
	// Numbers
	`out: 1 < 1.5`, `out: 2.5 >= 2.5`, `out: 2.5 > 2.5`, `out: 1.0 <= 1`, `out: 1.5 < 1`, `out: 2.5 <= 2.4`, `out: 1 < 1`, `out: 1 <= 1`, `out: 2 > 1`, `out: 2 >= 3`, `out: -(-9223372036854775808)`, `out: -9223372036854775807 - 1`, `out: -9223372036854775808`, `out: 2147483647 + 1`,
	`out: -2147483648 - 1`, `out: 2147483648 * 2147483648`, `out: 3000000000 * 4000000000`, `out: 4294967296 * 4294967296`, `out: 9223372036854775807 - 1`, `out: 5000000000 - 1`, `out: 1 - 5000000000`, `out: 5000000000 + object.spec.n`, `out: object.spec.n * 5000000000`,
	`out: div(100000000000000000000, 3)`, `out: div(100000000000000000000, 10000000000)`, `out: mod(100000000000000000000, 7)`, `out: div(1.5, 2)`, `out: div("a", 2)`, `out: div(2, "a")`, `out: div(2, 1.5)`, `out: 0.5 * 2 == 1`, `out: 1e400 > 1`, `out: -0.0`, `out: 0 * -1.5`, `out: "\(-0.0)"`,
	`out: "\(1e400)"`, `out: 1.10`, `out: "\(1.10)"`, `out: 1e-2`, `out: "\(100 / 1)"`, `out: "\(100.0 / 1)"`, `out: "\(0.1 / 1)"`, `out: "\(1000 / 8)"`, `out: "\(12345678901234567890)"`, `out: 100000000000000000000 == 100000000000000000000`, `out: 100000000000000000000 > 1`, `out: 1 - 0.5`,
	`out: 1.5 - 1`, `out: 1.5 * 1.5`, `out: 1 / 3 * 3`,
	// Slices and lists
	`out: 'abc'[1:2]`, `out: 'abc'[1:9]`, `out: [1, 2, 3][2:1]`, `out: [1, 2, 3][3:2]`, `out: [1, 2][3:]`, `out: [1, 2][-1:]`, `out: "abc"[0:1]`, `out: [1, 2][2:]`, `out: [1, 2][:2]`, `out: [1, 2][:3]`, `out: [1, 2]["a":]`, `out: [1, 2][0.5:]`, `out: [1, 2][0:0]`, `out: [1, 2][:-1]`,
	`out: [1, ...] & [_, 2]`, `out: [...int] & [1, "a"]`, `out: [1] & [1, 2]`, `out: [1, 2] & [1]`, `out: [1, ...] & [1, 2, ...]`, `out: [1, 2, ...] & [1]`, `out: [1] & [1, 2, ...]`, `out: [_, ...] & object.spec.list`, `out: [_, _, _, _, ...] & object.spec.list`, `out: [int, ...string] & [1, "a"]`,
	`out: [int, ...string] & [1, 2]`, `out: [for x in object.spec.list {x}] & [...string]`, `out: [...] & [1]`, `out: [...]`, `out: [1, ...]`, `out: len([1, ...])`, `out: [1, 2, 3][-1]`, `out: [1][1]`, `out: [1][0.0]`, `out: {a: 1}[0]`, `out: {a: 1}["a"]`, `out: "abc"[0]`,
	`out: "abc".a`, `out: 5[0]`, `out: null.a`, `out: object.spec.s[0]`, `out: object.spec.n.a`, `out: object.spec.map[0]`, `out: object.spec.list[-1]`, `out: object.spec.list[3]`, `out: object.spec.list[1.5]`,
	`out: object.spec.list[object.spec.absent]`, `out: object.spec.absent[object.spec.absent]`, `out: [[1, 2], [3]][0][1]`, `out: ([1, 2] & [_, _])[1]`, `out: list.Concat([[1], [2]])[1]`, `out: list.Concat([[1], [2]])[2]`, `out: list.Concat([[1], [2]])[0:1]`,
	`out: [for i, x in list.Concat([[1], [2]]) {i}]`, `out: [for i, x in [1, 2] {i + x}]`, `out: [for k, v in {b: 1, a: 2} {k}]`, `out: [for x in "a" {x}]`, `out: [for x in null {x}]`, `out: [for x in 1.5 {x}]`, `out: [for k, v in object.spec.map let w = v {w + k}]`,
	// Equality
	`out: 'a' == 'a'`, `out: 'a' == 'b'`, `out: 'a' != 'b'`, `out: 'a' < 'b'`, `out: 'b' <= 'a'`, `out: 'a' == "a"`, `out: [1] == [1, 2]`, `out: {a: 1} == {b: 1}`, `out: {a: 1} == {a: 1, b: 2}`, `out: {a: 1, b: 2} == {b: 2, a: 1}`, `out: null == null`, `out: true == true`, `out: true == false`,
	`out: null != 1`, `out: "a" == 1`, `out: "a" != 1`, `out: [1] == {a: 1}`, `out: {} == {}`, `out: [] == []`, `out: [] == {}`, `out: object.spec.map == {a: "1", b: "2"}`, `out: {a: "1", b: "2"} != object.spec.map`, `out: object.spec.map == object.spec.map`, `out: object.spec.list == ["a", "b", "c"]`,
	`out: ["a", "b"] == object.spec.list`, `out: [{a: 1 / 0}] == [1]`, `out: [['a']] == [['a']]`, `out: ['a'] == ['b']`, `out: [null] == [null]`, `out: [true] == [false]`, `out: [{a: [1]}] == [{a: [1]}]`, `out: [{a: [1]}] == [{a: [2]}]`,
	`out: list.Concat([[1]]) == [object.spec.absent]`, `out: list.Concat([[object.spec.absent]]) != [1]`, `out: {"_a": 1} == {"_a": 1}`, `out: {_a: 1} == {_a: 2}`, `out: regexp.FindNamedSubmatch("(?P<_a>x)", "x")["_a"]`, `out: regexp.FindNamedSubmatch("(?P<_a>x)", "x") == {"_a": "x"}`,
	`out: regexp.FindNamedSubmatch("(?P<_a>x)", "x")`, `out: [for k, v in regexp.FindNamedSubmatch("(?P<_a>x)", "x") {k}]`, `out: regexp.FindNamedSubmatch("(?P<_a>x)", "x") & {b: 1}`,
	// Operators
	`out: !"a"`, `out: -true`, `out: +true`, `out: -null`, `out: 'a' + 'b'`, `out: "a" + 'b'`, `out: [1] + [2]`, `out: 2 * 'ab'`, `out: 'ab' * 2`, `out: 3 * [1]`, `out: [1] * 3`, `out: "a" * -1`, `out: "a" * 1.5`, `out: "a" * 0`, `out: {} + 1`, `out: "a" - "b"`, `out: "a" / 2`, `out: 1 && true`,
	`out: true && 1`, `out: true && false`, `out: false && true`, `out: false && false`, `out: true && true`, `out: false || false`, `out: false || true`, `out: true || true`, `out: true || false`, `out: 1 || true`, `out: false || 1`, `out: null && true`, `out: "\('a')"`, `out: "\(null)"`,
	`out: "\([1])"`, `out: "\(1.5)-\(true)-\(5)"`, `out: '\(1.5)-\('x')'`, `out: 1 < true`, `out: null < null`, `out: [1] < [2]`, `out: "a" < 'b'`, `out: 'a' =~ "a"`, `out: "a" =~ "a" == true`, `out: "a" !~ "a"`, `out: "b" < "a"`, `out: "a" <= "a"`, `out: "a" >= "b"`,
	`out: "b" > "a"`, `out: 1 / 0.0`, `out: _|_ == _|_`, `out: 1 != _|_`, `out: (1 / 0) == _|_`, `out: _|_ != 1`, `out: object == _|_`, `out: [object.spec.absent] != _|_`, `out: [1 / 0] != _|_`, `out: {a: 1 / 0} != _|_`, `out: {a: {b: 1 / 0}} == _|_`,
	`out: (object.spec.absent + 1) != _|_`, `out: (*object.spec.absent | 1) != _|_`, `out: {if object.spec.absent {a: 1}} == _|_`, `out: [if object.spec.absent {1}] == _|_`, `out: list.Contains([1 / 0], 1) != _|_`,
	// Functions
	`out: strings.SplitN("a,b", ",", 1.0)`, `out: strings.Join(["a", 1], ",")`, `out: strings.Join("a", ",")`, `out: strings.Join(["a", object.spec.absent], ",")`, `out: strings.Join(["a", "b"], 1)`, `out: math.Pow("a", 2)`, `out: math.Pow(2, "a")`, `out: math.Sqrt("a")`,
	`out: math.Floor(1.5)`, `out: math.Floor(true)`, `out: math.Abs("a")`, `out: strconv.FormatFloat("x", 102, 2, 64)`, `out: strconv.FormatFloat(1.25, 102, 1, 64)`, `out: strconv.FormatUint(-1, 10)`, `out: strconv.FormatUint(5, 10)`, `out: strconv.FormatUint(18446744073709551615, 10)`,
	`out: strconv.ParseUint("18446744073709551615", 10, 64)`, `out: strconv.ParseInt("9223372036854775808", 10, 64)`, `out: strings.ByteAt("abc", 1)`, `out: strings.ByteAt("abc", 9)`, `out: strings.ByteSlice("abc", 0, 2)`, `out: strings.Runes("ab")`, `out: strings.SliceRunes("abc", 4294967296, 2)`,
	`out: strings.Count("a", 1)`, `out: strings.ToUpper(null)`, `out: strings.ToUpper('a')`, `out: strings.HasPrefix("a", 1)`, `out: strings.HasPrefix(1, "a")`, `out: strings.TrimSuffix("a", 'a')`, `out: strings.Repeat("a", 1.5)`, `out: strings.Repeat(1, 1)`, `out: strings.Repeat('a', 2)`,
	`out: strings.Repeat("a", -1)`, `out: strconv.FormatBool("a")`, `out: strconv.FormatBool(false)`, `out: strconv.Unquote("a")`, `out: regexp.FindAllNamedSubmatch("(?P<x>a)", "aa", -1)`, `out: regexp.FindAllSubmatch("(a)(b)", "abab", 1)`, `out: regexp.Find("(", "a")`, `out: regexp.Match("a", 1)`,
	`out: regexp.ReplaceAll("(a)", "xay", "$1$1")`, `out: path.Join(["a", 1], path.Unix)`, `out: path.Base(1)`, `out: path.Base("/a", path.Windows)`, `out: path.Match("a*", "ab")`, `out: path.Match("a*", "ab", path.Unix)`, `out: path.IsAbs("/a")`,
	`out: path.Rel("/a", "/a/b")`, `out: path.Split("/a/b")`, `out: base64.Encode("x", "a")`, `out: base64.Encode(null, 1)`, `out: base64.Encode(null, 'a')`, `out: base64.Decode("x", "YQ==")`, `out: hex.Decode("zz")`, `out: hex.Encode('ab')`, `out: hex.Encode(1)`,
	`out: hex.EncodedLen(3)`, `out: math.Signbit(-1)`, `out: math.Signbit(1)`, `out: math.MultipleOf(6, 3)`, `out: math.MultipleOf(6, 0)`, `out: math.Pi`, `out: "\(math.Pi)"`, `out: math.E`, `out: math.Cbrt(8)`, `out: math.Exp2(3)`,
	`out: uuid.ToInt("6ba7b810-9dad-11d1-80b4-00c04fd430c8")`, `out: uuid.FromInt(5)`, `out: uuid.Parse("x")`, `out: uuid.Version("6ba7b810-9dad-11d1-80b4-00c04fd430c8")`, `out: time.Unix(1.5, 0)`, `out: time.Unix("a", 0)`, `out: time.FormatString("2006", "2020-01-01T00:00:00Z")`,
	`out: time.Split("2020-01-02T03:04:05.000000006Z")`, `out: time.Split("x")`, `out: net.ToIP4("1.2.3.4")`, `out: net.ParseIP("x")`, `out: net.IPString([1, 2, 3, 4])`, `out: net.IPv4([1, 2, 3, 4])`, `out: net.InCIDR(1, "10.0.0.0/8")`, `out: net.JoinHostPort("a", true)`, `out: net.SplitHostPort("a")`,
	`out: net.PathUnescape("%zz")`, `out: json.Valid("{")`, `out: json.Valid("{}")`, `out: json.Compact("{")`, `out: json.Indent("[1]", "", " ")`, `out: json.Unmarshal("{\"_a\": [1, 1.5, null, true, \"x\"]}")`, `out: json.Unmarshal("[]")`, `out: json.UnmarshalStream("1 2")`,
	`out: json.Unmarshal('[1]')`, `out: yaml.Unmarshal("a: 1\nb: [x]")`, `out: yaml.UnmarshalStream("a\n---\nb")`, `out: yaml.Unmarshal("a: {")`, `out: json.Marshal('a')`, `out: json.Marshal("a<b>&")`, `out: json.Marshal({_a: 1, #b: 2, "_c": 3})`, `out: json.Marshal({a!: int})`,
	`out: json.Marshal({a?: int})`, `out: json.Marshal([])`, `out: json.Marshal({})`, `out: json.Marshal([null, true, false, 1, 1.50, "a", [], {}])`, `out: json.Marshal([string])`, `out: json.Marshal({a: {b: object.spec.absent}})`,
	`out: json.Marshal({if object.spec.absent {a: 1}})`, `out: json.Marshal([1 / 0])`, `out: json.MarshalStream([])`, `out: json.MarshalStream(1)`, `out: json.MarshalStream([object.spec.absent])`, `out: json.MarshalStream([1, [2]])`, `out: yaml.Marshal(null)`, `out: yaml.Marshal([])`,
	`out: yaml.Marshal({a!: int})`, `out: yaml.Marshal(object.spec)`, `out: yaml.MarshalStream([1])`, `out: yaml.MarshalStream([])`, `out: yaml.MarshalStream([1, object.spec.absent])`, `out: yaml.MarshalStream("a")`, `out: template.Execute("{{.}}", 1)`,
	`out: template.Execute("{{.}}", object.spec.absent)`, `out: template.Execute(1, {})`, `out: template.Execute("{{.a.b}}", {a: 1})`, `out: template.Execute("{{if .a}}x{{else}}y{{end}}{{with .b}}z{{else}}w{{end}}{{range .c}}u{{else}}v{{end}}", {a: true, b: "", c: []})`, `out: template.Execute("{{.a}}{{printf \"%v\" .b}}", {a: 1.5, b: 2})`,
	// Lists
	`out: list.Take([1], -1)`, `out: list.Take([1], 5)`, `out: list.Take([1, 2], 0)`, `out: list.Take([1, 2], "a")`, `out: list.Drop([1], 5)`, `out: list.Drop([1, 2], 1)`, `out: list.Drop([1], -1)`, `out: list.Drop([1], 1.5)`, `out: list.Slice([1, 2], 2, 1)`, `out: list.Slice([1], 0, 1)`,
	`out: list.Slice([1], -1, 1)`, `out: list.Slice([1], 0, -1)`, `out: list.Slice([1], 1, 1)`, `out: list.Slice([1], 0, 2)`, `out: list.Repeat([1], 0)`, `out: list.Repeat([1], -1)`, `out: list.Repeat([1], "a")`, `out: list.MaxItems(2) & [1, 2]`, `out: list.MaxItems("a") & [1]`,
	`out: list.MinItems(2) & [1]`, `out: list.MinItems(2) & [1, 2]`, `out: list.MaxItems(-1) & []`, `out: struct.MaxFields(2) & {a: 1, b: 2}`, `out: struct.MinFields(2) & {a: 1}`, `out: struct.MinFields(2) & {a: 1, b: 2}`, `out: struct.MinFields(1) & {_a: 1}`, `out: struct.MinFields("a") & {a: 1}`,
	`out: struct.MaxFields({a: 1}, 1)`, `out: struct.MaxFields(1, 1)`, `out: list.Take(1, 1)`, `out: list.Reverse([])`, `out: list.Reverse(1)`, `out: list.Reverse([object.spec.absent])`, `out: list.UniqueItems([])`, `out: list.UniqueItems([1, 2, 1])`, `out: list.UniqueItems([[1], [1]])`,
	`out: list.UniqueItems([{a: 1}, {a: 2}])`, `out: list.UniqueItems & [1, 1]`, `out: list.Contains([1, 2], 3)`, `out: list.Contains([[1]], [1])`, `out: list.Contains([{a: 1}], {a: 1})`, `out: list.Contains([], 1)`, `out: list.Contains(1) & [1]`,
	`out: list.Contains(2) & [1]`, `out: list.Concat([])`, `out: list.Concat([[], []])`, `out: list.Concat([[1], 2])`, `out: list.Concat(1)`, `out: list.Concat([object.spec.absent])`, `out: list.Concat([object.spec.list, [1]])`, `out: list.FlattenN([1, [2, [3, [4]]]], 2)`,
	`out: list.FlattenN([1, [2]], 0)`, `out: list.FlattenN([1, [2]], "a")`, `out: list.FlattenN(1, 1)`, `out: list.FlattenN([], 1)`, `out: list.FlattenN([[]], 1)`, `out: list.FlattenN([object.spec.absent, [1]], 1)`, `out: list.FlattenN([[object.spec.absent]], 1)`, `out: list.FlattenN([1, [1 / 0]], 1)`,
	`out: list.Range(0, 3, 1)`, `out: list.Range(3, 0, -1)`, `out: list.Range(3, 0, -2)`, `out: list.Range(0, 3, -1)`, `out: list.Range(0, 0, 1)`, `out: list.Range(0, 0, -1)`, `out: list.Range(0, 1, 0.25)`, `out: list.Range(0.5, 2, 0.5)`, `out: list.Range(1.5, 0, -0.5)`, `out: list.Range("a", 1, 1)`,
	`out: list.Range(0, "a", 1)`, `out: list.Range(0, 1, "a")`, `out: list.Sort([2, 1], {x: _, y: _})`, `out: list.Sort([2, 1], 5)`, `out: list.Sort([], list.Ascending)`, `out: list.Sort([1], list.Ascending)`, `out: list.Sort(1, list.Ascending)`,
	`out: list.Sort([2, object.spec.absent, 1], list.Ascending)`, `out: list.Sort([3, 1, 2], list.Comparer & {x: _, y: _, less: x < y})`, `out: list.Sort([2, 1], {x: _, y: _, less: object.spec.absent})`, `out: list.SortStable([{n: 1, m: 2}, {n: 0, m: 1}, {n: 1, m: 0}], {x: _, y: _, less: x.n < y.n})`,
	`out: list.IsSorted([1, 2], list.Ascending)`, `out: list.IsSorted([2, 1], list.Ascending)`, `out: list.IsSorted([], 5)`, `out: list.SortStrings([1])`, `out: list.Sum([])`, `out: list.Sum(["a"])`,
	`out: list.Max([])`, `out: list.Product([2, 3])`, `out: list.Avg([])`, `out: len([object.spec.absent])`, `out: len({a: object.spec.absent})`, `out: len({if object.spec.absent {a: 1}})`, `out: len([if object.spec.absent {1}])`, `out: len({a: 1, #b: 2, "_c": 3})`, `out: len('abc')`, `out: len(1.5)`,
	`out: len({a: 1} & {b: 2})`, `out: len(list.Concat([[1], [2]]))`, `out: len(regexp.FindNamedSubmatch("(?P<x>a)", "a"))`, `out: len([1 / 0])`, `out: and([])`, `out: and([1])`, `out: and([1, 2])`, `out: and(object.spec.list)`, `out: and([int, object.spec.n])`, `out: and({a: 1})`,
	`out: or(object.spec.list)`, `out: or([1])`, `out: or([1, 1])`, `out: or([1, "a"]) & string`, `out: or({a: 1})`, `out: or([object.spec.absent, 1])`, `out: or([if object.spec.absent {1}])`, `out: or([])`, `out: close({a: 1, ...}) & {b: 1}`,
	`out: and([string, =~"a"]) & "ab"`, `out: or([for x in object.spec.list {x}]) & "b"`, `out: strings.MinRunes & "a"`, `out: time.Time & 5`, `out: time.Time() & "a"`, `out: time.Time("a")`, `out: strings.ToUpper & "a"`, `out: strings.ToUpper`, `out: list.MaxItems(1)`, `out: net.IP`,
	`out: strings.MinRunes(object.spec.absent) & "a"`, `out: strings.MinRunes("a") & "a"`, `out: strings.MinRunes(1) & 5`, `out: list.MaxItems(1) & "a"`,
	// Alternatives
	`out: 1 | 1`, `out: *1 | *1`, `out: *1 | *2`, `out: *1 | 1`, `out: {a: 1} | {a: 1}`, `out: [1] | [1]`, `out: [1] | [2]`, `out: (*1 | 2) & (1 | *2)`, `out: (*1 | 2) & 2`, `out: (*1 | 2) & (2 | 3)`, `out: (*1 | int) & (*2 | int)`, `out: (*1 | int) & (*1 | int)`, `out: (1 | *2 | 3) & (*3 | 2)`,
	`out: (*"a" | string) & (*"b" | string) & "c"`, `out: (*1 | (2 | 3)) & >1`, `out: (1 | (*2 | 3)) & >1`, `out: ((*1 | 2) | 3) & (2 | 3)`, `out: (*(1 | 2) | 3)`, `out: ((1 | *2) | *3)`, `out: ((1 | 2) | *3)`, `out: (*1 | "a") & string`, `out: (*1 | "a") & number`,
	`out: (*object.spec.absent | 1) + 1`, `out: (*object.spec.absent | object.spec.absent)`, `out: (object.spec.absent | 1)`, `out: (*(1 / 0) | 1)`, `out: ((1 / 0) | (1 / 0))`, `out: (*{a: 1} | {b: 2}).a`, `out: (*{a: 1} | {b: 2}).b`, `out: (*[1] | [2])[0]`, `out: ({a: 1} | {b: 2}) & {b: 2}`,
	`out: ({a: 1} | {a: 2}) & {a: 2}`, `out: ({a: 1, b: *1 | int} | {a: 2}) & {a: 1}`, `out: ({a: *1 | int} | {a: *2 | int})`, `out: ({a: *1 | int} | {b: 2}) & {a: 5}`, `out: *{a: string} | {b: 1}`, `out: *{a: string, ...} | {b: 1}`, `out: (*{a: int} | {b: 1}) & {a: 2}`, `out: *[string] | [1]`,
	`out: *[1 / 0] | [1]`, `out: *{a: 1 / 0} | {b: 1}`, `out: *{a: {b: 1 / 0}} | {b: 1}`, `out: *{_a: 1 / 0} | {b: 1}`, `out: *{_a: object.spec.absent, c: 1} | {b: 1}`, `out: *{#a: object.spec.absent, c: 1} | {b: 1}`, `out: *[object.spec.absent] | [1]`, `out: *[[object.spec.absent]] | [1]`,
	`out: *{a: [object.spec.absent]} | {b: 1}`, `out: *{a: {if object.spec.absent {c: 1}}} | {b: 1}`, `out: *[{if object.spec.absent {c: 1}}] | [1]`, `out: *(object.spec & {if object.spec.absent {c: 1}}) | {b: 1}`, `out: *object.spec.map | {b: 1}`, `out: *object.spec.list | []`,
	`out: *(string & object.spec.s) | 1`, `out: *(int & object.spec.s) | 1`, `out: *strings.ToUpper(object.spec.absent) | "d"`, `out: *strings.ToUpper(object.spec.n) | "d"`, `out: *list.Concat([[1 / 0]]) | ["a"]`, `out: *list.Take([1, object.spec.absent], 2) | ["a"]`,
	`out: *list.Take([1, {a: 1 / 0}], 2) | ["a"]`, `out: *list.Take([{if object.spec.absent {a: 1}}], 1) | ["a"]`, `out: (string | int) & 5`, `out: (string | int) & true`, `out: (string | *5) & int`, `out: null | *1`, `out: *null | 1`, `out: (*1 | int) == 1`, `out: [(*1 | int)] == [1]`,
	`out: [*1 | int][0]`, `out: {a: *1 | int}.a + 1`, `out: {a: *1 | int, a: >1}.a`, `out: {a: *1 | int, a: >=1 & 3}.a`,
	// What is absent or wrong within
	`out: close({a: 1}).a`, `out: len(close({a: 1}))`, `out: list.Contains([object.spec.absent], null)`, `out: list.Repeat([], 1000000)`, `out: list.Repeat([], 1000001)`,
	`out: strings.Repeat("", 1000000)`, `out: strings.Repeat("", 1000001)`, `out: "" * 1000001`, `out: len(list.FlattenN([object.spec.absent, [1]], 1))`, `_s: {if true {{a: 1}, if true {b: 1}}, c: 1}, out: _s.a`,
	`#B, out: int
	---
	#B: {out: 1, object: {...}, ...}`,
	`out: 1 @other(eval)`, `out: {a: 1 @kube(other)}`, `_s: {if 1 / (object.spec.n - 3) > 0 {a: 1}, b: 1}, out: _s.a`, `_s: {if object.spec.n {a: 1}, b: 1}, out: _s.a`, `let s = {a: 1} & 5, out: s.a`, `out: object.spec.map & object.metadata`,
	`_m: object.spec.map & object.metadata, out: _m.name`, `_m: object.spec.map & object.metadata, out: [for k, v in _m {k}]`, `out: [strings.MinRunes(1)][0]`, `out: "a" =~ 1`,
	`out: list.Contains([[if object.spec.absent {1}]], [])`, `out: 'a' - 'b'`, `out: 'a' + "b"`, `out: 3 * 9223372036854775807`, `out: 9223372036854775807 * 3`, `out: "\(1 + 1.0)"`,
	`out: "\(1.0 + 1)"`, `out: (1 + 1.0) & float`, `out: =~1 & 5`, `out: !~1 & 5`, `out: =~"a" & int`, `out: >5 & string`, `out: >"a" & int`, `out: <"b" & bytes`, `out: [] & [1]`, `out: [] & [1, ...]`, `out: [1, ...] & []`, `out: strconv.FormatInt(1, 99)`, `out: strconv.FormatUint(1, 1)`,
	`out: bits.Rsh(8, -1)`, `out: bits.Rsh(8, 1)`, `out: bits.Rsh(8, 0)`, `out: bits.At(5, 0)`, `out: bits.And(6, 3)`, `out: bits.Len(-5)`, `out: "\(strconv.ParseFloat("3", 64))"`, `out: or(object.spec.absent)`, `out: and(object.spec.absent)`,
	`_t: string, _u: "\(_t)", out: _u != _|_`, `_t: int, _u: [_t + 1], out: *_u | [1]`, `out: {a: 1, 5}`, `out: {a: 1, string}`, `out: object.spec.list & 5`, `out: object.spec.list & {a: 1}`, `out: object.spec.map & [1]`,
	`out: {a: b, b: a, c: a}.c`, `out: {a: b & int, b: a & 5}.a`, `out: {a: b, b: c, c: a, d: 5 & a}`, `out: {a: a & {b: 1}}.a`, `out: {a: {b: a.c, c: 1}}.a.b`, `out: {a: *b | 1, b: *a | 2}`, `out: {a: *b | 1, b: 5}.a`, `out: {k: 1, (object.spec.key)?: int}`, `out: {k: 1, (object.spec.key)?: int}.k`,
	`out: {(object.spec.key)?: int, b: 1}`, `out: {(object.spec.key): 1, k: int}`, `out: {[uint8]: 5, a: 1}`, `out: [for x in strings.Split("a,b", ",") {x}]`, `_s: {if object.spec.absent {a: 1}, b: 1} & {a: 1}, out: _s`, `_s: {(object.spec.absent): 1, k: 2}, out: len(_s)`,
	`_s: {a: 1, (object.spec.key): 2, if object.spec.b {c: 3}}, out: [for k, v in _s {"\(k)\(v)"}]`, `_s: {if _t.x {a: 1}, x: true}, _t: {x: _s.x, if _s.x {y: 1}}, out: [_s, _t]`, `_s: {for k in ["a", "b"] {(k): _s.c}, c: 1}, out: _s`,
	`out: (struct.MaxFields(9) & {a: 1, if object.spec.absent {b: 2}}).a`, `_s: struct.MaxFields(9) & {a: 1, if object.spec.absent {b: 2}}, out: _s != _|_`, `out: strings.MinRunes(1) & (*object.spec.absent | "a")`,
	`_a: strings.MinRunes(object.spec.n), out: _a & "ab"`, `_a: *(struct.MaxFields(9) & {a: 1, if object.spec.absent {b: 2}}) | {z: 1}, out: _a`, `_a: *(object.spec.absent & {a: 1}) | {z: 1}, out: _a`, `_a: *{a: 1, _b: 1 / 0} | {z: 1}, out: _a`, `_a: *{a?: 1 / 0} | {z: 1}, out: _a`,
	`_a: *{a!: int} | {z: 1}, out: _a`, `_a: *{_b?: object.spec.absent, c: 1} | {z: 1}, out: _a`,
	// What is wrong in part
	`let s = {a: 1, 1 / 0}, out: s.a`, `let s = {a: 1, _|_}, out: s.a`, `out: ("a" | "b") != _|_`, `out: or([1, 2]) != _|_`, `out: strconv.ParseFloat("3", 64) & int`, `out: json.Marshal(strconv.ParseFloat("3", 64))`, `out: "\(math.Floor(1e30))"`,
	`out: "\(math.Pow(10, 30))"`, `out: "\(list.Sum([1e30]))"`, `out: *or([]) | 1`, `out: *or([if object.spec.absent {1}]) | 1`, `out: null | string`, `out: string | null`, `out: string | int`, `out: struct.MaxFields(9) & {a: 1, if object.spec.absent {b: 2}}`,
	`out: struct.MaxFields(9) & {a: 1, (object.spec.absent): 2}`, `out: list.MaxItems(9) & [1, if object.spec.absent {2}]`, `out: object.spec.absent & {a: 1}`, `out: {object.spec.absent, a: 1}`, `out: {a: 1, if object.spec.absent {b: 2}}`, `out: struct.MaxFields(1) & {a: 1, b: 2}`,
	`out: {a: 1} & {a: 2}`, `_s: {if _s.a == 1 {b: 2}, if _s.b == 2 {c: 3}, a: 1}, out: _s`, `_s: {for k in [_s.a] {(k): 1}, a: "x"}, out: _s`, `_s: {a: int, if _s.c {a: 1}, c: true}, out: _s.a`, `_s: {if _s.c.x {c: y: 2}, c: x: true}, out: _s.c`,
	`_s: {if _s.c.x {c: y: 2}, c: x: true}, out: _s`, `_s: {for k in _s.l {(k): k}, l: ["k"]}, out: _s`, `_s: {(object.spec.n): 1, k: 2}, out: _s.z`, `_s: {if 5 {a: 1}, k: 2}, out: _s.a`, `_s: {if 5 {{a: 1}}, k: 2}, out: _s.a`, `_s: {for x in 5 {a: 1}, k: 2}, out: _s.a`,
	`out: {a: 1 / 0, b: 2}`, `out: {a: {b: {c: object.spec.absent, d: 1}}}`, `out: *(1 | 2) | 3`, `out: (*(1 | 2) | 3) & 3`, `out: ((*1 | 2) | (3 | 4)) & >1`, `out: ((*1 | 2) | (*3 | 4)) & >=2`, `out: ((*1 | 2) | *(3 | 4)) & (3 | 2)`, `out: (*(*1 | 2) | (*3 | 4)) & >1`,
	`out: ((*{a: 1} | {b: 1}) | {c: 1}) & {b: 1}`, `out: ((*{a: 1} | {b: 1}) | {c: 1}) & {d: 1}`, `out: (*{a: 1} | {b: 1} | {c: 1}) & {a: 2}`, `out: ((*1 | 2) | *"a") & string`, `out: ((*1 | int) | *"a") & int`, `out: ((1 | int) | *"a") & int`, `out: {if object.spec.b {5}, if !object.spec.b {6}}`,
	`out: {if object.spec.absent {5}}`, `out: {if object.spec.b {5}, if object.spec.absent {6}}`, `out: {if object.spec.b {[1]}}`, `out: {if object.spec.b {[1]}, #a: 1}`, `out: {if object.spec.b {{a: 1}}} & {b: 1}`, `out: {if object.spec.b {object.spec.map}} & {b: "2"}`,
	`out: {if object.spec.b {5}} & int`, `_s: {if object.spec.b {5}}, out: _s + 1`,
	`out: uuid.Valid & "6ba7b810-9dad-11d1-80b4-00c04fd430c8"`, `out: ==5 & 5`, `out: ==5 & 6`, `out: =="a" & 5`, `out: =="a" & "a"`, `out: ==null & null`, `out: ==null & 1`, `out: ==true & true`, `out: ==[1] & [1]`,
	`out: {string} | 5`, `out: *{string} | 5`, `out: ({#a: 1, string} | int) & "x"`, `_d: {#a: 1, string} | int, out: _d & "x"`, `out: (*{string} | 5) & "x"`, `_s: {if 5 {a: 1}, k: 2}, out: [for k, v in _s {k}]`,
	// The order of fields
	`out: [for k, v in {z: 1} & _v & {c: 1} {k}], _v: {b: 1, a: 1}`, `out: [for k, v in _v & {c: 1} & _w {k}], _v: _u & {b: 1, a: 1}, _w: {e: 1, f: 1}, _u: {h: 1}`, `out: [for k, v in {_v, c: 1, _w} {k}], _v: {_u, b: 1, a: 1}, _w: {e: 1, f: 1}, _u: {h: 1}`,
	`out: [for k, v in _v & {c: 1} & _w {k}], _v: {b: 1, if true {h: 1}, a: 1}, _w: _x & {e: 1, f: 1}, _x: {_y, l: 1}, _y: {m: 1}`, `out: [for k, v in object.spec.map & {c: 1} & _w {k}], _w: _x & {e: 1, f: 1}, _x: {_y, l: 1}, _y: {m: 1}`, `out: [for k, v in _w & {c: 1} & object.spec.map {k}], _w: {z: 1, (object.spec.key): 2}`,
	`out: [for k, v in _v & {#of: "a"} {k}], _v: {#of: string, _t[#of], _u[#of]}, _t: {a: {x: 1, w: 1}}, _u: {a: {z: 2, y: 1}}`, `out: [for k, v in {#of: "a"} & _v & {c: 1} {k}], _v: {b: 1, #of: string, (*_t[#of] | {z: 1}), _u[#of], a: 1}, _t: {a: {x: 1, w: 1}}, _u: {a: {z: 2, y: 1}}`,
	`out: [for k, v in {c: 1, (*{x: 1} | {z: 1}), d: 1, _u["a"]} {k}], _u: {a: {z: 2, y: 1}}`, `out: [for k, v in {c: 1} & (*object.spec.map | {}) & (*_v | {}) & {d: 1} {k}], _v: {z: 1}`, `out: [for k, v in {if true {_v}, object.spec.map, d: 1} {k}], _v: {z: 1}`,
	`out: [for k, v in {{z: "1"}, v: "1"} {k}]`, `out: [for k, v in {v: "1", {z: "1", if object.spec.b {y: 1}}, w: "1"} {k}]`,
	// What is embedded by a field of the struct itself
	`out: _v & {#of: "a"}, _v: {#of: "a" | "b", _t[#of]}, _t: {a: {x: 1}, b: {y: 2}}`, `out: {#of: object.spec.key} & _v, _v: {#of: string, _t[#of].z & {w: 1}}, _t: {k: z: x: 1}`, `out: _v & {#of: "c"}, _v: {#of: string, _t[#of]}, _t: {a: {x: 1}}`,
	`out: _v & {#of: object.spec.absent}, _v: {#of: string, _t[#of]}, _t: {a: {x: 1}}`, `out: #v & {#of: "a", q: 1}, #v: {#of: string, _t[#of]}, _t: {a: {x: 1}}`, `out: _v & {#of: "a", x: 1}, _v: {#of: *"b" | string, #t[#of]}, #t: {a: {x: int}, b: {y: 1}}`,
	`out: [for k in object.spec.list {_v & {#of: k}}], _v: {#of: string, name: #of, _t[#of]}, _t: {a: {x: 1}, b: {x: name: "b"}, c: {}}`, `out: {_v & {#of: "a"}, b: 1}, _v: {#of: string, {_t[#of]}}, _t: {a: {x: 1}}`,
	`out: (_v & {#of: "a"}).x, _v: {#of: string, _t[#of]}, _t: {a: {x: 1}}`, `out: _v & {#of: "a"}, _v: {#of: string, let l = _t[#of], l}, _t: {a: {x: 1}}`, `out: _v & {#of: "a"}, _v: {#of: string, [if #of == "a" {{x: 1}}, {y: 1}][0]}`,
	`out: _v & {#of: [1, 2]}, _v: {#of: _, a: list.Sum(#of)}`, `out: _f & {_x: "a"} & _, _f: {_x: _, strings.ToUpper(_x)} | int`, `out: {_x: 2, -_x}`, `out: {_x: 2, >_x} & 3`, `out: {>_x, _x: int} & {_x: 1}`,
	`out: _v & {#of: "a"}, _v: {_u[#by], #of: string, _t[#of], #by: string}, _t: {a: {#by: "b"}}, _u: {a: {x: 1}, b: {y: 1}}`, `out: _v & {#of: "a"}, _v: {#by: *"a" | string, _u[#by], #of: string, _t["\(#of)"]}, _t: {a: {#by: "b"}}, _u: {a: {x: 1}, b: {y: 1}}`,
	`out: _v & {#of: "a"}, _v: {#o, #o: {...}, #of: string, _t[#of]}, _t: {a: {#o: w: 1, y: 2}}`, `out: _v & {o: {p: q: 1}}, _v: {o: {...}, o.p, q: int, r: q}`, `out: _v & {#of: "a"}, _v: {#of: string, if #of == "a" {_t[#of]}, x: int, if x == 1 {y: 2}}, _t: {a: {x: 1}}`,
	`out: _v & {#of: "a"}, _v: {_t[#by], #of: string, if #of == "a" {_t[#of]}, #by: string}, _t: {a: {#by: "b"}, b: {y: 1}}`, `out: _v & {#of: "a"}, _v: {#o, #o: {...}, #of: string, if #of == "a" {_t[#of]}}, _t: {a: {#o: w: 1}}`,
	`out: _v & {#of: "a", y: 2}, _v: {#of: string, _t[#of]}, _t: {a: *{x: 1} | {y: 2}}`, `out: _v & {#of: "b"}, _v: *{#of: "a", x: 1} | {#of: string, _t[#of]}, _t: {a: {}, b: {z: 1}}`, `out: _v & {#of: "q"}, _v: {#of: string, *_t[#of] | {z: 1}}, _t: {a: {x: 1}}`,
	`out: _v & {#of: "a"}, _v: {#of: string, (*_t[#of] | {v: 2}), _u[#of]}, _t: {a: {x: 1, y: 1}}, _u: {a: *{x: "s"} | {x: 1}}`, `out: {if object.spec.b {*{x: 1} | {y: 2}}}`, `out: {if object.spec.b {*{x: 1} | {y: 2}}, y: 2}`, `out: {if object.spec.b {_t[object.spec.absent]}, y: 2}, _t: {a: {x: 1}}`,
	`out: {for k in ["a"] {_t[k]}, y: int}, _t: {a: *{x: 1} | {y: 2}}`, `out: _v & {#of: "a"}, _v: {#of: string, if #of == "a" {_t[#of]}, if #of == "a" {_t[#by]}, #by: string}, _t: {a: {#by: "b"}, b: {z: 1}}`,
	`out: _v & {#of: "a"}, _v: {let l = "\(#by)", _u[l], #of: string, _t[#of], #by: string}, _t: {a: {#by: "b"}}, _u: {a: {x: 1}, b: {y: 1}}`, `out: _v & {#of: "a"}, _v: {let l = *#by | "c", _u[l], #of: string, _t[#of], #by: string, z: l}, _t: {a: {#by: "b"}}, _u: {b: {y: 1}, c: {w: 1}}`,
	`out: {#of: string, _t[#of], *{x: 1} | {x: 2}, *{#of: "a"} | {#of: "b"}}, _t: {a: y: 1, b: y: 2}`, `out: _v & {#of: "a"}, _v: {#by: *"a" | string, #of: string, _t["\(#of)"], _u[#by]}, _t: {a: {#by: "b"}}, _u: {a: {x: 1}, b: {y: 1}}`,
	`out: _v & {#of: "a"}, _v: {#o: {...}, #of: string, _t[#of], #o}, _t: {a: {#o: w: 1, y: 2}}`, `out: _v & {#of: "a"}, _v: {#of: string, _t[#of], and([#o]), #o: {...}}, _t: {a: {#o: w: 1, y: 2}}`,
	`out: _v & {#of: "a"}, _v: {#of: *"b" | string, _t[#of], _o[#by], _o: {x: {z: 1}, w: {z: 2}}, #by: string}, _t: {a: {#by: "x", _o: x: y: 1}, b: {#by: "w"}}`,
	`out: _p & {#s: "a"}, _p: {#s: string, let s = #s, _b & {#s: s}}, _b: {#s: string, _t[#s]}, _t: a: x: 1`, `out: _p & {#s: "a"}, _p: {#s: string, #t: #s, _b & {#s: #t}}, _b: {#s: string, _t[#s]}, _t: a: x: 1`,
	`out: _p & {#s: "a"}, _p: {S=#s: string, _b & {#s: S}}, _b: {#s: string, _t[#s]}, _t: a: x: 1`, `out: _p & {#s: "a"}, _p: {#s: string, let q = #s, {#s: q, _t[#s]}}, _t: a: x: 1`, `out: _p & {#s: "a"}, _p: {#s: string, let q = #s, if q == "a" {_b & {#s: q}}}, _b: {#s: string, _t[#s]}, _t: a: x: 1`,
	`out: {_m, _n, #a: "a"}, _m: {#a: string, #b: string, #b: #a, _t[#a]}, _n: {#a: string, #b: string, #a: #b, _t[#b]}, _t: a: x: 1`, `out: _c & {#s: "a"}, _a: {#s: string, v: #s, _t[#s]}, _b: {#s: string, _a & {w: 1}, _a & {y: 2}}, _c: {#s: string, _b & {z: 1}, _b & {u: 2}}, _t: a: x: 1`,
	// What an if adds
	`_s: {if true {{a: 1}}, b: 1}, out: _s.a`, `_s: {if true {[string]: 5}, b: int}, out: _s.b`, `_s: {if true {if true {a: 1}}, b: 1}, out: _s.a`, `_s: {if true {for k in ["a"] {(k): 1}}, b: 1}, out: _s.a`,
	`_s: {if true {if true {{a: 1}}}, b: 1}, out: _s.a`, `_s: {if object.spec.absent {if true {a: 1}}, b: 1}, out: _s.a`, `out: {5, if false {a: 1}}`, `out: {if true {5}, #d: 1}`, `out: {if true {#a: 1, 5}}`, `out: {if true {5}, if false {b: 1}}`,
}

// Each source means what it means in CUE.
func TestSourcesLikeCUE(t *testing.T) {
	t.Parallel()
	for _, text := range sources {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			if o, hasValue := requireLikeCUE(t, packageOf(text)); hasValue {
				require.Equal(t, o.evaluatedShape(sampleObject(), sampleObserved(), "out"), o.compiledShape(sampleObject(), sampleObserved(), "out"))
			}
		})
	}
}

// declarations are what a behaviour may declare of its children, which those of sampleObserved fit or do not fit.
var declarations = []string{
	`pod: status: phase: string`, `pod: status: phase: int`, `pod: status: phase: "Running" | "Failed"`, `pod: status: phase: =~"^X"`, `pod: 5`, `pod: string`, `pod: status: 5`, `pods: [...{metadata: name: string, ...}]`,
	`pods: [...{metadata: name: int, ...}]`, `pods: [...{metadata: name: =~"^p", ...}]`, `pods: [{...}]`, `pods: [{...}, {metadata: name: "p1"}]`, `pods: [{...}, {metadata: name: "p2"}]`, `pods: list.MaxItems(1)`, `pods: list.MaxItems(2)`,
	`pod: #Pod
	---
	#Pod: {status: phase: string}`,
	`pod: #Pod
	---
	#Pod: {status: {phase: string, ...}}`,
	`pod: #Pod
	---
	#Pod: {status: {other?: string}}`,
	`pod: #Pod
	---
	#Pod: {status: {[=~"^p"]: string}}`,
	`pod: #Pod
	---
	#Pod: {status: {[=~"^q"]: string}}`,
	`pod: #Pod
	---
	#Pod: {spec?: {...}}`,
	`pod: #Pod
	---
	#Pod: {status: {...}, spec?: {...}}`,
	`pods: [...#Pod]
	---
	#Pod: {metadata: name: string}`,
	`pods: [...#Pod]
	---
	#Pod: {metadata: {...}, status?: {...}}`,
	`pods: [...#Pod]
	---
	#Pod: {metadata: {...}, status?: {phase: int}}`,
	`pod: {status: {phase: string, n: *1 | int}, extra?: int}`, `other: {a: int}`, `other?: {a: int}`, `pod: status: {phase: string, more: 1 / 0}`, `pod: status: {more: object.spec.absent, ...}`, `pod: {if object.spec.b {status: phase: int}}`, `pod: {if object.spec.absent {status: phase: int}, ...}`,
	`pod: *{status: phase: string} | {}`, `pod: {status: phase: int} | {status: phase: bool}`, `[string]: {...}`, `[string]: {status: {...}}`, `{pod: {...}}`, `_h: 1`,
}

// Children fit what a behaviour declares of them if they do so in CUE.
func TestFitsLikeCUE(t *testing.T) {
	t.Parallel()
	for _, text := range declarations {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			o := newOracle(t, sourceOfDeclaration(text))
			require.Equal(t, o.evaluatedFits(sampleObject(), sampleObserved(), "observed"), o.compiledFits(sampleObject(), sampleObserved(), "observed"))
		})
	}
}

func sourceOfDeclaration(text string) string {
	body, rest, hasRest := strings.Cut(text, "\n\t---\n")
	body = "observed: {" + body + ", ...}"
	if hasRest {
		body += "\n\t---\n" + rest
	}
	return packageOf(body)
}

// rejected are behaviours that do not compile, and a part of what is said about them.
var rejected = map[string]string{
	`out: 1 @kube(eval)`:                   "@kube(eval) does not exist",
	`out: {a: 1, @kube(eval)}`:             "@kube(eval) does not exist",
	`out: {a: 1, @kube(other, eval)}`:      "@kube(eval) does not exist",
	"out: #t\n\t---\n#t: 1 @kube(eval)":    "@kube(eval) does not exist",
	`out: [strings, strings.ToUpper("a")]`: "is not a value",
	`out: nope`:                            "is not known",
	`out: strings.Nope("a")`:               "cannot be used in a behaviour",
	`out: lib.#Nope`:                       "does not exist",
	`out: object.spec.n(1)`:                "is not a function",
	`out: strings.ToUpper("a", "b")`:       "takes 1 arguments",
	`out: strings.Split("a")`:              "takes 2 arguments",
	`out: path.Join(["a"])`:                "takes 2 arguments",
	`out: strings.MinRunes()`:              "takes 2 arguments",
	`out: *1`:                              "a default needs another alternative",
	`out: {Z=(object.spec.s): 1}`:          "the alias Z of a computed name",
	`out: {Z="\(object.spec.s)": 1}`:       "the alias Z of a computed name",
	`out: {a: Y=5, b: Y}`:                  "only a struct can have one",
	`out: [Y={a: 1}]`:                      "an alias of a value",
}

// cyclic are behaviours that refer to themselves, and how.
var cyclic = map[string]string{
	`out: _h.b, _h: {a: _h.a, b: 1}`:                                        "_h.a refers to itself: _h.a → _h.a",
	`out: _h.b, _h: {a: _g.a, b: 1}, _g: a: _h.a`:                           "_g.a → _h.a → _g.a",
	`out: 1, _h: {a: (*{a: object.spec.s} | {b: _h.a}).b | 1}`:              "_h.a → _h.a",
	`out: 1, _h: {l: {let t = list.Take(_h.l, 1), x: t}.x | {}}`:            "t → _h.l → t",
	`out: 1, _h: {a: l}, let l = [for v in [1] if len(_h.a) > v {_h.a[v]}]`: "l → _h.a → l",
	`out: 1, _h: {a: ({n: int} & {n: _h.a}).n}`:                             "_h.a → _h.a",
	`out: 1, _h: {a: "\(_g)"}, _g: len(_h.a)`:                               "_g → _h.a → _g",
	`out: 1, _h: #D & {a: 1, b: b}, #D: {a: int, b: int}`:                   "b refers to this field itself, which hides the other b",
	`out: 1, _h: {for v in [1] {a: v, "\(v)": {c: c}}}`:                     "c refers to this field itself",
	`out: 1, _h: {{a: len(a)}}`:                                             "a → a",
	`out: 1, _h: {let l = l1, a: l}, let l1 = _h.a`:                         "l → l1 → _h.a → l",
	`out: 1, _h: {x: {"a": a}, a: _h.x.a}`:                                  "a → _h.x.a → a",
	`out: 1, _h: {a: 1 + _h.a}`:                                             "_h.a → _h.a",
	`out: 1, _h: {a: _h.a & int}`:                                           "_h.a → _h.a",
	`out: 1, _h: {"\(_h)": 1}`:                                              "_h → _h",
	`out: 1, _h: {[_h]: 1}`:                                                 "_h → _h",
	`out: 1, _h: {if _h != _|_ {a: 1}}`:                                     "_h → _h",
	`out: 1, _h: {q: [for v in [1] {len(z)}], z: len(q)}`:                   "z → q → z",
	`out: 1, _h: {a: 1} & {b: _h.b}`:                                        "_h.b → _h.b",
	`out: 1, X`:                                                             "X → X",
	// Those do not.
	`out: _h.b, _h: {a: 1, b: _h.a, c: {d: _h.b}}`:                                "",
	`out: _h.b, _h: {a: *object.spec.s | {b: 1, c: a.b}, b: _g.c}, _g: {c: _h.a}`: "",
	`out: 1, _h: {a: 1, if _h.a > 0 {b: 2}, [string]: int}, _g: {n?: _g}`:         "",
	`out: 1, #D: {n: int, m: n}, _h: #D & {n: 1}, _g: {#D, n: _h.m}`:              "",
	`out: _h.a.b, _h: {a: {b: _g} & {d: 2}}, _g: len(_h.a)`:                       "",
}

func TestCycles(t *testing.T) {
	t.Parallel()
	for text, message := range cyclic {
		program, err := Compile(loaded(packageOf(text)), "X")
		require.NoError(t, err, text)
		if message == "" {
			require.Nil(t, program.Cycle(), text)
			continue
		}
		require.ErrorContains(t, program.Cycle(), message, text)
	}
}

// stricter are errors, which CUE takes for something else, and a part of what is said about them.
var stricter = map[string]string{
	`out: list.Sort([2, 1], {x: _, y: _, less: 3})`:       "less must be true or false",
	`out: list.IsSorted([2, 1], {x: _, y: _, less: "a"})`: "less must be true or false",
}

func TestStricterThanCUE(t *testing.T) {
	t.Parallel()
	for text, message := range stricter {
		class, got := newOracle(t, packageOf(text)).compiled(sampleObject(), sampleObserved(), "out")
		require.Equal(t, "error", class, text)
		require.Contains(t, got, message)
	}
}

func TestRejected(t *testing.T) {
	t.Parallel()
	for text, message := range rejected {
		_, err := Compile(loaded(packageOf(text)), "X")
		require.ErrorContains(t, err, message, text)
	}
}
