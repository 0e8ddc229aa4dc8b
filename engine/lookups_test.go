package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/internal/parts"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

const readerText = `package p

import "fescue.dev/cue/contract"

#Reader: {apiVersion: "example.com/v1", kind: "Reader", metadata: {name!: string, ...}, spec: {from?: string, team?: string, space?: string}}
#ReaderController: contract.#Controller & {
	object!: #Reader
	observed: _
	names: plural: "readers"
	reads: {
		from: {apiVersion: "v1", kind: "ConfigMap", name: object.spec.from}
		team: {apiVersion: "v1", kind: "ConfigMap", if object.spec.space != _|_ {namespace: object.spec.space}, selector: matchLabels: team: object.spec.team}
		pull: {apiVersion: "v1", kind: "Secret", name: "pull"}
	}
	status: {level: observed.from.data.level, sizes: [for m in observed.team {m.data.size}], key: observed.pull.data.key}
}
`

// An event queues the objects that read what has changed, as it is or as it was, and no others.
func TestReadersOf(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, readerText)
	configMap := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	config := func(namespace, name, team, level, size string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"namespace": namespace, "name": name, "labels": map[string]any{"team": team}},
			"data":     map[string]any{"level": level, "size": size},
		}}
	}
	l := newLookups(k)
	for _, target := range k.Lookups.Targets() {
		l.watches[target] = lookupWatch{isNamespaced: true}
	}
	require.Equal(t, []kind.LookupTarget{{Type: configMap}, {Type: corev1.SchemeGroupVersion.WithKind("Secret"), ObjectName: "pull"}}, k.Lookups.Targets())
	expect := func(name string, spec map[string]any) cache.ObjectName {
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Reader", "metadata": map[string]any{"namespace": "here", "name": name}, "spec": spec,
		}}
		wanted, err := plan.LookupsOf(k.NewBudget(), k, object)
		require.NoError(t, err)
		reader := cache.MetaObjectToName(object)
		l.expect(reader, wanted)
		return reader
	}
	a := expect("a", map[string]any{"from": "c", "team": "x"})
	b := expect("b", map[string]any{"from": "d", "team": "y"})
	everywhere := expect("everywhere", map[string]any{"team": "x", "space": ""})
	expect("nothing", map[string]any{})
	type readers = []cache.ObjectName
	for name, test := range map[string]struct {
		before, after     *unstructured.Unstructured
		byName, selecting readers
	}{
		"created":             {after: config("here", "c", "y", "1", "1"), byName: readers{a}, selecting: readers{b}},
		"deleted":             {before: config("here", "c", "y", "1", "1"), byName: readers{a}, selecting: readers{b}},
		"elsewhere":           {after: config("there", "c", "x", "1", "1"), selecting: readers{everywhere}},
		"changed":             {before: config("here", "d", "x", "1", "1"), after: config("here", "d", "x", "2", "1"), byName: readers{b}, selecting: readers{a, everywhere}},
		"another label":       {before: config("here", "e", "x", "1", "1"), after: config("here", "e", "y", "1", "1"), selecting: readers{a, b, everywhere}},
		"nothing that's read": {before: config("here", "c", "x", "1", "1"), after: config("here", "c", "x", "1", "1")},
		"another team":        {after: config("here", "e", "z", "1", "1")},
	} {
		byName, selecting := l.readersOf(configMap, test.before, test.after)
		require.ElementsMatch(t, test.byName, byName, name)
		require.ElementsMatch(t, test.selecting, selecting, name)
	}

	// An object that reads something else, or is gone, is no longer queued.
	expect("a", map[string]any{"from": "f"})
	l.forget(everywhere)
	byName, selecting := l.readersOf(configMap, nil, config("here", "c", "x", "1", "1"))
	require.Empty(t, append(byName, selecting...))
	l.forget(a)
	l.forget(b)
	l.forget(cache.ObjectName{Namespace: "here", Name: "nothing"})
	require.Empty(t, l.readers)
	require.Empty(t, l.keys)
}

// Of what is read, the caches keep what the behaviour reads, and not the rest of a Secret.
func TestKeptOfLookups(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, readerText)
	keep := keptOfLookups(corev1.SchemeGroupVersion.WithKind("Secret"), []*kind.Kind{k})
	require.True(t, keep.Covers(parts.Of([]string{"data", "key"}, []string{"metadata", "labels"})))
	require.False(t, keep.Covers(parts.Of([]string{"data", "other"})))
	require.True(t, keptOfLookups(corev1.SchemeGroupVersion.WithKind("ConfigMap"), []*kind.Kind{k}).Covers(parts.Of([]string{"data", "size"}, []string{"data", "level"})))
}

// What cannot be read is told.
func TestLookupsThatFindNothing(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, readerText)
	l := newLookups(k)
	reader := cache.ObjectName{Namespace: "here", Name: "a"}
	find := l.find(reader, []string{"here"})
	configMap := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	elsewhere, everywhere := "there", metav1.NamespaceAll
	_, err := find(kind.Lookup{Type: configMap, ObjectName: "c"})
	require.EqualError(t, err, "ConfigMap cannot be read: its type is not served by the cluster: install its CRD")
	l.watches[kind.LookupTarget{Type: configMap}] = lookupWatch{isNamespaced: true}
	_, err = find(kind.Lookup{Type: configMap, ObjectName: "c", Namespace: &elsewhere})
	require.EqualError(t, err, `the operator does not read in the namespace "there"`)
	_, err = find(kind.Lookup{Type: configMap, Namespace: &everywhere})
	require.EqualError(t, err, "the operator is limited to some namespaces, and does not read in all")
}
