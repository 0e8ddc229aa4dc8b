package behaviour

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind/budget"
)

// What is absent is called as people see it in the objects: the variables of loops are known to the author of
// the kind alone.
func TestAbsentIsNamedByItsSource(t *testing.T) {
	t.Parallel()
	for expression, absent := range map[string]string{
		`object.spec.absent + 1`:                                                          "object.spec.absent",
		`[for p in observed.pods {p.status.phase}]`:                                       "observed.pods[…].status",
		`[for p in observed.pods for c in p.metadata.conditions {c.type}]`:                "observed.pods[…].metadata.conditions",
		`[for n, p in {a: object.spec} {p.absent}]`:                                       "p.absent",
		`[for p in observed.pods let s = p.status {s.phase}]`:                             "observed.pods[…].status",
		`[for p in observed.pods {p["status"]}]`:                                          `observed.pods[…]["status"]`,
		`[for pods in [observed.pods] for p in pods {p.status.phase}]`:                    "pods[…].status",
		`[for k, v in {a: {b: object.spec}} for l, w in v {"\(k)-\(l)-\(w.absent)"}]`:     "v[…].absent",
		`{for p in observed.pods {(p.metadata.name): p.status.phase}}`:                    "observed.pods[…].status",
		`[for p in observed.pods if p.metadata.name == "p1" {p.spec.containers[0].name}]`: "observed.pods[…].spec",
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			_, problem := newOracle(t, packageWith(expression)).program.Run(budget.New("X"), sampleObject(), sampleObserved()).Lookup("out").Data()
			require.NotNil(t, problem)
			require.Equal(t, absent, problem.Absent)
		})
	}
}

// A struct whose constraint cannot be checked while an if waits, or that is unified with what is absent, has the fields that
// are known, as in CUE.
func TestStructThatWaitsHasItsFields(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{`struct.MaxFields(9) & {a: 1, if object.spec.absent {b: 2}}`, `object.spec.absent & {a: 1}`} {
		out := newOracle(t, packageWith(expression)).program.Run(budget.New("X"), sampleObject(), sampleObserved()).Lookup("out")
		_, problem := out.Data()
		require.NotNil(t, problem, expression)
		require.True(t, problem.IsIncomplete, expression)
		require.True(t, out.IsStruct(), expression)
		names, _ := out.Fields()
		require.Equal(t, []string{"a"}, names, expression)
	}
}
