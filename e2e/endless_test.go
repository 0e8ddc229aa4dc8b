package e2e

import (
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// selfKind has children of its own type as long as its objects say so, which is as long as nobody stops it.
const selfKind = `
package self

import "fescue.dev/cue/contract"

#Self: {
	apiVersion!: "GROUP/v1", kind!: "Self", metadata!: {name!: string, namespace?: string, ...}
	spec: {more: *false | bool, here: *"" | string, there: *"" | string}
	status?: contract.#Status
}
#SelfController: contract.#Controller & {
	object!: #Self
	names: plural: "selves"
	owns: [{apiVersion: "GROUP/v1", kind: "Self"}]
	children: {if object.spec.more {next: {ONDELETE
		template: {apiVersion: "GROUP/v1", kind: "Self", metadata: {METADATA}, spec: {more: true, here: object.spec.there, there: object.spec.here}}}}}
}
`

// pairKinds decorate each other's children, once someone labels a ConfigMap.
const pairKinds = `
package pair

import "fescue.dev/cue/contract"

#SecretForCycleDecorator: contract.#Decorator & {
	target: {apiVersion: "v1", kind: "ConfigMap", selector: matchLabels: cycle: "LABEL"}
	children: next: template: {apiVersion: "v1", kind: "Secret", metadata: labels: cycle: "LABEL"}
}
#ConfigForCycleDecorator: contract.#Decorator & {
	target: {apiVersion: "v1", kind: "Secret", selector: matchLabels: cycle: "LABEL"}
	children: next: template: {apiVersion: "v1", kind: "ConfigMap", metadata: labels: cycle: "LABEL"}
}
`

// endless counts the children that operators did not create because they lead back.
func endless(operators ...*process) (n float64) {
	for _, o := range operators {
		for _, m := range o.scrape()["fescue_endless_children_total"].GetMetric() {
			n += (*dto.Metric).GetCounter(m).GetValue()
		}
	}
	return n
}

// awaitCount waits until there are n objects of a resource in some namespaces together.
func awaitCount(t *testing.T, n int, resource schema.GroupVersionResource, selector string, in ...*cluster) {
	t.Helper()
	var found int
	require.True(t, testcluster.WaitUntil(func() bool {
		found = 0
		for _, c := range in {
			found += len(c.list(resource, selector))
		}
		return found == n
	}), "there are %d %s instead of %d", &found, resource.Resource, n)
}

// A kind that creates itself without end stops after ten generations, also if two processes share its objects, and if
// each object is in another namespace than the one before. All go with the first one.
func TestKindThatLeadsBackEnds(t *testing.T) {
	t.Parallel()
	for name, isElsewhere := range map[string]bool{"in one namespace": false, "elsewhere": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, in := newCluster(t), []*cluster{}
			selves := schema.GroupVersionResource{Group: c.group(), Version: "v1", Resource: "selves"}
			c.deleteCRDs("selves." + c.group())
			metadata, spec := "", map[string]any{"more": true}
			if isElsewhere {
				c.everywhere = true
				other := newClients(t, testcluster.Namespace(t))
				in = append(in, other)
				metadata, spec["here"], spec["there"] = "namespace: object.spec.there", c.namespace, other.namespace
			}
			in = append(in, c)
			dir, _ := writeKind(t, strings.NewReplacer("GROUP", c.group(), "METADATA", metadata, "ONDELETE", "").Replace(selfKind))
			flags := append(shardFlags(2), "--kinds", dir, "--shipped-kinds=false")
			a, b := c.launch(flags...), c.launch(flags...)
			c.awaitShares(2, a, b)
			c.create(selves, "Self", "x", map[string]any{"spec": spec})
			last := "x" + strings.Repeat("-next", 10)
			_, reason, message := c.awaitStalled(selves, last)
			require.Equal(t, "EndlessChildren", reason)
			require.Contains(t, message, `child "next": it is not created: 11 objects of type Self.`+c.group()+` lead to it, beginning with Self "`+c.namespace+`/x"`)
			require.Contains(t, c.eventNote(last, "EndlessChildren"), "lead back without end")
			awaitCount(t, 11, selves, "", in...)
			require.Positive(t, endless(a, b))

			c.delete(selves, "x")
			awaitCount(t, 0, selves, "", in...)
		})
	}
}

// An object that outlives its owner is no new beginning: otherwise a kind that drops what keeps its children would have no end.
func TestWhatOutlivesItsOwnerEnds(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	selves := schema.GroupVersionResource{Group: c.group(), Version: "v1", Resource: "selves"}
	c.deleteCRDs("selves." + c.group())
	dir, _ := writeKind(t, strings.NewReplacer("GROUP", c.group(), "METADATA", "", "ONDELETE", `onDelete: "Orphan"`).Replace(selfKind))
	c.start("--kinds", dir, "--shipped-kinds=false")
	c.create(selves, "Self", "x", map[string]any{"spec": map[string]any{"more": true}})
	awaitCount(t, 11, selves, "", c)
	c.delete(selves, "x")
	awaitCount(t, 10, selves, "", c)
	last := "x" + strings.Repeat("-next", 10)
	c.delete(selves, last)
	_, reason, message := c.awaitStalled(selves, strings.TrimSuffix(last, "-next"))
	require.Equal(t, "EndlessChildren", reason)
	require.Contains(t, message, `it leads back to the type of an object that outlived its owner, Self "`+c.namespace+`/x-next": to let that begin anew, remove its label fescue.dev/owner-uid`)
	awaitCount(t, 9, selves, "", c)
	c.patch(selves, "x-next", `{"metadata":{"labels":{"fescue.dev/owner-uid":null}}}`)
	awaitCount(t, 11, selves, "", c)
}

// Two decorators on each other's children stop as well, whoever sets the label.
func TestDecoratorsThatLeadBackEnd(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir, _ := writeKind(t, strings.ReplaceAll(pairKinds, "LABEL", c.namespace))
	o := c.start("--kinds", dir, "--shipped-kinds=false")
	label := map[string]any{"cycle": c.namespace}
	c.create(configMaps, "ConfigMap", "x", map[string]any{"metadata": map[string]any{"name": "x", "labels": label}})
	last := "x" + strings.Repeat("-next", 20)
	require.Contains(t, c.eventNote(last, "EndlessChildren"), `11 objects of type ConfigMap lead to it, beginning with ConfigMap "`+c.namespace+`/x"`)
	selector := "cycle=" + c.namespace
	awaitCount(t, 11, configMaps, selector, c)
	awaitCount(t, 10, secrets, selector, c)

	o.kill()
	o = c.start("--kinds", dir, "--shipped-kinds=false")
	require.True(t, testcluster.WaitUntil(func() bool { return endless(o) > 0 }))
	require.Len(t, c.list(configMaps, selector), 11)

	c.delete(configMaps, "x")
	awaitCount(t, 0, configMaps, selector, c)
	awaitCount(t, 0, secrets, selector, c)
	require.NotContains(t, o.log.String(), "level=ERROR")
}
