package behaviour_test

import (
	"fmt"
	"slices"
	"testing"

	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/parser"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/budget"
)

const (
	wholeObject = `{"metadata": {"name": "n", "labels": {"a": "1"}}, "status": {"p": "q"}, "spec": {"a": "x", "b": "y", "i": 0,
		"mode": "b", "list": [{"object": {"n": "o"}, "observed": {"n": "w"}, "k": "v"}], "m": {"object": "mo", "observed": "mw"}}}`
	allObserved = `{"pod": {"x": "px", "y": "py", "z": {"q": "pz"}, "status": {"phase": "Running", "n": 7}, "labels": {"l": "1"}},
		"set": [{"x": "s0", "y": {"w": "s0w"}}, {"x": "s1", "y": {"w": "s1w"}}],
		"hpa": {"spec": {"metrics": [{"type": "Object", "object": {"metric": {"name": "reqs"}}}]}}}`
)

// A run that is given the parts that Reads names computes what it does with all.
func TestReadsAreEnough(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		// fields that are called as what is given
		`a: {observed: object.spec.a}.observed`, `let l = {object: observed.pod.x}, a: l.object`,
		`a: [for m in observed.hpa.spec.metrics if m.type == "Object" {m}][0].object.metric.name`,
		`let m = [for m in observed.hpa.spec.metrics {m}][0], a: m.object.metric.name`,
		`a: object.spec.list[object.spec.i].observed.n`, `let h = #H & {in: observed.pod.x}, a: h.observed, #H: {in: _, observed: in}`,
		`a: [for v in {observed: object.spec.list}.observed {v.k}]`, `a: len({object: {l: observed.set}}.object.l)`,
		`a: {let q = {object: observed.pod}, if q.object.x != _|_ {y: 1}}`, `a: {object: observed.pod.x}["object"]`,
		`a: object.spec["\("m")"].observed`, `a: object["sp\("ec")"].m.observed`, `a: (*object.spec.m | {}).observed`,
		`a: [for object in observed.set {object.x}]`, `a: {observed: object.spec, b: observed.a}`,
		// declarations of what is given
		`observed: {pod?: {...}, y: pod.x, ...}, a: observed.y`, `observed: {set?: [...{...}], n: len(set), ...}, a: observed.n`,
		`observed: O={pod?: {...}, y: O.pod.x, ...}, a: observed.y`, `observed: {let p = pod.x, pod?: {...}, y: p, ...}, a: observed.y`,
		`observed: {pod?: {status?: {...}, y: status.phase, ...}, ...}, a: observed.pod.y`, `observed: pod: W={..., y: W.x}, a: observed.pod.y`,
		`observed: pod?: {x?: "zz", ...}, a: observed.pod != _|_`, `observed: pod?: {x?: string, no!: string, ...}, a: observed.pod != _|_`,
		`observed: {pod?: {...}, if pod.x == "px" {extra: 1}, ...}, a: observed.extra`, `observed: [N=string]: {name: N, ...}, a: observed.pod.name`,
		`observed: null | _, a: observed.pod.x`, `observed: set?: [...{x?: "s0", ...}], a: observed.set[1] != _|_, b: len(observed.set)`,
		`if object.spec.a == "x" {observed: pod: {x: "zz", ...}}, a: observed.pod != _|_`, `if true {object: spec: {mode: "zzz", ...}}, a: object.spec != _|_`,
		`for v in observed.set {object: spec: {mode: "zzz", ...}}, a: object.spec != _|_`, `_h: {object: spec: {mode: "zzz", ...}, ...}, _h, a: object.spec != _|_`,
		`close({object: {spec: {mode: "zzz", ...}, ...}, observed: _, a: _}), a: object.spec != _|_`, `[=~"^obj"]: {spec: {mode: "zzz", ...}, ...}, a: object.spec != _|_`,
		`"\("obs")erved": {pod: {x: "zzz", ...}, ...}, a: observed.pod != _|_`, `#D, a: object.spec != _|_, #D: {object: spec: {mode: "zzz", ...}, ...}`,
		`object: {...} | {spec: mode: "a"}, a: object.spec.mode`, `z: _, or([{object: {spec: {mode: "a", ...}, ...}, z: 1}, {object: {spec: {mode: "b", ...}, ...}, z: 2}]), a: z`,
		// aliases, lets and variables
		`_h: self={b: self.object.spec.a, c: {for k, v in self {(k): 1}}}, _h`, `_h: self={let s = self, b: s["ob\("ject")"].spec.a}, _h`,
		`_h: self={let s = [self][0].observed, b: s.pod.x}, _h`, `_h: self={b: {let x = self & {object: _}, c: x.object.spec.a}}, _h`,
		`a: [for p in observed.set let q = p.y {q.w}]`, `a: [for k, p in observed {if k == "pod" {p.status.phase}}]`, `a: [for k, _ in observed.pod.labels {k}]`,
		`a: {for v in observed.set {"\(v.x)": {[M=string]: {w: v.y.w, m: M}, one: _}}}`, `a: {let o = object, let s = o.spec, b: s.a}`,
		`let o = object, a: [for k, v in o {k}]`, `X=x: {y: observed.pod.x}, a: X.y`, `let y = observed.pod, a: {b: y.x, c: len(y.labels)}`,
		`let p = q.x, let q = observed.pod, a: p`, `let l = [for p in observed.set if p.x == "s1" {p}], a: len(l)`,
		`_x: observed, a: _x.pod.x`, `_f: {in: _, out: in.x}, a: (_f & {in: observed.pod}).out`, `_f: {observed: _, out: observed.pod.x}, a: (_f & {"observed": observed}).out`,
		// what is embedded, and what a definition closes
		`_h: _, if true {_h: {observed: pod: {x: "zz", ...}, ...}}, _h, a: observed.pod != _|_`,
		`#B & {_x: {observed: pod: {x: "zzz", ...}, ...}}, a: observed.pod != _|_, #B: {_x: _, _x, ...}`,
		`#h: {observed: {pod?: {x?: string}, ...}, ...}, #h, a: observed.pod != _|_`, `_#h: {observed: {pod?: {x?: string}}, ...}, _#h, a: observed.pod != _|_`,
		`if true {#D}, a: observed.pod != _|_, #D: {observed: {pod?: {x?: string}, ...}, ...}`,
		`_h: {observed: {let p = pod.x, pod?: {...}, y: p, ...}, ...}, _h, a: observed.y`, `_h: {observed: {let p = pod, pod?: {...}, y: p.x, ...}, ...}, _h, a: observed.y`,
		`_h: {observed: {let p = pod, pod?: {...}, y: {for k, v in p {(k): 1}}, ...}, ...}, _h, a: observed.y`, `observed: set?: [...], a: observed.set[0].x`,
		`_v: {#of: string, _t[#of]}, _t: {pod: {v: observed.pod.x}, set: {w: observed.set}}, a: _v & {#of: "pod"}`, `_v: {#of: string, observed[#of]}, a: (_v & {#of: "pod"}).x`,
		`_v: {#in: _, #in}, a: (_v & {#in: observed.pod}).x`, `_v: {#in: _, #in.z, q: string}, a: (_v & {#in: observed.pod}).q`, `_v: {#in: _, {_t & {#i: #in}}.out}, _t: {#i: _, out: {v: #i.x}}, a: _v & {#in: observed.pod}`,
		// operators and functions
		`a: observed.set[object.spec.i:1][0].x`, `a: and([observed.pod.z, {q: string}])`, `a: close({v: observed.pod.x})`, `a: {observed.pod.z}`,
		`a: *observed.nope.x | observed.pod.x`, `a: "\(observed["pod"]["x"])"`, `a: observed.pod == observed.pod`, `a: len(observed.pod.x)`,
		`a: observed.set[1].y.w != _|_`, `a: [if observed.pod.x == "px" {object.spec.a}, object.spec.b][0]`, `a: {for k, v in observed for w, u in v {"\(k)-\(w)": 1}}`,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			program := compiled(t, text)
			object, observed := program.Reads()
			all := computed(t, program, decoded(t, wholeObject), decoded(t, allObserved))
			require.NotEmpty(t, all)
			require.Equal(t, all, computed(t, program, object.In(decoded(t, wholeObject)), observed.In(decoded(t, allObserved))))
		})
	}
}

// A struct that includes itself by an alias, or reads its own names, is a problem and not an evaluation without end.
func TestStructsThatIncludeThemselvesEnd(t *testing.T) {
	t.Parallel()
	for text, ends := range map[string]string{
		`_s: S={a: {S.a, x: 1}}, r: close(_s.a)`: "problem", `_s: S={a: {S.a}}, r: close(_s.a)`: "problem", `observed: {pod!: 1 | "a", pod?: {observed.pod}}`: "problem",
		`observed: pod?: {observed.pod}`: "value", `_s2: S={object: {S.object}}, _s2, r: close(object)`: "problem",
		`r: S={"\(len(S))": 1}`: "problem", `r: S={x: "q", "y\([for k, v in S {k}][0])": 1}`: "problem", `r: A={for k, v in object {(k): v}, "hash-\(len(A))": "1"}`: "problem",
		`observed: {m?: {"\(len(observed.m))": 1}}, r: observed`: "problem",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			program := compiled(t, text)
			b := budget.New("x")
			value := program.Run(b, map[string]any{"b": "c"}, map[string]any{"m": map[string]any{}, "pod": map[string]any{"x": "1"}})
			_, fields := value.Fields()
			_, data := value.Lookup("r").Data()
			is := "value"
			if fields != nil || data != nil || value.Lookup(behaviour.ObservedName).Fits() != nil || b.IsExceeded() {
				is = "problem"
			}
			require.Equal(t, ends, is)
		})
	}
}

// compiled compiles a controller that has the text.
func compiled(t *testing.T, text string) *behaviour.Program {
	t.Helper()
	file, err := parser.ParseFile("x.cue", "#C: {"+text+"\nobject: _, observed: _}")
	require.NoError(t, err)
	instance := &build.Instance{}
	require.NoError(t, instance.AddSyntax(file))
	program, err := behaviour.Compile(instance, "#C")
	require.NoError(t, err)
	return program
}

func decoded(t *testing.T, text string) any {
	t.Helper()
	var value any
	require.NoError(t, json.Unmarshal([]byte(text), &value))
	return value
}

// computed returns the fields that a program computes, with their problems.
func computed(t *testing.T, program *behaviour.Program, object, observed any) (fields []string) {
	t.Helper()
	given, isObject := object.(map[string]any)
	require.True(t, isObject)
	children, isObject := observed.(map[string]any)
	require.True(t, isObject)
	value := program.Run(budget.New("x"), given, children)
	names, problem := value.Fields()
	require.Nil(t, problem)
	for _, name := range names {
		if name != behaviour.ObjectName && name != behaviour.ObservedName {
			data, problem := value.Lookup(name).Data()
			fields = append(fields, fmt.Sprint(name, ": ", data, " ", problem))
		}
	}
	slices.Sort(fields)
	return fields
}
