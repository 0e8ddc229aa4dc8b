package admission

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/pod-security-admission/api"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/inject"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

var watchersToTry = flag.Int("watchers", 300, "of the generated Watchers, how many TestAcceptedWatchersKeepPodsValid tries; 0 is all")

// podsToKeep are valid Pods of all sorts. Those in the namespace restricted meet the Pod Security
// level of that name.
var podsToKeep = map[string]string{
	"ordinary":    `spec: {containers: [{name: app, image: "app:1"}]}`,
	"hostNetwork": `spec: {hostNetwork: true, containers: [{name: app, image: "app:1", ports: [{containerPort: 80}]}]}`,
	"windows":     `spec: {os: {name: windows}, nodeSelector: {kubernetes.io/os: windows}, containers: [{name: app, image: "app:1"}]}`,
	"restricted":  `spec: {securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}, containers: [{name: app, image: "app:1", securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]}`,
	"hostProcess": `spec: {os: {name: windows}, hostNetwork: true, containers: [{name: app, image: "app:1", securityContext: {windowsOptions: {hostProcess: true}}}]}`,
	"special": `
metadata:
  annotations: {container.apparmor.security.beta.kubernetes.io/app: unconfined, container.seccomp.security.alpha.kubernetes.io/watch: runtime/default}
spec:
  os: {name: linux}
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  hostUsers: false
  volumes: [{name: data, emptyDir: {}}]
  containers: [{name: app, image: "app:1", volumeMounts: [{name: data, mountPath: /data}]}]
`,
}

// TestAcceptedWatchersKeepPodsValid generates Watchers with one or two odd fields each. Each is
// either rejected, or the API server accepts all sorts of Pods with what it injects.
func TestAcceptedWatchersKeepPodsValid(t *testing.T) {
	j := newPodJudge(t)
	generated := oddWatchers(t, j.watcher)
	require.Greater(t, len(generated), 5000)
	tried := generated
	if *watchersToTry > 0 {
		tried = nil
		for i := range *watchersToTry { // spread over all, since neighbours are alike
			tried = append(tried, generated[i*len(generated) / *watchersToTry])
		}
	}
	var next atomic.Int64
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(tried)); i = next.Add(1) - 1 {
				j.judge(t, tried[i])
			}
		})
	}
	workers.Wait()
	t.Logf("%d generated, %d tried: %v", len(generated), len(tried), j.counts)
	require.NotZero(t, j.counts["accepted"])
}

// podJudge injects Watchers into Pods and submits these to an API server.
type podJudge struct {
	client   dynamic.Interface
	watcher  *kind.Kind
	injector *inject.Injector
	security *PodSecurity
	pods     map[string]map[string]any

	mu     sync.Mutex
	counts map[string]int
}

// newPodJudge returns a judge with valid Pods.
func newPodJudge(t *testing.T) *podJudge {
	t.Helper()
	config := testcluster.Config(t)
	config.WarningHandler = rest.NoWarnings{}
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	watcher := kindtest.Named(t, kindtest.Shipped(t), "Watcher")
	security, err := NewPodSecurity(func(context.Context, string) (map[string]string, error) { return nil, nil }, true)
	require.NoError(t, err)
	j := &podJudge{client: client, watcher: watcher, injector: inject.NewInjector("", []*kind.Kind{watcher}), security: security, pods: make(map[string]map[string]any)}
	j.namespaces(t)
	for name, text := range podsToKeep {
		j.pods[name] = corpus.Object(t, []byte(text))
		require.NoError(t, j.create(t.Context(), name, j.pods[name]), name)
	}
	return j
}

func (j *podJudge) count(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.counts == nil {
		j.counts = make(map[string]int)
	}
	j.counts[what]++
}

// namespaces creates the namespaces odd, and odd-restricted with the Pod Security level.
func (j *podJudge) namespaces(t *testing.T) {
	t.Helper()
	for name, labels := range map[string]map[string]any{"odd": nil, "odd-restricted": {api.EnforceLevelLabel: "restricted"}} {
		j.ensure(t, "namespaces", "", map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name, "labels": labels}})
		j.ensure(t, "serviceaccounts", name, map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "default"}})
	}
}

func (j *podJudge) ensure(t *testing.T, resource, namespace string, object map[string]any) {
	t.Helper()
	_, err := j.client.Resource(corev1.SchemeGroupVersion.WithResource(resource)).Namespace(namespace).Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
}

// create submits a Pod as a dry run.
func (j *podJudge) create(ctx context.Context, name string, pod map[string]any) error {
	metadata, _ := pod["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = make(map[string]any)
	}
	metadata["name"] = "pod"
	namespace := "odd"
	if name == "restricted" {
		namespace = "odd-restricted"
	}
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]}}
	_, err := j.client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(namespace).Create(ctx, u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

func (j *podJudge) judge(t *testing.T, watcher map[string]any) {
	checked := j.watcher.Check(j.watcher.NewBudget(), watcher)
	if len(checked.Errors) > 0 {
		j.count("rejected by the schema")
		return
	}
	if errs := inject.Check(j.watcher, watcher); len(errs) > 0 {
		j.count("rejected for what it injects")
		j.strictness(t, watcher, checked.Object, errs.ToAggregate())
		return
	}
	j.count("accepted")
	injection, err := inject.Of(j.watcher.NewBudget(), j.watcher, checked.Object)
	if err != nil {
		t.Errorf("accepted, but cannot be injected: %v: %s", err, oddText(watcher))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(j.pods)) {
		candidate := injection
		if name == "restricted" {
			level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
			if candidate, err = (injectable{injection: injection, byLevel: &sync.Map{}}).at(level, j.security); err != nil {
				t.Errorf("%v: %s", err, oddText(watcher))
				continue
			}
		}
		result, err := j.injector.Inject(t.Context(), inject.Target{Text: j.podAsking(t, name, checked.Object), Namespace: "odd"}, []*inject.Injection{candidate})
		if err != nil || len(result.Outcomes) != 1 {
			t.Errorf("%s: %v: %v", name, err, oddText(watcher))
			continue
		}
		outcome := result.Outcomes[0]
		j.count(fmt.Sprintf("%s: %s", name, outcome.Reason))
		var pod map[string]any
		if err := json.Unmarshal(result.Pod(), &pod); err != nil {
			t.Errorf("%s: %v: %v", name, err, oddText(watcher))
			continue
		}
		if err := j.create(t.Context(), name, pod); err != nil {
			t.Errorf("%s, %s: %v\n%s", name, outcome.Reason, err, oddText(watcher))
		}
	}
}

// podAsking returns the text of a Pod that names the Watcher.
func (j *podJudge) podAsking(t *testing.T, name string, watcher map[string]any) []byte {
	var pod map[string]any
	text, err := json.Marshal(j.pods[name])
	if err == nil {
		err = json.Unmarshal(text, &pod)
	}
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return nil
	}
	metadata, ok := pod["metadata"].(map[string]any)
	if !ok {
		metadata = make(map[string]any)
		pod["metadata"] = metadata
	}
	metadata["name"] = "pod"
	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok {
		annotations = make(map[string]any)
		metadata["annotations"] = annotations
	}
	annotations[j.watcher.InjectAnnotation] = watcher["metadata"].(map[string]any)["name"]
	text, err = json.Marshal(pod)
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return text
}

// offByDefault are fields that the API server drops, so that nothing in them is wrong for it.
var offByDefault = []string{"stopSignal", "clusterTrustBundle", "podCertificate"}

// strictness fails if a Watcher is rejected for what it injects though the API server accepts the
// ordinary Pod with it.
func (j *podJudge) strictness(t *testing.T, watcher, defaulted map[string]any, rejection error) {
	for _, name := range offByDefault {
		if strings.Contains(rejection.Error(), name) {
			return
		}
	}
	add, err := inject.Evaluate(j.watcher.NewBudget(), j.watcher, defaulted).Add()
	if err != nil {
		return
	}
	spec := map[string]any{"containers": []any{map[string]any{"name": "app", "image": "app:1"}}}
	for name, part := range add["spec"].(map[string]any) {
		if list, ok := part.([]any); ok {
			had, _ := spec[name].([]any)
			spec[name] = append(had, list...)
		}
	}
	if err := j.create(t.Context(), "ordinary", map[string]any{"spec": spec}); err == nil {
		t.Errorf("rejected, but the API server accepts it: %v\n%s", rejection, oddText(watcher))
	}
}

// TestAcceptedSettingsKeepPodsValid is the same for what other kinds can add to Pods, with the
// ordinary Pod and the one on the host's network.
func TestAcceptedSettingsKeepPodsValid(t *testing.T) {
	j := newPodJudge(t)
	for _, add := range []string{
		`metadata: {labels: {a: b}}`, `metadata: {labels: {a b: b}}`, `metadata: {labels: {a: b c}}`, `metadata: {annotations: {a b: c}}`, `metadata: {annotations: {A/b: c}}`,
		`spec: {hostname: a.b}`, `spec: {subdomain: A}`, `spec: {nodeSelector: {a: b c}}`, `spec: {nodeSelector: {a/b/c: b}}`, `spec: {nodeName: a_b}`,
		`spec: {priorityClassName: A}`, `spec: {runtimeClassName: A}`, `spec: {serviceAccountName: A}`, `spec: {activeDeadlineSeconds: 0}`, `spec: {dnsPolicy: Odd}`,
		`spec: {restartPolicy: Odd}`, `spec: {preemptionPolicy: Odd}`, `spec: {hostAliases: [{ip: a}]}`, `spec: {hostAliases: [{ip: 01.2.3.4}]}`, `spec: {hostAliases: [{ip: 1.2.3.4, hostnames: [a_b]}]}`,
		`spec: {readinessGates: [{conditionType: a b}]}`, `spec: {schedulingGates: [{name: a b}]}`, `spec: {schedulingGates: [{name: a}], nodeName: a}`,
		`spec: {tolerations: [{}]}`, `spec: {tolerations: [{operator: Exists}]}`, `spec: {tolerations: [{key: a b}]}`, `spec: {tolerations: [{key: a, operator: Exists, value: b}]}`,
		`spec: {tolerations: [{key: a, operator: Odd}]}`, `spec: {tolerations: [{key: a, effect: Odd}]}`, `spec: {tolerations: [{key: a, tolerationSeconds: 1}]}`, `spec: {tolerations: [{key: a, value: b c}]}`,
		`spec: {securityContext: {runAsUser: -1}}`, `spec: {securityContext: {fsGroup: 4294967296}}`, `spec: {securityContext: {supplementalGroups: [-1]}}`,
		`spec: {securityContext: {sysctls: [{name: A, value: b}]}}`, `spec: {securityContext: {sysctls: [{name: net.a, value: b}]}}`, `spec: {securityContext: {sysctls: [{name: net/a, value: b}]}}`,
		`spec: {securityContext: {sysctls: [{name: kernel.sem, value: b}]}, hostIPC: true}`, `spec: {securityContext: {fsGroupChangePolicy: Odd}}`, `spec: {securityContext: {seccompProfile: {type: Localhost}}}`,
		`spec: {securityContext: {appArmorProfile: {type: Localhost}}}`, `spec: {securityContext: {windowsOptions: {runAsUserName: "a:b"}}}`, `spec: {securityContext: {supplementalGroupsPolicy: Odd}}`,
		`spec: {hostUsers: false}`, `spec: {hostUsers: false, hostPID: true}`, `spec: {shareProcessNamespace: true, hostPID: true}`, `spec: {hostnameOverride: a}`, `spec: {hostnameOverride: A}`,
		`spec: {terminationGracePeriodSeconds: -1}`, `spec: {hostNetwork: true}`, `spec: {containers: [{name: app, lifecycle: {preStop: {sleep: {seconds: 60}}}}]}`,
	} {
		source := inject.Source{Object: inject.Object{Name: "a"}, Namespace: "odd", Selector: &metav1.LabelSelector{}, Add: corpus.Object(t, []byte(add))}
		injection, err := inject.New(source)
		if err != nil {
			j.count("rejected")
			with := map[string]any{"metadata": source.Add["metadata"], "spec": maps.Clone(j.pods["ordinary"]["spec"].(map[string]any))}
			if spec, ok := source.Add["spec"].(map[string]any); ok {
				maps.Copy(with["spec"].(map[string]any), spec)
			}
			require.Error(t, j.create(t.Context(), "ordinary", with), "%s is rejected: %v", add, err)
			continue
		}
		for _, name := range []string{"ordinary", "hostNetwork"} {
			text, err := json.Marshal(j.pods[name])
			require.NoError(t, err)
			result, err := j.injector.Inject(t.Context(), inject.Target{Text: text, Namespace: "odd"}, []*inject.Injection{injection})
			require.NoError(t, err)
			j.count(string(result.Outcomes[0].Reason))
			var pod map[string]any
			require.NoError(t, json.Unmarshal(result.Pod(), &pod))
			if err := j.create(t.Context(), name, pod); err != nil && !apierrors.IsForbidden(err) { // no such service account
				t.Errorf("%s with %s, %v: %v", name, add, result.Outcomes, err)
			}
		}
	}
	t.Log(j.counts)
}
