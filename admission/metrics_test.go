package admission

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/inject"
)

func TestReviewsAreCountedByOutcome(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewRegistry()
	k := fence(t)
	server := serve(t, Config{Kinds: []*kind.Kind{k}, Metrics: metrics, Injector: injectorFunc(func(context.Context, *admissionv1.AdmissionRequest) ([]byte, []string, error) {
		panic("boom")
	})})
	const green = `{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"name":"a"},"spec":{}}`
	const wrong = `{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"name":"a"},"spec":{"colour":"red"}}`
	for _, request := range []struct {
		path, object string
		code         int
	}{
		{DefaultPath, green, http.StatusOK},
		{DefaultPath, wrong, http.StatusOK},
		{ValidatePath, green, http.StatusOK},
		{ValidatePath, wrong, http.StatusOK},
		{ValidatePath, "1", http.StatusBadRequest},
		{InjectPath, green, http.StatusInternalServerError},
	} {
		code, _ := server.post(t, request.path, reviewOf(t, requestFor(t, k, request.object, "")))
		require.Equal(t, request.code, code, "%v", request)
	}
	requireMetrics(t, metrics, `
# HELP fescue_admission_reviews_total Reviews (admission and conversion) by outcome.
# TYPE fescue_admission_reviews_total counter
fescue_admission_reviews_total{outcome="allowed",webhook="/default"} 1
fescue_admission_reviews_total{outcome="allowed",webhook="/inject"} 0
fescue_admission_reviews_total{outcome="allowed",webhook="/validate"} 1
fescue_admission_reviews_total{outcome="failed",webhook="/default"} 0
fescue_admission_reviews_total{outcome="failed",webhook="/inject"} 1
fescue_admission_reviews_total{outcome="failed",webhook="/validate"} 1
fescue_admission_reviews_total{outcome="patched",webhook="/default"} 1
fescue_admission_reviews_total{outcome="patched",webhook="/inject"} 0
fescue_admission_reviews_total{outcome="patched",webhook="/validate"} 0
fescue_admission_reviews_total{outcome="rejected",webhook="/default"} 0
fescue_admission_reviews_total{outcome="rejected",webhook="/inject"} 0
fescue_admission_reviews_total{outcome="rejected",webhook="/validate"} 1
`, "fescue_admission_reviews_total")
}

// The names in an annotation do not become labels of metrics.
func TestInjectionsAreCountedByReason(t *testing.T) {
	t.Parallel()
	p, _ := runPods(t, nil, typicalWatcher(t))
	metrics := prometheus.NewRegistry()
	require.NoError(t, p.metrics.register(metrics))
	_, _, err := p.Inject(t.Context(), typicalPod(t))
	require.NoError(t, err)
	tried := typicalPod(t)
	tried.DryRun = new(true)
	_, _, err = p.Inject(t.Context(), tried)
	require.NoError(t, err)
	elsewhere := typicalPod(t)
	elsewhere.Namespace = "other"
	elsewhere.Object.Raw = []byte(`{"metadata":{"annotations":{"watch.fescue.dev/inject":"a,b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	_, _, err = p.Inject(t.Context(), elsewhere)
	require.NoError(t, err)
	elsewhere.Namespace = "kube-system"
	_, _, err = p.Inject(t.Context(), elsewhere)
	require.NoError(t, err)
	requireMetrics(t, metrics, `
# HELP fescue_injection_skips_total Injections that Pods asked for and did not get, by reason.
# TYPE fescue_injection_skips_total counter
fescue_injection_skips_total{controller="watchers.watch.fescue.dev",reason="Conflict"} 0
fescue_injection_skips_total{controller="watchers.watch.fescue.dev",reason="ExcludedNamespace"} 2
fescue_injection_skips_total{controller="watchers.watch.fescue.dev",reason="Forbidden"} 0
fescue_injection_skips_total{controller="watchers.watch.fescue.dev",reason="Incomplete"} 0
fescue_injection_skips_total{controller="watchers.watch.fescue.dev",reason="Invalid"} 0
fescue_injection_skips_total{controller="watchers.watch.fescue.dev",reason="MirrorPod"} 0
fescue_injection_skips_total{controller="watchers.watch.fescue.dev",reason="NotFound"} 2
fescue_injection_skips_total{controller="watchers.watch.fescue.dev",reason="PodSecurity"} 0
fescue_injection_skips_total{controller="watchers.watch.fescue.dev",reason="Present"} 0
fescue_injection_skips_total{controller="watchers.watch.fescue.dev",reason="Stalled"} 0
fescue_injection_skips_total{controller="watchers.watch.fescue.dev",reason="TooLarge"} 0
fescue_injection_skips_total{controller="watchers.watch.fescue.dev",reason="TooMany"} 0
fescue_injection_skips_total{controller="watchers.watch.fescue.dev",reason="Unavailable"} 0
# HELP fescue_injections_total Injections of one object into one Pod.
# TYPE fescue_injections_total counter
fescue_injections_total{controller="watchers.watch.fescue.dev"} 1
`)
}

// Every reason of package inject has its series from the start.
func TestSkipReasonsAreAll(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "../engine/inject/status.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	var declared []string
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "Reason" {
				declared = append(declared, strings.Trim(spec.Values[0].(*ast.BasicLit).Value, `"`))
			}
		}
		return true
	})
	listed := []string{string(inject.Injected)}
	for _, reason := range inject.SkipReasons {
		listed = append(listed, string(reason))
	}
	require.ElementsMatch(t, declared, listed)
}
