package plan

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

const teamKind = `
package team

import "fescue.dev/cue/contract"

#Team: {apiVersion!: "team.example.com/v1", kind!: "Team", metadata!: {name!: string, ...}, status?: contract.#Status}
#TeamController: contract.#Controller & {
	object!: #Team
	names: plural: "teams"
	scope: "Cluster"
	children: {
		config: template: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: "c", namespace: object.metadata.name}}
		other: template: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: "c", namespace: "default"}}
		pods: {replicas: 2, template: {apiVersion: "v1", kind: "Pod", metadata: namespace: object.metadata.name, spec: containers: [{name: "c", image: "i"}]}}
		space: template: {apiVersion: "v1", kind: "Namespace", metadata: name: object.metadata.name}
	}
}
`

// red returns a Team whose status lists the places of its children.
func red() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "team.example.com/v1", "kind": "Team", "metadata": map[string]any{"name": "red", "uid": "1"},
		"status": map[string]any{"childInventory": map[string]any{"elsewhere": []any{
			map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default"},
			map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "red"}, map[string]any{"apiVersion": "v1", "kind": "Pod", "namespace": "red"},
		}}},
	}}
}

// What is in a namespace that is a child waits until that exists and is not being deleted.
func TestChildrenWaitForTheirNamespace(t *testing.T) {
	t.Parallel()
	kinds, err := load.All(false, corpus.Folder(t, teamKind))
	require.NoError(t, errors.Join(err, kinds.BrokenError()))
	k := kinds.All()[0]
	owner := red()
	v := &View{Normalized: children.NewNormalized(), Types: map[schema.GroupVersionKind]ChildType{
		podKind: {Resource: pods, IsNamespaced: true}, {Version: "v1", Kind: "ConfigMap"}: {Resource: configs, IsNamespaced: true},
		kind.NamespaceType: {Resource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}},
	}}
	converge := func() (writes []string, waits string) {
		_, o := converge(k, owner, v, now, func(todo *Comparison) *Changes {
			done := &Changes{}
			for _, s := range append(todo.Steps, todo.Prunes...) {
				writes = append(writes, string(s.Verb)+" "+s.Child)
				if s.Verb == Create {
					stored := s.Wanted.DeepCopy()
					stored.SetUID(types.UID(s.Child + s.Name))
					done.Stored = append(done.Stored, children.Of(s.Resource, stored))
				}
			}
			return done
		})
		require.Nil(t, o.Stalled)
		v.Children = o.Children
		return writes, o.waiting()
	}

	writes, waits := converge()
	require.Equal(t, []string{"create other", "create space", "create config", "create pods", "create pods"}, writes)
	require.NotContains(t, waits, "waiting")

	for _, child := range v.Children {
		if child.Name == "space" {
			child.Object.SetDeletionTimestamp(new(metav1.NewTime(now)))
		}
	}
	writes, waits = converge()
	require.Empty(t, writes)
	require.Equal(t, `config: waiting for the namespace "red"; other: ready; pods: waiting for the namespace "red"; space: not ready`, waits)
}

// While nothing can be done for a namespace that is a child, nothing is created in a namespace of its name: that may
// belong to someone else.
func TestChildrenWaitForARejectedNamespace(t *testing.T) {
	t.Parallel()
	kinds, err := load.All(false, corpus.Folder(t, teamKind))
	require.NoError(t, errors.Join(err, kinds.BrokenError()))
	v := &View{Normalized: children.NewNormalized(), Types: map[schema.GroupVersionKind]ChildType{
		podKind: {Resource: pods, IsNamespaced: true}, {Version: "v1", Kind: "ConfigMap"}: {Resource: configs, IsNamespaced: true},
		kind.NamespaceType: {Err: ErrNotServed},
	}}
	_, o := converge(kinds.All()[0], red(), v, now, func(todo *Comparison) *Changes {
		for _, s := range todo.Steps {
			require.Equal(t, "other", s.Child)
		}
		return &Changes{}
	})
	require.Contains(t, o.Stalled.Message, "its type is not served by the cluster")
	require.Contains(t, o.waiting(), `config: waiting for the namespace "red"`)
}
