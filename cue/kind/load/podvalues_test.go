package load

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/fescue-dev/fescue/cue/kind/check"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/podrules"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// validPod has settings that are valid only because of others.
const validPod = `
metadata:
  labels: {app.kubernetes.io/name: web}
  annotations: {example.com/note: "any text"}
spec:
  hostNetwork: true
  shareProcessNamespace: true
  restartPolicy: Always
  nodeSelector: {disk: ssd}
  hostname: web
  hostAliases: [{ip: 10.0.0.1, hostnames: [db.local]}]
  readinessGates: [{conditionType: example.com/ready}]
  tolerations:
  - {operator: Exists}
  - {key: a, value: b, effect: NoExecute, tolerationSeconds: 60}
  - {key: c, operator: Exists, effect: NoSchedule}
  securityContext:
    runAsUser: 1000
    supplementalGroups: [1, 2]
    seccompProfile: {type: Localhost, localhostProfile: profiles/web.json}
    sysctls: [{name: kernel.shm_rmid_forced, value: "1"}]
  volumes:
  - {name: empty, emptyDir: {medium: Memory, sizeLimit: 1Gi}}
  - {name: config, configMap: {name: config, defaultMode: 420, items: [{key: a, path: b/c, mode: 256}]}}
  - {name: secret, secret: {secretName: s, optional: true}}
  - {name: claim, persistentVolumeClaim: {claimName: data}}
  - name: own
    ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}
  - name: projected
    projected:
      sources:
      - serviceAccountToken: {path: token, audience: a, expirationSeconds: 700}
      - downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}
      - configMap: {name: b, items: [{key: x, path: z}]}
  - {name: node, hostPath: {path: /var/log, type: Directory}}
  - {name: csi, csi: {driver: example.com}}
  - {name: nfs, nfs: {server: a, path: /x}}
  initContainers:
  - name: sidecar
    image: proxy
    restartPolicy: Always
    startupProbe: {grpc: {port: 90}}
    lifecycle: {preStop: {sleep: {seconds: 5}}}
  - {name: setup, image: busybox, command: [sh, -c, "true"]}
  containers:
  - name: web
    image: nginx
    imagePullPolicy: IfNotPresent
    ports: [{name: http, containerPort: 80, hostPort: 80}, {containerPort: 80, protocol: UDP}]
    env:
    - {name: A, value: b}
    - {name: B, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}}
    - {name: C, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}
    - {name: D, valueFrom: {secretKeyRef: {name: s, key: k, optional: true}}}
    - {name: E, valueFrom: {configMapKeyRef: {name: c, key: k}}}
    envFrom: [{prefix: P_, configMapRef: {name: c}}, {secretRef: {name: s}}]
    volumeMounts:
    - {name: node, mountPath: /node, mountPropagation: Bidirectional}
    - {name: config, mountPath: /config, readOnly: true, recursiveReadOnly: IfPossible, subPath: a/b}
    - {name: empty, mountPath: /empty, subPathExpr: $(A)}
    volumeDevices: [{name: claim, devicePath: /dev/x}]
    resources:
      requests: {cpu: 100m, memory: 64Mi, hugepages-2Mi: 4Mi, example.com/gpu: 1}
      limits: {cpu: 200m, memory: 64Mi, hugepages-2Mi: 4Mi, example.com/gpu: 1}
    resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]
    securityContext: {privileged: true, allowPrivilegeEscalation: true, capabilities: {add: [SYS_ADMIN], drop: [ALL]}}
    livenessProbe: {httpGet: {port: http, path: /, httpHeaders: [{name: X-A, value: b}]}, timeoutSeconds: 5}
    readinessProbe: {exec: {command: ["true"]}, periodSeconds: 5}
    startupProbe: {tcpSocket: {port: 80}, terminationGracePeriodSeconds: 5}
    lifecycle: {postStart: {exec: {command: ["true"]}}}
  - name: other
    image: busybox
    restartPolicy: OnFailure
    restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]
    securityContext: {appArmorProfile: {type: Localhost, localhostProfile: a}, seLinuxOptions: {level: "s0"}}
`

// source writes a value as CUE, of which some parts are what objects decide: decides returns how, of a path.
type source struct {
	b       strings.Builder
	decides func(path string) decided
}

type decided int

const (
	alike       decided = iota // for all objects
	read                       // from the object
	conditional                // in an if, which holds for some objects
	either                     // in one of two ifs
)

func (s *source) write(value any, path string) {
	switch value := value.(type) {
	case map[string]any:
		s.b.WriteString("{\n")
		for _, name := range slices.Sorted(maps.Keys(value)) {
			s.part(fmt.Sprintf("%q: ", name), value[name], path+"."+name)
		}
		s.b.WriteString("}")
	case []any:
		s.b.WriteString("[\n")
		for i, item := range value {
			s.part("", item, fmt.Sprintf("%s[%d]", path, i))
			s.b.WriteString(",\n")
		}
		s.b.WriteString("]")
	default:
		text, _ := json.Marshal(value)
		s.b.Write(text)
	}
}

// part writes a field, or an item without a label.
func (s *source) part(label string, value any, path string) {
	switch s.decides(path) {
	case read:
		s.b.WriteString(label + "object.spec.any\n")
	case conditional:
		s.conditional("object.spec.on", label, value, path)
	case either:
		s.conditional("object.spec.on", label, value, path)
		if label == "" {
			s.b.WriteString(",\n")
		}
		s.conditional("!object.spec.on", label, value, path)
	default:
		s.b.WriteString(label)
		s.write(value, path)
		s.b.WriteString("\n")
	}
}

func (s *source) conditional(condition, label string, value any, path string) {
	s.b.WriteString("if " + condition + " {\n" + label)
	s.write(value, path)
	s.b.WriteString("\n}\n")
}

// Whatever part of a valid Pod objects decide, no value in the rest is invalid; and the subdomain that no Pod can have is
// found next to it.
func TestPartsOfValidPods(t *testing.T) {
	t.Parallel()
	var pod corev1.Pod
	var value map[string]any
	require.NoError(t, yaml.UnmarshalStrict([]byte(validPod), &pod))
	require.Empty(t, podrules.ValidatePod(&pod))
	require.NoError(t, yaml.Unmarshal([]byte(validPod), &value))
	var paths []string
	all := source{decides: func(path string) decided { paths = append(paths, path); return alike }}
	all.write(value, "")
	require.Greater(t, len(paths), 200)

	var choices []map[string]decided
	for _, path := range paths {
		for _, how := range []decided{read, conditional, either} {
			choices = append(choices, map[string]decided{path: how})
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		several := make(map[string]decided)
		for range 1 + random.IntN(20) {
			several[paths[random.IntN(len(paths))]] = decided(1 + random.IntN(3))
		}
		choices = append(choices, several)
	}
	known, err := types.New()
	require.NoError(t, err)
	const together = 20
	for some := range slices.Chunk(choices, together) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			s := source{}
			for i, choice := range some {
				s.decides = func(path string) decided { return choice[path] }
				fmt.Fprintf(&s.b, "children: c%d: template: {apiVersion: \"v1\", kind: \"Pod\"}\nchildren: c%d: template: ", i, i)
				s.write(value, "")
				fmt.Fprintf(&s.b, "\nchildren: c%d: template: spec: subdomain: \"b c\"\n", i)
			}
			drafts, err := draftsOf(t, fmt.Sprintf(kindWithPods, s.b.String()))
			require.NoError(t, err)
			found := make(map[string]int)
			for _, err := range check.Behaviour(drafts[0].Kind, drafts[0].Source, known) {
				if err.Check == mistake.InvalidValue {
					found[err.Reason]++
				}
			}
			for i := range some {
				odd := fmt.Sprintf("children.c%d.template.spec.subdomain", i)
				for reason := range found {
					if rest, isOf := strings.CutPrefix(reason, fmt.Sprintf("children.c%d.", i)); isOf && !strings.HasPrefix(reason, odd+": ") {
						t.Errorf("%s, although the Pod is valid for some objects: %v", rest, some[i])
					}
				}
				isFound := slices.ContainsFunc(slices.Collect(maps.Keys(found)), func(reason string) bool { return strings.HasPrefix(reason, odd+": ") })
				if _, isHidden := some[i][".spec"]; !isHidden {
					require.True(t, isFound, "%v", some[i])
				}
			}
		})
	}
}

const kindWithPods = `
package k

import "fescue.dev/cue/contract"

#G: {
	apiVersion!: "example.com/v1"
	kind!:       "G"
	metadata!: {...}
	spec!: {any!: _, on: *false | bool}
}
#GController: contract.#Controller & {
	object!: #G
	observed: _
	names: plural: "gs"
	%s
}
`
