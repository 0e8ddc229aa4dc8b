package plan

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

func TestInjectedCondition(t *testing.T) {
	t.Parallel()
	const advice = "; running Pods are never changed or restarted, but their replacements get it"
	for name, tc := range map[string]struct {
		uptake                  Uptake
		status, reason, message string
	}{
		"all":      {Uptake{Current: 2}, "True", "InjectedIntoAll", ""},
		"missing":  {Uptake{2, nil, []string{"p"}}, "False", "MissedPods", "1 Pod requests it and does not have it: p" + advice},
		"outdated": {Uptake{0, []string{"p", "q", "r"}, nil}, "False", "OutdatedPods", "3 Pods have it from an older generation: p, q, r" + advice},
		"both": {Uptake{1, []string{"p"}, []string{"q", "r", "s", "t"}}, "False", "MissedPods",
			"4 Pods request it and do not have it: q, r, s, …; 1 Pod has it from an older generation: p" + advice},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, metav1.Condition{Type: "Injected", Status: metav1.ConditionStatus(tc.status), Reason: tc.reason, Message: tc.message}, tc.uptake.condition())
		})
	}
}

// The status schema of a kind decides whether it has the counts; the condition is for all.
// Both exist only while there are Pods that they are about, even for an object about which
// nothing else is known.
func TestReportOfUptake(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind   *kind.Kind
		counts any
	}{
		"with counts":    {enginetest.Shipped(t, "Watcher"), map[string]any{"current": int64(2), "outdated": int64(0), "missing": int64(1)}},
		"without counts": {enginetest.Corpus(t, "inject"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := map[string]any{}
			reportOf := func(projection map[string]any, u Uptake) map[string]any {
				p := &Plan{Kind: tc.kind, Object: &unstructured.Unstructured{Object: object}, At: now, Projection: projection}
				status, err := Report(p, &Outcome{Uptake: u})
				require.NoError(t, err)
				return status
			}
			for _, projection := range []map[string]any{{"seen": "x"}, nil} {
				status := reportOf(projection, Uptake{2, nil, []string{"p"}})
				require.Equal(t, tc.counts, status["injectedPods"])
				require.Equal(t, "Ready", status["conditions"].([]any)[0].(map[string]any)["type"])
				require.Equal(t, "True", status["conditions"].([]any)[0].(map[string]any)["status"])
				require.Equal(t, "Injected", status["conditions"].([]any)[1].(map[string]any)["type"])

				object["status"] = status
				status = reportOf(projection, Uptake{})
				require.NotContains(t, status, "injectedPods")
				require.Len(t, status["conditions"], 1)
			}
		})
	}
}

// An object whose injection cannot be evaluated is stalled, unless something else has
// stalled it before.
func TestBrokenInjectionStalls(t *testing.T) {
	t.Parallel()
	p := Decide(enginetest.Shipped(t, "Customcluster"), customcluster(1, "m"), &View{}, now)
	v := &View{InjectionErr: errors.New("no selector")}
	o := outcomeOf(p, &Comparison{}, &Changes{}, v)
	require.Equal(t, &Problem{reasonEvaluation, "no selector"}, o.Stalled)
	require.Nil(t, p.Stalled, "a plan stays as it was decided")
	o = outcomeOf(p, &Comparison{Obstacles: Obstacles{Rejected: errors.New("first")}}, &Changes{}, v)
	require.Equal(t, &Problem{reasonChild, "first"}, o.Stalled)
}
