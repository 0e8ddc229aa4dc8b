package admission

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

// TestConfigurations compares with testdata/configurations.yaml, which -update rewrites.
func TestConfigurations(t *testing.T) {
	t.Parallel()
	kinds := slices.Concat(kindtest.Shipped(t), kindtest.InCorpus(t, "versions"), kindtest.InCorpus(t, "inject"))
	mutating, validating := Configurations(kinds, Webhooks{
		Service:   &admissionregistrationv1.ServiceReference{Namespace: "fescue-system", Name: "fescue"},
		Namespace: "fescue-system",
		CABundle:  []byte("PEM"),
		User:      "system:serviceaccount:fescue-system:fescue",
	})
	var text strings.Builder
	for _, object := range []any{mutating, validating} {
		text.WriteString("---\n")
		text.Write(corpus.YAML(t, object))
	}
	corpus.Golden(t, filepath.Join("testdata", "configurations.yaml"), text.String())
}

func TestURL(t *testing.T) {
	t.Parallel()
	kinds := slices.DeleteFunc(kindtest.Shipped(t), (*kind.Kind).Injects)
	mutating, validating := Configurations(kinds, Webhooks{URL: "https://192.0.2.1:9443/", Name: "other"})
	require.Equal(t, "other", mutating.Name)
	require.Equal(t, "https://192.0.2.1:9443/default", *mutating.Webhooks[0].ClientConfig.URL)
	require.Equal(t, "https://192.0.2.1:9443/validate", *validating.Webhooks[0].ClientConfig.URL)
	require.Nil(t, mutating.Webhooks[0].ClientConfig.Service)
	require.Len(t, mutating.Webhooks, len(kinds), "without a kind that injects, Pods are left alone")
}

// With namespaces, the API server sends nothing from others.
func TestLimitedToNamespaces(t *testing.T) {
	t.Parallel()
	mutating, validating := Configurations(kindtest.Shipped(t), Webhooks{
		URL: "https://192.0.2.1:9443", Namespaces: []string{"b", "a", "b"},
	})
	selectors := make(map[string]*metav1.LabelSelector)
	for _, webhook := range mutating.Webhooks {
		selectors["mutating "+webhook.Name] = webhook.NamespaceSelector
	}
	for _, webhook := range validating.Webhooks {
		selectors["validating "+webhook.Name] = webhook.NamespaceSelector
	}
	require.Len(t, selectors, 2*len(kindtest.Shipped(t))+3)
	for name, declared := range selectors {
		selector, err := metav1.LabelSelectorAsSelector(declared)
		require.NoError(t, err)
		sent := func(namespace string) bool {
			return selector.Matches(labels.Set{corev1.LabelMetadataName: namespace, SelectionLabel: SelectionEnabled})
		}
		require.True(t, sent("a") && sent("b"), name)
		require.False(t, sent("c"), name)
	}
}

// A Pod is sent to at most one webhook, and only if it can be injected.
func TestWhichPodsAreSent(t *testing.T) {
	t.Parallel()
	const a, b = "a.example.com/inject", "b.example.com/inject"
	const annotatedHook, selectedHook = "annotated.pods.fescue.dev", "selected.pods.fescue.dev"
	asking := map[string]any{a: "x"}
	for name, test := range map[string]struct {
		kinds       []string // by their annotations
		annotations map[string]any
		want        []string // before the namespace is considered
	}{
		"no kind injects":               {nil, asking, nil},
		"may be selected":               {[]string{a}, nil, []string{selectedHook}},
		"with other annotations":        {[]string{a}, map[string]any{"c": "d"}, []string{selectedHook}},
		"opt-in":                        {[]string{a}, asking, []string{annotatedHook}},
		"for the second kind":           {[]string{a, b}, map[string]any{b: ""}, []string{annotatedHook}},
		"mirror":                        {[]string{a}, map[string]any{a: "x", mirrorAnnotation: "y"}, nil},
		"mirror that would be selected": {[]string{a}, map[string]any{mirrorAnnotation: "y"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			webhooks := Webhooks{URL: "https://x"}
			metadata := map[string]any{"name": "a"}
			if test.annotations != nil {
				metadata["annotations"] = test.annotations
			}
			var sent []string
			for _, webhook := range webhooks.Injecting(test.kinds...) {
				if matches(t, webhook.MatchConditions, map[string]any{"metadata": metadata}) {
					sent = append(sent, webhook.Name)
				}
				require.Equal(t, webhook.Name == selectedHook, webhook.NamespaceSelector.MatchLabels[SelectionLabel] == SelectionEnabled)
			}
			require.Equal(t, test.want, sent)
		})
	}
}

// matches evaluates match conditions with CEL, as the API server does.
func matches(t *testing.T, conditions []admissionregistrationv1.MatchCondition, object map[string]any) bool {
	environment, err := cel.NewEnv(cel.Variable("object", cel.DynType))
	require.NoError(t, err)
	all := true
	for _, condition := range conditions {
		ast, issues := environment.Compile(condition.Expression)
		require.NoError(t, issues.Err())
		program, err := environment.Program(ast)
		require.NoError(t, err)
		value, _, err := program.Eval(map[string]any{"object": object})
		require.NoError(t, err)
		all = all && value.Value().(bool)
	}
	return all
}
