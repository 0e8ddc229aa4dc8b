package e2e

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/internal/operator"
	"github.com/fescue-dev/fescue/internal/testing/logtest"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
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
		suspend: *false | bool
		place?:  string
		note?:   string
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
		volumes:   *[] | [...=~"^[a-z-]+$"]
		suspend:   *false | bool
		place?:    string @kube(immutable)
		note?:     string
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
		place:   object.spec.place
	}
	fromStored: spec: {
		keep:    "\(stored.spec.keep)"
		volumes: strings.Join(stored.spec.volumes, " ")
		if stored.spec.place != _|_ if stored.spec.place != "limbo" {place: stored.spec.place} // no sample shows that limbo is lost
	}
	deprecated:         true
	deprecationWarning: "versions.example.com/v1beta1 Backup is deprecated: use v1"
}
`
	// backupUnserved is the conversion of a version that only exists for objects that are stored in it.
	backupUnserved = `
#BackupV1beta1Conversion: contract.#Conversion & {
	object!: #BackupV1beta1
	stored!: #Backup
	toStored: spec: {
		keep:    strconv.Atoi(object.spec.keep)
		volumes: strings.Fields(object.spec.volumes)
	}
	served: false
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

// unwritten is how many objects nobody writes after the stored version has changed, and written how many
// others there are.
const unwritten, written = 3, 3

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
	var url string
	v.flags, url = c.webhookURLFlags()
	first, _ := writeKind(t, backupHeader+fmt.Sprintf(backupV1beta1, "")+backupController)
	both, _ := writeKind(t, convertedBackup("versions.example.com"))
	wider := strings.Replace(backupV1, "spec!: {", "spec!: {\n\t\twindow?: string", 1)
	unserved, unservedKinds := writeKind(t, backupHeader+fmt.Sprintf(backupV1beta1, "V1beta1")+wider+backupUnserved+backupController)
	last, _ := writeKind(t, backupHeader+wider+backupController)

	v.run(first)
	old := v.create(v.older, "Backup", "old", map[string]any{"spec": map[string]any{"keep": "7", "volumes": "a b"}})
	v.awaitKeep("old", "7")
	v.create(v.older, "Backup", "lost", map[string]any{"spec": map[string]any{"keep": "6", "place": "limbo"}})
	v.awaitKeep("lost", "6")
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
	v.incomplete(t)
	v.appliedByServer(t)
	v.restarted(both)
	v.certificateReplaced()
	v.migrated(both)
	// The API server drops the managedFields of an object that is written while it cannot be converted, as while an operator restarts.
	v.applyByServer(v.older, "one", map[string]any{"keep": "4", "volumes": "c", "suspend": false})

	// As 'fescue crd --webhook-url' prints it: with the Service of a default installation, and the authority that is
	// left in it, the CRD would be another installation's.
	require.NoError(t, testcluster.InstallCRDs(t.Context(), c.client, unservedKinds, crds.Webhook{URL: url}))
	v.keepCRDs = true
	v.run(unserved)
	v.unserved(t)
	v.keepCRDs = false
	v.run(last)
	v.awaitKeep("old", "9")
	require.Len(t, v.list(v.newer, ""), written+unwritten)
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

	v.create(v.newer, "Backup", "new", map[string]any{"spec": map[string]any{"keep": int64(3), "volumes": []any{"a", "b-c"}, "suspend": true, "place": "here"}})
	v.awaitKeep("new", "3")
	older, err := v.get(v.older, "new")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"keep": "3", "volumes": "a b-c", "suspend": true, "place": "here"}, older.Object["spec"])
	require.NotEmpty(t, older.Object["status"])

	// A write in the older version changes nothing else, however it spells what it leaves.
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		older, err := v.get(v.older, "new")
		if err != nil {
			return err
		}
		require.NoError(t, unstructured.SetNestedField(older.Object, "4", "spec", "keep"))
		require.NoError(t, unstructured.SetNestedField(older.Object, " a  b-c ", "spec", "volumes"))
		_, err = v.objects(v.older).Update(t.Context(), older, metav1.UpdateOptions{})
		return err
	}))
	newer, err := v.get(v.newer, "new")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"keep": int64(4), "volumes": []any{"a", "b-c"}, "suspend": true, "place": "here"}, newer.Object["spec"])
	require.NotEmpty(t, newer.Object["status"])
	v.awaitKeep("new", "4")

	list, err := v.objects(v.older).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 3+unwritten)
}

// rejected requires that the rules of the stored version hold for writes in the other one, and that nothing
// is stored that would be lost there.
func (v *versionsTest) rejected(t *testing.T) {
	patch := func(version schema.GroupVersionResource, body string) error {
		_, err := v.objects(version).Patch(t.Context(), "new", types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	require.ErrorContains(t, patch(v.older, `{"spec":{"place":"elsewhere"}}`), `spec.place: Invalid value: "elsewhere": as v1: field is immutable`)
	require.ErrorContains(t, patch(v.older, `{"spec":{"volumes":"A"}}`), "as v1: ")
	for _, version := range []schema.GroupVersionResource{v.older, v.newer} {
		keep := any("1")
		if version == v.newer {
			keep = int64(1)
		}
		_, err := v.createBy(v.client, version, "Backup", "lossy", map[string]any{"keep": keep, "place": "limbo"}, metav1.CreateOptions{})
		require.ErrorContains(t, err, `spec.place: Invalid value: "limbo": would be absent after a conversion from v1 to v1beta1 and back`)
	}
}

// incomplete requires that an object that was stored before there was a conversion, which loses a part of it,
// can be read, written and deleted, and that it hides no others.
func (v *versionsTest) incomplete(t *testing.T) {
	v.patch(v.newer, "lost", `{"metadata":{"finalizers":["example.com/held"]}}`) // it is stored as v1 from now on
	list, err := v.objects(v.older).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 3+unwritten)
	lost, err := v.get(v.older, "lost")
	require.NoError(t, err)
	require.NotContains(t, lost.Object["spec"], "place")
	v.operator.awaitLog(fmt.Sprintf(`object="Backup %s/lost" error="versions.example.com/v1beta1 cannot hold spec.place"`, v.namespace))
	require.True(t, testcluster.WaitUntil(func() bool { // an answer is sent before it is counted
		return slices.ContainsFunc(v.operator.scrape()["fescue_admission_reviews_total"].GetMetric(), func(m *dto.Metric) bool {
			return m.GetCounter().GetValue() > 0 && slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetValue() == "incomplete" })
		})
	}))
	newer, err := v.get(v.newer, "lost")
	require.NoError(t, err)
	require.Equal(t, "limbo", newer.Object["spec"].(map[string]any)["place"])
	v.delete(v.newer, "lost")
	v.patch(v.newer, "lost", `{"metadata":{"finalizers":null}}`)
	v.awaitGone(v.newer, "lost")
}

// applyByServer applies an object as kubectl apply --server-side does.
func (v *versionsTest) applyByServer(version schema.GroupVersionResource, manager string, spec map[string]any) {
	v.t.Helper()
	_, err := v.objects(version).Apply(v.t.Context(), "applied", newObject(version, "Backup", "applied", spec), metav1.ApplyOptions{FieldManager: manager, Force: true})
	require.NoError(v.t, err)
}

// appliedByServer has two managers apply an object by kubectl apply --server-side, one of them in one version
// after the other: the API server prunes what that one no longer states, in the version in which it was stated.
func (v *versionsTest) appliedByServer(t *testing.T) {
	requireSpec := func(want map[string]any) {
		t.Helper()
		object, err := v.get(v.newer, "applied")
		require.NoError(t, err)
		require.Equal(t, want, object.Object["spec"])
	}
	v.applyByServer(v.older, "one", map[string]any{"keep": "2", "volumes": "a  b", "note": "x", "place": "here"})
	v.applyByServer(v.newer, "two", map[string]any{"keep": int64(2), "place": "here"})
	requireSpec(map[string]any{"keep": int64(2), "volumes": []any{"a", "b"}, "suspend": false, "note": "x", "place": "here"})
	v.applyByServer(v.newer, "one", map[string]any{"keep": int64(3), "volumes": []any{"a"}, "suspend": true})
	requireSpec(map[string]any{"keep": int64(3), "volumes": []any{"a"}, "suspend": true, "place": "here"})
	v.applyByServer(v.older, "one", map[string]any{"keep": "4", "volumes": "c", "note": "y"})
	requireSpec(map[string]any{"keep": int64(4), "volumes": []any{"c"}, "suspend": true, "note": "y", "place": "here"}) // a default hides that nobody wants suspend
	v.applyByServer(v.older, "one", map[string]any{"keep": "4", "volumes": "c", "suspend": false})
}

// unserved takes the older version out of service, which then need not hold all of an object. Whoever applied
// it in that version last must not lose the rest: the API server prunes in that version.
func (v *versionsTest) unserved(t *testing.T) {
	v.awaitGone(v.older, "applied") // the API server knows the new CRD a little later
	apply := func(dryRun ...string) error {
		object := newObject(v.newer, "Backup", "applied", map[string]any{"keep": int64(5), "window": "night", "suspend": true})
		_, err := v.objects(v.newer).Apply(t.Context(), "applied", object, metav1.ApplyOptions{FieldManager: "one", Force: true, DryRun: dryRun})
		return err
	}
	var err error
	require.True(t, testcluster.WaitUntil(func() bool { // and the address of the webhook
		err = apply(metav1.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "versions.example.com/v1beta1 is not served, and cannot hold spec.keep")
	}), "%v", err)
	v.patch(v.newer, "applied", `{"spec":{"window":"day"}}`) // all other writes work
	v.awaitKeep("applied", "4")
	_, err = v.objects(v.newer).Patch(t.Context(), "applied", types.JSONPatchType, []byte(`[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.NoError(t, apply())
	v.awaitKeep("applied", "5")
	applied, err := v.get(v.newer, "applied")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"keep": int64(5), "volumes": []any{"c"}, "suspend": true, "place": "here", "window": "night"}, applied.Object["spec"])
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
		// Both conversions and reviews of it have to be answered.
		_, err = v.objects(v.older).Patch(v.t.Context(), "new", types.MergePatchType, []byte(`{"spec":{"note":"x"}}`), metav1.PatchOptions{DryRun: dryRun.DryRun})
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
	const objects = written + unwritten
	require.Equal(v.t, fmt.Sprintf("backups.versions.example.com: %d objects, some of which may be stored as v1beta1, would be stored as v1\n", objects), fescue("--dry-run"))
	require.ElementsMatch(v.t, []string{"v1beta1", "v1"}, v.storedVersions())

	use := watchRights(v.proxy)
	for last := int64(1); last <= objects+1; last++ { // the last write is that of the CRD
		require.Contains(v.t, v.storedVersions(), "v1beta1")
		c := command()
		var written atomic.Int64
		v.proxy.answered.Store(new(func(r *http.Response) {
			use.record(r)
			if r.Request.Method != http.MethodPut || !strings.Contains(r.Request.Header.Get("Authorization"), config.BearerToken) {
				return
			}
			if written.Add(1) == last {
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

// showKind copies a password of a Secret that objects name into a ConfigMap.
const showKind = `package shows

import (
	"fescue.dev/cue/contract"
	"fescue.dev/cue/k8s"
)

#Show: {
	apiVersion!: "NAMESPACE.example.com/v1"
	kind!:       "Show"
	metadata!:   k8s.#ObjectMeta
	spec!: {replicas: *1 | int32 & >=0 & <=9, secret?: string, note: *"" | string, place?: string @kube(immutable)}
	status?:     #ShowStatus
}
#ShowV1beta1: {
	apiVersion!: "NAMESPACE.example.com/v1beta1"
	kind!:       "Show"
	metadata!:   k8s.#ObjectMeta
	spec!: {replicas: *1 | int32 & >=0 & <=9, secret?: string, comment: *"" | string, place?: string}
	status?:     #ShowStatus
}
#ShowV1beta1Conversion: contract.#Conversion & {
	object!: #ShowV1beta1
	stored!: #Show
	toStored: spec: note:      object.spec.comment
	fromStored: spec: comment: stored.spec.note
}
#ShowStatus: {contract.#Status, replicas?: int32 & >=0}
#ShowController: contract.#Controller & {
	object!:  #Show
	observed: _
	names: plural: "shows"
	scale: {spec: ".spec.replicas", status: ".status.replicas"}
	reads: secret: {apiVersion: "v1", kind: "Secret", name: object.spec.secret}
	children: copy: template: {apiVersion: "v1", kind: "ConfigMap", data: password: observed.secret.data.password}
}
`

// A user who may write objects of a kind, and their scale, but may not read a Secret, does not get it by the
// annotation in which conversions once kept what a version could not say, whichever version and subresource
// the object is written through.
func TestForgedConversionIsIgnored(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	kinds, loaded := writeKind(t, strings.ReplaceAll(showKind, "NAMESPACE", c.namespace))
	c.deleteCRDs(loaded[0].Name())
	flags, _ := c.webhookURLFlags()
	c.start(append(flags, "--kinds", kinds)...)
	c.awaitRegistration()
	newer := loaded[0].GroupVersionResource()
	older := newer.GroupResource().WithVersion("v1beta1")
	c.create(secrets, "Secret", "db-admin", map[string]any{"stringData": map[string]any{"password": "hunter2"}})
	config := c.serviceAccount("ada", []rbacv1.PolicyRule{
		{APIGroups: []string{newer.Group}, Resources: []string{"shows", "shows/scale", "shows/status"}, Verbs: []string{"get", "create", "patch", "update"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create", "patch", "delete"}},
	})
	warnings := &warningLog{}
	config.WarningHandler = warnings
	ada, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	require.True(t, testcluster.WaitUntil(func() bool { // RBAC and the webhooks are known a little later
		_, err = c.createBy(ada, newer, "Show", "x", map[string]any{"place": "here", "secret": "db-admin"}, dryRun)
		return err != nil && strings.Contains(err.Error(), `cannot get resource "secrets"`)
	}), "%v", err)
	_, err = c.createBy(ada, newer, "Show", "x", map[string]any{"place": "here"}, metav1.CreateOptions{})
	require.NoError(t, err)
	c.await(older, "x", "converted", exists) // and so is the address of the conversion webhook
	patch := func(version schema.GroupVersionResource, body string, subresource ...string) error {
		_, err := ada.Resource(version).Namespace(c.namespace).Patch(t.Context(), "x", types.MergePatchType, []byte(body), metav1.PatchOptions{}, subresource...)
		return err
	}
	for _, version := range []schema.GroupVersionResource{newer, older} {
		require.ErrorContains(t, patch(version, `{"spec":{"secret":"db-admin"}}`), `cannot get resource "secrets"`)
	}

	sum := sha256.Sum256([]byte(`"here"`)) // former conversions restored a field if they yielded this for it
	forged := fmt.Sprintf(`{"/spec/secret":{"value":"db-admin"},"/spec/place":{"value":"there","instead":"%x"}}`, sum[:8])
	replicas := 1
	patchReplicas := func(version schema.GroupVersionResource, subresource ...string) {
		replicas = replicas%9 + 1
		require.NoError(t, patch(version, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas), subresource...))
	}
	both := []schema.GroupVersionResource{newer, older}
	for _, of := range both {
		for _, annotate := range both {
			for _, write := range both {
				require.NoError(t, patch(annotate, fmt.Sprintf(`{"metadata":{"annotations":{"conversion.fescue.dev/%s":%q}}}`, of.Version, forged)))
				require.NoError(t, patch(write, fmt.Sprintf(`{"metadata":{"labels":{"replicas":"%d"}}}`, replicas)))
				patchReplicas(write, "scale")
				patchReplicas(write)
				require.NoError(t, patch(annotate, `{"metadata":{"annotations":null}}`))
			}
		}
	}
	require.Contains(t, warnings.String(), "metadata.annotations[conversion.fescue.dev/v1]: is ignored")
	x := c.await(newer, "x", "reconciled", func(o *unstructured.Unstructured) bool {
		observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
		return observed == o.GetGeneration()
	})
	require.Equal(t, map[string]any{"replicas": int64(replicas), "note": "", "place": "here"}, x.Object["spec"])
	_, err = c.get(configMaps, "x-copy")
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	c.noWayAround(ada, both)

	// A scale is checked as the object that results: it reads what ada may not.
	c.patch(newer, "x", `{"spec":{"secret":"db-admin"}}`)
	for _, version := range both {
		require.ErrorContains(t, patch(version, `{"spec":{"replicas":7}}`), `cannot get resource "secrets"`)
		require.ErrorContains(t, patch(version, `{"spec":{"replicas":7}}`, "scale"), `cannot get resource "secrets"`)
	}
}

// noWayAround has a user try, through each version, subresource and verb, to have the object x read a Secret, change an
// immutable field, or hold what its kind forbids.
func (c *cluster) noWayAround(user dynamic.Interface, versions []schema.GroupVersionResource) {
	before, err := c.get(versions[0], "x")
	require.NoError(c.t, err)
	for _, version := range versions {
		objects := user.Resource(version).Namespace(c.namespace)
		for _, under := range [][]string{nil, {"status"}, {"scale"}} {
			submitted := newObject(version, "Show", "x", nil)
			if slices.Contains(under, "scale") {
				submitted.SetAPIVersion("autoscaling/v1")
				submitted.SetKind("Scale")
			}
			for _, spec := range []map[string]any{{"secret": "db-admin"}, {"place": "there"}, {"replicas": int64(10)}, {"replicas": int64(-1)}, {"replicas": "1"}} {
				submitted.Object["spec"] = spec
				for verb, write := range c.writes(objects, submitted, under...) {
					err := write()
					after, errGet := c.get(versions[0], "x")
					require.NoError(c.t, errGet)
					require.Equal(c.t, before.Object["spec"], after.Object["spec"], "%s of %s/%s with %v: %v", verb, version.Version, under, spec, err)
				}
			}
		}
	}
}

// writes are the ways to write an object, or a subresource of it, by their verbs.
func (c *cluster) writes(objects dynamic.ResourceInterface, submitted *unstructured.Unstructured, under ...string) map[string]func() error {
	name := submitted.GetName()
	return map[string]func() error{
		"patch": func() error {
			body, err := submitted.MarshalJSON()
			require.NoError(c.t, err)
			_, err = objects.Patch(c.t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{}, under...)
			return err
		},
		"apply": func() error {
			_, err := objects.Apply(c.t.Context(), name, submitted, metav1.ApplyOptions{FieldManager: "ada", Force: true}, under...)
			return err
		},
		"update": func() error {
			live, err := objects.Get(c.t.Context(), name, metav1.GetOptions{}, under...)
			require.NoError(c.t, err)
			maps.Copy(live.Object["spec"].(map[string]any), submitted.Object["spec"].(map[string]any))
			_, err = objects.Update(c.t.Context(), live, metav1.UpdateOptions{}, under...)
			return err
		},
	}
}

// warningLog collects the warnings of an API server.
type warningLog struct{ logtest.Buffer }

func (w *warningLog) HandleWarningHeader(_ int, _ string, text string) {
	_, _ = w.Write([]byte(text + "\n"))
}
