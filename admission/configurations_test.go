package admission

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestConfigurations compares with testdata/configurations.yaml, which -update rewrites.
func TestConfigurations(t *testing.T) {
	t.Parallel()
	kinds := append(shippedKinds(t), corpusKinds(t, "versions.txtar")...)
	mutating, validating := Configurations(kinds, Webhooks{
		Service:    &admissionregistrationv1.ServiceReference{Namespace: "fescue-system", Name: "fescue"},
		Namespace:  "fescue-system",
		CABundle:   []byte("PEM"),
		Injections: Injections{{Group: "a", Kind: "A"}: {Annotation: "b.example.com/inject"}, {Group: "b", Kind: "B"}: {Annotation: "a.example.com/inject", BySelector: true}},
	})
	var text []byte
	for _, object := range []any{mutating, validating} {
		document, err := yaml.Marshal(object)
		require.NoError(t, err)
		text = append(append(text, "---\n"...), document...)
	}
	golden := filepath.Join("testdata", "configurations.yaml")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o700))
		require.NoError(t, os.WriteFile(golden, text, 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), string(text))
}

func TestURL(t *testing.T) {
	t.Parallel()
	mutating, validating := Configurations(shippedKinds(t), Webhooks{URL: "https://192.0.2.1:9443/", Name: "other"})
	require.Equal(t, "other", mutating.Name)
	require.Equal(t, "https://192.0.2.1:9443/default", *mutating.Webhooks[0].ClientConfig.URL)
	require.Equal(t, "https://192.0.2.1:9443/validate", *validating.Webhooks[0].ClientConfig.URL)
	require.Nil(t, mutating.Webhooks[0].ClientConfig.Service)
	require.Len(t, mutating.Webhooks, len(shippedKinds(t)), "nothing is said to inject, so that Pods are left alone")
}

// With namespaces, nothing outside of them comes.
func TestLimitedToNamespaces(t *testing.T) {
	t.Parallel()
	mutating, validating := Configurations(shippedKinds(t), Webhooks{
		URL: "https://192.0.2.1:9443", Namespaces: []string{"b", "a", "b"},
		Injections: Injections{{Group: "a", Kind: "A"}: {Annotation: "a.example.com/inject", BySelector: true}},
	})
	selectors := make(map[string]*metav1.LabelSelector)
	for _, webhook := range mutating.Webhooks {
		selectors["mutating "+webhook.Name] = webhook.NamespaceSelector
	}
	for _, webhook := range validating.Webhooks {
		selectors["validating "+webhook.Name] = webhook.NamespaceSelector
	}
	require.Len(t, selectors, 2*len(shippedKinds(t))+2)
	for name, declared := range selectors {
		selector, err := metav1.LabelSelectorAsSelector(declared)
		require.NoError(t, err)
		comes := func(namespace string) bool {
			return selector.Matches(labels.Set{corev1.LabelMetadataName: namespace, SelectionLabel: SelectionEnabled})
		}
		require.True(t, comes("a") && comes("b"), name)
		require.False(t, comes("c"), name)
	}
}

// A Pod comes to at most one webhook, and only if it can be injected.
func TestWhichPodsCome(t *testing.T) {
	t.Parallel()
	annotated := Injection{Annotation: "a.example.com/inject"}
	second := Injection{Annotation: "b.example.com/inject"}
	selecting := Injection{Annotation: "a.example.com/inject", BySelector: true}
	onlySelecting := Injection{BySelector: true}
	const annotatedHook, selectedHook = "annotated.pods.fescue.dev", "selected.pods.fescue.dev"
	asking := map[string]any{"a.example.com/inject": "x"}
	for name, test := range map[string]struct {
		injections  []Injection
		annotations map[string]any
		want        []string // before the namespace is looked at
	}{
		"no opt-in":                     {[]Injection{annotated}, nil, nil},
		"others":                        {[]Injection{annotated}, map[string]any{"c": "d"}, nil},
		"opt-in":                        {[]Injection{annotated}, asking, []string{annotatedHook}},
		"for the second kind":           {[]Injection{annotated, second}, map[string]any{"b.example.com/inject": ""}, []string{annotatedHook}},
		"mirror":                        {[]Injection{annotated}, map[string]any{"a.example.com/inject": "x", mirrorAnnotation: "y"}, nil},
		"may be selected":               {[]Injection{selecting}, nil, []string{selectedHook}},
		"may be selected as well":       {[]Injection{selecting}, asking, []string{annotatedHook}},
		"mirror that would be selected": {[]Injection{selecting}, map[string]any{mirrorAnnotation: "y"}, nil},
		"can only be selected":          {[]Injection{onlySelecting}, asking, []string{selectedHook}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			injections := make(Injections)
			for i, injection := range test.injections {
				injections[schema.GroupKind{Group: "example.com", Kind: string(rune('A' + i))}] = injection
			}
			mutating, _ := Configurations(nil, Webhooks{URL: "https://x", Injections: injections})
			metadata := map[string]any{"name": "a"}
			if test.annotations != nil {
				metadata["annotations"] = test.annotations
			}
			var come []string
			for _, webhook := range mutating.Webhooks {
				if matches(t, webhook.MatchConditions, map[string]any{"metadata": metadata}) {
					come = append(come, webhook.Name)
				}
				require.Equal(t, webhook.Name == selectedHook, webhook.NamespaceSelector.MatchLabels[SelectionLabel] == SelectionEnabled)
			}
			require.Equal(t, test.want, come)
		})
	}
}

// matches evaluates match conditions by CEL, as the API server does.
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
