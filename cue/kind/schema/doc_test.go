package schema_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

// kindWithSpec returns a kind whose objects have this spec.
func kindWithSpec(tb testing.TB, spec string) *kind.Kind {
	tb.Helper()
	return kindtest.From(tb, `package x

import "fescue.dev/cue/contract"

#X: {
	apiVersion!: "try.example.com/v1"
	kind!:       "X"
	metadata!: {name!: string, ...}
	spec!: #Spec
	status?: contract.#Status
}
#XController: contract.#Controller & {object!: #X, names: plural: "xs"}
#Spec: `+spec+"\n")[0]
}

// One schema, and the four things that come from it: defaults, the validator, the CRD's schema, and who enforces which rule.
func TestWorkedExample(t *testing.T) {
	t.Parallel()
	k := kindWithSpec(t, `{
		name!: =~"^[a-z]+$"
		size: *1 | 2 | 3
		if size == 3 {zone!: string}
	}`)
	object := func(spec map[string]any) map[string]any {
		return map[string]any{"apiVersion": "try.example.com/v1", "kind": "X", "metadata": map[string]any{"name": "x"}, "spec": spec}
	}

	given := object(map[string]any{"name": "a"})
	require.Equal(t, map[string]any{"name": "a", "size": int64(1)}, schema.Default(k.NewBudget(), k.Compiled, given)["spec"])
	require.Equal(t, object(map[string]any{"name": "a"}), given, "what is given stays as it is")

	var problems []string
	for _, p := range schema.Validate(k.NewBudget(), k.Compiled, object(map[string]any{"name": "A", "size": int64(3), "color": "red"})) {
		problems = append(problems, p.Error.Error())
	}
	require.ElementsMatch(t, []string{
		`spec.name: Invalid value: "A": must satisfy =~"^[a-z]+$"`, "spec.zone: Required value: since size == 3", "spec.color: Forbidden: unknown field",
	}, problems)

	crd := k.Schema.Properties["spec"]
	require.Equal(t, "^[a-z]+$", crd.Properties["name"].Pattern)
	require.Equal(t, "1", string(crd.Properties["size"].Default.Raw))
	require.Len(t, crd.Properties["size"].Enum, 3)
	require.Equal(t, "!(self.size == 3) || has(self.zone)", crd.XValidations[0].Rule)

	by := make(map[string]schema.Enforcer)
	for _, e := range k.Enforcement() {
		by[e.Field+": "+e.Words] = e.By
	}
	require.Equal(t, schema.CRDSchema, by[`spec.name: =~"^[a-z]+$"`], "%v", by)
	require.Equal(t, schema.CRDRule, by["spec.zone: zone!"], "%v", by)
}
