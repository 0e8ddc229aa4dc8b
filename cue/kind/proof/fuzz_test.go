package proof

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"cuelang.org/go/cue/parser"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// FuzzObject feeds any JSON object to a kind: nothing panics, a valid object stays valid
// when it is defaulted, defaulting twice is defaulting once, and the decision is the
// same every time.
func FuzzObject(f *testing.F) {
	kinds, err := load.ShippedDrafts()
	require.NoError(f, err)
	f.Add(0, []byte(`{"apiVersion":"cnat.fescue.dev/v1alpha1","kind":"At","metadata":{"name":"a"},"spec":{"schedule":"2020-11-16T10:12:00Z","command":"echo"}}`))
	f.Add(0, []byte(`{"apiVersion":"cnat.fescue.dev/v1alpha1","kind":"At","metadata":{"name":"a"},"spec":{"schedule":"2020-13-16T10:12:00Z","command":"","image":1}}`))
	for i, k := range kinds {
		f.Add(i, []byte(text(sampler(k)(1))))
		f.Add(i, []byte(`{"spec":[{"schedule":null}],"status":{"phase":"RUNNING","conditions":[1]}}`))
	}
	f.Fuzz(func(t *testing.T, i int, text []byte) {
		k := kinds[uint(i)%uint(len(kinds))]
		object := make(map[string]any)
		if json.Unmarshal(text, &object) != nil || object == nil {
			return
		}
		if errs := k.Validate(object); len(errs) > 0 {
			for _, err := range errs {
				require.NotEmpty(t, err.Error())
			}
			return
		}
		once := k.Default(object)
		require.Empty(t, k.Validate(once))
		require.Equal(t, once, k.Default(once))
		first, errFirst := k.Decide(k.NewBudget(), once, nil)
		second, errSecond := k.Decide(k.NewBudget(), once, nil)
		require.Equal(t, first, second)
		require.Equal(t, errFirst, errSecond)
	})
}

// FuzzDifferential changes some values of objects that are generated for the kinds,
// shipped and in the corpus: the compiled form, CUE's evaluator and the API server's
// library for CRDs agree about them. changes has one JSON value on each line.
func FuzzDifferential(f *testing.F) {
	skipComparison(f)
	kinds, oracles := kindsWithOracles(f)
	samplers := make([]func(uint64) map[string]any, len(kinds))
	for i := range kinds {
		samplers[i] = sampler(kinds[i])
		f.Add(i, uint64(i), "")
		f.Add(i, uint64(i), "null\n1.0\n\"é\"\n{\"a\":[{}]}")
		f.Add(i, uint64(i), "[[],\"\\n\",-0.0]\n\"2030-01-01T00:00:00+00:00\"")
	}
	f.Fuzz(func(t *testing.T, i int, seed uint64, changes string) {
		if len(changes) > maxFuzzed {
			return
		}
		i = int(uint(i) % uint(len(kinds)))
		object := samplers[i](seed)
		random := rand.New(rand.NewPCG(seed, 2))
		for line := range strings.Lines(changes) {
			var wrapped map[string]any
			if json.Unmarshal([]byte(`{"value":`+line+`}`), &wrapped) == nil {
				overwrite(random, object, wrapped["value"])
			}
		}
		require.NoError(t, disagreement(kinds[i], oracles[i], object), "%s: %s", kinds[i].GroupVersionKind, text(object))
	})
}

// maxFuzzed bounds texts that are fuzzed: CUE's evaluator takes time that is more than
// linear, and mistakes show in short ones.
const maxFuzzed = 300

// kindsWithOracles lists the kinds in the same order every time, as inputs number them.
func kindsWithOracles(t testing.TB) (kinds []load.Draft, oracles []*crdOracle) {
	all := corpusKinds(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, k := range all[name] {
			oracle, err := newCRDOracle(k.Schema)
			require.NoError(t, err)
			kinds, oracles = append(kinds, k), append(oracles, oracle)
		}
	}
	return kinds, oracles
}

// overwrite sets a random field or item somewhere within a value.
func overwrite(random *rand.Rand, within, value any) {
	for range 1 + random.IntN(6) {
		var next any
		var set func(any)
		switch v := within.(type) {
		case map[string]any:
			if len(v) == 0 {
				return
			}
			names := slices.Sorted(maps.Keys(v))
			name := names[random.IntN(len(names))]
			next, set = v[name], func(x any) { v[name] = x }
		case []any:
			if len(v) == 0 {
				return
			}
			i := random.IntN(len(v))
			next, set = v[i], func(x any) { v[i] = x }
		}
		switch next.(type) {
		case map[string]any, []any:
			if random.IntN(4) > 0 {
				within = next
				continue
			}
		}
		set(value)
		return
	}
}

// FuzzSchema takes any text as the schema of a kind's spec: it loads or is rejected, the
// CRD is structural, and objects are judged by it as CUE's evaluator does.
func FuzzSchema(f *testing.F) {
	skipComparison(f)
	for _, spec := range schemaSeeds {
		f.Add(spec, uint64(1))
	}
	f.Fuzz(func(t *testing.T, spec string, seed uint64) {
		// The evaluator multiplies disjunctions out.
		if len(spec) > maxFuzzed || strings.Count(spec, "|") > 4 || strings.Count(spec, "if") > 4 || !utf8.ValidString(spec) {
			return
		}
		k := kindWithSpec(t, spec)
		if k.Kind == nil {
			return
		}
		crd, err := newCRDOracle(k.Schema)
		require.NoError(t, err)
		sample := sampler(k)
		for i := range uint64(5) {
			object := sample(seed + i)
			require.NoError(t, disagreement(k, crd, object), "%s", text(object))
		}
	})
}

// schemaSeeds have each construct that can be compiled.
var schemaSeeds = []string{
	`{_h: >3, _h: int, x?: _h}`, `{#h: {s!: string}, a?: #h, #h: {l?: [...int], ...}}`, `{_max: 3, n?: int, if n != _|_ if n > _max {m!: int}}`,
	`_`, `{a: *1 | int & >=1 & <=10, b?: string}`, `{a!: "x" | "y" | null, b: *true | bool}`, `{[=~"^a"]: int, ab?: >3}`,
	`{a?: [...{n!: string, v: *"" | string}] @kube(listType=map,listMapKey=n)}`, `{a!: int, b!: >=a, c?: !=2 & <5.5}`,
	`{mode!: "a" | "b", if mode == "a" {x!: int}, if mode == "b" {y?: int}}`, `{a?: strings.MinRunes(2) & =~"^a" & !~"b$"}`,
	`{a?: list.MaxItems(2) & list.UniqueItems() & [...uint8]}`, `{kind!: "a", x?: int} | {kind!: "b", y?: int}`, `#R, #R: {n?: [...#R]}`,
	`{a?: struct.MinFields(1) & {[string]: bool}, ...}`, `close({a?: time.Duration}) & {a?: string}`, `{a?: {b: c: *1 | int, ...}}`,
	`{_x: 1, let y = 3, a?: >y, b: _x}`, `{a?: int | string, c?: and([>1, <9]), d?: or(["a", "b"])}`, `{l?: int, m?: >l, if l != _|_ {n!: int}}`,
	`{a?: strings.MaxRunes(5) & {string}, b?: {=~"^a"}, c?: {>=1}, d?: {int | string}, e?: {string, #x: 1}}`, `{a?: [_, ...] & [...string], b?: [_, _, ..._], c?: [_, _]}`,
	`{a?: matchN(>=1, [int, string]), b?: matchN(>=1, [int, string]) & (number | =~"^a"), c?: matchN(>=1, [_, _]), d?: float32, e?: float64}`,
	`{a?: matchN(1, [{x!: _}, {y!: _}]) & {x?: int, y?: string, z?: {q?: int}}, b?: matchN(0, ["a", "b"]) & string}`,
	`matchN(1, [matchN(0, [matchN(>=1, [null | bool | number | string | [...] | {x!: _}, {y!: _}])]) & {}, {x!: _}, {y!: _}]) & {x?: int, y?: {z?: int}}`,
	`{a?: matchN(2, ["a" | "b", "b" | "c"]), b?: matchN(<=1, [{x!: 1}, {x?: int, y!: _}]) & {x: *1 | int, y?: int}, c?: [...matchN(1, [{a: 1}, {a?: int, b: 2}])]}`,
	`{*{a!: int} | {b!: string}, c?: int}`, `{a?: list.MaxItems(3) & [...{x?: int, y?: [...{z!: int}]}], b?: [...{x?: int}] & [_, ...], c?: list.UniqueItems() & [...#D], #D: {d?: {x?: int}}}`,
	`{a?: matchN(1, [{x!: _}, {y!: _}]) & (*{x!: int} | {y!: {z?: int}}), b?: matchN(1, [{t?: "a", v?: matchN(>=1, [_, _])}, {t?: matchN(0, ["a"])}]) & {t: *"a" | string, v?: int}}`,
	// These were mistakes once.
	`{a!: a}`, `{a!: b, b!: a}`, `{let x = y, let y = x, a?: >x}`, `{#D: {d?: #D}, a?: #D}`, `''`, `{a: 0.0 | int8 & >100}`, `{n!: int, a: *1 | int & >=n}`, `{a: null}`, `{#d!: int}`, `{l?: _, if l != _|_ {a!: int}}`,
	`{m!: bool, if m {a!: _}}`, `{a!: string, b?: int & >=a}`, `{a!: int, b?: <!a}`, `{n!: int, a: n}`, `{a?: 1 | 2.5, b?: strings.HasPrefix("a"), c?: number & !=2}`,
	`{a?: list.MaxItems(3) & [...number] & list.UniqueItems(), b?: list.UniqueItems() & [...int]}`, `{a?: [...{n?: string}] @kube(listType=map)}`,
	`{a!: int, b?: number & !=a}`, `{a!: number, if a == 1 {b!: int}}`,
	`{a?: [...int], b!: int, if a != b {x: 1}}`, `{a?: {}, if a == "x" {x: 1}}`, `{l!: bool, if l {a: *1 | int, b: *1 | int & >=a}}`,
	`{a?: c | 0.0, c?: number & !=0}`,
	`#A, #A: #A`, `{x?: #A}, #A: string | #A`, `{x?: #A}, #A: {kid: #A}`, `{x?: #A}, #A: {on: *true | bool, if on {kid: #A}}`,
	`{x: *[{}] | [...{a?: int, if a != _|_ {b?: int}}]}`, `{big?: bool, tier: *"small" | "large", if big != _|_ {tier: "large"}}`,
	`{mode: *"a"|"b", if mode == "a" {x?: int}} | {mode: *"a"|"b", if mode == "a" {x?: int}, y?: string}`,
	`{least?: int, _c: {v: 5 & >=least}}`, `{n?: >=-9223372036854775808}`, `{x: *[1] | *[2] | [...int]}`, `{big!: bool, n: int, if big {n: 5}}`,
	`{x?: null | int, if x != _|_ {y?: int}}`, `{a__b?: int @kube(immutable)}`, `{x?: [...(string | null)] & list.UniqueItems()}`,
	`struct.MinFields(2) & {a?: int, b: *1 | int} | struct.MinFields(1) & {c!: int}`, `struct.MinFields(2) & {a?: int, if a != _|_ {b: *2 | int}}`,
	// CUE v0.17.1 panics or overflows its stack on these.
	`{a!: int, <.5}`, `{a: int | string, b: a()}`, `{a!: {b?: number & !=a}}`,
	`#A, #A: {#B}, #B: {n?: {m?: int, if m != _|_ {o?: int}}}`,
	`{s!: "x" | "y", a?: {m?: int}, if s == "x" {a?: {...}}}`, `{s!: "x" | "y", m?: int, if s == "x" {...}}`,
	`{s!: "x" | "y", a?: {m?: int}, if s == "x" {a?: {[string]: int}}}`, `{s!: "x" | "y", a?: {m?: int}, if s == "x" {a?: {[=~"^k"]: int}}}`,
	`{s!: "x" | "y", m?: int, if s == "x" {[=~"^k"]: int}}`, `{s!: "x" | "y", a?: {b?: {m?: int}}, if s == "x" {a?: {b?: {...}}}}`,
	`{s!: "x" | "y", a?: [...{m?: int}], if s == "x" {a?: [...{...}]}}`, `{s!: "x" | "y", #D: {m?: int}, a?: #D, if s == "x" {a?: {...}}}`,
	`{s!: "x" | "y", t?: int, a?: {m?: int}, if s == "x" {if t != _|_ {a?: {...}}}}`, `{s!: "x" | "y", a?: {m?: int, ...}, if s == "x" {a?: {k?: int}}}`,
	`{s!: "x" | "y" | "z", a?: {m?: int}, if s == "x" {a?: {k?: int}}, if s == "y" {a?: {...}}}`, `{s!: "x" | "y" | "z", if s == "x" {k?: int}, if s == "y" {...}}`,
	`{s!: "x" | "y", #D: {m?: int, ...}, if s == "x" {a?: #D}, if s == "y" {a?: {k?: int}}}`, `{s!: "x" | "y", if s == "x" {a?: {m?: int}}, if s == "x" {a?: {...}}}`,
}

const kindTemplate = `package fuzzed

import (
	"list"
	"strings"
	"struct"
	"time"

	"fescue.dev/cue/contract"
)

_used: [list.MaxItems, strings.MaxRunes, struct.MaxFields, time.Time]

#X: {
	apiVersion!: "fuzzed.example.com/v1"
	kind!:       "X"
	metadata!: {name!: string, ...}
	spec!: #Spec
	status?: contract.#Status
}
#Spec: `

const controllerTemplate = `package fuzzed

import "fescue.dev/cue/contract"

#XController: contract.#Controller & {object!: #X, names: plural: "xs"}
`

// kindWithSpec loads a kind with a spec; it is nil if the spec is rejected.
func kindWithSpec(t *testing.T, spec string) load.Draft {
	source := kindTemplate + spec + "\n"
	if _, err := parser.ParseFile("x.cue", source); err != nil || strings.Contains(spec, "#X") {
		return load.Draft{}
	}
	kinds, err := load.Drafts(corpus.Unpack(t, &txtar.Archive{Files: []txtar.File{
		{Name: "x.cue", Data: []byte(source)}, {Name: "controller.cue", Data: []byte(controllerTemplate)},
	}}))
	if len(kinds) == 0 {
		require.Error(t, err)
		return load.Draft{}
	}
	return kinds[0]
}

// FuzzTrigger compares with the standard library: a trigger is a time or a duration.
func FuzzTrigger(f *testing.F) {
	f.Add("2020-11-16T10:12:00Z")
	f.Add("5m")
	f.Add("-1h")
	entered := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		trigger, err := kind.ParseTrigger(text)
		at, errAt := time.Parse(time.RFC3339, text)
		delay, errDelay := time.ParseDuration(text)
		switch {
		case errAt == nil && !at.IsZero():
			require.True(t, trigger.Due(entered).Equal(at))
		case errAt != nil && errDelay == nil && delay >= 0:
			require.Equal(t, entered.Add(delay), trigger.Due(entered))
		case errAt != nil:
			require.Error(t, err)
		}
	})
}
