package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// strictestKind has each form of rule that a CRD can have. GROUP is replaced, and DELETE by what follows the deletion.
const strictestKind = `
package strictest

import (
	"list"

	"fescue.dev/cue/contract"
)

#Strictest: {
	apiVersion!: "GROUP/v1", kind!: "Strictest", metadata!: {name!: string, ...}
	spec!: {
		size!: int & <=3
		min?: int
		max?: int & >=min
		colour?: "red" | "green"
		code?: =~"^[a-z]+$" & !="no"
		names?: list.UniqueItems & [...string]
		command: *"true" | string
		title?: string & !=metadata.name
		mode: *"one" | "two"
		if mode == "two" {second!: string}
		ports?: [...{name!: string, port?: int}] @kube(listType=map,listMapKey=name)
		owner?: string @kube(immutable)
		many?:  int32 & >=0
	}
	status?: {contract.#Status, many?: int32 & >=0}
}
#StrictestController: contract.#Controller & {
	object!: #Strictest
	observed: _
	owns: [{apiVersion: "v1", kind: "Pod"}]
	names: plural: "strictests"
	scale: {spec: ".spec.many", status: ".status.many"}
	children: {}
	DELETE
}
`

// strictests are objects that were stored before their kind became strict.
type strictests struct {
	*cluster
	schema.GroupVersionResource
	dir   string
	kinds []*kind.Kind
}

// newStrictests stores objects with these specs, none of which is valid, and installs the CRD of the kind then.
func newStrictests(t *testing.T, onDelete string, specs map[string]map[string]any) *strictests {
	t.Helper()
	c := newCluster(t)
	group := c.group()
	dir, kinds := writeKind(t, strings.NewReplacer("GROUP", group, "DELETE", onDelete).Replace(strictestKind))
	s := &strictests{c, kinds[0].GroupVersionResource(), dir, kinds}
	c.deleteCRDs(kinds[0].Name())
	open := kindtest.FromDir(t, dir)[0]
	open.Hash, open.Scale = "open", nil
	open.Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	c.installCRDs([]*kind.Kind{open})
	for name, spec := range specs {
		object := newObject(s.GroupVersionResource, "Strictest", name, spec)
		object.SetFinalizers([]string{"example.com/other"})
		_, err := c.objects(s.GroupVersionResource).Create(t.Context(), object, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	require.NoError(t, testcluster.InstallCRDs(t.Context(), c.client, kinds, crds.Webhook{}))
	require.True(t, testcluster.WaitUntil(func() bool {
		_, err := c.objects(s.GroupVersionResource).Create(t.Context(), newObject(s.GroupVersionResource, "Strictest", "new", map[string]any{"size": int64(4)}), dryRun)
		return err != nil
	}), "the CRD is not strict yet")
	return s
}

// invalidSpecs break one rule each.
var invalidSpecs = map[string]map[string]any{
	"no-spec":   nil,
	"no-size":   {"min": int64(1)},
	"too-large": {"size": int64(4)},
	"type":      {"size": "two"},
	"relation":  {"size": int64(1), "min": int64(3), "max": int64(2)},
	"enum":      {"size": int64(1), "colour": "blue"},
	"pattern":   {"size": int64(1), "code": "A"},
	"excluded":  {"size": int64(1), "code": "no"},
	"set":       {"size": int64(1), "names": []any{"a", "a"}},
	"named":     {"size": int64(1), "title": "named"}, // a rule for the object as a whole
	"condition": {"size": int64(1), "mode": "two"},
	"list-map":  {"size": int64(1), "ports": []any{map[string]any{"name": "a", "port": int64(1)}, map[string]any{"name": "a", "port": int64(2)}}},
}

// An object that became invalid with its kind can be labelled, lose its finalizers and be deleted, with and without
// webhooks, in the foreground too; the operator says what is wrong with it. What is wrong cannot be made worse.
func TestInvalidObjectsCanGo(t *testing.T) {
	t.Parallel()
	s := newStrictests(t, "", invalidSpecs)
	flags, _ := s.webhookURLFlags()
	s.keepCRDs = true
	s.start(append(flags, "--kinds", s.dir, "--shipped-kinds=false")...)
	s.awaitRegistration()
	for name := range invalidSpecs {
		object, reason, message := s.awaitStalled(s.GroupVersionResource, name)
		require.Equal(t, "InvalidObject", reason)
		require.Contains(t, message, "spec", name)

		s.patch(s.GroupVersionResource, name, `{"metadata":{"labels":{"seen":"yes"}}}`)
		if object.Object["spec"] != nil {
			_, err := s.objects(s.GroupVersionResource).Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":{"size":5}}`), metav1.PatchOptions{})
			require.True(t, apierrors.IsInvalid(err), "%s: %v", name, err)
		}
		s.patch(s.GroupVersionResource, name, `{"metadata":{"finalizers":null}}`)
		foreground := metav1.DeletePropagationForeground
		require.NoError(t, s.objects(s.GroupVersionResource).Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &foreground}))
	}
	for name := range invalidSpecs {
		s.awaitGone(s.GroupVersionResource, name)
	}
}

// An invalid object cannot pass the phases that follow its deletion. It says so, and is deleted once it is valid, or
// has lost its finalizer.
func TestInvalidObjectsThatAreKept(t *testing.T) {
	t.Parallel()
	s := newStrictests(t, guardDelete, map[string]map[string]any{"mended": nil, "freed": {"size": int64(4)}})
	s.keepCRDs = true
	s.start("--kinds", s.dir, "--shipped-kinds=false")
	for _, name := range []string{"mended", "freed"} {
		s.patch(s.GroupVersionResource, name, `{"metadata":{"finalizers":["fescue.dev/on-delete"]}}`)
		require.NoError(t, s.objects(s.GroupVersionResource).Delete(t.Context(), name, metav1.DeleteOptions{}))
		s.await(s.GroupVersionResource, name, "said to be invalid", func(o *unstructured.Unstructured) bool {
			_, reason, message := condition(o, kind.ConditionDeleting)
			return reason == "InvalidObject" && strings.Contains(message, "the object stays until this is resolved or its finalizer fescue.dev/on-delete is removed")
		})
	}
	s.patch(s.GroupVersionResource, "freed", `{"metadata":{"finalizers":null}}`)
	s.patch(s.GroupVersionResource, "mended", `{"spec":{"size":1}}`)
	s.awaitGone(s.GroupVersionResource, "freed")
	s.awaitGone(s.GroupVersionResource, "mended")
}

// stuckSpecs are of objects of which the API server itself rejects every write, each with its error.
var stuckSpecs = map[string]struct {
	spec map[string]any
	err  string
}{
	"no-key":    {map[string]any{"size": int64(1), "ports": []any{map[string]any{"port": int64(1)}}}, "spec.ports[0].name: Required value"},
	"scale":     {map[string]any{"size": int64(1), "many": int64(1_000_000_000_000)}, ".spec.many: Invalid value: 1000000000000: should be less than or equal to 2147483647"},
	"immutable": {map[string]any{"size": int64(1), "owner": int64(5)}, "owner is immutable"},
}

// newStuck stores an object of each of these specs.
func newStuck(t *testing.T) *strictests {
	t.Helper()
	specs := make(map[string]map[string]any)
	for name, stuck := range stuckSpecs {
		specs[name] = stuck.spec
	}
	s := newStrictests(t, guardDelete, specs)
	for name, stuck := range stuckSpecs {
		_, err := s.objects(s.GroupVersionResource).Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		require.ErrorContains(t, err, stuck.err)
	}
	return s
}

// The status says what is wrong with an object that cannot be written, or an Event if the status cannot be written either.
// fescue uninstall, which deletes the CRD as well, deletes such objects all the same.
func TestUninstallDeletesInvalidObjects(t *testing.T) {
	t.Parallel()
	s := newStuck(t)
	s.keepCRDs = true
	o := s.start("--kinds", s.dir, "--shipped-kinds=false")
	for _, name := range []string{"no-key", "scale"} {
		_, reason, _ := s.awaitStalled(s.GroupVersionResource, name)
		require.Equal(t, "InvalidObject", reason)
	}
	note := s.eventNote("immutable", "InvalidObject")
	require.Contains(t, note, "the API server rejects what Fescue writes to the object: write status: ")
	require.Contains(t, note, stuckSpecs["immutable"].err)
	o.kill()

	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	testcluster.WriteKubeconfig(t, kubeconfig, testcluster.Config(t), s.namespace)
	out, err := exec.CommandContext(t.Context(), "fescue", "uninstall", "--kubeconfig", kubeconfig, "--shipped-kinds=false", "--kinds", s.dir, "--webhooks=false",
		"--namespaced", s.namespace, "--namespace", s.namespace, "--keep-namespace", "--on-delete-timeout", "1s", "--delete-objects").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for name := range stuckSpecs {
		require.True(t, testcluster.WaitUntil(func() bool { // the API server knows the CRD that accepts it a little later
			_, err = s.objects(s.GroupVersionResource).Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			return err == nil // example.com/other is gone, and foregroundDeletion if it was still there
		}), "%s: %v", name, err)
	}
	require.True(t, testcluster.WaitUntil(func() bool {
		list, err := s.client.Resource(definitions).List(t.Context(), metav1.ListOptions{})
		return err == nil && !slices.ContainsFunc(list.Items, func(d unstructured.Unstructured) bool { return d.GetName() == s.kinds[0].Name() })
	}), "the CRD is still there")
}

// hugeKind computes a status as large as its objects ask for. GROUP is replaced, and DELETE by what follows the deletion.
const hugeKind = `
package huge

import (
	"strings"

	"fescue.dev/cue/contract"
)

#Huge: {
	apiVersion!: "GROUP/v1", kind!: "Huge", metadata!: {name!: string, ...}
	spec: {size: *1 | int, command: *"true" | string}
	status?: {contract.#Status, text?: string}
}
#HugeController: contract.#Controller & {
	object!: #Huge
	observed: _
	names: plural: "huges"
	owns: [{apiVersion: "v1", kind: "Pod"}]
	children: config: template: {apiVersion: "v1", kind: "ConfigMap", data: size: "\(object.spec.size)"}
	status: text: strings.Repeat("0123456789", object.spec.size)
	DELETE
}
`

// A status that is too large to be stored is left out: the conditions say so, children are kept, the object passes the
// phases that follow its deletion, and the status is back when it fits.
func TestStatusThatIsTooLarge(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	group := c.group()
	huges := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "huges"}
	c.deleteCRDs("huges." + group)
	dir, _ := writeKind(t, strings.NewReplacer("GROUP", group, "DELETE", guardDelete).Replace(hugeKind))
	c.start("--kinds", dir, "--shipped-kinds=false")
	// More than etcd takes, than its client sends, and than the API server takes.
	for name, size := range map[string]int64{"etcd": 200_000, "client": 260_000, "server": 400_000} {
		c.create(huges, "Huge", name, map[string]any{"spec": map[string]any{}})
		c.awaitReady(huges, name)
		c.patch(huges, name, fmt.Sprintf(`{"spec":{"size":%d}}`, size))
		object, reason, message := c.awaitStalled(huges, name)
		require.Equal(t, "StatusTooLarge", reason)
		require.Contains(t, message, "the status that the kind computes is too large to be stored: ")
		_, has, _ := unstructured.NestedString(object.Object, "status", "text")
		require.False(t, has)
		c.await(configMaps, name+"-config", "changed", func(o *unstructured.Unstructured) bool {
			text, _, _ := unstructured.NestedString(o.Object, "data", "size")
			return text == fmt.Sprint(size)
		})
	}
	c.delete(huges, "etcd")
	c.awaitGone(huges, "etcd")
	c.patch(huges, "server", `{"spec":{"size":2}}`)
	object := c.awaitReady(huges, "server")
	require.False(t, isTrue(object, "Stalled"))
	text, _, _ := unstructured.NestedString(object.Object, "status", "text")
	require.Equal(t, "01234567890123456789", text)
}
