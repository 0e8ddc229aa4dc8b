package proof

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// CUE's evaluator would keep the names of fields indefinitely: nothing that is done with an object does. It is not
// parallel, so that no other test allocates meanwhile.
func TestNamesOfFieldsAreNotKept(t *testing.T) {
	kinds, err := draftsOf(t, `package k

import "fescue.dev/cue/contract"

#Copy: {
	apiVersion!: "names.example.com/v1"
	kind!:       "Copy"
	metadata!: {...}
	spec!: {
		data?: [string]: string
		checked?: {other: *1 | int, [string]: _}
	}
	status?: {contract.#Status, labels?: [string]: string}
}
#CopyController: contract.#Controller & {
	object!: #Copy
	observed: copy?: {...}
	names: plural: "copies"
	children: copy: template: {
		apiVersion: "v1"
		kind:       "ConfigMap"
		metadata: labels: object.metadata.labels
		data: {for k, v in object.spec.data if k != "none" {(k): v}}
		binaryData: observed.copy.data
	}
	status: labels: object.metadata.labels
	inject: {annotation: "names.example.com/inject", selector: matchLabels: object.metadata.labels, add: metadata: labels: {for k, v in object.spec.data if k != "none" {(k): v}}}
}
`)
	require.NoError(t, err)
	k := kinds[0]
	serve := func(rounds int) {
		for range rounds {
			key := strings.Repeat("k", 10_000) + rand.Text() // long, so that it would be noticed
			free, labels := map[string]any{key: "v"}, map[string]any{rand.Text(): "v"}
			object := map[string]any{
				"apiVersion": "names.example.com/v1", "kind": "Copy",
				"metadata": map[string]any{"name": "a", "labels": labels, "annotations": free, "managedFields": []any{map[string]any{"f:" + key: "x"}}},
				"spec":     map[string]any{"data": map[string]any{key: "v", "none": "v"}, "checked": map[string]any{key: "v"}},
			}
			require.Empty(t, k.Validate(object))
			defaulted := k.Default(object)
			require.Equal(t, map[string]any{key: "v", "other": int64(1)}, defaulted["spec"].(map[string]any)["checked"])
			decision, err := k.Decide(k.NewBudget(), defaulted, map[string]any{"copy": map[string]any{"data": free}})
			require.NoError(t, err)
			template := decision.Children[0].Template
			require.Equal(t, free, template["data"])
			require.Equal(t, free, template["binaryData"])
			require.Equal(t, labels, template["metadata"].(map[string]any)["labels"])
			require.Equal(t, map[string]any{"labels": labels}, decision.Status)
			injection, err := k.Injection(k.NewBudget(), defaulted)
			require.NoError(t, err)
			require.Len(t, injection.Selector.MatchLabels, 1)
			require.Contains(t, labels, slices.Collect(maps.Keys(injection.Selector.MatchLabels))[0])
			require.Equal(t, map[string]any{"labels": free}, injection.Add["metadata"])
		}
	}
	const rounds = 300
	serve(rounds)
	before := heap()
	serve(rounds)
	// Each object has two new names.
	require.Less(t, int64(heap())-int64(before), int64(rounds*10_000), "bytes")
}

// A behaviour may read the names of fields.
func TestNamesThatAreRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[for k, v in object.spec.data {k}]`:                           `["left","right"]`,
		`[for k, v in object.spec.data {v}]`:                           `["1","2"]`,
		`[for k, v in object.spec.data if k == "left" {v}]`:            `["1"]`,
		`[for k, v in object.spec.data if k =~ "^r" {v}]`:              `["2"]`,
		`{for k, v in object.spec.data {"\(k)-x": v}}`:                 `{"left-x":"1","right-x":"2"}`,
		`{for k, v in object.spec.data {"x": {(k): {(k): v}}}}`:        `{"x":{"left":{"left":"1"},"right":{"right":"2"}}}`,
		`{for k, v in object.spec.data let n = k {(n): v}}`:            `{"left":"1","right":"2"}`,
		`json.Marshal(object.spec.data)`:                               `"{\"left\":\"1\",\"right\":\"2\"}"`,
		`object.spec.data[object.spec.name]`:                           `"2"`,
		`object.spec.data.right`:                                       `"2"`,
		`object.spec.data & {[K=string]: string & =~"."}`:              `{"left":"1","right":"2"}`,
		`object.spec.data & {[=~"^[a-z]+$"]: =~"^[12]$"}`:              `{"left":"1","right":"2"}`,
		`{for k, v in object.spec.data {(k): name: k}}`:                `{"left":{"name":"left"},"right":{"name":"right"}}`,
		`len(object.spec.data)`:                                        `2`,
		`[for k, v in object.spec.data for l, w in {(k): 1} {"\(l)"}]`: `["left","right"]`,
		`object.spec.data & {right: string, ...}`:                      `{"left":"1","right":"2"}`,
		`*object.spec.data.up | object.spec.data`:                      `{"left":"1","right":"2"}`,
		`list.Contains([{"left": "1", right: "2"}], object.spec.data)`: `true`,
		`#prices[object.spec.name]`:                                    `3`,
		`base64.Encode(null, object.spec.data.left)`:                   `"MQ=="`,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			kinds, err := draftsOf(t, strings.ReplaceAll(`package k

import (
	"encoding/base64"
	"encoding/json"
	"list"
	"fescue.dev/cue/contract"
)

#Look: {
	apiVersion!: "names.example.com/v1"
	kind!:       "Look"
	metadata!: {...}
	spec!: {name!: string, data!: {[string]: string}}
	status?: {contract.#Status, x?: _}
}
#LookController: contract.#Controller & {
	object!: #Look
	names: plural: "looks"
	status: x: TEXT
}
_used: [list.MaxItems, base64.Encode]
_json: json.Valid
#prices: {right: 3}
`, "TEXT", text))
			require.NoError(t, err)
			decision, err := kinds[0].Decide(kinds[0].NewBudget(), map[string]any{
				"apiVersion": "names.example.com/v1", "kind": "Look", "metadata": map[string]any{"name": "a"},
				"spec": map[string]any{"name": "right", "data": map[string]any{"left": "1", "right": "2"}},
			}, nil)
			require.NoError(t, err)
			x, err := json.Marshal(decision.Status["x"])
			require.NoError(t, err)
			require.Equal(t, want, string(x))
		})
	}
}

// A decision may be about objects as large as the API server takes them.
func TestLargeObjects(t *testing.T) {
	t.Parallel()
	labels := mapOf(50_000, func(int) any { return "" })
	for name, spec := range map[string]map[string]any{
		"At":            {"schedule": "2030-01-01T00:00:00Z", "command": "echo"},
		"Customcluster": {"count": int64(1), "message": "m"},
		"Watcher":       {"container": map[string]any{"name": "a"}},
	} {
		k := shippedKind(t, name)
		object := objectOf(k, spec)
		object["metadata"] = map[string]any{"name": "a", "labels": labels, "annotations": labels}
		checked := k.Check(k.NewBudget(), object)
		require.Empty(t, checked.Errors)
		_, err := k.Decide(k.NewBudget(), checked.Object, nil)
		require.NoError(t, err)
	}
	watcher := shippedKind(t, "Watcher")
	large := objectOf(watcher, map[string]any{"container": map[string]any{"name": "a"}, "configData": mapOf(200_000, func(int) any { return "" })})
	require.Empty(t, watcher.Validate(large))
	decision, err := watcher.Decide(watcher.NewBudget(), large, nil)
	require.NoError(t, err)
	require.Len(t, decision.Children[0].Template["data"], 200_000)
}
