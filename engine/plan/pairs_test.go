package plan

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// spaceKind has a namespace, and a child in it.
const spaceKind = `
package team

import "fescue.dev/cue/contract"

#Team: {apiVersion!: "team.example.com/v1", kind!: "Team", metadata!: {name!: string, ...}, spec: ns: *"a" | string, status?: contract.#Status}
#TeamController: contract.#Controller & {
	object!: #Team
	names: plural: "teams"
	scope: "Cluster"
	children: {
		config: template: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: "c", namespace: object.spec.ns}}
		space: template: {apiVersion: "v1", kind: "Namespace", metadata: name: object.spec.ns}
	}
}
`

// Children are pruned when what replaces them exists, also if that has to wait for its namespace.
func TestWhatReplacesANamespaceComesFirst(t *testing.T) {
	t.Parallel()
	kinds, err := load.All(false, corpus.Folder(t, spaceKind))
	require.NoError(t, errors.Join(err, kinds.BrokenError()))
	k := kinds.All()[0]
	owner := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "team.example.com/v1", "kind": "Team", "metadata": map[string]any{"name": "red", "uid": "1"}, "spec": map[string]any{"ns": "a"},
		"status": map[string]any{"childInventory": map[string]any{"elsewhere": []any{
			map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "a"},
			map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "b"},
		}}},
	}}
	v := &View{Normalized: children.NewNormalized(), Types: map[schema.GroupVersionKind]ChildType{
		{Version: "v1", Kind: "ConfigMap"}: {Resource: configs, IsNamespaced: true},
		kind.NamespaceType:                 {Resource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}},
	}}
	converge := func(reject string) (writes []string) {
		_, o := converge(k, owner, v, now, func(todo *Comparison) *Changes {
			done := &Changes{Deleted: map[types.UID]bool{}}
			do := func(steps []Step) {
				for _, s := range steps {
					writes = append(writes, string(s.Verb)+" "+s.Child+" "+s.Object().GetNamespace()+"/"+s.Name)
					if s.Verb == Create && s.Object().GetNamespace() == reject {
						done.Rejected = errors.New("quota")
						continue
					}
					if s.Verb == Create {
						stored := s.Wanted.DeepCopy()
						stored.SetUID(types.UID(s.Child + s.Object().GetNamespace() + s.Name))
						done.Stored = append(done.Stored, children.Of(s.Resource, stored))
					}
					if s.Verb == Delete {
						done.Deleted[s.Live.GetUID()] = true
					}
				}
			}
			do(todo.Steps)
			if todo.MayPrune() && !done.IsObstructed() {
				do(todo.Prunes)
			}
			return done
		})
		v.Children = o.Children
		return writes
	}
	require.Equal(t, []string{"create space /a", "create config a/c"}, converge("-"))
	owner.Object["spec"] = map[string]any{"ns": "b"}
	require.Equal(t, []string{"create space /b", "create config b/c"}, converge("b"), "a quota rejects it, and what is in a stays")
}

// A Pod that is going, and that was left by a former At of the same name, is not the run of the present one.
func TestLeftoverIsNotTheRun(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "At")
	for _, phase := range []string{"Succeeded", "Running"} {
		v := withPod(k, phase, func(o *unstructured.Unstructured) {
			o.SetOwnerReferences(nil)
			labels := o.GetLabels()
			labels[children.LabelOwnerUID] = "former"
			o.SetLabels(labels)
			isLeavingNow(o)
			isOld(time.Hour)(o)
		})
		p, o := converge(k, runningAt(nil), v, now, func(*Comparison) *Changes { return &Changes{} })
		require.Equal(t, "RUNNING", p.Phase, phase)
		require.Empty(t, p.Transitions, phase)
		require.Nil(t, p.Unrecorded(), phase)
		require.Nil(t, o.Stalled, phase)
	}
}

// manyKind has a set of many Pods.
const manyKind = `
package many

import "fescue.dev/cue/contract"

#Many: {apiVersion!: "many.example.com/v1", kind!: "Many", metadata!: {name!: string, ...}, status?: contract.#Status}
#ManyController: contract.#Controller & {
	object!: #Many
	names: plural: "manies"
	children: pods: {replicas: 300, template: {apiVersion: "v1", kind: "Pod", spec: containers: [{name: "c", image: "i"}]}}
}
`

// What a policy does to all members of a set is told once.
func TestAlteredSetIsOneLine(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, manyKind)
	owner := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "many.example.com/v1", "kind": "Many", "metadata": map[string]any{"name": "red", "namespace": "default", "uid": "1"},
	}}
	v := &View{Normalized: children.NewNormalized(), Types: map[schema.GroupVersionKind]ChildType{podKind: {Resource: pods, IsNamespaced: true}}}
	_, o := converge(k, owner, v, now, func(todo *Comparison) *Changes {
		done := &Changes{}
		for i, s := range todo.Steps {
			stored := s.Wanted.DeepCopy()
			stored.SetUID(types.UID(fmt.Sprint(i)))
			stored.Object["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)["image"] = "mirror/i"
			v.Normalized.Remember(stored, s.Wanted, now.Add(time.Second))
			done.Stored = append(done.Stored, children.Of(s.Resource, stored))
		}
		return done
	})
	require.ErrorContains(t, o.Altered, "; so have 299 others")
	require.Less(t, len(o.Altered.Error()), 300)
}
