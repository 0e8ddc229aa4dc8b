package plan

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

const webKind = `
package web

import "fescue.dev/cue/contract"

#Web: {apiVersion!: "web.example.com/v1", kind!: "Web", metadata!: {name!: string, ...}, status?: contract.#Status}
#WebController: contract.#Controller & {
	object!: #Web
	names: plural: "webs"
	children: web: {ready: true, template: {
		apiVersion: "apps/v1", kind: "Deployment"
		spec: {replicas: 1, selector: matchLabels: a: "b", template: metadata: labels: a: "b", template: spec: containers: [{name: "c", image: "nginx", resources: limits: cpu: "1000m"}]}
	}}
}
`

// What a mutating policy has changed is reported, and applied again in time, until the policy is gone.
func TestAlteredChild(t *testing.T) {
	t.Parallel()
	kinds, err := load.All(false, corpus.Folder(t, webKind))
	require.NoError(t, errors.Join(err, kinds.BrokenError()))
	k := kinds.All()[0]
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	owner := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "web.example.com/v1", "kind": "Web", "metadata": map[string]any{"name": "w", "namespace": "default", "uid": "1"},
	}}
	v := &View{
		Types:      map[schema.GroupVersionKind]ChildType{{Group: "apps", Version: "v1", Kind: "Deployment"}: {Resource: deployments, IsNamespaced: true}},
		Normalized: children.NewNormalized(),
	}
	image := "mirror/nginx"
	store := func(s Step, at time.Time) children.Live {
		stored := s.Wanted.DeepCopy()
		stored.SetUID(types.UID("child"))
		containers := []any{map[string]any{"name": "c", "image": image, "resources": map[string]any{"limits": map[string]any{"cpu": "1"}}}}
		require.NoError(t, unstructured.SetNestedSlice(stored.Object, containers, "spec", "template", "spec", "containers"))
		v.Normalized.Remember(stored, s.Wanted, at)
		return children.Of(deployments, stored)
	}
	converge := func(at time.Time, want Verb) *Outcome {
		var verbs []Verb
		p, o := converge(k, owner, v, at, func(todo *Comparison) *Changes {
			done := &Changes{}
			for _, s := range todo.Steps {
				verbs = append(verbs, s.Verb)
				child := store(s, at)
				v.Children, done.Stored = []children.Live{child}, append(done.Stored, child)
			}
			return done
		})
		if want == "" {
			require.Empty(t, verbs)
		} else {
			require.Equal(t, []Verb{want}, verbs)
		}
		status, err := Report(p, o)
		require.NoError(t, err)
		owner.Object["status"] = status
		return o
	}
	message := func() string {
		status, _ := owner.Object["status"].(map[string]any)
		conditions := conditionsOf(status)
		require.Equal(t, metav1.ConditionTrue, meta.FindStatusCondition(conditions, kind.ConditionReady).Status)
		if altered := meta.FindStatusCondition(conditions, kind.ConditionAltered); altered != nil {
			return altered.Message
		}
		return ""
	}

	o := converge(now, Create)
	const altered = `child "web": deployments "w-web" has other values than its template, as after a mutating policy or webhook: spec.template.spec.containers[0].image`
	require.Equal(t, altered, message())
	require.Equal(t, now.Add(alteredRetry), o.WakeAt)
	o = converge(now.Add(time.Minute), "")
	require.Equal(t, now.Add(alteredRetry), o.WakeAt)
	o = converge(now.Add(alteredRetry), Apply)
	require.Equal(t, altered, message())
	require.Equal(t, now.Add(2*alteredRetry), o.WakeAt)

	image = "nginx"
	o = converge(now.Add(2*alteredRetry), Apply)
	require.Empty(t, message())
	require.True(t, o.WakeAt.IsZero())
	converge(now.Add(3*alteredRetry), "")
}
