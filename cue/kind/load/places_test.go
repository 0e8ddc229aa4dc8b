package load

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/check"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// placesKind is a cluster-scoped kind with BODY as the rest of its behaviour.
const placesKind = `
package k
import "fescue.dev/cue/contract"
#P: {
	apiVersion!: "places.example.com/v1", kind!: "P", metadata!: {name!: string, labels?: [string]: string, ...}
	spec!: {teams: *[] | [...string], on: *false | bool, count: *1 | int32 & >=0}
	status?: {contract.#Status, phase?: "A" | "B", chosen?: string, count?: int32 & >=0}
}
#PController: contract.#Controller & {
	object!: #P
	observed: _
	names: plural: "ps"
	scope: "Cluster"
	scale: {spec: ".spec.count", status: ".status.count"}
	owns: [{apiVersion: "v1", kind: "ConfigMap"}, {apiVersion: "v1", kind: "Secret"}, {apiVersion: "v1", kind: "Namespace"}]
	_shared: template: {apiVersion: "v1", kind: "ConfigMap", metadata: name: "c"}
	BODY
}
`

// checkedDraft loads the first kind of a source whose behaviour has no mistake, with what its check finds out.
func checkedDraft(t *testing.T, text string) Draft {
	t.Helper()
	kinds, err := draftsOf(t, text)
	require.NoError(t, err)
	known, err := types.New()
	require.NoError(t, err)
	require.Empty(t, check.Behaviour(kinds[0].Kind, kinds[0].Source, known))
	return kinds[0]
}

// The namespaces of children are known where they follow from what the author submits. A type of which
// one child's namespace does not, or whether there is one, may be anywhere.
func TestPlaces(t *testing.T) {
	t.Parallel()
	configMap, secret := apischema.GroupKind{Kind: "ConfigMap"}, apischema.GroupKind{Kind: "Secret"}
	child := func(namespace string) string {
		return `{template: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: "c", namespace: ` + namespace + `}}}`
	}
	const fixedSecret = `s: template: {apiVersion: "v1", kind: "Secret", metadata: {name: "s", namespace: "fixed"}}` + "\n"
	for name, test := range map[string]struct {
		body string
		want []string // of ConfigMaps; nil stands for any
	}{
		"none":                      {``, []string{}},
		"the same for all":          {`children: a: ` + child(`"a"`), []string{"a"}},
		"of the spec":               {`children: {for t in object.spec.teams {"c-\(t)": ` + child(`t`) + `}}`, []string{"x", "y"}},
		"of a label":                {`children: a: ` + child(`object.metadata.labels.team`), []string{"red"}},
		"of a label that is absent": {`children: a: ` + child(`object.metadata.labels.other`), []string{}},
		"an if of the spec":         {`children: {if object.spec.on {a: ` + child(`"a"`) + `}, b: ` + child(`"b"`) + `}`, []string{"b"}},
		"all phases": {`initial: "A", phases: {A: {children: a: ` + child(`"a"`) + `, next: [{to: "B", after: "1m"}]}, B: {children: b: ` + child(`"b"`) + `, next: [{to: "A", after: "1m"}]}}
			children: c: ` + child(`"c"`), []string{"c", "a", "b"}},
		"a template that waits": {`children: a: template: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: "c", namespace: "a"}, data: x: observed.s.data.x}`, []string{"a"}},
		"a when":                {`children: a: {when: observed.s != _|_, template: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: "c", namespace: "a"}}}`, []string{"a"}},
		"of shared parts":       {`children: a: _shared & {template: metadata: namespace: "a"}`, []string{"a"}},
		"of a child":            {`children: a: ` + child(`observed.s.metadata.namespace`), nil},
		"a for over what is read": {`reads: all: {apiVersion: "v1", kind: "Namespace", selector: {}}
			children: {for n in observed.all {"c-\(n.metadata.name)": ` + child(`n.metadata.name`) + `}}`, nil},
		"an if of a child":                {`children: {if observed.s != _|_ {a: ` + child(`"a"`) + `}}`, nil},
		"an if around the name":           {`children: a: template: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: "c", if observed.s == _|_ {namespace: "a"}, if observed.s != _|_ {namespace: "b"}}}`, nil},
		"of the status":                   {`children: a: ` + child(`object.status.chosen`), nil},
		"of the number of a scale":        {`children: a: ` + child(`"n-\(object.spec.count)"`), nil},
		"of the UID":                      {`children: a: ` + child(`object.metadata.uid`), nil},
		"by a hidden field":               {`_at: *object.status.chosen | "a", children: a: ` + child(`_at`), nil},
		"by a let":                        {`children: {let at = observed.s.metadata.name, a: ` + child(`at`) + `}`, nil},
		"an if around all of them":        {`if object.status.chosen == _|_ {children: a: ` + child(`"a"`) + `}`, nil},
		"of the cluster, for all we know": {`children: a: template: {apiVersion: "x.example.com/v1", kind: "Issuer", metadata: name: "c"}`, []string{}},
		"by a builtin":                    {`children: a: ` + child(`"n\(len([for x in [1] if observed.s != _|_ {x}]))"`), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := test.body
			if strings.Contains(body, "children: {") {
				body = strings.Replace(body, "children: {", "children: {"+fixedSecret, 1)
			} else {
				body += "\nchildren: " + fixedSecret
			}
			k := checkedDraft(t, strings.Replace(placesKind, "BODY", body, 1))
			checked := k.Check(k.NewBudget(), map[string]any{
				"apiVersion": "places.example.com/v1", "kind": "P",
				"metadata": map[string]any{"name": "p", "uid": "u", "labels": map[string]any{"team": "red"}},
				"spec":     map[string]any{"teams": []any{"x", "y", "x"}},
				"status":   map[string]any{"chosen": "kube-system"},
			})
			require.Empty(t, checked.Errors)
			places, err := k.PlacesOf(k.NewBudget(), checked.Object)
			require.NoError(t, err)
			require.Equal(t, []string{"fixed"}, places[secret])
			if issuer := (apischema.GroupVersionKind{Group: "x.example.com", Version: "v1", Kind: "Issuer"}); slices.Contains(k.Owns, issuer) {
				require.True(t, places.Has(issuer.GroupKind(), ""))
			}
			if test.want == nil {
				test.want = []string{""}
			}
			require.ElementsMatch(t, test.want, places[configMap])
		})
	}
}

// The children of a namespaced object are in its namespace, except for types with a child elsewhere.
func TestPlacesOfNamespacedObjects(t *testing.T) {
	t.Parallel()
	const text = `
package k
import "fescue.dev/cue/contract"
#P: {
	apiVersion!: "places.example.com/v1", kind!: "P", metadata!: {name!: string, namespace?: string, ...}
	spec!: {team!: string}
	status?: contract.#Status
}
#PController: contract.#Controller & {
	object!: #P
	observed: _
	names: plural: "ps"
	children: {
		own: template: {apiVersion: "v1", kind: "Secret", metadata: namespace: object.metadata.namespace}
		here: template: {apiVersion: "v1", kind: "ConfigMap"}
		there: template: {apiVersion: "v1", kind: "ConfigMap", metadata: namespace: object.spec.team}
		anywhere: template: {apiVersion: "v1", kind: "Service", metadata: namespace: observed.here.data.team}
		role: template: {apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRole"}
	}
}
`
	k := checkedDraft(t, text)
	require.Len(t, k.Elsewhere, 3)
	require.True(t, k.IsHeld())
	places, err := k.PlacesOf(k.NewBudget(), map[string]any{
		"apiVersion": "places.example.com/v1", "kind": "P", "metadata": map[string]any{"name": "p", "namespace": "own"}, "spec": map[string]any{"team": "red"},
	})
	require.NoError(t, err)
	secret, configMap, service := apischema.GroupKind{Kind: "Secret"}, apischema.GroupKind{Kind: "ConfigMap"}, apischema.GroupKind{Kind: "Service"}
	role := apischema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}
	require.Equal(t, kind.Places{secret: {"own"}, configMap: {"own", "red"}, service: {""}, role: {""}}, places)
	require.Equal(t, kind.Places{secret: {"own"}, configMap: {""}, service: {""}, role: {""}}, k.AnyPlaces("own"))
	require.True(t, places.Has(service, "kube-system"))
	require.False(t, places.Has(configMap, "kube-system"))
}

// Children of one type in two versions may be where those of either may be.
func TestPlacesOfTwoVersions(t *testing.T) {
	t.Parallel()
	scaler := apischema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}
	for namespace, want := range map[string][]string{"object.spec.at": {"own", "red"}, "observed.b.metadata.name": {"own", ""}} {
		k := checkedDraft(t, strings.ReplaceAll(`
package k
import "fescue.dev/cue/contract"
#P: {
	apiVersion!: "places.example.com/v1", kind!: "P", metadata!: {name!: string, namespace?: string, ...}
	spec!: {at!: string}
	status?: contract.#Status
}
#PController: contract.#Controller & {
	object!: #P
	observed: _
	names: plural: "ps"
	_to: spec: {scaleTargetRef: {kind: "Deployment", name: "a"}, maxReplicas: 2}
	children: {
		a: template: {_to, apiVersion: "autoscaling/v1", kind: "HorizontalPodAutoscaler", metadata: namespace: AT}
		b: template: {_to, apiVersion: "autoscaling/v2", kind: "HorizontalPodAutoscaler"}
	}
}
`, "AT", namespace))
		places, err := k.PlacesOf(k.NewBudget(), map[string]any{
			"apiVersion": "places.example.com/v1", "kind": "P", "metadata": map[string]any{"name": "p", "namespace": "own"}, "spec": map[string]any{"at": "red"},
		})
		require.NoError(t, err)
		require.ElementsMatch(t, want, places[scaler])
		require.True(t, k.AnyPlaces("own").Has(scaler, "kube-system"))
	}
}
