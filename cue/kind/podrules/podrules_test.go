package podrules

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// podOf reads a Pod.
func podOf(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), pod))
	return pod
}

// What no Pod can have is an error of a part, with its place. TestAcceptedWatchersKeepPodsValid asks an API server about thousands of
// parts.
func TestPart(t *testing.T) {
	t.Parallel()
	for part, want := range map[string]string{
		`{metadata: {labels: {a: "b c"}}}`:                                                               "metadata.labels: Invalid value",
		`{spec: {containers: [{name: A, image: i}]}}`:                                                    "spec.containers[0].name: Invalid value",
		`{spec: {containers: [{name: a, image: " i"}]}}`:                                                 "spec.containers[0].image: Invalid value",
		`{spec: {containers: [{name: a, image: i, imagePullPolicy: Often}]}}`:                            "spec.containers[0].imagePullPolicy: Unsupported value",
		`{spec: {containers: [{name: a, image: i, ports: [{containerPort: 0}]}]}}`:                       "spec.containers[0].ports[0].containerPort: Invalid value",
		`{spec: {containers: [{name: a, image: i, envFrom: [{prefix: b}]}]}}`:                            "spec.containers[0].envFrom[0]: Invalid value",
		`{spec: {containers: [{name: a, image: i, livenessProbe: {}}]}}`:                                 "spec.containers[0].livenessProbe: Required value",
		`{spec: {initContainers: [{name: a, image: i, lifecycle: {}}]}}`:                                 "spec.initContainers[0].lifecycle: Forbidden",
		`{spec: {volumes: [{name: a, emptyDir: {}, configMap: {name: b}}]}}`:                             "spec.volumes[0].emptyDir: Forbidden",
		`{spec: {volumes: [{name: a, secret: {secretName: b, defaultMode: 512}}]}}`:                      "spec.volumes[0].secret.defaultMode: Invalid value",
		`{spec: {containers: [{name: a, image: i, securityContext: {runAsUser: -1}}]}}`:                  "spec.containers[0].securityContext.runAsUser: Invalid value",
		`{spec: {containers: [{name: a, image: i, resources: {requests: {cpu: 2}, limits: {cpu: 1}}}]}}`: "spec.containers[0].resources.requests[cpu]: Invalid value",
		`{spec: {containers: [{name: a, image: i, resources: {limits: {hugepages-2Mi: 2Mi}}}]}}`:         "spec.containers[0].resources: Forbidden",
	} {
		errs := ValidatePart(podOf(t, part), nil)
		require.NotEmpty(t, errs, part)
		require.ErrorContains(t, errs.ToAggregate(), want, part)
	}
}

// A part is an error only if every Pod is one with it: the Pod may have what is missing. A Pod has no such excuse.
func TestWhatAPodMayHave(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		part, pod string
		want      string // of the Pod
	}{
		"a container without an image": {
			`{spec: {containers: [{name: a}]}}`,
			`{spec: {containers: [{name: a}]}}`,
			"spec.containers[a].image: Required value",
		},
		"a limit of its own": {
			`{spec: {containers: [{name: a, resources: {requests: {example.com/gpu: 1}}}]}}`,
			`{spec: {containers: [{name: a, image: i, resources: {requests: {example.com/gpu: 1}}}]}}`,
			"spec.containers[a].resources.requests[example.com/gpu]: Invalid value",
		},
		"user namespaces": {
			`{spec: {containers: [{name: a, image: i, securityContext: {procMount: Unmasked}}]}}`,
			`{spec: {containers: [{name: a, image: i, securityContext: {procMount: Unmasked}}]}}`,
			"spec.containers[a].securityContext.procMount: Invalid value",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, ValidatePart(podOf(t, tc.part), field.NewPath("add")))
			require.True(t, DependsOnPod(podOf(t, tc.part)), "ValidatePod would never be asked")
			require.ErrorContains(t, ValidatePod(podOf(t, tc.pod)).ToAggregate(), tc.want)
		})
	}
}

// Of what depends on no Pod, only the part is read; a Pod with it is as valid as without.
func TestDependsOnNoPod(t *testing.T) {
	t.Parallel()
	part := podOf(t, `{metadata: {labels: {a: b}}, spec: {volumes: [{name: v, emptyDir: {}}], containers: [{name: a, image: i, ports: [{containerPort: 80}]}]}}`)
	require.Empty(t, ValidatePart(part, nil))
	require.False(t, DependsOnPod(part))
	require.Empty(t, ValidatePod(part))
}
