package proof

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/parser"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/internal/parts"
)

// shownRead lists the paths that are read; a final * means all below.
func shownRead(r *parts.Set) string {
	if r.Whole {
		return "*"
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
		parts = append(parts, name+":"+shownRead(r.Fields[name]))
	}
	if r.Elements != nil {
		parts = append(parts, "[]:"+shownRead(r.Elements))
	}
	return "{" + strings.Join(parts, " ") + "}"
}

func TestObservedReads(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`observed: pod?: {...}
a: observed.pod.status.phase == "x"`: "{pod:{status:{phase:*}}}",
		`a: observed`:                                                 "*",
		`a: observed.pod`:                                             "{pod:*}",
		`a: observed["pod"].status`:                                   "{pod:{status:*}}",
		`a: observed["p-\(x)"].status`:                                "{[]:{status:*}}",
		`a: observed.pod[name].status`:                                "{pod:{[]:{status:*}}}",
		`let o = observed.pod, a: o.x`:                                "{pod:{x:*}}",
		`let o = observed.pod, a: o`:                                  "{pod:*}",
		`let o = p.x, let p = observed.pod, a: o.y, a: p.z`:           "{pod:{x:{y:*} z:*}}",
		`a: [for p in observed.set let c = p.conditions {c[0].type}]`: "{set:{[]:{conditions:{[]:{type:*}}}}}",
		"_h: self={b: [for k, v in self {v}]}\n_h":                    "*",
		"_h: self={b: self[name].x}\n_h":                              "*",
		"_h: self={b: self.name, c: self[\"name\"]}\n_h":              "{}",
		"let o = \"\\(observed.pod.x)\", a: o":                        "{pod:{x:*}}",
		`a: {[string]: observed.pod.x}`:                               "{pod:{x:*}}",
		`a: {[N=string]: observed.pod[N]}`:                            "{pod:{[]:*}}",
		`a: [for p in observed.set {{[N=string]: p.x}}]`:              "{set:{[]:{x:*}}}",
		`a: #Far.b`:                      "{pod:{z:*}}",
		`a: #Other.a, x: observed.pod.x`: "{pod:{x:*}}",
		`a: len([for p in observed.set if p.status.phase == "x" {1}])`:  "{set:{[]:{status:{phase:*}}}}",
		`a: len([for p in observed.set {p}])`:                           "{set:{[]:*}}",
		`a: len(observed.set)`:                                          "{set:{[]:{}}}",
		`a: len(observed.pod.list)`:                                     "{pod:{list:{[]:{}}}}",
		`a: observed.set[0].x.y`:                                        "{set:{[]:{x:{y:*}}}}",
		`a: [for k, v in observed.pod.labels {v}]`:                      "{pod:{labels:{[]:*}}}",
		`a: [for p in observed.set for c in p.conditions {c.type}]`:     "{set:{[]:{conditions:{[]:{type:*}}}}}",
		`a: "\(observed.pod.x)"`:                                        "{pod:{x:*}}",
		`"\(observed.pod.x)": 1`:                                        "*",
		`observed: set: [...{status: {phase: *"" | string, ...}, ...}]`: "{set:{[]:{status:{phase:*}}}}",
		"observed: _, a: observed.pod.x":                                "{pod:{x:*}}",
		`observed: pod?: #Pod`:                                          "{pod:*}",
		`observed: {pod?: {...} & {a: b: int}}`:                         "{pod:{a:{b:*}}}",
		`observed: {[string]: int}`:                                     "*",
		`X=observed: {pod?: {...}}`:                                     "{pod:{}}",
		`X=observed: {...}, a: X.pod.x`:                                 "{pod:{x:*}}",
		`a: observed.pod.b, a: observed.pod.c.d, a: observed.pod.c`:     "{pod:{b:* c:*}}",
		`a: {if observed.pod != _|_ {x: 1}}`:                            "{pod:{}}",
		`a: _|_ == observed.pod.status.x`:                               "{pod:{status:{x:{}}}}",
		`a: observed != _|_`:                                            "*",
		`observed: _`:                                                   "{}",
		`observed: {pod: _, [string]: _}`:                               "{}",
		`a: {for n, c in observed {(n): c.status.phase}}`:               "{[]:{status:{phase:*}}}",
		`x: [for p in observed.set {observed: {phase: p.phase}}]`:       "{set:{[]:{phase:*}}}",
		`a: object.labels[name]`:                                        "{}",
		`a: b: c: 1`:                                                    "{}",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			_, observed := readsOf(t, text)
			require.Equal(t, want, shownRead(observed))
		})
	}
}

func TestReadMetadata(t *testing.T) {
	t.Parallel()
	const all = `{"labels":{"a":"1","b":"2"},"annotations":{"c":"3"}}`
	for text, want := range map[string]string{
		`x: object.spec.a`:                            `{}`,
		`x: object.metadata.name`:                     `{}`,
		`x: object.metadata.labels.a`:                 `{"labels":{"a":"1"}}`,
		`x: object.metadata.labels`:                   `{"labels":{"a":"1","b":"2"}}`,
		`x: object.metadata`:                          all,
		`let o = object, x: o.spec`:                   `{}`,
		`let o = object, x: o.metadata`:               all,
		`x: [for k, v in object.metadata.labels {v}]`: `{"labels":{"a":"1","b":"2"}}`,
		`x: object.metadata.annotations["c"]`:         `{"annotations":{"c":"3"}}`,
		`object: metadata: labels: a: string`:         `{}`,
		`X=object: {...}, x: X.metadata.labels`:       `{"labels":{"a":"1","b":"2"}}`,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			object, _ := readsOf(t, text)
			read, err := json.Marshal((&kind.Reads{Object: object}).Metadata(map[string]any{"metadata": map[string]any{
				"name": "n", "labels": map[string]any{"a": "1", "b": "2"},
				"annotations": map[string]any{"c": "3", corev1.LastAppliedConfigAnnotation: "{}"},
			}}))
			require.NoError(t, err)
			require.JSONEq(t, want, string(read))
		})
	}
	kinds, err := load.Shipped()
	require.NoError(t, err)
	for _, k := range kinds {
		require.Empty(t, k.Reads.Metadata(map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}}), k.Name())
	}
}

// readsOf returns what a definition reads that has a text.
func readsOf(t *testing.T, text string) (object, observed *parts.Set) {
	t.Helper()
	text = strings.NewReplacer(", a:", "\na:", ", x:", "\nx:").Replace(text)
	file, err := parser.ParseFile("x.cue", "#C: {"+text+"\nobject: _, observed: _, name: string, x: string}\n#Pod: string\n#Other: a: 1\n#Far: {b: observed.pod.z, observed: _}")
	require.NoError(t, err)
	instance := &build.Instance{}
	require.NoError(t, instance.AddSyntax(file))
	program, err := behaviour.Compile(instance, "#C")
	require.NoError(t, err)
	return program.Reads()
}

// Parts that a kind does not read do not change its decisions, and a thousand Pods cost no
// more than a thousand phases.
func TestDecideWithManyMembers(t *testing.T) {
	t.Parallel()
	k := shippedKind(t, "Customcluster")
	require.Equal(t, "{pods:{[]:{status:{phase:*}}}}", shownRead(k.Reads.Observed))
	large := make(map[string]any)
	for i := range 5000 {
		large[fmt.Sprint(i)] = int64(i)
	}
	members := make([]any, 1000)
	for i := range members {
		members[i] = map[string]any{"metadata": map[string]any{"name": fmt.Sprint("p-", i)}, "spec": large, "status": map[string]any{"phase": "Running"}}
	}
	decision, err := k.Decide(k.NewBudget(), map[string]any{
		"apiVersion": "samplecontroller.fescue.dev/v1alpha1", "kind": "Customcluster", "metadata": map[string]any{"name": "c"},
		"spec": map[string]any{"count": int64(1000), "message": "m"},
	}, map[string]any{"pods": members})
	require.NoError(t, err)
	require.Equal(t, int64(1000), decision.Status["count"])
}
