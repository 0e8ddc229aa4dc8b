package inject

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// A part that no Pod can have is an error before any Pod exists.
func TestNewRejects(t *testing.T) {
	t.Parallel()
	for add, want := range map[string]string{
		`{status: {phase: Running}}`:                                            `add.status: Forbidden: only metadata and spec can be added to`,
		`{metadata: {name: a}}`:                                                 `add.metadata.name: Forbidden: only labels and annotations can be added to`,
		`{metadata: {annotations: {fescue.dev/injected: a}}}`:                   `add.metadata.annotations[fescue.dev/injected]: Forbidden: is reserved: it reports what was injected`,
		`{metadata: {labels: {a: 1}}}`:                                          `add: Invalid value: cannot`,
		`{spec: {ephemeralContainers: []}}`:                                     `add.spec.ephemeralContainers: Forbidden: a Pod cannot be created with ephemeral containers`,
		`{spec: {shareProcessNamespace: "yes"}}`:                                `add: Invalid value: unrecognized type: bool`,
		`{spec: {containers: {}}}`:                                              `add: Invalid value: `,
		`{spec: {containers: [{image: a}]}}`:                                    `add.spec.containers[0].name: Required value: identifies the items of the list`,
		`{spec: {containers: [{name: a, image: a}, {name: a}]}}`:                `add.spec.containers[1]: Duplicate value: "a"`,
		`{spec: {containers: [{name: a, env: [{name: b}, {name: b}]}]}}`:        `add.spec.containers[0].env[1]: Duplicate value: "b"`,
		`{spec: {containers: [{name: a, volumeMounts: [{name: b}]}]}}`:          `add.spec.containers[0].volumeMounts[0].mountPath: Required value: identifies the items of the list`,
		`{spec: {volumes: [{emptyDir: {}}], imagePullSecrets: [{name: null}]}}`: `add.spec.imagePullSecrets[0].name: Required value`,
		`{spec: {os: {name: linux}}}`:                                           `add.spec.os: Forbidden: only the Pod itself can set its operating system`,
		`{spec: {volumes: [{name: a, emptyDir: {}, configMap: {name: b}}]}}`:    `add.spec.volumes[0].emptyDir: Forbidden: a volume must have one source, and it already has configMap`,
	} {
		_, err := New(Source{Add: corpus.Object(t, []byte(add))})
		require.ErrorContains(t, err, want, add)
	}
	_, err := New(Source{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}})
	require.EqualError(t, err, `selector: "Like" is not a valid label selector operator`)
}

// No volume of a type that Kubernetes removed can be added, whatever else it says.
func TestNewRejectsRemovedVolumes(t *testing.T) {
	t.Parallel()
	for _, name := range kind.RemovedVolumes {
		add := corpus.Object(t, []byte(`{spec: {volumes: [{name: a, emptyDir: {}}, {name: b, `+name+`: {}}]}}`))
		var known corev1.Pod
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(add, &known, true), "it is a field of core/v1")
		_, err := New(Source{Add: add})
		require.EqualError(t, err, "add.spec.volumes[1]."+name+": Forbidden: "+kind.WhyRemoved)
	}
}

// Adding nothing is not an error, and nulls and empty values add nothing.
func TestNothingToAdd(t *testing.T) {
	t.Parallel()
	for _, add := range []string{`{}`, `{metadata: {labels: {}}, spec: {containers: [], volumes: null, securityContext: {}}}`, `{spec: {containers: [{name: app, env: [], image: null, securityContext: {}}]}}`} {
		injection, err := New(Source{Object: Object{watcherKind, "a"}, Namespace: namespace, Selector: &metav1.LabelSelector{}, Add: corpus.Object(t, []byte(add))})
		require.NoError(t, err)
		result := checked(t, NewInjector("", watcherKinds), []byte(`{"spec":{"containers":[{"name":"app"}]}}`), []*Injection{injection})
		require.Equal(t, Present, result.Outcomes[0].Reason)
		require.JSONEq(t, `{"spec":{"containers":[{"name":"app"}]},"metadata":{"annotations":{"fescue.dev/injected":"{\"Watcher.watch.fescue.dev/a\":{\"generation\":0}}"}}}`, string(result.Pod()))
	}
}
