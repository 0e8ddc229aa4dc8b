package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// backup returns the objects of a resource as docs/operate/backup-and-restore.md says: those that stay and are not children, without what
// ties them to the cluster.
func (c *cluster) backup(resource schema.GroupVersionResource) (objects []unstructured.Unstructured) {
	c.t.Helper()
	for _, object := range c.list(resource, "") {
		if object.GetDeletionTimestamp() == nil && len(object.GetOwnerReferences()) == 0 {
			object.SetUID("")
			object.SetResourceVersion("")
			objects = append(objects, object)
		}
	}
	return objects
}

// lose deletes all objects of a resource, as no operator runs.
func (c *cluster) lose(resource schema.GroupVersionResource) {
	c.t.Helper()
	for _, object := range c.list(resource, "") {
		_, err := c.objects(resource).Patch(c.t.Context(), object.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		require.True(c.t, err == nil || apierrors.IsNotFound(err), "%v", err) // the garbage collector deletes Pods of Ats that are gone
	}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	require.NoError(c.t, c.objects(resource).DeleteCollection(c.t.Context(), now, metav1.ListOptions{}))
	require.True(c.t, testcluster.WaitUntil(func() bool { return len(c.list(resource, "")) == 0 }))
}

// restore creates the objects of a backup, and then writes their status.
func (c *cluster) restore(resource schema.GroupVersionResource, objects []unstructured.Unstructured) {
	c.t.Helper()
	for _, object := range objects {
		created, err := c.objects(resource).Create(c.t.Context(), &object, metav1.CreateOptions{})
		require.NoError(c.t, err)
		object.SetResourceVersion(created.GetResourceVersion())
		_, err = c.objects(resource).UpdateStatus(c.t.Context(), &object, metav1.UpdateOptions{})
		require.NoError(c.t, err)
	}
}

// Objects that are restored with their status, before an operator runs, run nothing again.
func TestRestoreRunsNothingAgain(t *testing.T) {
	t.Parallel()
	g := newGuards(t)
	dir := g.kind(guardDelete)
	o := g.start("--kinds", dir)
	g.createAt("done", longAgo, "true")
	g.createAt("running", longAgo, forLong)
	g.createAt("later", "2039-01-01T00:00:00Z", "true")
	g.make("a", nil)
	g.make("leaving", map[string]any{"command": "sleep"})
	g.awaitReady(g.GroupVersionResource, "leaving")
	g.remove("leaving", metav1.DeletePropagationBackground)
	g.awaitPhase("done", "DONE")
	g.awaitReady(g.GroupVersionResource, "a")
	lost := createdPod(g.await(ats, "running", "recorded", func(at *unstructured.Unstructured) bool { return createdPod(at) != "" }))
	savedAts, savedGuards := g.backup(ats), g.backup(g.GroupVersionResource)
	require.Len(t, savedAts, 3)
	require.Len(t, savedGuards, 1)

	require.Zero(t, o.stop())
	for _, resource := range []schema.GroupVersionResource{ats, g.GroupVersionResource, pods} {
		g.lose(resource)
	}
	g.restore(ats, savedAts)
	g.restore(g.GroupVersionResource, savedGuards)
	g.start("--kinds", dir)

	object, reason, _ := g.awaitStalled(ats, "running")
	require.Equal(t, "ChildGone", reason)
	require.Equal(t, lost, createdPod(object))
	g.awaitReady(g.GroupVersionResource, "a")
	for name, phase := range map[string]string{"done": "DONE", "later": "PENDING", "running": "RUNNING"} {
		at, err := g.get(ats, name)
		require.NoError(t, err)
		require.Equal(t, phase, phaseOf(at))
	}
	require.Empty(t, g.list(pods, ""))

	g.remove("a", metav1.DeletePropagationBackground)
	g.awaitGone(g.GroupVersionResource, "a")
}

// announcements are the kind of examples/announcement in a group of the test, with a namespace for their children.
type announcements struct {
	*cluster
	schema.GroupVersionResource
	dir   string
	there *cluster
}

func newAnnouncements(t *testing.T) *announcements {
	t.Helper()
	c := newCluster(t)
	c.everywhere = true
	c.deleteCRDs("announcements." + c.group())
	source, err := os.ReadFile(filepath.Join("..", "examples", "announcement", "kind.cue"))
	require.NoError(t, err)
	dir, _ := writeKind(t, strings.ReplaceAll(string(source), `"teams.example.com/v1"`, `"`+c.group()+`/v1"`))
	resource := schema.GroupVersionResource{Group: c.group(), Version: "v1", Resource: "announcements"}
	return &announcements{c, resource, dir, newClients(t, testcluster.Namespace(t))}
}

func (a *announcements) spec() map[string]any {
	return map[string]any{"spec": map[string]any{"service": "frontend", "directory": a.there.namespace}}
}

// Children elsewhere are created again, though the restored status records the UIDs of those before.
func TestRestoreOfChildrenElsewhere(t *testing.T) {
	t.Parallel()
	a := newAnnouncements(t)
	name := a.namespace + "-shop"
	exists := func(*unstructured.Unstructured) bool { return true }
	o := a.start("--kinds", a.dir)
	a.create(a.GroupVersionResource, "Announcement", "shop", a.spec())
	a.awaitReady(a.GroupVersionResource, "shop")
	before := a.there.await(services, name, "created", exists)
	saved := a.backup(a.GroupVersionResource)
	require.Zero(t, o.stop())
	a.lose(a.GroupVersionResource)
	a.there.lose(services)
	a.restore(a.GroupVersionResource, saved)
	a.start("--kinds", a.dir)

	after := a.there.await(services, name, "created again", exists)
	require.NotEqual(t, before.GetUID(), after.GetUID())
	a.await(a.GroupVersionResource, "shop", "recorded", func(object *unstructured.Unstructured) bool {
		listed, _, _ := unstructured.NestedSlice(object.Object, "status", "childInventory", "elsewhere")
		uid, _, _ := unstructured.NestedString(listed[0].(map[string]any), "children", name)
		return uid == string(after.GetUID())
	})
	require.NoError(t, a.objects(a.GroupVersionResource).Delete(t.Context(), "shop", metav1.DeleteOptions{}))
	a.awaitGone(a.GroupVersionResource, "shop")
	a.there.awaitGone(services, name)
}
