package e2e

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// installer returns a configuration with the rights of an operator that installs the CRDs of kinds.
func (c *cluster) installer(kinds []*kind.Kind) *rest.Config {
	c.t.Helper()
	o := c.installation(false)
	o.InstallCRDs = true
	return c.proxy.through(c.grant(o.rights(c.t, kinds)))
}

// A CRD that the API server does not accept delays no other kind and causes no polling; the log has
// the API server's reason. Its kind starts as soon as the names are free.
func TestCRDThatIsNotAccepted(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	group := c.namespace + ".example.com"
	dir, added := writeKind(t, strings.ReplaceAll(rightsKind, "rights.example.com", group))
	things := added[0].GroupVersionResource()
	// Another CRD of the group has the kind's list.
	conflicting, err := crds.Object(added[0], false)
	require.NoError(t, err)
	conflicting.SetName("others." + group)
	require.NoError(t, unstructured.SetNestedStringMap(conflicting.Object,
		map[string]string{"plural": "others", "singular": "other", "kind": "Other", "listKind": "ThingList"}, "spec", "names"))
	c.deleteCRDs("others."+group, "things."+group)
	_, err = c.client.Resource(definitions).Create(t.Context(), conflicting, metav1.CreateOptions{})
	require.NoError(t, err)

	o := c.launchAs(c.installer(append(kindtest.Shipped(t), added...)), "--install-crds", "--kinds", dir)
	c.createAtWhenServed("a")
	c.awaitPhase("a", "DONE")
	o.awaitReady()
	o.awaitLog(`\"ThingList\" is already in use`)
	require.Contains(t, o.log.String(), `msg="kind waits for what it needs" kind=Thing`)
	began := o.logged("msg=running ")
	require.Less(t, o.logged(`msg="kind is running" kind=At`).Sub(began), 30*time.Second, "the other kinds wait as long as a CRD may take")
	_, verbose := get(t, o.address("--health-listen")+"/readyz?verbose")
	require.Contains(t, verbose, added[0].Name()+" waits: ")
	require.Contains(t, verbose, `"ThingList" is already in use`)
	for _, request := range c.requestPaths() {
		require.NotContains(t, request, "GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/", "it polls")
	}

	// The other CRD gives the name up. A deletion would do so too, but kube-apiserver 1.36 may forget it for five
	// minutes if it has just begun to serve the kind: CRDFinalizer expects another event after a conflict, and drops it.
	_, err = c.client.Resource(definitions).Patch(t.Context(), "others."+group, types.MergePatchType,
		[]byte(`{"spec":{"names":{"listKind":"OtherList"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.True(t, testcluster.WaitUntil(func() bool {
		return c.tryCreate(things, "Thing", "t", map[string]any{})
	}))
	c.awaitReady(things, "t")

	// Without its CRD, the kind stops; with it, it starts again.
	require.NoError(t, c.client.Resource(definitions).Delete(t.Context(), "things."+group, metav1.DeleteOptions{}))
	require.True(t, testcluster.WaitUntil(func() bool {
		_, err := c.client.Resource(definitions).Get(t.Context(), "things."+group, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}))
	o.awaitReady()
	require.NoError(t, testcluster.InstallCRDs(t.Context(), c.client, added, crds.Webhook{}))
	require.True(t, testcluster.WaitUntil(func() bool {
		return c.tryCreate(things, "Thing", "u", map[string]any{})
	}))
	c.awaitReady(things, "u")
	require.Zero(t, o.stop())
}

// createAtWhenServed creates an At as soon as the API server serves Ats.
func (c *cluster) createAtWhenServed(name string) {
	c.t.Helper()
	require.True(c.t, testcluster.WaitUntil(func() bool {
		return c.tryCreate(ats, "At", name, map[string]any{"schedule": longAgo, "command": "echo"})
	}))
}

// twoVersions writes two versions of a kind in the cluster's group, of which the newer one gives its child another text. Their CRD is deleted in
// the end.
func (c *cluster) twoVersions() (oldDir string, old []*kind.Kind, newDir string, newer []*kind.Kind) {
	c.t.Helper()
	text := strings.ReplaceAll(rightsKind, "rights.example.com", c.namespace+".example.com")
	oldDir, old = writeKind(c.t, text)
	newDir, newer = writeKind(c.t, strings.ReplaceAll(text, "data: text: object.spec.text", `data: text: "new " + object.spec.text`))
	require.NotEqual(c.t, old[0].Hash, newer[0].Hash)
	c.deleteCRDs(old[0].Name())
	return oldDir, old, newDir, newer
}

// Two operators with different versions of a kind do not fight: the one whose kind is not that of
// the CRD stands back, also when the CRD is upgraded while it runs, and acts again when the CRD is
// its own again. Idle, neither writes.
func TestOlderKindStandsBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	oldDir, old, newDir, newer := c.twoVersions()
	things := old[0].GroupVersionResource()
	config := c.installer(append(kindtest.Shipped(t), old...))
	only := []string{"--install-crds", "--shipped-kinds=false"}

	first := c.launchAs(config, append(only, "--kinds", oldDir)...)
	require.True(t, testcluster.WaitUntil(func() bool { return c.tryCreate(things, "Thing", "t", map[string]any{"text": "x"}) }))
	textOf := func() string { return c.appliedText("t") }
	require.True(t, testcluster.WaitUntil(func() bool { return textOf() == "x" }))

	second := c.launchAs(config, append(only, "--kinds", newDir)...)
	first.awaitLog("its annotation fescue.dev/kind-hash is " + newer[0].Hash + ", and the kind of this process has " + old[0].Hash)
	require.True(t, testcluster.WaitUntil(func() bool { return textOf() == "new x" }))
	first.awaitReady()
	_, verbose := get(t, first.address("--health-listen")+"/readyz?verbose")
	require.Contains(t, verbose, "readyz check passed\n"+old[0].Name()+" waits: the CRD "+old[0].Name()+" belongs to another version of the kind")
	require.InDelta(t, 1, first.scrape()["fescue_kinds_waiting"].GetMetric()[0].GetGauge().GetValue(), 0)
	c.awaitReady(things, "t")
	c.proxy.requests.reset()
	c.create(things, "Thing", "later", map[string]any{"spec": map[string]any{"text": "y"}})
	c.awaitReady(things, "later")
	for _, request := range c.proxy.requests.all() {
		isWrite := strings.HasPrefix(request, http.MethodPut) || strings.HasPrefix(request, http.MethodPatch) || strings.HasPrefix(request, http.MethodDelete)
		require.False(t, isWrite && !strings.Contains(request, "/later"), "they fight: %s", request)
	}

	// The older version is installed again.
	require.NoError(t, testcluster.InstallCRDs(t.Context(), c.client, old, crds.Webhook{}))
	second.awaitLog("its annotation fescue.dev/kind-hash is " + old[0].Hash)
	require.True(t, testcluster.WaitUntil(func() bool { return textOf() == "x" }))
	require.Zero(t, first.stop())
	require.Zero(t, second.stop())
}

// Where there is an election, the leader installs the CRDs. An operator of another version that starts beside it stops nothing, and takes over
// when it becomes the leader.
func TestLeaderInstalls(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	oldDir, old, newDir, newer := c.twoVersions()
	things := old[0].GroupVersionResource()
	config := c.installer(append(kindtest.Shipped(t), old...))
	flags := []string{"--install-crds", "--shipped-kinds=false", "--leader-elect", "--leader-elect-retry-period=500ms", "--kinds"}
	installed := func() string {
		crd, err := c.client.Resource(definitions).Get(t.Context(), old[0].Name(), metav1.GetOptions{})
		require.NoError(t, err)
		return crd.GetAnnotations()[crds.HashAnnotation]
	}

	first := c.launchAs(config, append(flags, oldDir)...)
	require.True(t, testcluster.WaitUntil(func() bool { return c.tryCreate(things, "Thing", "t", map[string]any{"text": "x"}) }))
	require.True(t, testcluster.WaitUntil(func() bool { return c.appliedText("t") == "x" }))

	second := c.launchAs(config, append(flags, newDir)...)
	second.awaitLog("the CRD " + old[0].Name() + " is missing or of another version: this process installs it when it becomes the leader")
	require.Equal(t, old[0].Hash, installed())
	require.True(t, c.tryCreate(things, "Thing", "u", map[string]any{"text": "y"}))
	require.True(t, testcluster.WaitUntil(func() bool { return c.appliedText("u") == "y" }))

	require.Zero(t, first.stop())
	require.True(t, testcluster.WaitUntil(func() bool { return c.appliedText("t") == "new x" && c.appliedText("u") == "new y" }))
	require.Equal(t, newer[0].Hash, installed())
	require.Zero(t, second.stop())
}

// onPatch calls a function before the first PATCH that it sends.
type onPatch struct {
	http.RoundTripper
	call func()
	once sync.Once
}

func (o *onPatch) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodPatch {
		o.once.Do(o.call)
	}
	return o.RoundTripper.RoundTrip(request)
}

// A process that is frozen before it sends its CRD replaces none that another process has installed meanwhile, also if there was none before, or
// if it had been the same.
func TestLateInstallIsAConflict(t *testing.T) {
	t.Parallel()
	for name, isInstalled := range map[string]bool{"none before": false, "the same before": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			_, old, _, newer := c.twoVersions()
			install := func(by string) { // while the API server accepts the CRD
				require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
					_, err := crds.Apply(t.Context(), c.client, newer[0], crds.Webhook{}, by)
					return err
				}))
			}
			if isInstalled {
				install("before")
			}
			config := testcluster.Config(t)
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return &onPatch{RoundTripper: next, call: func() { install("meanwhile") }}
			})
			late, err := dynamic.NewForConfig(config)
			require.NoError(t, err)
			_, err = crds.Apply(t.Context(), late, old[0], crds.Webhook{}, "late")
			require.True(t, apierrors.IsConflict(err), "%v", err)

			crd, err := c.client.Resource(definitions).Get(t.Context(), old[0].Name(), metav1.GetOptions{})
			require.NoError(t, err)
			require.Equal(t, newer[0].Hash, crd.GetAnnotations()[crds.HashAnnotation])
			require.Equal(t, "meanwhile", crd.GetAnnotations()["fescue.dev/installed-by"])
		})
	}
}

// A process that starts while a CRD is being deleted runs the kind for the objects that are left, and installs the CRD when it is gone. Until then, it
// writes the CRD only if that belongs to another version of the kind. It does not undo a later deletion, and logs what to do.
func TestInstallsWhatWasBeingDeleted(t *testing.T) {
	t.Parallel()
	for name, isUpgraded := range map[string]bool{"of the same version": false, "of another version": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			dir, before, newDir, newer := c.twoVersions()
			kinds, text := before, "y"
			if isUpgraded {
				dir, kinds, text = newDir, newer, "new y"
			}
			things := before[0].GroupVersionResource()
			require.NoError(t, testcluster.InstallCRDs(t.Context(), c.client, before, crds.Webhook{}))
			hold := func(finalizers string) {
				_, err := c.client.Resource(things).Namespace(c.namespace).Patch(t.Context(), "last", types.MergePatchType,
					[]byte(`{"metadata": {"finalizers": `+finalizers+`}}`), metav1.PatchOptions{})
				require.NoError(t, err)
			}
			require.True(t, testcluster.WaitUntil(func() bool { return c.tryCreate(things, "Thing", "last", map[string]any{"text": "x"}) }))
			hold(`["example.com/held"]`)
			remove := func() {
				require.NoError(t, c.client.Resource(definitions).Delete(t.Context(), before[0].Name(), metav1.DeleteOptions{}))
			}
			remove()
			installed := func() *unstructured.Unstructured {
				crd, err := c.client.Resource(definitions).Get(t.Context(), before[0].Name(), metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return &unstructured.Unstructured{}
				}
				require.NoError(t, err)
				return crd
			}

			o := c.launchAs(c.installer(append(kindtest.Shipped(t), kinds...)), "--install-crds", "--shipped-kinds=false", "--kinds", dir)
			o.awaitLog("kind is running")
			leaving := installed()
			require.NotNil(t, leaving.GetDeletionTimestamp())
			require.Equal(t, kinds[0].Hash, leaving.GetAnnotations()[crds.HashAnnotation])
			require.Equal(t, isUpgraded, leaving.GetAnnotations()["fescue.dev/installed-by"] != "test")

			hold("null")
			require.True(t, testcluster.WaitUntil(func() bool { return c.tryCreate(things, "Thing", "first", map[string]any{"text": "y"}) }))
			require.True(t, testcluster.WaitUntil(func() bool { return c.appliedText("first") == text }))
			require.NotEqual(t, leaving.GetUID(), installed().GetUID())
			require.NotContains(t, o.log.String(), "was deleted after this process had installed it")

			remove()
			o.awaitLog("the CRD " + before[0].Name() + " was deleted after this process had installed it: restart this process")
			require.Empty(t, installed().GetName())
			require.Zero(t, o.stop())
		})
	}
}

// appliedText returns what the child of a Thing has; it is empty if there is none.
func (c *cluster) appliedText(name string) string {
	object, err := c.get(configMaps, name+"-applied")
	if err != nil {
		return ""
	}
	text, _, _ := unstructured.NestedString(object.Object, "data", "text")
	return text
}

// losingKind has fields that a later version of it does not have.
const losingKind = `
package losing

import "fescue.dev/cue/contract"

#Losing: {
	apiVersion!: "GROUP/v1", kind!: "Losing", metadata!: {name!: string, ...}
	spec!: {text: string, FIELDS}
	status?: contract.#Status
}
#LosingController: contract.#Controller & {
	object!: #Losing
	names: plural: "losings"
	children: config: template: {apiVersion: "v1", kind: "ConfigMap", data: text: object.spec.text}
}
`

// An operator whose CRD drops fields that the installed one has reports them, once.
func TestDroppedFieldsAreReported(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.everywhere = true
	text := func(fields string) string {
		return strings.NewReplacer("GROUP", c.group(), "FIELDS", fields).Replace(losingKind)
	}
	oldDir, kinds := writeKind(t, text("size?: int, limits?: {cpu?: string, memory?: string}"))
	newDir, _ := writeKind(t, text("limits?: {cpu?: string}"))
	crd, losings := kinds[0].Name(), kinds[0].GroupVersionResource()
	c.deleteCRDs(crd)
	config := c.installer(kinds)
	run := func(dir string) *process {
		o := c.launchAs(config, "--install-crds", "--kinds", dir)
		o.awaitReady()
		o.awaitLog("kind is running")
		return o
	}
	const warning = "drops fields"
	first := run(oldDir)
	c.create(losings, "Losing", "a", map[string]any{"spec": map[string]any{"text": "x", "size": int64(1)}})
	c.awaitReady(losings, "a")
	require.NotContains(t, first.log.String(), warning)
	require.Zero(t, first.stop())

	second := run(newDir)
	require.Contains(t, second.log.String(), `msg="the new CRD drops fields" crd=`+crd+
		` message="version v1 of the installed CRD has spec.limits.memory, spec.size, and the new one has not: objects lose these fields when they are next written"`)
	require.True(t, testcluster.WaitUntil(func() bool {
		events, err := c.client.Resource(events).Namespace(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{FieldSelector: "regarding.name=" + crd + ",reason=FieldsDropped"})
		return err == nil && len(events.Items) == 1
	}), "the CRD has no Event")
	require.Zero(t, second.stop())
	third := run(newDir)
	require.NotContains(t, third.log.String(), warning)
}
