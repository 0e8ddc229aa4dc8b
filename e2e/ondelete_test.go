package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// guardKind is a kind that runs a Pod before its objects go. GROUP is replaced, and DELETE by what
// follows the deletion.
const guardKind = `
package guard

import (
	"strconv"

	"fescue.dev/cue/contract"
)

#Guard: {
	apiVersion!: "GROUP/v1", kind!: "Guard", metadata!: {name!: string, ...}
	spec: {number: *"1" | string, command: *"true" | string, keeps: *false | bool}
	status?: {contract.#Status, number?: int}
}
#GuardController: contract.#Controller & {
	object!: #Guard
	observed: _
	names: plural: "guards"
	owns: [{apiVersion: "v1", kind: "Pod"}]
	children: {
		base: template: {apiVersion: "v1", kind: "ConfigMap"}
		user: template: {apiVersion: "v1", kind: "ConfigMap", data: base: observed.base.metadata.name}
		if object.spec.keeps {kept: {onDelete: "Orphan", template: {apiVersion: "v1", kind: "ConfigMap", data: number: object.spec.number}}}
	}
	status: number: strconv.Atoi(object.spec.number)
	DELETE
}
`

const guardDelete = `
	onDelete: "CLEANING"
	phases: {
		CLEANING: {
			children: cleanup: {update: "Never", template: {
				apiVersion: "v1", kind: "Pod"
				metadata: labels: guard: object.metadata.name
				spec: {restartPolicy: "Never", containers: [{name: "c", image: "busybox", command: [object.spec.command]}]}
			}}
			next: [{to: "GONE", when: observed.cleanup.status.phase == "Succeeded"}]
		}
		GONE: terminal: true
	}
`

// guards are a test's own kind.
type guards struct {
	*cluster
	schema.GroupVersionResource
}

func newGuards(t *testing.T) *guards {
	t.Helper()
	c := newCluster(t)
	group := c.group()
	c.deleteCRDs("guards." + group)
	return &guards{c, schema.GroupVersionResource{Group: group, Version: "v1", Resource: "guards"}}
}

// kind writes the kind to a folder.
func (g *guards) kind(onDelete string) (dir string) {
	dir, _ = writeKind(g.t, strings.NewReplacer("GROUP", g.Group, "DELETE", onDelete).Replace(guardKind))
	return dir
}

func (g *guards) make(name string, spec map[string]any) {
	g.create(g.GroupVersionResource, "Guard", name, map[string]any{"spec": spec})
}

func (g *guards) remove(name string, policy metav1.DeletionPropagation) {
	g.t.Helper()
	require.NoError(g.t, g.objects(g.GroupVersionResource).Delete(g.t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}))
}

// isKept reports whether an object has the finalizer of its kind.
func isKept(object *unstructured.Unstructured) bool {
	return slices.Contains(object.GetFinalizers(), "fescue.dev/on-delete")
}

// The cleanup runs once, and children go in their order, whenever the operator is killed.
func TestOnDeleteKilledAfterAnyWrite(t *testing.T) {
	t.Parallel()
	g := newGuards(t)
	dir := g.kind(guardDelete)
	g.start("--kinds", dir).kill()
	for n := int64(1); ; n++ {
		name := fmt.Sprintf("killed-%d", n)
		census := g.takeCensus("guard=" + name)
		o := g.launchUntilWrite(n, "--kinds", dir)
		g.make(name, nil)
		wasKilled := false
		until := func(what string, holds func() bool) {
			require.True(t, testcluster.WaitUntil(func() bool {
				wasKilled = o.hasEnded()
				return wasKilled || holds()
			}), "neither killed nor %s", what)
		}
		until("ready", func() bool {
			object, err := g.get(g.GroupVersionResource, name)
			return err == nil && isTrue(object, "Ready")
		})
		if wasKilled {
			// Killed before it was ready: it is deleted while no operator runs.
			g.remove(name, metav1.DeletePropagationBackground)
		} else {
			g.remove(name, metav1.DeletePropagationBackground)
			until("gone", func() bool {
				_, err := g.get(g.GroupVersionResource, name)
				return err != nil && g.proxy.writes.Load() > 10
			})
		}
		g.proxy.afterWrite.Store(nil)
		o.kill()
		object, err := g.get(g.GroupVersionResource, name)
		wasKept := err == nil && isKept(object)

		o = g.start("--kinds", dir)
		g.awaitGone(g.GroupVersionResource, name)
		g.awaitGone(configMaps, name+"-base")
		g.awaitGone(configMaps, name+"-user")
		g.awaitGone(pods, name+"-cleanup")
		o.kill()
		require.LessOrEqual(t, census.created(), 1, "killed after write %d", n)
		if wasKept || !wasKilled {
			census.requireCreated(t, 1, "killed after write %d", n)
		}
		if !wasKilled {
			require.Greater(t, n, int64(8), "a life takes at least that many writes")
			return
		}
	}
}

// However an object is deleted, its phases are passed. The children go with it, before it, or stay.
func TestOnDeleteByPropagation(t *testing.T) {
	t.Parallel()
	g := newGuards(t)
	g.start("--kinds", g.kind(guardDelete))
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			name := strings.ToLower(string(policy))
			census := g.takeCensus("guard=" + name)
			g.make(name, nil)
			g.awaitReady(g.GroupVersionResource, name)
			g.remove(name, policy)
			g.awaitGone(g.GroupVersionResource, name)
			census.requireCreated(t, 1)
			for _, child := range []string{"base", "user"} {
				if policy != metav1.DeletePropagationOrphan {
					g.awaitGone(configMaps, name+"-"+child)
					continue
				}
				object, err := g.get(configMaps, name+"-"+child)
				require.NoError(t, err)
				require.Empty(t, object.GetOwnerReferences())
			}
			// The finalizer is there before anything else.
			writes := slices.DeleteFunc(g.proxy.requests.all(), func(request string) bool {
				return strings.HasPrefix(request, "GET") || !strings.Contains(request, "/"+name) && !strings.Contains(request, "POST")
			})
			first := slices.IndexFunc(writes, func(request string) bool { return strings.Contains(request, "/guards/"+name) })
			require.Contains(t, writes[first], "PATCH")
		})
	}
}

// guardWaits is a phase that ends when someone says so.
const guardWaits = `
	onDelete: "WAITING"
	phases: {
		WAITING: next: [{to: "GONE", when: *(object.metadata.annotations.go == "yes") | false}]
		GONE: terminal: true
	}
`

// isWaiting reports whether an object is in the phase of guardWaits.
func isWaiting(object *unstructured.Unstructured) bool {
	return phaseOf(object) == "WAITING" && isTrue(object, "Deleting")
}

// end ends the phase of guardWaits.
func (g *guards) end(name string) {
	g.t.Helper()
	g.patch(g.GroupVersionResource, name, `{"metadata":{"annotations":{"go":"yes"}}}`)
	g.awaitGone(g.GroupVersionResource, name)
}

// A child that loses its owner reference while its object passes its phases gets it back, and goes with its object,
// whether an operator runs then or not.
func TestLostReferencesOfAnObjectThatIsDeleted(t *testing.T) {
	t.Parallel()
	g := newGuards(t)
	dir := g.kind(guardWaits)
	o := g.start("--kinds", dir)
	damages := map[string]string{
		"reference": `{"metadata":{"ownerReferences":null}}`,
		"label":     `{"metadata":{"ownerReferences":null,"labels":{"fescue.dev/owner-uid":null}}}`,
		"record":    `{"metadata":{"ownerReferences":null,"annotations":{"fescue.dev/created-as":null}}}`,
	}
	for name := range damages {
		g.make(name, nil)
		g.awaitReady(g.GroupVersionResource, name)
		g.remove(name, metav1.DeletePropagationBackground)
		g.await(g.GroupVersionResource, name, "waiting", isWaiting)
	}
	isRestored := func(o *unstructured.Unstructured) bool {
		return len(o.GetOwnerReferences()) == 1 && len(o.GetLabels()) == 3 && len(o.GetAnnotations()) == 3
	}
	for name, damage := range damages {
		g.patch(configMaps, name+"-base", damage)
		g.await(configMaps, name+"-base", "restored", isRestored)
	}
	o.kill()
	for name, damage := range damages {
		g.patch(configMaps, name+"-base", damage)
	}
	g.start("--kinds", dir)
	for name := range damages {
		g.await(configMaps, name+"-base", "restored after a start", isRestored)
		g.end(name)
		g.awaitGone(configMaps, name+"-base")
		g.awaitGone(configMaps, name+"-user")
	}
}

// Children that the garbage collector orphaned stay, whenever that was.
func TestOrphansAreNotTakenBack(t *testing.T) {
	t.Parallel()
	g := newGuards(t)
	dir := g.kind(guardWaits)
	o := g.start("--kinds", dir)
	orphan := func(name string) {
		g.remove(name, metav1.DeletePropagationOrphan)
		for _, child := range []string{name + "-base", name + "-user"} {
			g.await(configMaps, child, "orphaned", func(o *unstructured.Unstructured) bool { return len(o.GetOwnerReferences()) == 0 })
		}
	}
	names := []string{"first", "again", "stalled", "down"}
	for _, name := range names {
		g.make(name, nil)
		g.awaitReady(g.GroupVersionResource, name)
	}
	orphan("first")
	g.remove("again", metav1.DeletePropagationBackground)
	g.await(g.GroupVersionResource, "again", "waiting", isWaiting)
	orphan("again")
	g.patch(g.GroupVersionResource, "stalled", `{"spec":{"number":"x"}}`)
	g.awaitStalled(g.GroupVersionResource, "stalled")
	orphan("stalled")
	g.await(g.GroupVersionResource, "stalled", "kept", func(o *unstructured.Unstructured) bool {
		status, _, _ := condition(o, "Deleting")
		return status == "False"
	})
	g.patch(g.GroupVersionResource, "stalled", `{"spec":{"number":"1"}}`)
	o.kill()
	orphan("down")
	g.start("--kinds", dir)
	for _, name := range names {
		object := g.await(g.GroupVersionResource, name, "waiting", isWaiting)
		orphaned, _, _ := unstructured.NestedBool(object.Object, "status", "childInventory", "orphaned")
		require.True(t, orphaned, name)
		g.end(name)
		for _, child := range []string{name + "-base", name + "-user"} {
			object, err := g.get(configMaps, child)
			require.NoError(t, err)
			require.Empty(t, object.GetOwnerReferences())
		}
	}
}

// A decorator leaves the finalizer of the kind of its objects alone: they pass their phases.
func TestDecoratedObjectsPassTheirPhases(t *testing.T) {
	t.Parallel()
	g := newGuards(t)
	dir, _ := writeKind(t, strings.NewReplacer("GROUP", g.Group, "DELETE", guardDelete).Replace(guardKind)+strings.ReplaceAll(`
#NoteDecorator: contract.#Decorator & {
	target: {apiVersion: "GROUP/v1", kind: "Guard", selector: matchLabels: note: "yes"}
	object: _
	children: note: template: {apiVersion: "v1", kind: "ConfigMap", metadata: name: "\(object.metadata.name)-note"}
}
`, "GROUP", g.Group))
	g.start("--kinds", dir)
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			name := strings.ToLower(string(policy))
			census := g.takeCensus("guard=" + name)
			g.create(g.GroupVersionResource, "Guard", name, map[string]any{"metadata": map[string]any{"name": name, "labels": map[string]any{"note": "yes"}}, "spec": map[string]any{}})
			g.awaitReady(g.GroupVersionResource, name)
			g.await(configMaps, name+"-note", "created", func(*unstructured.Unstructured) bool { return true })
			g.remove(name, policy)
			g.awaitGone(g.GroupVersionResource, name)
			census.requireCreated(t, 1)
			g.awaitGone(configMaps, name+"-note")
		})
	}
}

// A child goes before those that its template reads.
func TestDependantsGoFirst(t *testing.T) {
	t.Parallel()
	g := newGuards(t)
	g.start("--kinds", g.kind(guardDelete))
	g.make("a", nil)
	g.awaitReady(g.GroupVersionResource, "a")
	g.patch(configMaps, "a-user", `{"metadata":{"finalizers":["example.com/stays"]}}`)
	g.remove("a", metav1.DeletePropagationBackground)
	object := g.await(g.GroupVersionResource, "a", "waiting", func(o *unstructured.Unstructured) bool {
		_, _, message := condition(o, "Deleting")
		return message == `waiting until ConfigMap "a-user" is gone`
	})
	require.Equal(t, "GONE", phaseOf(object))
	base, err := g.get(configMaps, "a-base")
	require.NoError(t, err)
	require.Nil(t, base.GetDeletionTimestamp())

	g.patch(configMaps, "a-user", `{"metadata":{"finalizers":null}}`)
	g.awaitGone(g.GroupVersionResource, "a")
	g.awaitGone(configMaps, "a-base")
}

// An object whose behaviour fails while it is deleted stays and shows why, until that is resolved.
func TestFailingOnDeleteKeepsTheObject(t *testing.T) {
	t.Parallel()
	g := newGuards(t)
	g.start("--kinds", g.kind(guardDelete))
	g.make("a", nil)
	g.awaitReady(g.GroupVersionResource, "a")
	g.patch(g.GroupVersionResource, "a", `{"spec":{"number":"x"}}`)
	g.awaitStalled(g.GroupVersionResource, "a")
	g.remove("a", metav1.DeletePropagationBackground)
	object := g.await(g.GroupVersionResource, "a", "kept", func(o *unstructured.Unstructured) bool {
		status, reason, _ := condition(o, "Deleting")
		return status == "False" && reason == "EvaluationFailed"
	})
	_, _, message := condition(object, "Deleting")
	require.Contains(t, message, "strconv.Atoi")
	require.Contains(t, message, "the object stays until this is resolved or its finalizer fescue.dev/on-delete is removed")
	require.True(t, isKept(object))
	g.patch(g.GroupVersionResource, "a", `{"spec":{"number":"2"}}`)
	g.awaitGone(g.GroupVersionResource, "a")

	// One that was never right is not kept: nothing was ever done for it.
	g.make("b", map[string]any{"number": "x"})
	g.awaitStalled(g.GroupVersionResource, "b")
	g.remove("b", metav1.DeletePropagationBackground)
	g.awaitGone(g.GroupVersionResource, "b")
}

// Nothing gets an object past its cleanup: neither a kind that had none before, nor someone who removes
// the finalizer of an object that lives.
func TestOnDeleteIsNotSkipped(t *testing.T) {
	t.Parallel()
	g := newGuards(t)
	census := g.takeCensus("guard")
	o := g.start("--kinds", g.kind(""))
	g.make("a", nil)
	object := g.awaitReady(g.GroupVersionResource, "a")
	require.Empty(t, object.GetFinalizers())
	o.kill()

	g.start("--kinds", g.kind(guardDelete))
	g.await(g.GroupVersionResource, "a", "kept", isKept)
	g.patch(g.GroupVersionResource, "a", `{"metadata":{"finalizers":null}}`)
	g.await(g.GroupVersionResource, "a", "kept again", isKept)
	g.remove("a", metav1.DeletePropagationBackground)
	g.awaitGone(g.GroupVersionResource, "a")
	census.requireCreated(t, 1)
}

// A child with onDelete: "Orphan" survives its object, however that is deleted, and a new object of the
// same name takes it over. An if still deletes it; what only looks like it stays.
func TestOrphanSurvives(t *testing.T) {
	t.Parallel()
	g := newGuards(t)
	g.start("--kinds", g.kind(""))
	var first *unstructured.Unstructured
	for i, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
		g.make("a", map[string]any{"keeps": true, "number": fmt.Sprint(i)})
		object := g.awaitReady(g.GroupVersionResource, "a")
		kept := g.await(configMaps, "a-kept", "applied", func(o *unstructured.Unstructured) bool {
			number, _, _ := unstructured.NestedString(o.Object, "data", "number")
			return number == fmt.Sprint(i) && o.GetLabels()["fescue.dev/owner-uid"] == string(object.GetUID())
		})
		require.Empty(t, kept.GetOwnerReferences())
		if first == nil {
			first = kept
		}
		require.Equal(t, first.GetUID(), kept.GetUID())
		g.remove("a", policy)
		g.awaitGone(g.GroupVersionResource, "a")
		if policy != metav1.DeletePropagationOrphan {
			g.awaitGone(configMaps, "a-base")
		}
	}
	copied := g.copyOf(configMaps, "a-kept", "copy", true)
	g.make("a", nil)
	g.awaitReady(g.GroupVersionResource, "a")
	stays, err := g.get(configMaps, "a-kept")
	require.NoError(t, err, "an object that does not want it leaves it")
	require.Equal(t, first.GetUID(), stays.GetUID())

	g.patch(g.GroupVersionResource, "a", `{"spec":{"keeps":true}}`)
	g.awaitReady(g.GroupVersionResource, "a")
	g.patch(g.GroupVersionResource, "a", `{"spec":{"keeps":false}}`)
	g.awaitGone(configMaps, "a-kept")
	g.requireUntouched(configMaps, copied)

	// An object that someone else made under the name of a child is neither adopted nor deleted.
	others := g.create(configMaps, "ConfigMap", "other-kept", map[string]any{"data": map[string]any{"number": "theirs"}})
	g.make("other", map[string]any{"keeps": true})
	_, reason, _ := g.awaitStalled(g.GroupVersionResource, "other")
	require.Equal(t, "ChildRejected", reason)
	g.patch(g.GroupVersionResource, "other", `{"spec":{"keeps":false}}`)
	g.awaitReady(g.GroupVersionResource, "other")
	g.remove("other", metav1.DeletePropagationForeground)
	g.awaitGone(g.GroupVersionResource, "other")
	g.requireUntouched(configMaps, others)
}

// Objects of a kind that has no onDelete any more are let go by fescue migrate, whether they stay or are
// deleted. An operator of that kind has no right to.
func TestMigrateReleasesObjects(t *testing.T) {
	t.Parallel()
	g := newGuards(t)
	o := g.start("--kinds", g.kind(guardDelete))
	g.make("a", nil)
	g.make("b", nil)
	g.await(g.GroupVersionResource, "a", "kept", isKept)
	g.await(g.GroupVersionResource, "b", "kept", isKept)
	o.kill()
	g.patch(g.GroupVersionResource, "b", `{"metadata":{"finalizers":["fescue.dev/on-delete","example.com/other"]}}`)
	g.remove("a", metav1.DeletePropagationBackground)

	dir, kinds := writeKind(t, strings.NewReplacer("GROUP", g.Group, "DELETE", "").Replace(guardKind))
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	testcluster.WriteKubeconfig(t, kubeconfig, testcluster.Config(t), g.namespace)
	run := func(flags ...string) ([]byte, error) {
		args := append([]string{"migrate", "--kubeconfig", kubeconfig, "--shipped-kinds=false", "--kinds", dir}, flags...)
		return exec.CommandContext(t.Context(), "fescue", args...).CombinedOutput()
	}
	out, err := run()
	require.Error(t, err)
	require.Contains(t, string(out), "stay: the CRD belongs to another version of the kind: its annotation fescue.dev/kind-hash is ")
	b, err := g.get(g.GroupVersionResource, "b")
	require.NoError(t, err)
	require.True(t, isKept(b), "the installed kind needs the finalizer")

	g.installCRDs(kinds)
	o = g.launchAs(g.proxy.through(g.grant(g.installation(false).rights(t, kinds))), "--kinds", dir, "--shipped-kinds=false")
	o.awaitLog("the kind has neither onDelete nor children in other namespaces any more, and so no right to remove the finalizer fescue.dev/on-delete: 'fescue migrate' removes it")
	migrate := func(flags ...string) string {
		out, err := run(flags...)
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	require.Contains(t, migrate("--dry-run"), "2 objects would lose the finalizer fescue.dev/on-delete: the kind has neither onDelete nor children in other namespaces any more\n")
	require.Contains(t, migrate(), "2 objects lost the finalizer fescue.dev/on-delete: the kind has neither onDelete nor children in other namespaces any more\n")
	g.awaitGone(g.GroupVersionResource, "a")
	b, err = g.get(g.GroupVersionResource, "b")
	require.NoError(t, err)
	require.Equal(t, []string{"example.com/other"}, b.GetFinalizers())
	g.patch(g.GroupVersionResource, "b", `{"metadata":{"finalizers":null}}`)
	require.NotContains(t, migrate(), "finalizer")
}

// Without an operator, fescue uninstall lets the objects go, whether they stay or are deleted.
func TestUninstallReleasesObjects(t *testing.T) {
	t.Parallel()
	g := newGuards(t)
	dir := g.kind(guardDelete)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	testcluster.WriteKubeconfig(t, kubeconfig, testcluster.Config(t), g.namespace)
	uninstall := func(flags ...string) string {
		args := slices.Concat([]string{"uninstall", "--kubeconfig", kubeconfig, "--shipped-kinds=false", "--kinds", dir, "--webhooks=false",
			"--namespaced", g.namespace, "--namespace", g.namespace, "--keep-namespace", "--on-delete-timeout", "1s"}, flags)
		out, err := exec.CommandContext(t.Context(), "fescue", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	g.start("--kinds", dir).kill()
	o := g.start("--kinds", dir)
	g.make("a", nil)
	g.make("b", nil)
	g.awaitReady(g.GroupVersionResource, "a")
	g.awaitReady(g.GroupVersionResource, "b")
	o.kill()

	g.remove("b", metav1.DeletePropagationBackground)
	uninstall("--keep-crds")
	g.awaitGone(g.GroupVersionResource, "b")
	a, err := g.get(g.GroupVersionResource, "a")
	require.NoError(t, err)
	require.False(t, isKept(a))

	g.patch(g.GroupVersionResource, "a", `{"metadata":{"finalizers":["fescue.dev/on-delete"]}}`)
	require.Contains(t, uninstall("--delete-objects"), "/a released: it has not passed the phases that follow its deletion")
}

// A CRD that is deleted takes its objects with it, but not before they have passed their phases: also those that are deleted while no
// operator runs.
func TestCRDIsDeletedWithItsObjects(t *testing.T) {
	t.Parallel()
	for _, isRunning := range []bool{true, false} {
		g := newGuards(t)
		dir, crd, census := g.kind(guardDelete), "guards."+g.Group, g.takeCensus("guard=a")
		o := g.start("--kinds", dir)
		g.make("a", nil)
		g.awaitReady(g.GroupVersionResource, "a")
		if !isRunning {
			o.kill()
		}
		require.NoError(t, g.client.Resource(definitions).Delete(t.Context(), crd, metav1.DeleteOptions{}))
		if !isRunning {
			require.True(t, testcluster.WaitUntil(func() bool {
				a, err := g.get(g.GroupVersionResource, "a")
				return err == nil && a.GetDeletionTimestamp() != nil
			}))
			g.launch("--kinds", dir)
		}
		require.True(t, testcluster.WaitUntil(func() bool {
			_, err := g.client.Resource(definitions).Get(t.Context(), crd, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}), "the CRD waits for its object")
		census.requireCreated(t, 1)
	}
}

// An object whose namespace is deleted goes with it, in whatever phase it is, though nothing that it waits for comes.
func TestNamespaceIsDeletedInEveryPhase(t *testing.T) {
	t.Parallel()
	g := newGuards(t)
	g.Resource = "archives"
	g.deleteCRDs("archives." + g.Group)
	g.everywhere = true
	source, err := os.ReadFile(filepath.Join("..", "examples", "archive", "kind.cue"))
	require.NoError(t, err)
	dir, _ := writeKind(t, strings.NewReplacer(`"example.com/v1"`, `"`+g.Group+`/v1"`, `args: ["save", "/files", object.spec.bucket]`, `command: ["sleep", "infinity"]`).Replace(string(source)))
	g.start("--kinds", dir)
	saveJobs := schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	claims := schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	for name, waits := range map[string]func(*guards){
		"before it is deleted": func(*guards) {},
		"saving": func(g *guards) {
			g.await(saveJobs, "a-save", "created", func(*unstructured.Unstructured) bool { return true })
		},
		"failed": func(g *guards) {
			g.await(saveJobs, "a-save", "created", func(*unstructured.Unstructured) bool { return true })
			_, err := g.objects(g.GroupVersionResource).Patch(g.t.Context(), "a", types.MergePatchType, []byte(`{"status":{"phase":"FAILED"}}`), metav1.PatchOptions{}, "status")
			require.NoError(t, err)
			g.await(g.GroupVersionResource, "a", "waiting", func(o *unstructured.Unstructured) bool {
				_, reason, _ := condition(o, "Deleting")
				return reason == "FAILED"
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace, err := g.typed.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
			require.NoError(t, err)
			home := &guards{newClients(t, namespace.Name), g.GroupVersionResource}
			home.create(g.GroupVersionResource, "Archive", "a", map[string]any{"spec": map[string]any{"image": "i", "bucket": "b"}})
			home.await(g.GroupVersionResource, "a", "kept", isKept)
			home.await(claims, "a-files", "created", func(*unstructured.Unstructured) bool { return true })
			if name != "before it is deleted" {
				home.remove("a", metav1.DeletePropagationBackground)
			}
			waits(home)
			require.NoError(t, home.typed.CoreV1().Namespaces().Delete(t.Context(), home.namespace, metav1.DeleteOptions{}))
			home.awaitGone(g.GroupVersionResource, "a")
		})
	}
}

// An object whose namespace is deleted takes its children in other namespaces with it.
func TestNamespaceOfChildrenElsewhereIsDeleted(t *testing.T) {
	t.Parallel()
	a := newAnnouncements(t)
	namespace, err := a.typed.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	home := newClients(t, namespace.Name)
	a.start("--kinds", a.dir)
	home.create(a.GroupVersionResource, "Announcement", "shop", a.spec())
	home.awaitReady(a.GroupVersionResource, "shop")
	require.NoError(t, home.typed.CoreV1().Namespaces().Delete(t.Context(), home.namespace, metav1.DeleteOptions{}))
	home.awaitGone(a.GroupVersionResource, "shop")
	a.there.awaitGone(services, home.namespace+"-shop")
}
