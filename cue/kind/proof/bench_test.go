package proof

import (
	"testing"

	"github.com/stretchr/testify/require"
	structuralpruning "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// benchmarked returns valid objects of the shipped kinds.
func benchmarked(tb testing.TB) []struct {
	load.Draft
	object map[string]any
} {
	return []struct {
		load.Draft
		object map[string]any
	}{
		{shippedKind(tb, "At"), at},
		{shippedKind(tb, "Watcher"), fullWatcher(tb)},
	}
}

func BenchmarkLoadShipped(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, err := load.ShippedDrafts()
		require.NoError(b, err)
	}
}

// BenchmarkCompiled measures what a reconcile and an admission request use.
func BenchmarkCompiled(b *testing.B) {
	for _, bm := range benchmarked(b) {
		b.Run(bm.Names.Kind, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if errs := bm.Check(bm.NewBudget(), bm.object).Errors; len(errs) > 0 {
					b.Fatal(errs)
				}
			}
		})
	}
}

// BenchmarkAPIServerLibrary does what the API server does with the kind's CRD, without CEL.
// It changes the object: "copied" counts the copy that is needed before, and
// "in-place" works again and again on one that is defaulted already, in its favour.
func BenchmarkAPIServerLibrary(b *testing.B) {
	for _, bm := range benchmarked(b) {
		crd, err := newCRDOracle(bm.Schema)
		require.NoError(b, err)
		crd.cel = nil
		b.Run(bm.Names.Kind+"/copied", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, errs := crd.admit(bm.object); len(errs) > 0 {
					b.Fatal(errs)
				}
			}
		})
		b.Run(bm.Names.Kind+"/in-place", func(b *testing.B) {
			stored := runtime.DeepCopyJSON(bm.object)
			b.ReportAllocs()
			for b.Loop() {
				if errs := crd.admitInPlace(stored); len(errs) > 0 {
					b.Fatal(errs)
				}
			}
		})
	}
}

// BenchmarkEvaluator does the same with CUE's evaluator.
func BenchmarkEvaluator(b *testing.B) {
	for _, bm := range benchmarked(b) {
		b.Run(bm.Names.Kind, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if e := load.Evaluate(bm.Source, bm.Version, bm.object); e.Rejected != nil || e.Err != nil {
					b.Fatal(e.Rejected, e.Err)
				}
			}
		})
	}
}

// BenchmarkHandWritten does the same for an At, with code written by hand in Go.
func BenchmarkHandWritten(b *testing.B) {
	b.Run("At", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if errs := validateAt(at); len(errs) > 0 {
				b.Fatal(errs)
			}
			defaultAt(at)
		}
	})
}

// The figures compare like with like only if nothing rejects the objects or drops any of
// their fields, and if all set the same defaults.
func TestBenchmarkedObjects(t *testing.T) {
	t.Parallel()
	for _, bm := range benchmarked(t) {
		crd, err := newCRDOracle(bm.Schema)
		require.NoError(t, err)
		require.NoError(t, disagreement(bm.Draft, crd, bm.object))
		require.Empty(t, bm.Validate(bm.object))
		pruned := runtime.DeepCopyJSON(bm.object)
		structuralpruning.Prune(pruned, crd.structural, true)
		require.Equal(t, bm.object, pruned)
		stored, errs := crd.admit(bm.object)
		require.Empty(t, errs)
		require.Equal(t, stored, bm.Default(bm.object))
	}
}

func BenchmarkDecideParallel(b *testing.B) {
	k := shippedKind(b, "At")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, err := k.Decide(k.NewBudget(), at, observedPod)
			require.NoError(b, err)
		}
	})
}

func shippedKind(tb testing.TB, name string) load.Draft {
	kinds, err := load.ShippedDrafts()
	require.NoError(tb, err)
	for _, k := range kinds {
		if k.Names.Kind == name {
			return k
		}
	}
	require.FailNow(tb, "no such kind", name)
	return load.Draft{}
}

var at = map[string]any{
	"apiVersion": "cnat.fescue.dev/v1alpha1", "kind": "At",
	"metadata": map[string]any{"name": "a", "namespace": "default", "uid": "0a", "generation": int64(1)},
	"spec":     map[string]any{"schedule": "2020-11-16T10:12:00Z", "command": "echo hello"},
	"status":   map[string]any{"phase": "RUNNING"},
}

var observedPod = map[string]any{"pod": map[string]any{
	"metadata": map[string]any{"name": "a-pod"}, "status": map[string]any{"phase": "Succeeded"},
}}

// fullWatcher uses every field of a container, and each of the ways to fill it.
func fullWatcher(tb testing.TB) map[string]any {
	return corpus.Object(tb, []byte(`
apiVersion: watch.fescue.dev/v1alpha1
kind: Watcher
metadata:
  name: full
  namespace: default
  uid: 6a1f6f0e-4f55-4c2c-9f6b-0d4ad3a1a001
  labels: {app.kubernetes.io/name: full, tier: backend}
  annotations: {example.com/note: any text}
spec:
  container:
    name: sidecar
    image: registry.example.com/team/sidecar:1.2.3
    imagePullPolicy: IfNotPresent
    command: [/bin/sidecar]
    args: [--config=/etc/sidecar/config.yaml, -v=2]
    workingDir: /var/lib/sidecar
    env:
    - {name: LEVEL, value: debug}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: MEMORY, valueFrom: {resourceFieldRef: {containerName: sidecar, resource: limits.memory, divisor: 1Mi}}}
    - {name: COLOUR, valueFrom: {configMapKeyRef: {name: colours, key: main, optional: true}}}
    - {name: PASSWORD, valueFrom: {secretKeyRef: {name: passwords, key: main}}}
    envFrom:
    - {prefix: A_, configMapRef: {name: settings}}
    - {secretRef: {name: settings, optional: true}}
    ports:
    - {name: http, containerPort: 8080, protocol: TCP}
    - {name: dns, containerPort: 5353, hostPort: 53, hostIP: 127.0.0.1, protocol: UDP}
    - {containerPort: 9090}
    resources:
      limits: {cpu: "2", memory: 1Gi, ephemeral-storage: 10Gi}
      requests: {cpu: 250m, memory: 512Mi}
      claims: [{name: gpu, request: one}]
    resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}]
    restartPolicy: Always
    restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42, 43]}}]
    livenessProbe:
      httpGet: {path: /live, port: http, scheme: HTTPS, httpHeaders: [{name: X-Probe, value: live}]}
      initialDelaySeconds: 5
      periodSeconds: 10
      timeoutSeconds: 1
      successThreshold: 1
      failureThreshold: 3
      terminationGracePeriodSeconds: 30
    readinessProbe: {grpc: {port: 9090, service: ready}, periodSeconds: 5}
    startupProbe: {tcpSocket: {port: 8080}, failureThreshold: 30}
    lifecycle:
      postStart: {exec: {command: [/bin/true]}}
      preStop: {sleep: {seconds: 5}}
      stopSignal: SIGTERM
    securityContext:
      allowPrivilegeEscalation: false
      appArmorProfile: {type: RuntimeDefault}
      capabilities: {add: [NET_BIND_SERVICE], drop: [ALL]}
      privileged: false
      procMount: Default
      readOnlyRootFilesystem: true
      runAsGroup: 1000
      runAsNonRoot: true
      runAsUser: 1000
      seLinuxOptions: {level: "s0:c123,c456", role: r, type: t, user: u}
      seccompProfile: {type: Localhost, localhostProfile: profiles/sidecar.json}
      windowsOptions: {gmsaCredentialSpecName: spec, hostProcess: false, runAsUserName: ContainerUser}
    stdin: false
    stdinOnce: false
    tty: false
    terminationMessagePath: /dev/termination-log
    terminationMessagePolicy: FallbackToLogsOnError
    volumeDevices: [{name: raw, devicePath: /dev/xvda}]
    volumeMounts:
    - {name: config, mountPath: /etc/sidecar, readOnly: true, recursiveReadOnly: IfPossible}
    - {name: data, mountPath: /var/lib/sidecar, subPath: full, mountPropagation: HostToContainer}
  volume:
    name: config
    projected:
      defaultMode: 420
      sources:
      - configMap: {name: settings, items: [{key: config, path: config.yaml, mode: 256}]}
      - secret: {name: settings, optional: true}
      - downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}
      - serviceAccountToken: {audience: vault, expirationSeconds: 3600, path: token}
  configData: {config.yaml: "level: debug\n", motd: hello}
  configBinaryData: {logo.png: iVBORw0KGgo=}
  imagePullSecrets: {name: registry}
status:
  observedGeneration: 1
  configMapName: full-config
  conditions:
  - {type: Ready, status: "True", reason: UpToDate, message: "", lastTransitionTime: "2026-01-02T03:04:05Z", observedGeneration: 1}
`))
}
