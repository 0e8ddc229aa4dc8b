package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// formerKind is a kind with these children; GROUP is replaced.
const formerKind = `
package former

import "fescue.dev/cue/contract"

#Former: {apiVersion!: "GROUP/v1", kind!: "Former", metadata!: {name!: string, ...}, spec?: {...}, status?: contract.#Status}
#FormerController: contract.#Controller & {
	object!: #Former
	names: plural: "formers"
	children: CHILDREN
}
`

// Children that a new version of a kind does not want are deleted, also if no child of it has their
// type any more; a copy of such a child stays.
func TestChildrenThatAKindDropsAreDeleted(t *testing.T) {
	t.Parallel()
	const (
		config = `config: template: {apiVersion: "v1", kind: "ConfigMap"}`
		all    = config + `, other: template: {apiVersion: "v1", kind: "ConfigMap"}
	secret: template: {apiVersion: "v1", kind: "Secret"}
	changes: template: {apiVersion: "v1", kind: "Secret", metadata: name: "f-changes"}
	pods: {replicas: 2, template: {apiVersion: "v1", kind: "Pod", metadata: labels: a: "b", spec: containers: [{name: "x", image: "x"}]}}`
		later = config + `, changes: template: {apiVersion: "v1", kind: "ConfigMap", metadata: name: "f-changes"}`
	)
	for name, hasRights := range map[string]bool{"with rights": true, "without rights": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			group := c.group()
			formers := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "formers"}
			c.deleteCRDs("formers." + group)
			write := func(children string) string {
				dir, _ := writeKind(t, strings.NewReplacer("GROUP", group, "CHILDREN", "{"+children+"}").Replace(formerKind))
				return dir
			}
			o := c.start("--kinds", write(all))
			c.create(formers, "Former", "f", nil)
			c.awaitReady(formers, "f")
			copied := c.copyOf(secrets, "f-secret", "copy", true)
			members := c.list(pods, "fescue.dev/child=pods")
			require.Len(t, members, 2)
			o.kill()

			if !hasRights {
				c.granted = nil // as an administrator does who applies the new manifests
			}
			o = c.start("--kinds", write(later))
			c.await(configMaps, "f-changes", "created", exists)
			c.awaitGone(configMaps, "f-other")
			if !hasRights {
				object := c.await(formers, "f", "told", func(o *unstructured.Unstructured) bool {
					status, _, _ := condition(o, "Pruned")
					return status == "False"
				})
				_, reason, message := condition(object, "Pruned")
				require.Equal(t, "Forbidden", reason)
				require.Contains(t, message, `children of type Secret may be left from an earlier version of the kind: secrets is forbidden`)
				c.awaitGone(pods, members[0].GetName())
				object = c.await(formers, "f", "without Pods", func(o *unstructured.Unstructured) bool { return len(inventoryTypes(o)) == 2 })
				require.True(t, isTrue(object, "Ready"))
				_, err := c.get(secrets, "f-secret")
				require.NoError(t, err)
				return
			}
			for _, name := range []string{"f-secret", "f-changes"} {
				c.awaitGone(secrets, name)
			}
			for _, member := range members {
				c.awaitGone(pods, member.GetName())
			}
			c.requireUntouched(secrets, copied)
			object := c.await(formers, "f", "without former types", func(o *unstructured.Unstructured) bool { return len(inventoryTypes(o)) == 1 })
			status, _, _ := condition(object, "Pruned")
			require.Empty(t, status)
			c.proxy.requests.reset()
			c.patch(formers, "f", `{"metadata":{"annotations":{"touched":"yes"}}}`)
			c.createWatcher("later", map[string]any{"a": "b"})
			c.awaitReady(watchers, "later")
			for _, path := range c.requestPaths() {
				require.NotContains(t, path, "/secrets", "nothing is read once nothing is left")
			}
			require.Zero(t, o.stop())
		})
	}
}

func inventoryTypes(o *unstructured.Unstructured) []any {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "childInventory", "types")
	return list
}
