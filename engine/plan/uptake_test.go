package engine

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
)

var agentKind = schema.GroupKind{Group: "inject.example.com", Kind: "Agent"}

const (
	askAnnotation      = "inject.example.com/Agents"
	injectedAnnotation = "injected"
)

// known stands for engine/inject. What was injected is JSON by the names of Agents.
var known = &Injections{
	Annotation: injectedAnnotation,
	Injected: func(annotations map[string]string) map[InjectedObject]int64 {
		var byName map[string]int64
		_ = json.Unmarshal([]byte(annotations[injectedAnnotation]), &byName)
		injected := make(map[InjectedObject]int64)
		for name, generation := range byName {
			injected[InjectedObject{agentKind, name}] = generation
		}
		return injected
	},
	Names: func(annotation string) []string { return strings.Fields(annotation) },
	Selector: func(k *kind.Kind, object map[string]any) (labels.Selector, error) {
		injection, err := k.Injection(object)
		if err != nil || injection.Selector == nil {
			return nil, err
		}
		return metav1.LabelSelectorAsSelector(injection.Selector)
	},
}

// agentPod is a Pod that names Agents and has parts of some; each may be empty.
func agentPod(name, asks, has string) *metav1.PartialObjectMetadata {
	pod := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, Annotations: map[string]string{}}}
	if asks != "" {
		pod.Annotations[askAnnotation] = asks
	}
	if has != "" {
		pod.Annotations[injectedAnnotation] = has
	}
	return pod
}

func labelled(pod *metav1.PartialObjectMetadata, key, value string) *metav1.PartialObjectMetadata {
	metav1.SetMetaDataLabel(&pod.ObjectMeta, key, value)
	return pod
}

func going(pod *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	pod.DeletionTimestamp = new(metav1.Now())
	return pod
}

func TestCountUptake(t *testing.T) {
	t.Parallel()
	app := labels.SelectorFromSet(labels.Set{"app": "web"})
	mirror := agentPod("p", "a", "")
	mirror.Annotations["kubernetes.io/config.mirror"] = "x"
	for name, tc := range map[string]struct {
		selector labels.Selector
		pods     []*metav1.PartialObjectMetadata
		want     uptake
	}{
		"none":               {want: uptake{}},
		"of no concern":      {pods: []*metav1.PartialObjectMetadata{agentPod("p", "", ""), agentPod("q", "b", `{"b":3}`)}},
		"present":            {pods: []*metav1.PartialObjectMetadata{agentPod("p", "a", `{"a":3}`)}, want: uptake{current: 1}},
		"older":              {pods: []*metav1.PartialObjectMetadata{agentPod("p", "a", `{"a":2}`)}, want: uptake{outdated: []string{"p"}}},
		"of a predecessor":   {pods: []*metav1.PartialObjectMetadata{agentPod("p", "a", `{"a":7}`)}, want: uptake{outdated: []string{"p"}}},
		"injected offline":   {pods: []*metav1.PartialObjectMetadata{agentPod("p", "a", `{"a":0}`)}, want: uptake{outdated: []string{"p"}}},
		"asks no more":       {pods: []*metav1.PartialObjectMetadata{agentPod("p", "", `{"a":3}`)}, want: uptake{current: 1}},
		"named":              {pods: []*metav1.PartialObjectMetadata{agentPod("p", "b a", `{"b":3}`)}, want: uptake{missing: []string{"p"}}},
		"unreadable":         {pods: []*metav1.PartialObjectMetadata{agentPod("p", "a", `[`)}, want: uptake{missing: []string{"p"}}},
		"selected":           {app, []*metav1.PartialObjectMetadata{labelled(agentPod("p", "", ""), "app", "web")}, uptake{missing: []string{"p"}}},
		"not selected":       {app, []*metav1.PartialObjectMetadata{labelled(agentPod("p", "", ""), "app", "db")}, uptake{}},
		"selected and has":   {app, []*metav1.PartialObjectMetadata{labelled(agentPod("p", "", `{"a":3}`), "app", "web")}, uptake{current: 1}},
		"all are selected":   {labels.Everything(), []*metav1.PartialObjectMetadata{agentPod("p", "", "")}, uptake{missing: []string{"p"}}},
		"being deleted":      {pods: []*metav1.PartialObjectMetadata{going(agentPod("p", "a", "")), going(agentPod("q", "a", `{"a":3}`)), going(agentPod("r", "a", `{"a":2}`))}},
		"mirror of a static": {labels.Everything(), []*metav1.PartialObjectMetadata{mirror}, uptake{}},
		"sorted": {pods: []*metav1.PartialObjectMetadata{agentPod("s", "a", ""), agentPod("q", "a", `{"a":1}`), agentPod("r", "a", ""), agentPod("p", "a", `{"a":2}`)},
			want: uptake{outdated: []string{"p", "q"}, missing: []string{"r", "s"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := injecting{InjectedObject{agentKind, "a"}, 3, askAnnotation, tc.selector}
			require.Equal(t, tc.want, countUptake(object, tc.pods, known))
		})
	}
}

func TestInjectedCondition(t *testing.T) {
	t.Parallel()
	const advice = "; running Pods are never changed or restarted: what replaces them gets it"
	for name, tc := range map[string]struct {
		uptake                  uptake
		status, reason, message string
	}{
		"all":      {uptake{current: 2}, "True", "InjectedIntoAll", ""},
		"missing":  {uptake{2, nil, []string{"p"}}, "False", "MissedPods", "1 Pod asks for it and has nothing of it: p" + advice},
		"outdated": {uptake{0, []string{"p", "q", "r"}, nil}, "False", "OutdatedPods", "3 Pods have it from an older generation: p, q, r" + advice},
		"both": {uptake{1, []string{"p"}, []string{"q", "r", "s", "t"}}, "False", "MissedPods",
			"4 Pods ask for it and have nothing of it: q, r, s, …; 1 Pod has it from an older generation: p" + advice},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, metav1.Condition{Type: "Injected", Status: metav1.ConditionStatus(tc.status), Reason: tc.reason, Message: tc.message}, tc.uptake.condition())
		})
	}
}

func shippedWatcher(t *testing.T) *kind.Kind {
	kinds, err := kind.Shipped()
	require.NoError(t, err)
	return kinds[slices.IndexFunc(kinds, func(k *kind.Kind) bool { return k.GroupVersionKind.Kind == "Watcher" })]
}

// A kind says by its status schema whether it wants the counts; the condition is for all.
// Both are there only while there are Pods that they are about, also for an object of
// which nothing else can be said.
func TestReportOfUptake(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind   *kind.Kind
		counts any
	}{
		"with counts":    {shippedWatcher(t), map[string]any{"current": int64(2), "outdated": int64(0), "missing": int64(1)}},
		"without counts": {corpusKind(t, "inject"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := map[string]any{}
			reportOf := func(p *plan) map[string]any {
				status, err := report(tc.kind, object, 1, p, now)
				require.NoError(t, err)
				return status
			}
			for _, projection := range []map[string]any{{"seen": "x"}, nil} {
				status := reportOf(&plan{projection: projection, uptake: uptake{2, nil, []string{"p"}}})
				require.Equal(t, tc.counts, status["injectedPods"])
				require.Equal(t, "Ready", status["conditions"].([]any)[0].(map[string]any)["type"])
				require.Equal(t, "True", status["conditions"].([]any)[0].(map[string]any)["status"])
				require.Equal(t, "Injected", status["conditions"].([]any)[1].(map[string]any)["type"])

				object["status"] = status
				status = reportOf(&plan{projection: projection})
				require.NotContains(t, status, "injectedPods")
				require.Len(t, status["conditions"], 1)
			}
		})
	}
}
