package load

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/check"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/types"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// requireNoMistakes fails for each mistake that is found in valid kinds, but for those of some checks.
func requireNoMistakes(t *testing.T, kinds []Draft, but ...mistake.Check) {
	t.Helper()
	known, err := types.New()
	require.NoError(t, err)
	for _, k := range kinds {
		for _, err := range check.Behaviour(k.Kind, k.Source, known) {
			if !slices.Contains(but, err.Check) {
				t.Errorf("%v", err)
			}
		}
		for _, a := range k.Advice {
			t.Logf("%s:%d: %s", a.Position.File, a.Position.Line, a.Text)
		}
	}
}

// unifiedLists has lists of containers that are unified item by item: with those of another package,
// and with those of a loop.
const unifiedLists = `
package k

import "fescue.dev/cue:kinds"

#At: {
	apiVersion!: "lists.example.com/v1"
	kind!:       "At"
	metadata!: {...}
	spec!: {schedule!: string, command!: string, names!: [...string]}
	status?: kinds.#AtStatus
}
#AtController: kinds.#AtBehaviour & {
	object!: #At
	phases: RUNNING: children: {
		pod: template: spec: containers: [{image: "busybox"}]
		more: template: {apiVersion: "v1", kind: "Pod", spec: containers: [for n in object.spec.names {name: n}]}
		more: template: spec: containers: [...{image: "busybox"}]
		more: template: spec: containers: [{image: "busybox"}, ...]
	}
}
`

// unifiedItems has lists whose items are complete only together: what one list says refers to what another one adds, also where that
// one is in an if.
const unifiedItems = `
package k

import "fescue.dev/cue/contract"

#G: {
	apiVersion!: "lists.example.com/v1"
	kind!:       "G"
	metadata!: {...}
	spec!: {probe: *true | bool, ready!: string, open: *false | bool, names: *[] | [...string]}
}
#GController: contract.#Controller & {
	object!: #G
	observed: _
	names: plural: "gs"
	initial: "A"
	phases: {
		A: next: [{to: "B"}, {to: "C"}, {to: "D"}]
		A: next: [{when: object.spec.ready == "b"}, {when: object.spec.ready == "c"}, {after: string}]
		A: next: [{when: bool}, {when: bool}, {after: "5m"}]
		B: next: [{to: "C"}, if object.spec.open {to: "D"}]
		B: next: [{when: object.spec.open}, ...]
		C: {}
		if object.spec.open {
			C: next: [{to: "A", after: "1m"}]
		}
		if !object.spec.open {
			C: next: [{to: "A", after: "5m"}]
		}
		D: terminal: true
	}
	children: web: template: {
		apiVersion: "apps/v1"
		kind:       "Deployment"
		spec: selector: matchLabels: a: "b"
		spec: template: metadata: labels: a: "b"
		spec: template: spec: {
			containers: [{name: "web", image: "nginx", ports: [{containerPort: 80}]}, {name: "log", image: "busybox"}]
			containers: [{ports: [{name: "http"}]}, {volumeMounts: [{name: "logs", mountPath: "/logs"}, ...]}]
			containers: [{readinessProbe: httpGet: {path: "/", port: "http"}}, {}]
			if object.spec.probe {
				containers: [{livenessProbe: httpGet: {path: "/", port: "http"}}, {ports: [{name: "log", containerPort: 81}]}]
			}
			if object.spec.probe {
				containers: [{}, {livenessProbe: tcpSocket: port: "log"}]
			}
			if !object.spec.probe {
				containers: [{}, {volumeMounts: [{}, {name: "more", mountPath: "/more"}]}]
			}
			volumes: [{name: "logs"}, {name: "more"}]
			volumes: [{emptyDir: {}}, {emptyDir: {}}]
		}
	}
	children: web: template: spec: template: spec: containers: [{env: [{name: "A"}]}, {}]
	children: web: template: spec: template: spec: containers: [{env: [{value: "1"}]}, {}]
	children: service: template: {
		apiVersion: "v1"
		kind:       "Service"
		spec: selector: a: "b"
		spec: ports: [{port: 80}]
		spec: ports: [{targetPort: "http"}]
	}
	children: loop: template: {
		apiVersion: "v1"
		kind:       "Pod"
		spec: containers: [for n in object.spec.names {name: n, image: "nginx", ports: [{name: "http", containerPort: 80}]}]
		spec: containers: [...{image: "nginx"}]
		spec: containers: [{readinessProbe: httpGet: {path: "/", port: "http"}}, ...]
	}
}
`

// eitherValues has children with fields that exclude each other, each in an if of its own, or one of them null.
const eitherValues = `
package k

import "fescue.dev/cue/contract"

#G: {
	apiVersion!: "lists.example.com/v1"
	kind!:       "G"
	metadata!: {...}
	spec!: {open: *false | bool, names: *[] | [...string]}
}
#GController: contract.#Controller & {
	object!: #G
	observed: _
	names: plural: "gs"
	children: web: template: {
		apiVersion: "apps/v1"
		kind:       "Deployment"
		spec: strategy: {type: "Recreate", rollingUpdate: null}
		spec: selector: matchLabels: a: "b"
		spec: template: metadata: labels: a: "b"
		spec: template: spec: containers: [{name: "a", image: "nginx", livenessProbe: {exec: null, tcpSocket: port: 80}}]
	}
	children: budget: template: {
		apiVersion: "policy/v1"
		kind:       "PodDisruptionBudget"
		spec: {minAvailable: 1, maxUnavailable: null, selector: matchLabels: a: "b"}
	}
	_probe: {if object.spec.open {httpGet: port: 80}, if !object.spec.open {tcpSocket: port: 80}}
	children: pod: template: {
		apiVersion: "v1"
		kind:       "Pod"
		spec: containers: [{
			name: "a", image: "nginx"
			livenessProbe: _probe
			env: [{name: "A", if object.spec.open {value: "b"}, if !object.spec.open {valueFrom: fieldRef: fieldPath: "metadata.name"}}]
			if object.spec.open {readinessProbe: exec: command: ["true"]}
			if !object.spec.open {readinessProbe: tcpSocket: port: 80}
			readinessProbe: timeoutSeconds: 5
			ports: [for n in object.spec.names {name: "p", containerPort: 80}]
		}, ...]
		spec: volumes: [{name: "v", if object.spec.open {emptyDir: {}}, if !object.spec.open {configMap: name: "c"}}, {}]
		spec: containers: [_, {name: "b"}, {image: "busybox"}]
		spec: containers: [_, ...{image: "busybox"}]
		spec: containers: [_, _, {name: "c"}]
		spec: tolerations: [for n in object.spec.names {operator: n}]
		spec: volumes: [{}, {name: "own", ephemeral: volumeClaimTemplate: spec: {
			accessModes: [if object.spec.open {"ReadWriteOncePod"}, if !object.spec.open {"ReadWriteOnce"}]
			resources: requests: storage: "1Gi"
		}}]
	}
}
`

// In kinds that run, no mistake is found: in the shipped ones, those of the docs, and the corpus.
func TestValidKindsHaveNoMistakes(t *testing.T) {
	t.Parallel()
	t.Run("shipped", func(t *testing.T) {
		t.Parallel()
		kinds, err := ShippedDrafts()
		require.NoError(t, err)
		requireNoMistakes(t, kinds)
	})
	t.Run("items of lists from several packages", func(t *testing.T) {
		t.Parallel()
		kinds, err := draftsOf(t, unifiedLists)
		require.NoError(t, err)
		requireNoMistakes(t, kinds)
	})
	t.Run("items of lists that are complete together", func(t *testing.T) {
		t.Parallel()
		kinds, err := draftsOf(t, unifiedItems)
		require.NoError(t, err)
		requireNoMistakes(t, kinds)
		next := kinds[0].Behaviour.Phases[0].Next
		require.Len(t, next, 3)
		require.Equal(t, kind.TransitionFacts{To: "C", When: `object.spec.ready == "c"`}, next[1])
	})
	t.Run("values in ifs, and null", func(t *testing.T) {
		t.Parallel()
		kinds, err := draftsOf(t, eitherValues)
		require.NoError(t, err)
		requireNoMistakes(t, kinds)
	})
	for _, file := range []string{"../../../README.md", "../../../docs/kinds.md", "../../../docs/children.md", "../../../docs/sidecars.md"} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, block := range strings.Split(string(text), "```cue\n")[1:] {
				block, _, _ = strings.Cut(block, "```")
				if !strings.HasPrefix(block, "package ") {
					continue
				}
				kinds, err := draftsOf(t, block)
				require.NoError(t, err)
				requireNoMistakes(t, kinds)
			}
		})
	}
	archives, err := filepath.Glob("../../../testdata/kinds/*.txtar")
	require.NoError(t, err)
	for _, file := range archives {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			require.NoError(t, err)
			kinds, _ := Drafts(corpus.Unpack(t, archive))
			requireNoMistakes(t, kinds)
		})
	}
	folders, err := filepath.Glob("../../../testdata/sources/*")
	require.NoError(t, err)
	for _, dir := range folders {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			kinds, err := Drafts(dir)
			require.NoError(t, err)
			requireNoMistakes(t, kinds)
		})
	}
}

// The schema of a status that #X leaves out follows from what the behaviour projects.
func TestStatusIsInferred(t *testing.T) {
	t.Parallel()
	kinds, err := draftsOf(t, `package k
import "fescue.dev/cue/contract"
#G: {apiVersion!: "try.example.com/v1", kind!: "G", metadata!: {...}, spec!: {text!: string, n: *1 | int, open?: {...}}}
#GController: contract.#Controller & {
	object!: #G
	observed: _
	names: plural: "gs"
	children: web: template: {apiVersion: "apps/v1", kind: "Deployment", spec: {selector: matchLabels: a: "b", template: {
		metadata: labels: a: "b"
		spec: containers: [{name: "a", image: object.spec.text}]
	}}}
	status: {
		ready: *observed.web.status.readyReplicas | 0
		if object.spec.n > 1 {
			url: "http://\(object.spec.text)"
		}
		all:        observed.web.status.readyReplicas == object.spec.n
		half:       object.spec.n / 2
		conditions2: observed.web.status.conditions
		any:        object.spec.open.x
	}
}
`)
	require.NoError(t, err)
	k := kinds[0]
	have := make(map[string]string)
	for name, s := range k.Schema.Properties["status"].Properties {
		have[name] = s.Type
	}
	require.Equal(t, map[string]string{
		"ready": "integer", "url": "string", "all": "boolean", "half": "number", "conditions2": "", "any": "",
		"conditions": "array", "observedGeneration": "integer", "childInventory": "object",
	}, have)
	requireNoMistakes(t, kinds)
	object := map[string]any{
		"apiVersion": "try.example.com/v1", "kind": "G", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"text": "a", "n": int64(3)},
		"status": map[string]any{"ready": int64(1), "url": "x"},
	}
	checked := k.Check(k.NewBudget(), object)
	require.Empty(t, checked.Errors)
	d, err := k.Decide(k.NewBudget(), checked.Object, map[string]any{"web": map[string]any{"status": map[string]any{"readyReplicas": int64(3)}}})
	require.NoError(t, err)
	require.Equal(t, int64(3), d.Status["ready"])
	require.Equal(t, true, d.Status["all"])
	object["status"] = map[string]any{"ready": "one"}
	require.ErrorContains(t, k.Validate(object).ToAggregate(), "status.ready")
}

// Whatever a behaviour consists of, the check ends, and without a panic.
func TestOddBehaviours(t *testing.T) {
	t.Parallel()
	for _, part := range []string{
		`status: x: [for a in [] {a.b.c}, 1][0]`,
		`status: x: [for a in {} {a.b[0]}, 1][0]`,
		`status: x: {for k, v in {} {(k): v.x}}`,
		`_a: {b: _a.c, c: 1}, status: x: _a.b`,
		`_a: [_a.b, {for x in _a {x}}], status: x: 1`,
		`_f: {in: _, out: "\(in)"}, status: x: (_f & {in: 3}).out`,
		`status: x: [if object.spec.n > 1 {"a"}, if object.spec.n > 2 {"b"}, "c"][0]`,
		`let l = [for i in [1, 2] {a: i}], status: x: l[0].a`,
		`children: {for n in ["a", "b"] {"\(n)-x": {template: {apiVersion: "v1", kind: "ConfigMap", data: (n): n}}}}`,
		`children: a: template: {apiVersion: "v1", kind: "ConfigMap", data: {[string]: string, x: "y"}}`,
		`children: a: template: {apiVersion: "v1", kind: "Pod", spec: containers: [for n in object.spec.list {name: n, image: n}]}`,
		`children: a: template: X={apiVersion: "v1", kind: "ConfigMap", data: y: X.kind}`,
		`status: x: and([object.spec.n, int])`,
		`status: x: object.spec.list[0:1]`,
	} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			kinds, err := draftsOf(t, `package k
import "fescue.dev/cue/contract"
#G: {apiVersion!: "try.example.com/v1", kind!: "G", metadata!: {...}, spec!: {n: *1 | int, list?: [...string]}, status?: {contract.#Status, x?: _}}
#GController: contract.#Controller & {
	object!: #G
	observed: _
	names: plural: "gs"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}]
	`+part+`
}
`)
			if err != nil {
				t.Log(err) // CUE has another opinion of it
			}
			requireNoMistakes(t, kinds)
		})
	}
}

// The library has no fields that the built-in types do not have: both are of one release of Kubernetes.
func TestLibraryHasTheBuiltInTypes(t *testing.T) {
	t.Parallel()
	kinds, err := draftsOf(t, `package k
import ("fescue.dev/cue/contract", "fescue.dev/cue/k8s")
#G: {apiVersion!: "try.example.com/v1", kind!: "G", metadata!: {...}, spec!: k8s.#PodSpec, status?: contract.#Status}
#GController: contract.#Controller & {object!: #G, names: plural: "gs"}
`)
	require.NoError(t, err)
	known, err := types.New()
	require.NoError(t, err)
	pod, _, err := known.Find(apischema.GroupVersionKind{Version: "v1", Kind: "Pod"})
	require.NoError(t, err)
	var compare func(have, want *types.Type, name string)
	compare = func(have, want *types.Type, name string) {
		for field, inner := range have.Fields {
			if assert.NotNil(t, want.Field(field), "%s.%s", name, field) {
				compare(inner, want.Field(field), field)
			}
		}
		if have.Items != nil {
			compare(have.Items, want.Item(), name)
		}
	}
	compare(known.FromRootSchema(kinds[0].Schema).Field("spec"), pod.Type.Field("spec"), "spec")
}

// draftsOf loads the kinds of one file.
func draftsOf(tb testing.TB, text string) ([]Draft, error) {
	tb.Helper()
	return Drafts(corpus.Folder(tb, text))
}
