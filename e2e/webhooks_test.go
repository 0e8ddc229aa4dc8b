package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/fescue-dev/fescue/admission"
	"github.com/fescue-dev/fescue/internal/operator"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// webhookTest is an operator with webhooks.
type webhookTest struct {
	*cluster
	operator *process
	flags    []string                    // of the operator
	url      string                      // of the webhooks
	validity time.Duration               // of their certificates
	backups  schema.GroupVersionResource // which have an older version
}

// certificateValidity is how long the certificates of a test are valid that waits for new ones: a third of that is left when one
// is created, which takes half a second, or many seconds on a machine that is slow or busy.
func certificateValidity(t *testing.T) time.Duration {
	t.Helper()
	const each = 5
	began := time.Now()
	for range each {
		_, _, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
		require.NoError(t, err)
	}
	return min(max(24*time.Second, 40*time.Since(began)/each), 100*time.Second).Round(time.Second)
}

// TestWebhooks is not parallel: its certificates are valid for seconds, and a busy machine might
// not renew them in time.
func TestWebhooks(t *testing.T) {
	c := newCluster(t)
	kinds := corpus.Folder(t, fenceKind)
	converted, backups := writeKind(t, convertedBackup("rotated.example.com"))
	c.deleteCRDs(backups[0].Name())
	w := &webhookTest{cluster: c, validity: certificateValidity(t), backups: backups[0].GroupVersionResource()}
	t.Logf("certificates are valid for %s", w.validity)
	w.flags, w.url = c.webhookURLFlags()
	w.flags = append(w.flags, "--kinds", kinds, "--kinds", converted, "--webhook-cert-validity", w.validity.String(), "--metrics-listen", "127.0.0.1:0")
	w.operator = c.start(w.flags...)
	w.awaitRegistration()
	require.True(t, testcluster.WaitUntil(func() bool { // the API server calls the webhooks a little later
		_, err := w.createBy(w.client, fences, "Fence", "probe", map[string]any{"site": "wall"}, dryRun)
		return apierrors.IsInvalid(err)
	}))
	for _, test := range []struct {
		name string
		run  func(*webhookTest, *testing.T)
	}{
		{"ready", (*webhookTest).ready},
		{"rejected and defaulted", (*webhookTest).rejectedAndDefaulted},
		{"rights of the author", (*webhookTest).rightsOfTheAuthor},
		{"autoscaler", (*webhookTest).autoscaler},
		{"sidecars", (*webhookTest).sidecars},
		{"metrics", (*webhookTest).metrics},
		{"pod security", (*webhookTest).podSecurity},
		{"removed volumes", (*webhookTest).removedVolumes},
		{"restored in any order", (*webhookTest).restoredInAnyOrder},
		{"configurations are kept", (*webhookTest).configurationsAreKept},
		{"certificate is rotated under load", (*webhookTest).rotatedUnderLoad},
		{"operator is down", (*webhookTest).operatorIsDown},
		{"operator stops", (*webhookTest).operatorStops},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(w, t) })
	}
}

// A CRD that the operator may not write does not keep it from renewing the certificate of all webhooks. It is not parallel,
// as TestWebhooks.
func TestCertificateIsRenewedBesideForbiddenCRD(t *testing.T) {
	c := newCluster(t)
	converted, backups := writeKind(t, convertedBackup("forbidden.example.com"))
	c.deleteCRDs(backups[0].Name())
	c.proxy.failing.Store(new(func(r *http.Request) int {
		if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "customresourcedefinitions") {
			return http.StatusForbidden
		}
		return 0
	}))
	flags, _ := c.webhookURLFlags()
	o := c.launch(append(flags, "--kinds", converted, "--shipped-kinds=false", "--webhook-cert-validity", certificateValidity(t).String())...)
	o.awaitLog("setting the conversion webhook of CRDs failed")
	o.awaitLog("step=promote")
	require.Equal(t, 1, strings.Count(o.log.String(), "step=replace"), "a certificate was replaced when it had expired")
}

// ready requires a check for each thing that the webhooks need.
func (w *webhookTest) ready(t *testing.T) {
	code, body := get(t, w.operator.address("--health-listen")+"/readyz?verbose")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "[+]ping ok\n[+]kinds ok\n[+]certificate ok\n[+]tls-listener ok\n[+]injection ok\n[+]namespaces ok\n[+]caches ok\nreadyz check passed\n", body)
}

func (w *webhookTest) rejectedAndDefaulted(t *testing.T) {
	_, err := w.createBy(w.client, fences, "Fence", "bad", map[string]any{"site": "wall"}, metav1.CreateOptions{})
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	require.EqualError(t, err, `admission webhook "fences.fences.example.com" denied the request: Fence.fences.example.com "bad" is invalid: spec.site: Invalid value: "wall": must satisfy net.AbsURL`)
	status := err.(apierrors.APIStatus).Status()
	require.Equal(t, []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Message: `Invalid value: "wall": must satisfy net.AbsURL`, Field: "spec.site"}}, status.Details.Causes)

	created, err := w.createBy(w.client, fences, "Fence", "generated-*", map[string]any{}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Regexp(t, "^generated-[a-z0-9]{5}$", created.GetName())
	require.Equal(t, map[string]any{"colour": "green"}, created.Object["spec"])
	w.await(configMaps, created.GetName()+"-config", "created", exists)

	// An update must not change immutable fields, until the object is being deleted.
	object, err := w.createBy(w.client, fences, "Fence", "kept", map[string]any{"place": "north"}, metav1.CreateOptions{})
	require.NoError(t, err)
	patch := func(body string) error {
		_, err := w.objects(fences).Patch(t.Context(), object.GetName(), "application/merge-patch+json", []byte(body), metav1.PatchOptions{})
		return err
	}
	require.ErrorContains(t, patch(`{"spec":{"place":"south"}}`), "spec.place")
	require.NoError(t, patch(`{"metadata":{"finalizers":["fences.example.com/hold"]}}`))
	w.delete(fences, "kept")
	require.NoError(t, patch(`{"metadata":{"finalizers":null}}`))
	w.awaitGone(fences, "kept")
}

// rightsOfTheAuthor creates objects as a user with real RBAC rights.
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
	rejection := ""
	require.True(t, testcluster.WaitUntil(func() bool { // RBAC is updated a little later
		_, err = w.createBy(ada, watchers, "Watcher", "a", spec, metav1.CreateOptions{})
		rejection = fmt.Sprint(err)
		return strings.Contains(rejection, "admission webhook")
	}), "%v", err)
	require.True(t, apierrors.IsForbidden(err))
	require.Equal(t, `admission webhook "watchers.watch.fescue.dev" denied the request: watchers.watch.fescue.dev "a" is forbidden: user "ada" cannot create resource "configmaps" in API group "" in the namespace "`+w.namespace+`"; user "ada" cannot create resource "pods" in API group "" in the namespace "`+w.namespace+`", which the kind Watcher does on behalf of the user`, rejection)

	// An object of the administrator: ada may label it, but not change its behaviour.
	_, err = w.createBy(w.client, watchers, "Watcher", "b", spec, metav1.CreateOptions{})
	require.NoError(t, err)
	patch := func(body string) error {
		_, err := ada.Resource(watchers).Namespace(w.namespace).Patch(t.Context(), "b", "application/merge-patch+json", []byte(body), metav1.PatchOptions{})
		return err
	}
	require.NoError(t, patch(`{"metadata":{"labels":{"a":"b"}}}`))
	require.True(t, apierrors.IsForbidden(patch(`{"spec":{"configData":{"a":"c"}}}`)))

	grant("configmaps", "", "configmaps", "create")
	require.True(t, testcluster.WaitUntil(func() bool {
		_, err = w.createBy(ada, watchers, "Watcher", "a", spec, metav1.CreateOptions{})
		return err != nil && strings.Contains(err.Error(), `"pods"`)
	}), "%v", err)
	require.ErrorContains(t, err, `user "ada" cannot create resource "pods" in API group "" in the namespace "`+w.namespace+`"`, "a Watcher puts its container into Pods")
	grant("pods", "", "pods", "create")
	require.True(t, testcluster.WaitUntil(func() bool {
		_, err = w.createBy(ada, watchers, "Watcher", "a", spec, metav1.CreateOptions{})
		return err == nil
	}), "%v", err)
	require.NoError(t, patch(`{"spec":{"configData":{"a":"c"}}}`))
}

// autoscaler scales like the controller of HorizontalPodAutoscalers, which may not create Pods.
func (w *webhookTest) autoscaler(t *testing.T) {
	config := testcluster.Config(t)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:kube-system:horizontal-pod-autoscaler"}
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	_, err = w.createBy(w.client, customclusters, "Customcluster", "scaled", map[string]any{"count": int64(0), "message": "m"}, metav1.CreateOptions{})
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

// sidecars creates Pods with the annotation of a Watcher: a single one, those of a Deployment and
// of a Job, and one with a conflict.
func (w *webhookTest) sidecars(t *testing.T) {
	_, err := w.createBy(w.client, watchers, "Watcher", "log", map[string]any{
		"container": map[string]any{
			"name": "watch", "image": "busybox:1.37",
			"volumeMounts": []any{map[string]any{"name": "logs", "mountPath": "/logs"}},
		},
		"volume":           map[string]any{"name": "logs", "emptyDir": map[string]any{}},
		"configData":       map[string]any{"LEVEL": "error"},
		"imagePullSecrets": map[string]any{"name": "registry"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	annotated := map[string]string{"watch.fescue.dev/inject": "log"}
	pods := w.typed.CoreV1().Pods(w.namespace)
	var single *corev1.Pod
	require.True(t, testcluster.WaitUntil(func() bool { // the injector sees the Watcher a little later
		single, err = pods.Create(t.Context(), podWith(annotated), dryRun)
		return err == nil && len(single.Spec.InitContainers) == 1
	}), "%v", err)
	single, err = pods.Create(t.Context(), podWith(annotated), metav1.CreateOptions{})
	require.NoError(t, err)
	requireSidecar(t, single)

	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: annotated, Labels: map[string]string{"of": "workload"}}, Spec: podWith(nil).Spec}
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
	var workload []corev1.Pod
	require.True(t, testcluster.WaitUntil(func() bool {
		list, err := pods.List(t.Context(), metav1.ListOptions{LabelSelector: "of=workload"})
		workload = list.Items
		return err == nil && len(workload) == 2
	}))
	for i := range workload {
		requireSidecar(t, &workload[i])
	}

	manifest, err := json.Marshal(&corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "by-kubectl", Annotations: annotated}, Spec: podWith(nil).Spec,
	})
	require.NoError(t, err)
	apply := exec.CommandContext(t.Context(), "kubectl", "--namespace", w.namespace, "apply", "--dry-run=server", "--output", "json", "--filename", "-")
	apply.Stdin = bytes.NewReader(manifest)
	printed, err := apply.Output()
	require.NoError(t, err)
	var applied corev1.Pod
	require.NoError(t, json.Unmarshal(printed, &applied))
	requireSidecar(t, &applied)

	// Injecting into an injected Pod changes nothing.
	again := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "again-", Annotations: single.Annotations}, Spec: single.Spec}
	again.Spec.NodeName = ""
	again, err = pods.Create(t.Context(), again, metav1.CreateOptions{})
	require.NoError(t, err)
	requireSidecar(t, again)
	require.Equal(t, single.Annotations, again.Annotations)

	// A Pod with another container of that name is created unchanged.
	conflicting := podWith(annotated)
	conflicting.Name, conflicting.Spec.Containers[0].Name = "conflicting", "watch"
	conflicting, err = pods.Create(t.Context(), conflicting, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Empty(t, conflicting.Spec.InitContainers)
	require.Contains(t, conflicting.Annotations["fescue.dev/injected"], "Conflict")
	w.awaitEvent("log", "NotInjected")
}

// metrics checks what the subtests before it have counted.
func (w *webhookTest) metrics(t *testing.T) {
	families := w.operator.scrape()
	requireDocumented(t, families, headingWebhooks)
	for outcome, path := range map[string]string{"patched": admission.InjectPath, "allowed": admission.ValidatePath, "rejected": admission.ValidatePath} {
		require.Positive(t, sample(t, families, "fescue_admission_reviews_total", map[string]string{"webhook": path, "outcome": outcome}))
	}
	const controller = "watchers.watch.fescue.dev"
	require.LessOrEqual(t, 3.0, sample(t, families, "fescue_injections_total", map[string]string{"controller": controller}))
	require.InDelta(t, 1, sample(t, families, "fescue_injection_skips_total", map[string]string{"controller": controller, "reason": "Present"}), 0)
	require.InDelta(t, 1, sample(t, families, "fescue_injection_skips_total", map[string]string{"controller": controller, "reason": "Conflict"}), 0)
	require.InDelta(t, float64(time.Now().Unix()), sample(t, families, "fescue_certificate_expiry_timestamp_seconds", nil), w.validity.Seconds()+1)
	require.InDelta(t, float64(time.Now().Unix()), sample(t, families, "fescue_certificate_start_timestamp_seconds", nil), 7200, "clocks may differ by an hour")
}

// podSecurity creates Watchers with more privileges than any may inject, and with more than the
// level of the namespace allows.
func (w *webhookTest) podSecurity(t *testing.T) {
	create := func(securityContext map[string]any) error {
		_, err := w.createBy(w.client, watchers, "Watcher", "secured", map[string]any{
			"container": map[string]any{"name": "watch", "image": "busybox:1.37", "securityContext": securityContext},
		}, dryRun)
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

// removedVolumes creates Watchers with volumes that the CRD and the API server accept, and that no node mounts.
func (w *webhookTest) removedVolumes(t *testing.T) {
	for source, content := range map[string]map[string]any{
		"rbd":                  {"monitors": []any{"a"}, "image": "a"},
		"awsElasticBlockStore": {"volumeID": "a"},
	} {
		_, err := w.createBy(w.client, watchers, "Watcher", "removed", map[string]any{
			"container": map[string]any{"name": "watch", "image": "busybox:1.37"},
			"volume":    map[string]any{"name": "v", source: content},
		}, dryRun)
		require.True(t, apierrors.IsInvalid(err), "%v", err)
		require.ErrorContains(t, err, "spec.volume."+source+": Forbidden: cannot be injected: Kubernetes removed this type of volume or moved it to CSI; use persistentVolumeClaim or csi")
	}
}

// requireSidecar checks that a Pod has everything that the Watcher adds, once.
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

// restoredInAnyOrder creates the objects of a backup, once the parent first and once the child
// first.
func (w *webhookTest) restoredInAnyOrder(t *testing.T) {
	configMaps := w.typed.CoreV1().ConfigMaps(w.namespace)
	for name, parentFirst := range map[string]bool{"parent-first": true, "child-first": false} {
		steps := []func() error{
			func() error {
				// How a child that exists already is adopted is tested with the engine.
				_, err := w.createBy(w.client, fences, "Fence", name, map[string]any{"colour": "white"}, dryRun)
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

// configurationsAreKept deletes one configuration, empties the other, and then disables a webhook:
// the operator reverts each.
func (w *webhookTest) configurationsAreKept(t *testing.T) {
	api := w.typed.AdmissionregistrationV1()
	require.NoError(t, api.MutatingWebhookConfigurations().Delete(t.Context(), w.webhookName(), metav1.DeleteOptions{}))
	_, err := api.ValidatingWebhookConfigurations().Patch(t.Context(), w.webhookName(), "application/merge-patch+json", []byte(`{"webhooks":[]}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.True(t, testcluster.WaitUntil(func() bool {
		mutating, err := api.MutatingWebhookConfigurations().Get(t.Context(), w.webhookName(), metav1.GetOptions{})
		if err != nil || len(mutating.Webhooks) == 0 {
			return false
		}
		validating, err := api.ValidatingWebhookConfigurations().Get(t.Context(), w.webhookName(), metav1.GetOptions{})
		return err == nil && len(validating.Webhooks) > 0 && bytes.Equal(validating.Webhooks[0].ClientConfig.CABundle, mutating.Webhooks[0].ClientConfig.CABundle)
	}))

	before, err := api.ValidatingWebhookConfigurations().Get(t.Context(), w.webhookName(), metav1.GetOptions{})
	require.NoError(t, err)
	_, err = api.ValidatingWebhookConfigurations().Patch(t.Context(), w.webhookName(), "application/json-patch+json", []byte(`[
		{"op": "replace", "path": "/webhooks/0/objectSelector", "value": {"matchLabels": {"a": "b"}}},
		{"op": "add", "path": "/webhooks/0/matchConditions/0", "value": {"name": "never", "expression": "false"}}]`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.True(t, testcluster.WaitUntil(func() bool {
		validating, err := api.ValidatingWebhookConfigurations().Get(t.Context(), w.webhookName(), metav1.GetOptions{})
		if err != nil || len(validating.Webhooks) != len(before.Webhooks) {
			return false
		}
		for i := range validating.Webhooks { // the certificates change in the meantime
			validating.Webhooks[i].ClientConfig = before.Webhooks[i].ClientConfig
		}
		return reflect.DeepEqual(before.Webhooks, validating.Webhooks)
	}))
}

// rotatedUnderLoad creates objects and Pods by 16 clients until the certificate is replaced twice.
func (w *webhookTest) rotatedUnderLoad(t *testing.T) {
	secret := func() []byte {
		s, err := w.typed.CoreV1().Secrets(w.namespace).Get(t.Context(), operator.DefaultSecret, metav1.GetOptions{})
		require.NoError(t, err)
		return s.Data[corev1.TLSCertKey]
	}
	w.create(w.backups, "Backup", "a", map[string]any{"spec": map[string]any{"keep": int64(3)}})
	defer w.delete(w.backups, "a")
	older := w.backups
	older.Version = "v1beta1"
	w.await(older, "a", "converted", exists)
	var stop atomic.Bool
	var sent atomic.Int64
	failures := make(chan error, 16)
	var sending sync.WaitGroup
	for client := range 16 {
		sending.Go(func() {
			for i := 0; !stop.Load(); i++ {
				var err error
				switch client % 3 {
				case 0:
					_, err = w.createBy(w.client, fences, "Fence", fmt.Sprintf("load-%d-%d", client, i), map[string]any{}, dryRun)
				case 1:
					_, err = w.get(older, "a")
				default:
					// A Pod is created even if the webhook fails, but then has no sidecar.
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
	for range 2 {
		served := secret()
		require.True(t, testcluster.WaitUntil(func() bool { return !bytes.Equal(secret(), served) || len(failures) > 0 }), "not replaced")
	}
	stop.Store(true)
	sending.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}
	t.Logf("%d objects created or converted while the certificate was replaced twice", sent.Load())
}

func (w *webhookTest) operatorIsDown(t *testing.T) {
	_, err := w.createBy(w.client, fences, "Fence", "before", map[string]any{}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, 0, w.operator.stop())
	require.Contains(t, w.operator.log.String(), `removal="kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration `+w.webhookName()+`"`)
	_, err = w.createBy(w.client, fences, "Fence", "after", map[string]any{}, metav1.CreateOptions{})
	require.ErrorContains(t, err, `failed calling webhook "fences.fences.example.com"`)
	require.ErrorContains(t, err, "connection refused")
	// Objects can still be deleted, and Pods be created.
	w.delete(fences, "before")
	missed := podWith(map[string]string{"watch.fescue.dev/inject": "log"})
	missed.Name = "missed"
	missed, err = w.typed.CoreV1().Pods(w.namespace).Create(t.Context(), missed, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Empty(t, missed.Spec.InitContainers)

	// Once the operator is back, the Watcher reports the Pods that missed it.
	w.operator = w.start(w.flags...)
	w.await(watchers, "log", "reporting the Pod", func(o *unstructured.Unstructured) bool {
		status, reason, message := condition(o, "Injected")
		return status == "False" && reason == "MissedPods" && strings.Contains(message, "missed")
	})
}

// operatorStops stops an operator: it releases its Lease at once, and its webhooks keep answering.
func (w *webhookTest) operatorStops(t *testing.T) {
	require.Equal(t, 0, w.operator.stop())
	// The certificate is not renewed after the signal, so it needs to be valid for longer.
	require.NoError(t, w.typed.CoreV1().Secrets(w.namespace).Delete(t.Context(), operator.DefaultSecret, metav1.DeleteOptions{}))
	w.operator = w.start(append(w.flags, "--webhook-cert-validity", "1h", "--leader-elect", "--leader-elect-resource-namespace", w.namespace, "--shutdown-delay-duration", "1h")...)
	w.awaitRegistration()
	submit := func() error {
		_, err := w.createBy(w.client, fences, "Fence", "late", map[string]any{"site": "wall"}, dryRun)
		return err
	}
	require.True(t, testcluster.WaitUntil(func() bool { return apierrors.IsInvalid(submit()) }))
	holder := func() string {
		lease, err := w.typed.CoordinationV1().Leases(w.namespace).Get(t.Context(), "fescue", metav1.GetOptions{})
		require.NoError(t, err)
		return ptr.Deref(lease.Spec.HolderIdentity, "")
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
	signal() // the second one ends the operator
	w.operator.awaitEnd()
	_, err := w.createBy(w.client, fences, "Fence", "late", map[string]any{}, dryRun)
	require.ErrorContains(t, err, "connection refused")
}

// An operator whose webhooks are called by a URL does not start where the configurations belong to an
// installation.
func TestWebhookURLBesideInstallation(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	shipped := kindtest.Shipped(t)
	c.installCRDs(shipped)
	flags, _ := c.webhookURLFlags() // deletes the configurations after the test
	mutating, validating := admission.Configurations(shipped, admission.Webhooks{
		Name: c.webhookName(), Service: &admissionregistrationv1.ServiceReference{Namespace: c.namespace, Name: "webhooks"}, Namespaces: []string{c.namespace},
	})
	api := c.typed.AdmissionregistrationV1()
	_, err := api.MutatingWebhookConfigurations().Create(t.Context(), mutating, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = api.ValidatingWebhookConfigurations().Create(t.Context(), validating, metav1.CreateOptions{})
	require.NoError(t, err)
	o := c.launch(flags...)
	o.awaitEnd()
	require.Contains(t, o.log.String(), fmt.Sprintf(
		"--webhook-url: the webhook configurations %q belong to an installation: they call the Service %s/webhooks; set --webhook-configuration to another name", c.webhookName(), c.namespace))
}
