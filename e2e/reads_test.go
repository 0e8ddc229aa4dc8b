package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// readersKind reads a ConfigMap by a computed name, all with a label, and a Secret by a constant name. It
// copies the first, and shows the keys of the second ones and of the third.
const readersKind = `
package readers

import (
	"strings"

	"fescue.dev/cue/contract"
)

#Reader: {
	apiVersion!: "NAMESPACE.example.com/v1"
	kind!:       "Reader"
	metadata!: {name!: string, namespace?: string, labels?: {[string]: string}, ...}
	spec!: {from!: string, team: *"none" | string, secret?: string}
	status?: {contract.#Status, team?: string, shared?: string}
}
#ReaderController: contract.#Controller & {
	object!: #Reader
	observed: _
	names: plural: "readers"
	reads: {
		from: {apiVersion: "v1", kind: "ConfigMap", name: object.spec.from}
		team: {apiVersion: "v1", kind: "ConfigMap", selector: matchLabels: team: object.spec.team}
		shared: {apiVersion: "v1", kind: "Secret", name: "shared"}
	}
	children: copy: template: {apiVersion: "v1", kind: "ConfigMap", data: value: observed.from.data.value}
	status: {
		team: strings.Join([for m in observed.team {m.metadata.name}], ",")
		shared: observed.shared.data.key
	}
}
`

// readerClient creates and awaits readers.
type readerClient struct {
	*cluster
	dir, controller string
	resource        schema.GroupVersionResource
}

// readers starts an operator for a kind of the test's own group.
func readers(c *cluster, args ...string) (*process, *readerClient) {
	dir, kinds := writeKind(c.t, strings.ReplaceAll(readersKind, "NAMESPACE", c.namespace))
	c.deleteCRDs(kinds[0].Name())
	r := &readerClient{cluster: c, dir: dir, controller: kinds[0].Name()}
	r.resource = kinds[0].GroupVersionResource()
	return c.start(append(args, "--kinds", dir)...), r
}

func (r *readerClient) read(name, from, team string) {
	r.t.Helper()
	r.create(r.resource, "Reader", name, map[string]any{"spec": map[string]any{"from": from, "team": team}})
}

func (r *readerClient) config(name, value string, labels map[string]any) {
	r.t.Helper()
	r.create(configMaps, "ConfigMap", name, map[string]any{
		"metadata": map[string]any{"name": name, "labels": labels}, "data": map[string]any{"value": value, "other": "a"},
	})
}

// awaitCopy waits until the child of a reader has a value.
func (r *readerClient) awaitCopy(name, value string) {
	r.t.Helper()
	r.await(configMaps, name+"-copy", value, func(o *unstructured.Unstructured) bool {
		got, _, _ := unstructured.NestedString(o.Object, "data", "value")
		return got == value
	})
}

// awaitStatus waits until the status of a reader has a text in a field.
func (r *readerClient) awaitStatus(name, field, text string) {
	r.t.Helper()
	r.await(r.resource, name, field+" "+text, func(o *unstructured.Unstructured) bool {
		got, ok, _ := unstructured.NestedString(o.Object, "status", field)
		return got == text && ok
	})
}

// reconciles returns how many reconciles there were.
func (r *readerClient) reconciles(o *process) int {
	total := 0
	for _, metric := range o.scrape()["controller_runtime_reconcile_total"].GetMetric() {
		for _, label := range metric.GetLabel() {
			if label.GetName() == "controller" && label.GetValue() == r.controller {
				total += int(metric.GetCounter().GetValue())
			}
		}
	}
	return total
}

// awaitIdle waits until no reconcile happens for longer than events are collected, and returns how many
// there were.
func (r *readerClient) awaitIdle(o *process) int {
	r.t.Helper()
	last, since := r.reconciles(o), time.Now()
	require.True(r.t, testcluster.WaitUntil(func() bool {
		if now := r.reconciles(o); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 3*time.Second
	}), "it is never idle")
	return last
}

// Objects follow what they read: what is created later, changes, loses its label, and goes. Nothing else is
// reconciled.
func TestReads(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	o, r := readers(c)
	for i := range 5 {
		r.read(fmt.Sprint("other-", i), "elsewhere", "others")
	}
	r.read("a", "settings", "x")
	r.read("b", "settings", "y")
	r.await(r.resource, "a", "waiting", func(o *unstructured.Unstructured) bool {
		status, reason, message := condition(o, "Ready")
		return status == "False" && reason == "Waiting" && strings.Contains(message, "waiting for observed.from (") &&
			strings.Contains(message, `ConfigMap "settings" does not exist`)
	})
	r.config("settings", "1", nil)
	r.awaitCopy("a", "1")
	r.awaitCopy("b", "1")

	idle := r.awaitIdle(o)
	c.patch(configMaps, "settings", `{"data":{"value":"2"}}`)
	r.awaitCopy("a", "2")
	r.awaitCopy("b", "2")
	// For the change, for the event of the child, and in case that event is lost.
	const each = 3
	require.LessOrEqual(t, r.awaitIdle(o)-idle, 2*each, "only a and b")

	idle = r.awaitIdle(o)
	c.patch(configMaps, "settings", `{"data":{"other":"b"}}`)
	r.config("team-y", "1", map[string]any{"team": "y"})
	r.awaitStatus("b", "team", "team-y")
	require.Equal(t, 1, r.awaitIdle(o)-idle, "only b reads something that has changed")

	c.patch(configMaps, "team-y", `{"metadata":{"labels":{"team":"x"}}}`)
	r.awaitStatus("a", "team", "team-y")
	r.awaitStatus("b", "team", "")
	c.delete(configMaps, "team-y")
	r.awaitStatus("a", "team", "")

	idle = r.awaitIdle(o)
	c.patch(r.resource, "b", `{"spec":{"from":"elsewhere"}}`)
	require.Equal(t, 1, r.awaitIdle(o)-idle)
	idle = r.awaitIdle(o)
	c.patch(configMaps, "settings", `{"data":{"value":"3"}}`)
	r.awaitCopy("a", "3")
	require.LessOrEqual(t, r.awaitIdle(o)-idle, each, "b no longer reads it")

	// What is gone leaves the child as it is.
	c.delete(configMaps, "settings")
	r.await(r.resource, "a", "waiting", func(o *unstructured.Unstructured) bool {
		_, reason, _ := condition(o, "Ready")
		return reason == "Waiting"
	})
	r.awaitCopy("a", "3")
	r.config("settings", "4", nil)
	r.awaitCopy("a", "4")

	// Of the Secrets, only the one with the constant name is listed and watched.
	c.create(secrets, "Secret", "private", map[string]any{"data": map[string]any{"key": "cHJpdmF0ZQ=="}})
	c.create(secrets, "Secret", "shared", map[string]any{"data": map[string]any{"key": "c2hhcmVk"}})
	r.awaitStatus("a", "shared", "c2hhcmVk")
	for _, request := range c.proxy.requests.all() {
		if strings.Contains(request, "/secrets") {
			require.Contains(t, request, "/namespaces/"+c.namespace+"/secrets?")
			require.Contains(t, request, "fieldSelector=metadata.name%3Dshared")
		}
	}
}

// The rights to read are needed, and no others: without one of them, the kind does not run and names it.
func TestRightsToReadAreExact(t *testing.T) {
	t.Parallel()
	for _, missing := range []install.Right{
		{}, {Resource: "configmaps", Verb: "list"}, {Resource: "configmaps", Verb: "watch"},
		{Resource: "secrets", Verb: "list", Name: "shared"}, {Resource: "secrets", Verb: "watch", Name: "shared"},
	} {
		t.Run("without "+strings.TrimSpace(missing.Verb+" "+missing.Resource), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.env = []string{"KUBE_FEATURE_WatchListClient=false"} // list first, as with API servers that cannot stream it
			dir, kinds := writeKind(t, strings.ReplaceAll(readersKind, "NAMESPACE", c.namespace))
			c.deleteCRDs(kinds[0].Name())
			c.installCRDs(kinds)
			rights := c.installation(false).rights(t, kinds)
			use := watchRights(c.proxy)
			o := c.launchAs(c.proxy.through(c.grant(without(t, rights, missing))), "--kinds", dir, "--shipped-kinds=false")
			if missing.Verb != "" {
				o.awaitLog("missing rights: " + missing.In(c.namespace) + ";")
				return
			}
			o.awaitReady()
			r := &readerClient{cluster: c, dir: dir, resource: kinds[0].GroupVersionResource()}
			r.config("settings", "1", nil)
			r.read("a", "settings", "x")
			r.awaitCopy("a", "1")
			all := flatten(nil)
			for _, object := range rights {
				for right := range flatten(rulesOf(t, object)) {
					if right.Resource == "secrets" || right.Resource == "configmaps" && (right.Verb == "list" || right.Verb == "watch") {
						all.Insert(right)
					}
				}
			}
			require.ElementsMatch(t, []install.Right{
				{Resource: "configmaps", Verb: "list"}, {Resource: "configmaps", Verb: "watch"},
				{Resource: "secrets", Verb: "list", Name: "shared"}, {Resource: "secrets", Verb: "watch", Name: "shared"},
			}, all.UnsortedList())
			require.True(t, testcluster.WaitUntil(func() bool { return use.unused(all).Len() == 0 }), "%v", use.unused(all))
			require.Empty(t, use.missingAny())
		})
	}
}

// vaultKind shows a Secret, which is named in the spec or by a label.
const vaultKind = `
package vault

import "fescue.dev/cue/contract"

#Vault: {
	apiVersion!: "NAMESPACE.example.com/v1"
	kind!:       "Vault"
	metadata!: {name!: string, namespace?: string, labels?: {[string]: string}, ...}
	spec!: {secret?: string, namespace?: string}
	status?: {contract.#Status, phase?: "CLOSING" | "GONE", named?: string, labelled?: string}
}
#VaultController: contract.#Controller & {
	object!: #Vault
	observed: _
	names: plural: "vaults"
	reads: {
		named: {apiVersion: "v1", kind: "Secret", name: object.spec.secret, if object.spec.namespace != _|_ {namespace: object.spec.namespace}}
		labelled: {apiVersion: "v1", kind: "Secret", name: object.metadata.labels.secret}
	}
	status: {named: observed.named.data.key, labelled: observed.labelled.data.key}
	onDelete: "CLOSING"
	phases: {
		CLOSING: next: [{to: "GONE", when: object.metadata.labels.done != _|_}]
		GONE: terminal: true
	}
}
`

// A user who may not get a Secret cannot have it read: not by a new object, and not by a later change of an
// object that reads another. An operator that is limited to a namespace reads in no other.
func TestReadsOfOthersAreDenied(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir, kinds := writeKind(t, strings.ReplaceAll(vaultKind, "NAMESPACE", c.namespace))
	c.deleteCRDs(kinds[0].Name())
	vaults := kinds[0].GroupVersionResource()
	flags, _ := c.webhookURLFlags()
	c.start(append(flags, "--kinds", dir)...)
	c.deleteWebhooks(c.webhookName())
	c.awaitRegistration()
	for _, name := range []string{"mine", "theirs"} {
		c.create(secrets, "Secret", name, map[string]any{"data": map[string]any{"key": "a2V5"}})
	}
	config := testcluster.Config(t)
	config.Impersonate = rest.ImpersonationConfig{UserName: "ada"}
	ada, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "ada"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{vaults.Group}, Resources: []string{"vaults"}, Verbs: []string{"create", "patch", "update"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"mine"}, Verbs: []string{"get"}},
	}}
	_, err = c.typed.RbacV1().Roles(c.namespace).Create(t.Context(), role, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = c.typed.RbacV1().RoleBindings(c.namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "ada"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "ada"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "ada"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	require.True(t, testcluster.WaitUntil(func() bool { // RBAC and the webhooks are known a little later
		_, err = c.createBy(ada, vaults, "Vault", "theirs", map[string]any{"secret": "theirs"}, dryRun)
		return err != nil && strings.Contains(err.Error(), "admission webhook")
	}), "%v", err)
	denied := func(err error, name, namespace string) {
		t.Helper()
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		require.ErrorContains(t, err, fmt.Sprintf(`user "ada" cannot get resource "secrets" named %q in API group "" in the namespace %q, which the kind Vault does on behalf of the user`, name, namespace))
	}
	_, err = c.createBy(ada, vaults, "Vault", "theirs", map[string]any{"secret": "theirs"}, metav1.CreateOptions{})
	denied(err, "theirs", c.namespace)
	_, err = c.createBy(ada, vaults, "Vault", "theirs", map[string]any{"secret": "mine", "namespace": "kube-system"}, metav1.CreateOptions{})
	denied(err, "mine", "kube-system")

	require.True(t, testcluster.WaitUntil(func() bool {
		_, err = c.createBy(ada, vaults, "Vault", "mine", map[string]any{"secret": "mine"}, metav1.CreateOptions{})
		return err == nil
	}), "%v", err)
	shows := func(field string) {
		t.Helper()
		c.await(vaults, "mine", field, func(o *unstructured.Unstructured) bool {
			got, _, _ := unstructured.NestedString(o.Object, "status", field)
			return got == "a2V5"
		})
	}
	shows("named")
	patch := func(body string) error {
		_, err := ada.Resource(vaults).Namespace(c.namespace).Patch(t.Context(), "mine", types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	denied(patch(`{"spec":{"secret":"theirs"}}`), "theirs", c.namespace)
	denied(patch(`{"metadata":{"labels":{"secret":"theirs"}}}`), "theirs", c.namespace)
	require.NoError(t, patch(`{"metadata":{"labels":{"secret":"mine"}}}`))
	shows("labelled")

	// So is a change of an object that is being deleted and still acts. What it does not act on is not
	// reviewed.
	c.delete(vaults, "mine")
	c.await(vaults, "mine", "closing", func(o *unstructured.Unstructured) bool { return phaseOf(o) == "CLOSING" })
	denied(patch(`{"metadata":{"labels":{"secret":"theirs"}}}`), "theirs", c.namespace)
	denied(patch(`{"spec":{"secret":"theirs"}}`), "theirs", c.namespace)
	require.NoError(t, patch(`{"metadata":{"labels":{"done":"true"}}}`))
	c.awaitGone(vaults, "mine")

	// The administrator may read all Secrets, and the operator does not.
	_, err = c.createBy(c.client, vaults, "Vault", "elsewhere", map[string]any{"secret": "mine", "namespace": "kube-system"}, metav1.CreateOptions{})
	require.NoError(t, err)
	c.awaitReady(vaults, "elsewhere")
	object, err := c.get(vaults, "elsewhere")
	require.NoError(t, err)
	require.NotContains(t, object.Object["status"], "named")
	c.patch(vaults, "elsewhere", `{"metadata":{"labels":{"done":"true"}}}`)
	c.delete(vaults, "elsewhere")
	c.awaitGone(vaults, "elsewhere")
}
