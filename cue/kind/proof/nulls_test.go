package proof

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/fescue-dev/fescue/cue/kind/load"
)

// TestNulls compares with the API server's library which nulls it drops, and with its types what
// it makes of those in metadata. Templates often set a field to null that is not given.
func TestNulls(t *testing.T) {
	t.Parallel()
	kinds, err := draftsOf(t, `package k
import ("fescue.dev/cue/contract", "fescue.dev/cue/k8s")
#G: {
	apiVersion!: "try.example.com/v1"
	kind!:       "G"
	metadata!:   k8s.#ObjectMeta
	spec!: {
		plain?:    string
		required!: string
		regular:   *1 | int
		nullable?: null | int
		empty:     *null | string
		scalar?:   string | bool
		anything?: _
		size?:     int & >=1
		if size != _|_ {more: *2 | int}
		inner: {a: *"b" | string, c?: [...{d?: int, e: *3 | int}]}
		list?: [...(string | null)]
		strict?: [...string]
		map?: [string]: string
		open?: {f?: int, ...}
		either?: {g!: int, h?: int} | {i!: int}
	}
}
#GController: contract.#Controller & {object!: #G, names: plural: "gs"}
`)
	require.NoError(t, err)
	k := kinds[0]
	crd, err := newCRDOracle(k.Schema)
	require.NoError(t, err)
	for _, spec := range []string{
		`{}`, `null`, `{"required": null}`, `{"required": "a"}`,
		`{"required": "a", "plain": null, "regular": null, "nullable": null, "empty": null, "scalar": null, "anything": null}`,
		`{"required": "a", "size": null}`, `{"required": "a", "size": 2, "more": null}`, `{"required": "a", "inner": null}`,
		`{"required": "a", "inner": {"a": null, "c": null}}`, `{"required": "a", "inner": {"c": [{"d": null, "e": null}]}}`, `{"required": "a", "inner": {"c": [null]}}`,
		`{"required": "a", "list": null}`, `{"required": "a", "list": [null]}`, `{"required": "a", "strict": [null]}`, `{"required": "a", "map": {"a": null, "b": "c"}}`,
		`{"required": "a", "open": {"f": null, "g": null}}`, `{"required": "a", "either": {"g": null, "i": 1}}`, `{"required": "a", "either": {"g": 1, "h": null}}`,
	} {
		var object map[string]any
		require.NoError(t, json.Unmarshal([]byte(`{"apiVersion": "try.example.com/v1", "kind": "G", "metadata": {"name": "g"}, "spec": `+spec+`}`), &object))
		before := text(object)
		checked := k.Check(k.NewBudget(), object)
		stored, rejected := crd.admit(object)
		require.Equal(t, len(rejected) == 0, len(checked.Errors) == 0, "%s: API server: %v, Fescue: %v", spec, rejected, checked.Errors)
		require.Equal(t, before, text(object))
		if len(rejected) > 0 {
			continue
		}
		again := k.Default(stored)
		require.Equal(t, text(again), text(checked.Object), spec)
		require.Equal(t, text(again), text(k.Default(object)), spec)
	}
}

func TestNullsInMetadata(t *testing.T) {
	t.Parallel()
	shipped, err := load.ShippedDrafts()
	require.NoError(t, err)
	at := shipped[0]
	for _, metadata := range []string{
		`{"name": "a", "labels": null, "annotations": null, "namespace": null, "generateName": null, "creationTimestamp": null, "ownerReferences": null, "finalizers": null, "generation": null}`,
		`{"name": "a", "labels": {"b": null}, "annotations": {"c": null}}`, `{"name": null}`, `null`,
	} {
		var object map[string]any
		require.NoError(t, json.Unmarshal([]byte(`{"apiVersion": "cnat.fescue.dev/v1alpha1", "kind": "At", "metadata": `+metadata+`, "spec": {"schedule": "2030-01-01T00:00:00Z", "command": "a"}}`), &object))
		var typed struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		require.NoError(t, json.Unmarshal([]byte(text(object)), &typed))
		checked := at.Check(at.NewBudget(), object)
		require.Equal(t, typed.Metadata.Name != "", len(checked.Errors) == 0, "%s: %v", metadata, checked.Errors)
		if len(checked.Errors) > 0 {
			continue
		}
		got, err := json.Marshal(checked.Object["metadata"])
		require.NoError(t, err)
		want, err := json.Marshal(typed.Metadata)
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got))
	}
}
