package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/fescue-dev/fescue/admission"
	"github.com/fescue-dev/fescue/admission/certificate"
	"github.com/fescue-dev/fescue/internal/operator"
	"github.com/fescue-dev/fescue/internal/testcluster"
)

var (
	fences = schema.GroupVersionResource{Group: "fences.example.com", Version: "v1", Resource: "fences"}
)

// webhookTest is an operator with webhooks, and who asks them.
type webhookTest struct {
	*cluster
	typed    kubernetes.Interface
	operator *process
	flags    []string // of the operator
	url      string   // of the webhooks
	spans    *collector
	// configuration is the name of both webhook configurations.
	configuration string
}

// TestWebhooks is not parallel: its certificates live for seconds, which a busy machine might
// take to renew them.
func TestWebhooks(t *testing.T) {
	c := newCluster(t)
	typed, err := kubernetes.NewForConfig(testcluster.Config(t))
	require.NoError(t, err)
	kinds := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(kinds, "fence.cue"), []byte(fenceKind), 0o600))
	address := testcluster.FreePort(t, "127.0.0.1")
	w := &webhookTest{cluster: c, typed: typed, configuration: "fescue-" + c.namespace, url: "https://" + address, spans: newCollector(t)}
	t.Cleanup(func() { removeWebhooks(t, typed, w.configuration) })
	c.env = w.spans.env()
	w.flags = []string{"--kinds", kinds, "--webhook-listen", address, "--webhook-url", w.url,
		"--webhook-configuration", w.configuration, "--webhook-secret", c.namespace + "/" + operator.DefaultSecret, "--webhook-cert-validity", "12s",
		"--health-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--tracing-endpoint", w.spans.address}
	w.operator = c.start(w.flags...)
	w.awaitRegistration(w.configuration)
	require.True(t, testcluster.WaitUntil(func() bool { // the API server follows a little later
		_, err := w.create(w.client, fences, "Fence", "probe", map[string]any{"site": "wall"}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsInvalid(err)
	}))
	for _, test := range []struct {
		name string
		run  func(*webhookTest, *testing.T)
	}{
		{"ready", (*webhookTest).ready},
		{"refused and defaulted", (*webhookTest).refusedAndDefaulted},
		{"rights of the author", (*webhookTest).rightsOfTheAuthor},
		{"autoscaler", (*webhookTest).autoscaler},
		{"sidecars", (*webhookTest).sidecars},
		{"metrics", (*webhookTest).metrics},
		{"traces", (*webhookTest).traces},
		{"traces of the API server", (*webhookTest).tracesOfTheAPIServer},
		{"pod security", (*webhookTest).podSecurity},
		{"restored in any order", (*webhookTest).restoredInAnyOrder},
		{"configurations are kept", (*webhookTest).configurationsAreKept},
		{"certificate is rotated under load", (*webhookTest).rotatedUnderLoad},
		{"operator is down", (*webhookTest).operatorIsDown},
		{"operator stops", (*webhookTest).operatorStops},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(w, t) })
	}
}

// ready: each thing that the webhooks need is a check of its own.
func (w *webhookTest) ready(t *testing.T) {
	code, body := get(t, w.operator.address("--health-listen")+"/readyz?verbose")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "[+]ping ok\n[+]certificate ok\n[+]tls-listener ok\n[+]injection ok\n[+]namespaces ok\n[+]caches ok\nreadyz check passed\n", body)
}

func (w *webhookTest) create(client dynamic.Interface, resource schema.GroupVersionResource, kind, name string, spec map[string]any, options metav1.CreateOptions) (*unstructured.Unstructured, error) {
	metadata := map[string]any{"name": name}
	if prefix, ok := strings.CutSuffix(name, "*"); ok {
		metadata = map[string]any{"generateName": prefix}
	}
	return client.Resource(resource).Namespace(w.namespace).Create(context.Background(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": kind, "metadata": metadata, "spec": spec,
	}}, options)
}

func (w *webhookTest) refusedAndDefaulted(t *testing.T) {
	_, err := w.create(w.client, fences, "Fence", "bad", map[string]any{"site": "wall"}, metav1.CreateOptions{})
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	require.EqualError(t, err, `admission webhook "fences.fences.example.com" denied the request: Fence.fences.example.com "bad" is invalid: spec.site: Invalid value: "wall": must satisfy net.AbsURL`)
	status := err.(apierrors.APIStatus).Status()
	require.Equal(t, []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Message: `Invalid value: "wall": must satisfy net.AbsURL`, Field: "spec.site"}}, status.Details.Causes)

	made, err := w.create(w.client, fences, "Fence", "generated-*", map[string]any{}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Regexp(t, "^generated-[a-z0-9]{5}$", made.GetName())
	require.Equal(t, map[string]any{"colour": "green"}, made.Object["spec"])
	w.await(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, made.GetName()+"-config", "made", func(*unstructured.Unstructured) bool { return true })

	// An update is held to the immutable fields, and what is being deleted to nothing.
	object, err := w.create(w.client, fences, "Fence", "kept", map[string]any{"place": "north"}, metav1.CreateOptions{})
	require.NoError(t, err)
	patch := func(body string) error {
		_, err := w.client.Resource(fences).Namespace(w.namespace).Patch(t.Context(), object.GetName(), "application/merge-patch+json", []byte(body), metav1.PatchOptions{})
		return err
	}
	require.ErrorContains(t, patch(`{"spec":{"place":"south"}}`), "spec.place")
	require.NoError(t, patch(`{"metadata":{"finalizers":["fences.example.com/hold"]}}`))
	require.NoError(t, w.client.Resource(fences).Namespace(w.namespace).Delete(t.Context(), "kept", metav1.DeleteOptions{}))
	require.NoError(t, patch(`{"metadata":{"finalizers":null}}`))
	require.True(t, testcluster.WaitUntil(func() bool { _, err := w.get(fences, "kept"); return apierrors.IsNotFound(err) }))
}

// rightsOfTheAuthor asks as users with rights by real RBAC.
func (w *webhookTest) rightsOfTheAuthor(t *testing.T) {
	config := testcluster.Config(t)
	config.Impersonate = rest.ImpersonationConfig{UserName: "ada"}
	ada, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	grant := func(name, group, resource string, verbs ...string) {
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}}}
		_, err := w.typed.RbacV1().Roles(w.namespace).Create(t.Context(), role, metav1.CreateOptions{})
		require.NoError(t, err)
		binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "ada"}}}
		_, err = w.typed.RbacV1().RoleBindings(w.namespace).Create(t.Context(), binding, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	spec := map[string]any{"container": map[string]any{"name": "watch", "image": "busybox:1.37"}, "configData": map[string]any{"a": "b"}}
	grant("watchers", watchers.Group, watchers.Resource, "create", "patch")
	refusal := ""
	require.True(t, testcluster.WaitUntil(func() bool { // RBAC follows a little later
		_, err = w.create(ada, watchers, "Watcher", "a", spec, metav1.CreateOptions{})
		refusal = fmt.Sprint(err)
		return strings.Contains(refusal, "admission webhook")
	}), "%v", err)
	require.True(t, apierrors.IsForbidden(err))
	require.Equal(t, `admission webhook "watchers.watch.fescue.dev" denied the request: watchers.watch.fescue.dev "a" is forbidden: user "ada" cannot create resource "configmaps" in API group "" in the namespace "`+w.namespace+`"; user "ada" cannot create resource "pods" in API group "" in the namespace "`+w.namespace+`", as the kind Watcher does for its author`, refusal)

	// The administrator's object: ada may label it, but not change what it does.
	_, err = w.create(w.client, watchers, "Watcher", "b", spec, metav1.CreateOptions{})
	require.NoError(t, err)
	patch := func(body string) error {
		_, err := ada.Resource(watchers).Namespace(w.namespace).Patch(t.Context(), "b", "application/merge-patch+json", []byte(body), metav1.PatchOptions{})
		return err
	}
	require.NoError(t, patch(`{"metadata":{"labels":{"a":"b"}}}`))
	require.True(t, apierrors.IsForbidden(patch(`{"spec":{"configData":{"a":"c"}}}`)))

	grant("configmaps", "", "configmaps", "create")
	require.True(t, testcluster.WaitUntil(func() bool {
		_, err = w.create(ada, watchers, "Watcher", "a", spec, metav1.CreateOptions{})
		return err != nil && strings.Contains(err.Error(), `"pods"`)
	}), "%v", err)
	require.ErrorContains(t, err, `user "ada" cannot create resource "pods" in API group "" in the namespace "`+w.namespace+`"`, "a Watcher puts its container into Pods")
	grant("pods", "", "pods", "create")
	require.True(t, testcluster.WaitUntil(func() bool {
		_, err = w.create(ada, watchers, "Watcher", "a", spec, metav1.CreateOptions{})
		return err == nil
	}), "%v", err)
	require.NoError(t, patch(`{"spec":{"configData":{"a":"c"}}}`))
}

// autoscaler writes a number as the controller of HorizontalPodAutoscalers does, which may not
// create Pods.
func (w *webhookTest) autoscaler(t *testing.T) {
	config := testcluster.Config(t)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:kube-system:horizontal-pod-autoscaler"}
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	_, err = w.create(w.client, customclusters, "Customcluster", "scaled", map[string]any{"count": int64(0), "message": "m"}, metav1.CreateOptions{})
	require.NoError(t, err)
	objects := client.Resource(customclusters).Namespace(w.namespace)
	require.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error { // Fescue writes the status meanwhile
		scale, err := objects.Get(t.Context(), "scaled", metav1.GetOptions{}, "scale")
		require.NoError(t, err)
		require.NoError(t, unstructured.SetNestedField(scale.Object, int64(1), "spec", "replicas"))
		_, err = objects.Update(t.Context(), scale, metav1.UpdateOptions{}, "scale")
		return err
	}))
	w.await(customclusters, "scaled", "scaled", func(o *unstructured.Unstructured) bool {
		count, _, _ := unstructured.NestedInt64(o.Object, "spec", "count")
		return count == 1
	})
}

// sidecars has Pods ask for a Watcher: one by itself, those of a Deployment and of a Job, and
// one that is in the way.
func (w *webhookTest) sidecars(t *testing.T) {
	_, err := w.create(w.client, watchers, "Watcher", "log", map[string]any{
		"container": map[string]any{
			"name": "watch", "image": "busybox:1.37",
			"volumeMounts": []any{map[string]any{"name": "logs", "mountPath": "/logs"}},
		},
		"volume":           map[string]any{"name": "logs", "emptyDir": map[string]any{}},
		"configData":       map[string]any{"LEVEL": "error"},
		"imagePullSecrets": map[string]any{"name": "registry"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	asking := map[string]string{"watch.fescue.dev/inject": "log"}
	pods := w.typed.CoreV1().Pods(w.namespace)
	var single *corev1.Pod
	require.True(t, testcluster.WaitUntil(func() bool { // the injector follows a little later
		single, err = pods.Create(t.Context(), podWith(asking), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && len(single.Spec.InitContainers) == 1
	}), "%v", err)
	single, err = pods.Create(t.Context(), podWith(asking), metav1.CreateOptions{})
	require.NoError(t, err)
	requireSidecar(t, single)

	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: asking, Labels: map[string]string{"of": "workload"}}, Spec: podWith(nil).Spec}
	_, err = w.typed.AppsV1().Deployments(w.namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "d"},
		Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	_, err = w.typed.BatchV1().Jobs(w.namespace).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "j"}, Spec: batchv1.JobSpec{Template: template},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	var made []corev1.Pod
	require.True(t, testcluster.WaitUntil(func() bool {
		list, err := pods.List(t.Context(), metav1.ListOptions{LabelSelector: "of=workload"})
		made = list.Items
		return err == nil && len(made) == 2
	}))
	for i := range made {
		requireSidecar(t, &made[i])
	}

	manifest, err := json.Marshal(&corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "by-kubectl", Annotations: asking}, Spec: podWith(nil).Spec,
	})
	require.NoError(t, err)
	apply := exec.CommandContext(t.Context(), "kubectl", "--namespace", w.namespace, "apply", "--dry-run=server", "--output", "json", "--filename", "-")
	apply.Stdin = bytes.NewReader(manifest)
	printed, err := apply.Output()
	require.NoError(t, err)
	var applied corev1.Pod
	require.NoError(t, json.Unmarshal(printed, &applied))
	requireSidecar(t, &applied)

	// What was injected is the same when it comes again.
	again := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "again-", Annotations: single.Annotations}, Spec: single.Spec}
	again.Spec.NodeName = ""
	again, err = pods.Create(t.Context(), again, metav1.CreateOptions{})
	require.NoError(t, err)
	requireSidecar(t, again)
	require.Equal(t, single.Annotations, again.Annotations)

	// A container of that name that says something else: the Pod is made as it is.
	conflicting := podWith(asking)
	conflicting.Name, conflicting.Spec.Containers[0].Name = "in-the-way", "watch"
	conflicting, err = pods.Create(t.Context(), conflicting, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Empty(t, conflicting.Spec.InitContainers)
	require.Contains(t, conflicting.Annotations["fescue.dev/injected"], "Conflict")
	require.Eventually(t, func() bool { return slices.Contains(w.eventReasonsOf("log"), "NotInjected") }, testcluster.Timeout, testcluster.Poll)
}

// metrics looks at what the tests before have left.
func (w *webhookTest) metrics(t *testing.T) {
	families := w.operator.scrape()
	requireDocumented(t, families, headingWebhooks)
	for outcome, path := range map[string]string{"patched": admission.InjectPath, "allowed": admission.ValidatePath, "refused": admission.ValidatePath} {
		require.Positive(t, sample(t, families, "fescue_admission_reviews_total", map[string]string{"webhook": path, "outcome": outcome}))
	}
	const controller = "watchers.watch.fescue.dev"
	require.LessOrEqual(t, 3.0, sample(t, families, "fescue_injections_total", map[string]string{"controller": controller}))
	require.InDelta(t, 1, sample(t, families, "fescue_injection_skips_total", map[string]string{"controller": controller, "reason": "Present"}), 0)
	require.InDelta(t, 1, sample(t, families, "fescue_injection_skips_total", map[string]string{"controller": controller, "reason": "Conflict"}), 0)
	require.InDelta(t, float64(time.Now().Unix()), sample(t, families, "fescue_certificate_expiry_timestamp_seconds", nil), 60)
	require.InDelta(t, float64(time.Now().Unix()), sample(t, families, "fescue_certificate_start_timestamp_seconds", nil), 7200, "clocks may differ by an hour")
}

// podSecurity has a Watcher ask for more than anyone may inject, and for more than the level
// of its namespace allows.
func (w *webhookTest) podSecurity(t *testing.T) {
	create := func(securityContext map[string]any) error {
		_, err := w.create(w.client, watchers, "Watcher", "secured", map[string]any{
			"container": map[string]any{"name": "watch", "image": "busybox:1.37", "securityContext": securityContext},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	require.ErrorContains(t, create(map[string]any{"privileged": true}), `must not inject the privileged container "watch"`)
	capable := map[string]any{"capabilities": map[string]any{"add": []any{"NET_ADMIN"}}}
	require.NoError(t, create(capable))
	label := func(level string) {
		_, err := w.typed.CoreV1().Namespaces().Patch(t.Context(), w.namespace, "application/merge-patch+json",
			fmt.Appendf(nil, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":%s}}}`, level), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	label(`"baseline"`)
	defer label("null")
	require.Eventually(t, func() bool {
		err := create(capable)
		return err != nil && strings.Contains(err.Error(), `violates PodSecurity "baseline:latest": non-default capabilities`)
	}, testcluster.Timeout, testcluster.Poll)
}

// requireSidecar checks that a Pod has all that the Watcher adds, once.
func requireSidecar(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	require.Len(t, pod.Spec.InitContainers, 1)
	sidecar := pod.Spec.InitContainers[0]
	require.Equal(t, "watch", sidecar.Name)
	require.Equal(t, corev1.ContainerRestartPolicyAlways, *sidecar.RestartPolicy)
	require.Equal(t, []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "log-config"}}}}, sidecar.EnvFrom)
	require.Len(t, slices.DeleteFunc(slices.Clone(pod.Spec.Volumes), func(v corev1.Volume) bool { return v.Name != "logs" }), 1)
	require.Equal(t, []corev1.LocalObjectReference{{Name: "registry"}}, pod.Spec.ImagePullSecrets)
	require.Contains(t, pod.Annotations["fescue.dev/injected"], "Watcher.watch.fescue.dev/log")
	require.Len(t, pod.Spec.Containers, 1)
}

// restoredInAnyOrder creates what a backup holds, once the parent first and once the child.
func (w *webhookTest) restoredInAnyOrder(t *testing.T) {
	configMaps := w.typed.CoreV1().ConfigMaps(w.namespace)
	for name, parentFirst := range map[string]bool{"parent-first": true, "child-first": false} {
		steps := []func() error{
			func() error {
				// What becomes of a child that is there already is the engine's.
				_, err := w.create(w.client, fences, "Fence", name, map[string]any{"colour": "white"}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				return err
			},
			func() error {
				_, err := configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name + "-config"}, Data: map[string]string{"colour": "white"}}, metav1.CreateOptions{})
				return err
			},
		}
		if !parentFirst {
			steps[0], steps[1] = steps[1], steps[0]
		}
		for _, step := range steps {
			require.NoError(t, step(), name)
		}
	}
}

// configurationsAreKept deletes one configuration and empties the other, and then has a
// webhook not be called any more.
func (w *webhookTest) configurationsAreKept(t *testing.T) {
	api := w.typed.AdmissionregistrationV1()
	require.NoError(t, api.MutatingWebhookConfigurations().Delete(t.Context(), w.configuration, metav1.DeleteOptions{}))
	_, err := api.ValidatingWebhookConfigurations().Patch(t.Context(), w.configuration, "application/merge-patch+json", []byte(`{"webhooks":[]}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.True(t, testcluster.WaitUntil(func() bool {
		mutating, err := api.MutatingWebhookConfigurations().Get(t.Context(), w.configuration, metav1.GetOptions{})
		if err != nil || len(mutating.Webhooks) == 0 {
			return false
		}
		validating, err := api.ValidatingWebhookConfigurations().Get(t.Context(), w.configuration, metav1.GetOptions{})
		return err == nil && len(validating.Webhooks) > 0 && bytes.Equal(validating.Webhooks[0].ClientConfig.CABundle, mutating.Webhooks[0].ClientConfig.CABundle)
	}))

	before, err := api.ValidatingWebhookConfigurations().Get(t.Context(), w.configuration, metav1.GetOptions{})
	require.NoError(t, err)
	_, err = api.ValidatingWebhookConfigurations().Patch(t.Context(), w.configuration, "application/json-patch+json", []byte(`[
		{"op": "replace", "path": "/webhooks/0/objectSelector", "value": {"matchLabels": {"a": "b"}}},
		{"op": "add", "path": "/webhooks/0/matchConditions/0", "value": {"name": "never", "expression": "false"}}]`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.True(t, testcluster.WaitUntil(func() bool {
		validating, err := api.ValidatingWebhookConfigurations().Get(t.Context(), w.configuration, metav1.GetOptions{})
		if err != nil || len(validating.Webhooks) != len(before.Webhooks) {
			return false
		}
		for i := range validating.Webhooks { // the certificates change meanwhile
			validating.Webhooks[i].ClientConfig = before.Webhooks[i].ClientConfig
		}
		return reflect.DeepEqual(before.Webhooks, validating.Webhooks)
	}))
}

// rotatedUnderLoad has 16 clients create objects and Pods until the certificate was replaced twice.
func (w *webhookTest) rotatedUnderLoad(t *testing.T) {
	secret := func() []byte {
		s, err := w.typed.CoreV1().Secrets(w.namespace).Get(t.Context(), operator.DefaultSecret, metav1.GetOptions{})
		require.NoError(t, err)
		return s.Data[corev1.TLSCertKey]
	}
	var stop atomic.Bool
	var sent atomic.Int64
	failures := make(chan error, 16)
	var sending sync.WaitGroup
	for client := range 16 {
		sending.Go(func() {
			for i := 0; !stop.Load(); i++ {
				var err error
				dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
				if client%2 == 0 {
					_, err = w.create(w.client, fences, "Fence", fmt.Sprintf("load-%d-%d", client, i), map[string]any{}, dryRun)
				} else {
					// A Pod is made without its webhook as well, but then has no sidecar.
					var pod *corev1.Pod
					pod, err = w.typed.CoreV1().Pods(w.namespace).Create(t.Context(), podWith(map[string]string{"watch.fescue.dev/inject": "log"}), dryRun)
					if err == nil && len(pod.Spec.InitContainers) != 1 {
						err = errors.New("a Pod has no sidecar")
					}
				}
				if err != nil {
					failures <- err
					return
				}
				sent.Add(1)
			}
		})
	}
	served, replaced := secret(), 0
	require.True(t, testcluster.WaitUntil(func() bool {
		if now := secret(); !bytes.Equal(now, served) {
			served = now
			replaced++
		}
		return replaced == 2 || len(failures) > 0
	}))
	stop.Store(true)
	sending.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}
	t.Logf("%d objects created while the certificate was replaced twice", sent.Load())
}

func (w *webhookTest) operatorIsDown(t *testing.T) {
	_, err := w.create(w.client, fences, "Fence", "before", map[string]any{}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, 0, w.operator.stop())
	require.Contains(t, w.operator.log.String(), `removal="kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration `+w.configuration+`"`)
	_, err = w.create(w.client, fences, "Fence", "after", map[string]any{}, metav1.CreateOptions{})
	require.ErrorContains(t, err, `failed calling webhook "fences.fences.example.com"`)
	require.ErrorContains(t, err, "connection refused")
	// Objects can still be deleted, and everything else be created.
	require.NoError(t, w.client.Resource(fences).Namespace(w.namespace).Delete(t.Context(), "before", metav1.DeleteOptions{}))
	missed := podWith(map[string]string{"watch.fescue.dev/inject": "log"})
	missed.Name = "missed"
	missed, err = w.typed.CoreV1().Pods(w.namespace).Create(t.Context(), missed, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Empty(t, missed.Spec.InitContainers)

	// Once it is back, the Watcher tells which Pods have missed it.
	w.operator = w.start(w.flags...)
	w.await(watchers, "log", "reporting the Pod", func(o *unstructured.Unstructured) bool {
		status, reason, message := condition(o, "Injected")
		return status == "False" && reason == "MissedPods" && strings.Contains(message, "missed")
	})
}

// operatorStops: who is told to stop gives the lease back at once, and goes on answering.
func (w *webhookTest) operatorStops(t *testing.T) {
	require.Equal(t, 0, w.operator.stop())
	// Nobody renews the certificate after the signal.
	require.NoError(t, w.typed.CoreV1().Secrets(w.namespace).Delete(t.Context(), operator.DefaultSecret, metav1.DeleteOptions{}))
	w.operator = w.start(append(w.flags, "--webhook-cert-validity", "1h", "--leader-elect", "--leader-elect-resource-namespace", w.namespace, "--shutdown-delay-duration", "1h")...)
	w.awaitRegistration(w.configuration)
	submit := func() error {
		_, err := w.create(w.client, fences, "Fence", "late", map[string]any{"site": "wall"}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	require.True(t, testcluster.WaitUntil(func() bool { return apierrors.IsInvalid(submit()) }))
	holder := func() string {
		lease, err := w.typed.CoordinationV1().Leases(w.namespace).Get(t.Context(), "fescue", metav1.GetOptions{})
		require.NoError(t, err)
		return *lease.Spec.HolderIdentity
	}
	require.NotEmpty(t, holder())
	signal := func() { require.NoError(t, w.operator.cmd.Process.Signal(syscall.SIGTERM)) }
	signal()
	w.operator.awaitLog("the webhooks keep answering until the API server stops calling them")
	require.True(t, testcluster.WaitUntil(func() bool { return holder() == "" }))
	for range 3 {
		err := submit()
		require.True(t, apierrors.IsInvalid(err), err)
	}
	signal() // the second one ends it
	<-w.operator.done
	_, err := w.create(w.client, fences, "Fence", "late", map[string]any{}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	require.ErrorContains(t, err, "connection refused")
}

// labeller is an injector that labels Pods and counts them.
type labeller struct{ calls atomic.Int64 }

func (l *labeller) Inject(context.Context, *admissionv1.AdmissionRequest) ([]byte, []string, error) {
	l.calls.Add(1)
	return []byte(`[{"op":"add","path":"/metadata/labels","value":{"injected":"yes"}}]`), []string{"labelled"}, nil
}

// TestPodWebhooks registers webhooks for Pods with an annotation that no other test uses.
func TestPodWebhooks(t *testing.T) {
	t.Parallel()
	const annotation = "webhooks.test.fescue.dev/inject"
	namespace := testcluster.Namespace(t)
	typed, err := kubernetes.NewForConfig(testcluster.Config(t))
	require.NoError(t, err)
	t.Cleanup(func() { removeWebhooks(t, typed, "fescue-pods-test") })
	log := slog.New(slog.DiscardHandler)
	serving, err := certificate.NewSecret(certificate.SecretConfig{Client: typed, Namespace: namespace, Name: "c", Hosts: []string{"127.0.0.1"}, Log: log})
	require.NoError(t, err)
	injector := &labeller{}
	server, err := admission.New(admission.Config{Injector: injector, Certificate: serving.GetCertificate, Log: log})
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	registrar := admission.NewRegistrar(typed, nil, admission.Webhooks{
		Name: "fescue-pods-test", URL: "https://" + listener.Addr().String(),
		Injections: admission.Injections{{Group: "test.fescue.dev", Kind: "Test"}: {Annotation: annotation, BySelector: true}},
	}, log)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(ctx, listener) }()
	go serving.Run(ctx)
	go serving.Lead(ctx, registrar.Publish)

	create := func(annotations map[string]string, options metav1.CreateOptions) *corev1.Pod {
		pod, err := typed.CoreV1().Pods(namespace).Create(t.Context(), podWith(annotations), options)
		require.NoError(t, err)
		return pod
	}
	asking := map[string]string{annotation: "x"}
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	require.True(t, testcluster.WaitUntil(func() bool { return create(asking, dryRun).Labels["injected"] == "yes" }))
	calls := injector.calls.Load()
	require.Empty(t, create(nil, metav1.CreateOptions{}).Labels)
	require.Empty(t, create(map[string]string{"other": "x"}, metav1.CreateOptions{}).Labels)
	require.Equal(t, calls, injector.calls.Load(), "Pods without opt-in cause no call")
	require.NotEmpty(t, create(asking, metav1.CreateOptions{}).Labels)
	require.Equal(t, calls+1, injector.calls.Load())

	// All Pods of a namespace in which Pods can be selected.
	_, err = typed.CoreV1().Namespaces().Patch(t.Context(), namespace, "application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+admission.SelectionLabel+`":"`+admission.SelectionEnabled+`"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.True(t, testcluster.WaitUntil(func() bool { return create(nil, dryRun).Labels["injected"] == "yes" }))
	calls = injector.calls.Load()
	require.NotEmpty(t, create(asking, metav1.CreateOptions{}).Labels)
	require.Equal(t, calls+1, injector.calls.Load(), "one webhook, not both")

	cancel()
	require.NoError(t, <-stopped)
	_, err = http.Get("https://" + listener.Addr().String()) //nolint:bodyclose // there is none
	require.Error(t, err)
	require.Empty(t, create(asking, metav1.CreateOptions{}).Labels, "without its webhook, a Pod is created as it is")
}
