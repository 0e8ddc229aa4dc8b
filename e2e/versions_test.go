package e2e

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"github.com/fescue-dev/fescue/internal/operator"
	"github.com/fescue-dev/fescue/internal/testcluster"
)

// The kind of TestVersions, in its first version, with a second one, and without the first.
const (
	backupHeader = `package backups

import (
	"strconv"
	"strings"

	"fescue.dev/cue/contract"
	"fescue.dev/cue/k8s"
)
`
	backupV1beta1 = `
#Backup%[1]s: {
	apiVersion!: "versions.example.com/v1beta1"
	kind!:       "Backup"
	metadata!:   k8s.#ObjectMeta
	spec!: {
		keep!:   =~"^[1-9][0-9]{0,3}$"
		volumes: *"" | strings.MaxRunes(1000)
	}
	status?: contract.#Status
}
`
	backupV1 = `
#Backup: {
	apiVersion!: "versions.example.com/v1"
	kind!:       "Backup"
	metadata!:   k8s.#ObjectMeta
	spec!: {
		keep!:     int32 & >=0
		volumes:   *[] | [...strings.MaxRunes(63)]
		suspend:   *false | bool
		place?:    string @kube(immutable)
	}
	status?: contract.#Status
}
`
	backupConversion = `
#BackupV1beta1Conversion: contract.#Conversion & {
	object!: #BackupV1beta1
	stored!: #Backup
	toStored: spec: {
		keep:    strconv.Atoi(object.spec.keep)
		volumes: strings.Fields(object.spec.volumes)
	}
	fromStored: spec: {
		keep:    "\(stored.spec.keep)"
		volumes: strings.Join(stored.spec.volumes, " ")
	}
	deprecated:         true
	deprecationWarning: "versions.example.com/v1beta1 Backup is deprecated: use v1"
}
`
	backupController = `
#BackupController: contract.#Controller & {
	object!: #Backup
	names: plural: "backups"
	children: config: {
		template: {apiVersion: "v1", kind: "ConfigMap", data: keep: "\(object.spec.keep)"}
	}
}
_unused: [strconv.Atoi("1"), strings.Fields("a")]
`
)

// convertedBackup returns the kind with both versions, in a group.
func convertedBackup(group string) string {
	text := backupHeader + fmt.Sprintf(backupV1beta1, "V1beta1") + backupV1 + backupConversion + backupController
	return strings.ReplaceAll(text, "versions.example.com", group)
}

// unwritten is how many objects nobody writes after the stored version has changed.
const unwritten = 3

// versionsTest is a kind whose versions change.
type versionsTest struct {
	*cluster
	flags    []string
	operator *process
	older    schema.GroupVersionResource
	newer    schema.GroupVersionResource
}

// TestVersions takes a kind through the life of its versions: objects of the first one, a second one
// that is stored from then on with conversions both ways, migration, and the end of the first one.
func TestVersions(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.deleteCRDs("backups.versions.example.com")
	v := &versionsTest{cluster: c}
	v.older = schema.GroupVersionResource{Group: "versions.example.com", Version: "v1beta1", Resource: "backups"}
	v.newer = schema.GroupVersionResource{Group: "versions.example.com", Version: "v1", Resource: "backups"}
	v.flags, _ = c.webhookURLFlags()
	first, _ := writeKind(t, backupHeader+fmt.Sprintf(backupV1beta1, "")+backupController)
	both, _ := writeKind(t, convertedBackup("versions.example.com"))
	last, _ := writeKind(t, backupHeader+backupV1+backupController)

	v.run(first)
	old := v.create(v.older, "Backup", "old", map[string]any{"spec": map[string]any{"keep": "7", "volumes": "a b"}})
	v.awaitKeep("old", "7")
	for i := range unwritten { // nobody writes these again
		name := fmt.Sprintf("unwritten-%d", i)
		v.create(v.older, "Backup", name, map[string]any{"spec": map[string]any{"keep": "5"}})
		v.awaitReady(v.older, name)
	}

	v.run(both)
	v.awaitConverted()
	converted, err := v.get(v.newer, "old")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"keep": int64(7), "volumes": []any{"a", "b"}, "suspend": false}, converted.Object["spec"])
	require.Equal(t, old.GetUID(), converted.GetUID())
	// The garbage collector finds no owner in a version that is not served any more.
	v.await(configMaps, "old-config", "a reference in the stored version", func(o *unstructured.Unstructured) bool {
		return metav1.GetControllerOf(o).APIVersion == "versions.example.com/v1"
	})
	v.bothWays(t)
	v.rejected(t)
	v.restarted(both)
	v.certificateReplaced()
	v.migrated(both)

	v.run(last)
	v.awaitKeep("old", "9")
	require.Len(t, v.list(v.newer, ""), 2+unwritten)
	crd, err := v.client.Resource(definitions).Get(t.Context(), "backups.versions.example.com", metav1.GetOptions{})
	require.NoError(t, err)
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	require.Len(t, versions, 1)
	require.True(t, testcluster.WaitUntil(func() bool { // no webhook is left for what needs none
		crd, err := v.client.Resource(definitions).Get(t.Context(), "backups.versions.example.com", metav1.GetOptions{})
		strategy, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy")
		return err == nil && strategy == "None"
	}))
	require.Zero(t, v.operator.stop())
}

// run runs an operator with a folder of kinds, instead of the one that runs.
func (v *versionsTest) run(kinds string) {
	v.t.Helper()
	if v.operator != nil {
		require.Zero(v.t, v.operator.stop())
	}
	v.operator = v.start(append(v.flags, "--kinds", kinds)...)
}

// awaitKeep waits until the child of an object has a number.
func (v *versionsTest) awaitKeep(name, keep string) {
	v.t.Helper()
	v.await(configMaps, name+"-config", "keep "+keep, func(o *unstructured.Unstructured) bool {
		text, _, _ := unstructured.NestedString(o.Object, "data", "keep")
		return text == keep
	})
}

// awaitConverted waits until the API server has objects converted.
func (v *versionsTest) awaitConverted() {
	v.t.Helper()
	var err error
	require.True(v.t, testcluster.WaitUntil(func() bool {
		_, err = v.get(v.newer, "old")
		return err == nil
	}), "%v", err)
}

// bothWays writes objects in one version and reads them in the other.
func (v *versionsTest) bothWays(t *testing.T) {
	v.apply(t, `{"apiVersion":"versions.example.com/v1beta1","kind":"Backup","metadata":{"name":"old"},"spec":{"keep":"8","volumes":"a b"}}`)
	v.awaitKeep("old", "8")

	v.create(v.newer, "Backup", "new", map[string]any{"spec": map[string]any{"keep": int64(3), "volumes": []any{"a", "b c"}, "suspend": true, "place": "here"}})
	v.awaitKeep("new", "3")
	older, err := v.get(v.older, "new")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"keep": "3", "volumes": "a b c"}, older.Object["spec"])
	require.NotEmpty(t, older.Object["status"])

	// What the older version cannot say survives an update in it, unless it is changed there.
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		older, err := v.get(v.older, "new")
		if err != nil {
			return err
		}
		require.NoError(t, unstructured.SetNestedField(older.Object, "4", "spec", "keep"))
		_, err = v.objects(v.older).Update(t.Context(), older, metav1.UpdateOptions{})
		return err
	}))
	newer, err := v.get(v.newer, "new")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"keep": int64(4), "volumes": []any{"a", "b c"}, "suspend": true, "place": "here"}, newer.Object["spec"])
	require.NotContains(t, newer.GetAnnotations(), "conversion.fescue.dev/v1")
	_, err = v.objects(v.older).Patch(t.Context(), "new", types.MergePatchType, []byte(`{"spec":{"volumes":"x y"}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	newer, err = v.get(v.newer, "new")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"keep": int64(4), "volumes": []any{"x", "y"}, "suspend": true, "place": "here"}, newer.Object["spec"])
	v.awaitKeep("new", "4")

	list, err := v.objects(v.older).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 2+unwritten)
}

// rejected requires that the annotation of a conversion is no way around the rules of the stored
// version, nor to another object.
func (v *versionsTest) rejected(t *testing.T) {
	patch := func(annotation string) error {
		body := fmt.Sprintf(`{"metadata":{"annotations":{"conversion.fescue.dev/v1":%q}}}`, annotation)
		_, err := v.objects(v.older).Patch(t.Context(), "new", types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	require.ErrorContains(t, patch(`{"/spec/place":{"value":"elsewhere"}}`), "as v1: ", "an immutable field")
	require.ErrorContains(t, patch(`{"/spec/suspend":{"value":"maybe","instead":"fcbcf165908dd18a"}}`), "as v1: ", "a field of a wrong type")
	before, err := v.get(v.newer, "new")
	require.NoError(t, err)
	generation, _, _ := unstructured.NestedInt64(before.Object, "status", "observedGeneration")
	sum := sha256.Sum256(fmt.Append(nil, generation)) // what the conversion yields, as in cue/kind/kept.go
	require.ErrorContains(t, patch(fmt.Sprintf(`{"/status/observedGeneration":{"value":7777,"instead":"%x"},"/spec/place":{"value":"here"}}`, sum[:8])), "it would change the status")
	require.NoError(t, patch(`{"/metadata/name":{"value":"other"},"/metadata/uid":{"value":"other"},"/kind":{"value":"Pod"},"/spec/place":{"value":"here"}}`))
	after, err := v.get(v.newer, "new")
	require.NoError(t, err)
	require.Equal(t, before.GetUID(), after.GetUID())
	require.Equal(t, "Backup", after.GetKind())
}

// restarted kills the operator. Objects cannot be converted until another one runs, which then
// continues.
func (v *versionsTest) restarted(kinds string) {
	v.operator.kill()
	v.operator = v.start(append(v.flags, "--kinds", kinds)...)
	var err error
	require.True(v.t, testcluster.WaitUntil(func() bool {
		_, err = v.objects(v.older).Patch(v.t.Context(), "old", types.MergePatchType, []byte(`{"spec":{"keep":"9"}}`), metav1.PatchOptions{})
		return err == nil
	}), "%v", err)
	v.awaitKeep("old", "9")
}

// certificateReplaced replaces the certificate of the webhooks, which the CRD has to trust from then on.
func (v *versionsTest) certificateReplaced() {
	bundle := func() string {
		crd, err := v.client.Resource(definitions).Get(v.t.Context(), "backups.versions.example.com", metav1.GetOptions{})
		require.NoError(v.t, err)
		text, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "webhook", "clientConfig", "caBundle")
		return text
	}
	before := bundle()
	require.NotEmpty(v.t, before)
	v.patch(secrets, operator.DefaultSecret, `{"data":{"ca.crt":"YnJva2Vu","tls.crt":"YnJva2Vu","tls.key":"YnJva2Vu"}}`)
	var err error
	require.True(v.t, testcluster.WaitUntil(func() bool {
		_, err = v.get(v.older, "new")
		return bundle() != before && err == nil
	}), "%v", err)
}

// migrated has all objects stored in the present version, with the rights that the documentation lists and
// no others. The migration is killed after each of its writes.
func (v *versionsTest) migrated(kinds string) {
	require.ElementsMatch(v.t, []string{"v1beta1", "v1"}, v.storedVersions())
	rules := documentedRules(v.t, "versions.md", "example.com", "versions.example.com")
	v.serviceAccount("migrator", nil)
	v.clusterRole("migrator", rules)
	config := v.configOf("migrator")
	v.awaitRights(config, flatten(rules))
	kubeconfig := filepath.Join(v.t.TempDir(), "kubeconfig")
	testcluster.WriteKubeconfig(v.t, kubeconfig, v.proxy.through(config), v.namespace)
	command := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(v.t.Context(), "fescue", append([]string{"migrate", "--kubeconfig", kubeconfig, "--shipped-kinds=false", "--kinds", kinds}, args...)...)
		c.Stderr = os.Stderr
		return c
	}
	fescue := func(args ...string) string {
		out, err := command(args...).Output()
		require.NoError(v.t, err)
		return string(out)
	}
	const objects = 2 + unwritten
	require.Equal(v.t, fmt.Sprintf("backups.versions.example.com: %d objects, some of which may be stored as v1beta1, would be stored as v1\n", objects), fescue("--dry-run"))
	require.ElementsMatch(v.t, []string{"v1beta1", "v1"}, v.storedVersions())

	use := watchRights(v.proxy)
	for last := 1; last <= objects+1; last++ { // the last write is that of the CRD
		require.Contains(v.t, v.storedVersions(), "v1beta1")
		c, written := command(), 0
		v.proxy.answered.Store(new(func(r *http.Response) {
			use.record(r)
			if r.Request.Method != http.MethodPut || !strings.Contains(r.Request.Header.Get("Authorization"), config.BearerToken) {
				return
			}
			if written++; written == last {
				_ = c.Process.Kill()
			}
		}))
		require.ErrorContains(v.t, c.Run(), "signal: killed")
	}
	require.Equal(v.t, []string{"v1"}, v.storedVersions())
	require.Equal(v.t, "backups.versions.example.com: all objects are stored as v1\n", fescue())
	require.Equal(v.t, "backups.versions.example.com: all objects are stored as v1\n", fescue("--kinds", v.uninstalled()), "a kind without a CRD has no objects")

	crd := v.client.Resource(definitions)
	_, err := crd.Patch(v.t.Context(), "backups.versions.example.com", types.MergePatchType, []byte(`{"status":{"storedVersions":["v1beta1","v1"]}}`), metav1.PatchOptions{}, "status")
	require.NoError(v.t, err)
	require.Equal(v.t, fmt.Sprintf("backups.versions.example.com: %d objects are stored as v1, of which 0 were stored as v1beta1; that is no longer in use\n", objects), fescue("backups"))
	require.Equal(v.t, []string{"v1"}, v.storedVersions())
	require.Empty(v.t, use.unused(flatten(rules)))
	require.Empty(v.t, use.missingAny())
}

// documentedRules returns the rules that a page of the documentation lists, for another group.
func documentedRules(t *testing.T, page, group, as string) (rules []rbacv1.PolicyRule) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", page))
	require.NoError(t, err)
	lines := regexp.MustCompile(`(?m)^    - \{apiGroups: .*$`).FindAllString(string(text), -1)
	list := strings.ReplaceAll(strings.Join(lines, "\n"), "["+group+"]", "["+as+"]")
	require.NoError(t, yaml.Unmarshal([]byte(list), &rules))
	require.NotEmpty(t, rules)
	return rules
}

// uninstalled writes a kind that the cluster does not have.
func (v *versionsTest) uninstalled() string {
	dir, _ := writeKind(v.t, strings.ReplaceAll(backupHeader+backupV1+backupController, "versions.example.com", "absent.example.com"))
	return dir
}

func (v *versionsTest) storedVersions() []string {
	crd, err := v.client.Resource(definitions).Get(v.t.Context(), "backups.versions.example.com", metav1.GetOptions{})
	require.NoError(v.t, err)
	stored, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
	return stored
}

// apply runs kubectl apply.
func (v *versionsTest) apply(t *testing.T, manifest string) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	testcluster.WriteKubeconfig(t, kubeconfig, testcluster.Config(t), v.namespace)
	command := exec.CommandContext(t.Context(), "kubectl", "--kubeconfig", kubeconfig, "--namespace", v.namespace, "apply", "--filename", "-")
	command.Stdin = strings.NewReader(manifest)
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "is deprecated: use v1")
}
