package admission

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/inject"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

// A review validates each of its objects once and evaluates the behaviour of the new one once,
// however many checks need the result.
func TestOneReviewComputesEverythingOnce(t *testing.T) {
	t.Parallel()
	kinds := kindtest.Shipped(t)
	watcher := kindtest.Named(t, kinds, "Watcher")
	rights := NewRights(&reviewer{allowed: map[string][]string{"ada": {"configmaps", "pods"}}}, noTypes(), kinds)
	podSecurity, err := NewPodSecurity(func(context.Context, string) (map[string]string, error) {
		return map[string]string{"pod-security.kubernetes.io/enforce": "baseline"}, nil
	}, false)
	require.NoError(t, err)
	of := func(metadata, spec string) string {
		return `{"apiVersion":"watch.fescue.dev/v1alpha1","kind":"Watcher","metadata":{` + metadata + `},"spec":{"container":{"name":"a",` + spec + `}}}`
	}
	const (
		badSelector = `"image":"a"},"selector":{"matchExpressions":[{"key":"a","operator":"In"}]`
		privileged  = `"image":"a","securityContext":{"privileged":true}`
	)
	image := func(name string) string { return `"image":"` + name + `"` }
	for name, test := range map[string]struct {
		object, old        string
		rejected           bool
		checked, evaluated int
	}{
		"create":                           {object: of(`"name":"a"`, image("a")), checked: 1, evaluated: 1},
		"create with generateName":         {object: of(`"generateName":"a-"`, image("a")), checked: 1, evaluated: 1},
		"create an invalid one":            {object: of(`"name":"a"`, `"image":1`), rejected: true, checked: 1},
		"create a privileged one":          {object: of(`"name":"a"`, privileged), rejected: true, checked: 1, evaluated: 1},
		"update":                           {object: of(`"name":"a"`, image("b")), old: of(`"name":"a"`, image("a")), checked: 2, evaluated: 1},
		"update a label":                   {object: of(`"name":"a","labels":{"a":"b"}`, image("a")), old: of(`"name":"a"`, image("a")), checked: 2},
		"update to an invalid one":         {object: of(`"name":"a"`, `"image":1`), old: of(`"name":"a"`, image("a")), rejected: true, checked: 2},
		"update to an invalid injection":   {object: of(`"name":"a"`, badSelector), old: of(`"name":"a"`, image("a")), rejected: true, checked: 2, evaluated: 2},
		"update one that stays invalid":    {object: of(`"name":"a","labels":{"a":"b"}`, `"image":1`), old: of(`"name":"a"`, `"image":1`), checked: 2},
		"update one that stays privileged": {object: of(`"name":"a"`, privileged+`,"command":["b"]`), old: of(`"name":"a"`, privileged), rejected: true, checked: 2, evaluated: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := newObjects(kinds, rights, podSecurity)
			checked, evaluated := 0, 0
			objects.check = func(k *kind.Kind, b *kind.Budget, object map[string]any) *kind.Checked {
				checked++
				return k.Check(b, object)
			}
			objects.evaluate = func(b *kind.Budget, k *kind.Kind, object map[string]any) *inject.Evaluation {
				evaluated++
				return inject.Evaluate(b, k, object)
			}
			request := requestFor(t, watcher, test.object, test.old)
			response, err := objects.setDefaults(t.Context(), request)
			require.NoError(t, err)
			require.Equal(t, 1, checked, "to set the defaults")
			require.Zero(t, evaluated, "to set the defaults")
			if response.Patch != nil { // as the API server does before validation
				patch, err := jsonpatch.DecodePatch(response.Patch)
				require.NoError(t, err)
				request.Object.Raw, err = patch.Apply(request.Object.Raw)
				require.NoError(t, err)
			}

			checked = 0
			response, err = objects.validate(t.Context(), request)
			require.NoError(t, err)
			require.Equal(t, test.rejected, !response.Allowed, "%v", response.Result)
			require.Equal(t, test.checked, checked, "validations")
			require.Equal(t, test.evaluated, evaluated, "evaluations")
		})
	}
}
