package proof

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
)

// Fescue and CUE agree about everything that ships or is shown, and each proof of a kind is the same.
func TestKindsAreProved(t *testing.T) {
	skipComparison(t)
	t.Parallel()
	for name, source := range kindSources(t) {
		for _, k := range source.kinds {
			t.Run(name+"/"+k.Title(), func(t *testing.T) {
				t.Parallel()
				proof := Prove(k, kubernetesTypes())
				t.Logf("%d compared, %d not, %d of %d ways", proof.Compared, proof.NotCompared, proof.Taken, proof.Ways)
				require.Nil(t, proof.Difference)
				require.GreaterOrEqual(t, proof.Compared, idlePairs/2)
				require.GreaterOrEqual(t, 3*proof.Taken, proof.Ways)
				require.Equal(t, proof, Prove(k, kubernetesTypes()))
			})
		}
	}
}

// disputed is a kind of which docs/cue.md says that Fescue and CUE disagree.
const disputed = `package k

import "fescue.dev/cue/contract"

#K: {
	apiVersion!: "example.com/v1", kind!: "K", metadata!: {name!: string, ...}
	spec: {size?: int, extra?: bool}
	status?: {contract.#Status, n?: int, size?: int}
}
#KController: contract.#Controller & {
	object!: #K
	observed: _
	names: plural: "ks"
	owns: []
	_s: {
		n: 1
		if object.spec.extra {m: 2}
	}
	children: {}
	status: {size: object.spec.size, n: _s.n}
}
`

// What the two disagree about is named with the smallest object that shows it.
func TestProofNamesTheDifference(t *testing.T) {
	t.Parallel()
	kinds, err := draftsOf(t, disputed)
	require.NoError(t, err)
	difference := Prove(kinds[0], nil).Difference
	require.NotNil(t, difference)
	require.Equal(t, "K", difference.Kind)
	require.Equal(t, 10, difference.Line)
	_, reason, _ := strings.Cut(difference.Reason, ": ")
	require.Regexp(t, `^status\.n is 1 for Fescue and missing for CUE; given {"object":{"apiVersion":"example.com/v1","kind":"K","metadata":{"name":"[^"]*"},"spec":{}},"observed":{}}$`, reason)
}

// The order of fields in a text, and a hash of it, are no difference: docs/cue.md says that they are Fescue's own.
func TestProofLeavesOutTheOrderOfTexts(t *testing.T) {
	t.Parallel()
	source := strings.Replace(disputed, "package k", "package k\n\nimport (\n\"encoding/json\"\n\"encoding/hex\"\n\"crypto/sha256\"\n)", 1)
	source = strings.Replace(source, "n?: int", "n?: string", 1)
	source = strings.Replace(source, "if object.spec.extra {m: 2}", "(object.metadata.name): 3\nb: 1", 1)
	for text, differs := range map[string]bool{
		`json.Marshal(_s)`: false,
		`"x-\(hex.Encode(sha256.Sum256(json.Marshal(_s))))"`: false,
		`json.Marshal(*_t.n | 2)`:                            true,
	} {
		source := strings.Replace(source, "n: _s.n", "n: "+text, 1)
		if differs {
			source = strings.Replace(source, "children: {}", "_t: {n: 1, if object.spec.extra {m: 2}}\nchildren: {}", 1)
		}
		kinds, err := draftsOf(t, strings.NewReplacer("\"encoding/hex\"\n\"crypto/sha256\"\n", map[bool]string{true: "\"encoding/hex\"\n\"crypto/sha256\"\n"}[strings.Contains(text, "hex")]+map[bool]string{true: "\"encoding/base64\"\n"}[strings.Contains(text, "base64")]).Replace(source))
		require.NoError(t, err)
		require.Equal(t, differs, Prove(kinds[0], nil).Difference != nil, "%s: %v", text, Prove(kinds[0], nil).Difference)
	}
}

// A struct in the status keeps the fields that are known while an if waits, wherever the if stands.
func TestProofKnowsStructsThatWait(t *testing.T) {
	t.Parallel()
	for _, behaviour := range []string{
		`status: sm: {if object.spec.extra {c: "q"}, d: "w"}`,
		`status: sm: {if object.spec.extra {c: "q"}}`,
		"_h: {n: {if object.spec.extra {c: \"q\"}, d: \"w\"}}\nstatus: sm: _h.n",
		"_h: {c: \"\\(object.spec.size)\", d: \"w\"}\nstatus: sm: _h",
	} {
		source := strings.Replace(disputed, "status: {size: object.spec.size, n: _s.n}", behaviour, 1)
		kinds, err := draftsOf(t, strings.Replace(source, "n?: int, size?: int", "sm?: [string]: string", 1))
		require.NoError(t, err, behaviour)
		require.Nil(t, Prove(kinds[0], nil).Difference, behaviour)
	}
}

// CUE says of a disjunction without an alternative how many errors it has, names the field in which a reference is that an
// if reads, and does not say what is absent in a text or a call that is unified with a disjunction or has one. They wait, as Fescue does.
func TestProofKnowsWhatWaits(t *testing.T) {
	t.Parallel()
	for _, behaviour := range []string{
		`status: {size: *object.spec.size | *object.spec.more | object.spec.most}`,
		`children: c: {when: object.spec.extra | object.spec.other, template: {apiVersion: "v1", kind: "ConfigMap"}}`,
		"_h: {n: object.spec.extra}\nchildren: {c: template: {apiVersion: \"v1\", kind: \"ConfigMap\"}, if _h.n {d: template: {apiVersion: \"v1\", kind: \"ConfigMap\"}}}",
		`children: {c: template: {apiVersion: "v1", kind: "ConfigMap"}, if *object.spec.extra | object.spec.other {d: template: {apiVersion: "v1", kind: "ConfigMap"}}}`,
		`status: size: (1 | int) & list.Sum([for v in [3] {object.spec.size}])`,
		`children: c: template: {apiVersion: "v1", kind: "ConfigMap", data: a: (*"x" | string) & "a-\(object.spec.size)"}`,
		"_h: {n: {} != [object.spec.more]}\nchildren: {c: template: {apiVersion: \"v1\", kind: \"ConfigMap\"}, if _h.n {d: template: {apiVersion: \"v1\", kind: \"ConfigMap\"}}}",
		`status: size: list.Max([object.spec.more | object.spec.most])`,
		"_h: {}\nchildren: {c: template: {apiVersion: \"v1\", kind: \"ConfigMap\", {if object.spec.size < 1000 {o: {_h, a: object.spec.more}.b}}}, if object.spec.extra {d: template: {apiVersion: \"v1\", kind: \"ConfigMap\"}}}",
		"_h: object.spec.extra\nchildren: c: {replicas: 4, maxUnavailable: [if [_h][0] {1}, \"30%\"][0], template: {apiVersion: \"v1\", kind: \"ConfigMap\"}}",
		`children: c: {when: {} == {a: object.spec.more | object.spec.most}, template: {apiVersion: "v1", kind: "ConfigMap"}}`,
		"_h: {}\nstatus: size: [if _h[\"\\(object.spec.size)\"] {1}][0]",
		`children: {for k, v in {a: "a", b: "\(object.spec.size)"} if v != "b" {(k): template: {apiVersion: "v1", kind: "ConfigMap"}}}`,
		"#T: {a: string, t: \"\\(a)-\\(a)\"}\nchildren: c: template: {apiVersion: \"v1\", kind: \"ConfigMap\", data: a: (#T & {a: {if false {a: \"a\"}, b: \"b\"}[\"a\"]}).t}",
	} {
		source := strings.NewReplacer("status: {size: object.spec.size, n: _s.n}", behaviour, "extra?: bool", "extra?: bool, other?: bool, more?: int, most?: int").Replace(disputed)
		if strings.Contains(behaviour, "list.") {
			source = strings.Replace(source, "package k", "package k\n\nimport \"list\"", 1)
		}
		kinds, err := draftsOf(t, source)
		require.NoError(t, err, behaviour)
		require.Nil(t, Prove(kinds[0], nil).Difference, behaviour)
	}
}

// An error of CUE's evaluator names the field in the behaviour, as one of Fescue's does.
func TestEvaluatedErrorsNameTheField(t *testing.T) {
	t.Parallel()
	kinds, err := draftsOf(t, strings.Replace(disputed, "children: {}", `children: c: template: {apiVersion: "v1", kind: "ConfigMap", data: a: object.spec.size & >1000}`, 1))
	require.NoError(t, err)
	k, object := kinds[0], objectOf(kinds[0], map[string]any{"size": int64(1)})
	_, errCompiled := k.Decide(k.NewBudget(), object, nil)
	evaluated, err := newComparison(k).evaluated(object, nil)
	require.NoError(t, err)
	_, errEvaluated := k.DecisionOf(evaluated, "")
	for _, err := range []error{errCompiled, errEvaluated} {
		var failure *kind.EvaluationError
		require.ErrorAs(t, err, &failure)
		require.Equal(t, "children.c.template.data.a", failure.Path)
	}
}

// The status of an object is a struct, though the schema may leave it open.
func TestProofOfAnyStatus(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"_", "null | bool | number | string | [...] | {...}"} {
		kinds, err := draftsOf(t, strings.NewReplacer("status?: {contract.#Status, n?: int, size?: int}", "status?: "+status, "\tstatus: {size: object.spec.size, n: _s.n}\n", "").Replace(disputed))
		require.NoError(t, err, status)
		require.Nil(t, Prove(kinds[0], nil).Difference, status)
	}
}

// An object whose decision takes many steps is not compared: CUE's evaluator would take minutes.
func TestLargeObjectsAreNotCompared(t *testing.T) {
	t.Parallel()
	source := strings.Replace(disputed, "size?: int", "size?: int, items: [...int] & list.MaxItems(1000)", 1)
	source = strings.Replace(source, "package k", "package k\n\nimport \"list\"", 1)
	kinds, err := draftsOf(t, strings.Replace(source, "n: _s.n", "n: len([for x in object.spec.items for y in object.spec.items {x}])", 1))
	require.NoError(t, err)
	for n, want := range map[int]error{3: nil, 300: errNotCompared} {
		_, err := compare(newComparison(kinds[0]), objectOf(kinds[0], map[string]any{"items": slices.Repeat([]any{int64(1)}, n)}), nil)
		require.ErrorIs(t, err, want)
	}
}

// The ways of a behaviour are those of its ifs, its loops and its disjunctions with a default.
func TestWays(t *testing.T) {
	t.Parallel()
	kinds, err := draftsOf(t, strings.Replace(disputed, "n: _s.n", `n: *object.spec.size | 7, size: [for x in [1] if object.spec.extra {x}, *"a" | string][0]`, 1))
	require.NoError(t, err)
	k := kinds[0]
	for _, test := range []struct {
		spec map[string]any
		gone int
	}{
		{map[string]any{}, 2},                                // the fallback, and something to loop over
		{map[string]any{"size": int64(1), "extra": true}, 3}, // and the value, and what an if adds
	} {
		ways := behaviour.NewWays(k.Program)
		k.Program = k.Program.Noting(ways)
		_, _ = k.Decide(k.NewBudget(), objectOf(k, test.spec), nil)
		all, gone := ways.Count()
		require.Equal(t, 8, all) // another if is in _s, which nothing reads
		require.Equal(t, test.gone, gone)
	}
}

// A difference is shown with the defaults of the object: what is shown is what differs.
func TestProofKeepsDefaults(t *testing.T) {
	t.Parallel()
	source := strings.Replace(disputed, "size?: int, extra", "size: *3 | int, extra", 1)
	kinds, err := draftsOf(t, source)
	require.NoError(t, err)
	difference := Prove(kinds[0], nil).Difference
	require.NotNil(t, difference)
	require.Contains(t, difference.Reason, "status.n is 1 for Fescue and missing for CUE")
}
