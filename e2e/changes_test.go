package e2e

import (
	"cmp"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/engine/simulate"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// changingKind is a kind with the fields SPEC and the behaviour BEHAVIOUR.
const changingKind = `
package changing

import "fescue.dev/cue/contract"

#Changing: {
	apiVersion!: "GROUP/v1", kind!: "Changing", metadata!: {name!: string, ...}
	spec: {SPEC}
	status?: {contract.#Status, seen?: string}
}
#ChangingController: contract.#Controller & {
	object!: #Changing
	observed: _
	index: _
	names: plural: "changings"
	BEHAVIOUR
}
`

const (
	changingText   = `text: *"a" | string`
	changingConfig = `children: config: template: {apiVersion: "v1", kind: "ConfigMap", data: text: object.spec.text}`
	changingPods   = `children: pods: {replicas: 2, template: {apiVersion: "v1", kind: "Pod", spec: {terminationGracePeriodSeconds: 0, containers: [{name: "c", image: "a"}]}}}`
	changingPod    = `children: pod: template: {apiVersion: "v1", kind: "Pod", spec: {terminationGracePeriodSeconds: 0, containers: [{name: "c", image: "a"}]}}`
	changingPhases = `initial: "FIRST", phases: {
		FIRST: {children: config: template: {apiVersion: "v1", kind: "ConfigMap", data: text: object.spec.text}, next: [{to: "LAST", when: object.spec.text == "go"}]}
		LAST: terminal: true
	}`
	changingDelete = `, onDelete: "CLEAN", phases: CLEAN: next: [{to: "LAST", when: true}]`
)

// kindChanges are changes of a kind, each a row of the table in docs/changes.md, and what becomes of an object that lives.
var kindChanges = []struct {
	row string
	// spec and behaviour are those of the kind, and newSpec and newBehaviour, if they are not empty, those of its next version.
	spec, behaviour, newSpec, newBehaviour string
	object                                 map[string]any // its spec
	want                                   []string       // what becomes of children, and conditions that are not usual
}{
	{
		row: "a field with a default is added", spec: changingText, behaviour: changingConfig, object: map[string]any{},
		newSpec: changingText + `, more: *"b" | string`, newBehaviour: changingConfig + `, children: config: template: data: more: object.spec.more`,
		want: []string{"ConfigMap/o-config: updated", "Ready"},
	},
	{
		row: "a field is removed", spec: changingText + `, more?: string`, behaviour: changingConfig + `, children: config: template: data: more: *object.spec.more | "none"`,
		newSpec: changingText, newBehaviour: changingConfig, object: map[string]any{"more": "b"},
		want: []string{"ConfigMap/o-config: updated", "Ready"},
	},
	{
		row: "a field becomes required", spec: changingText + `, more?: string`, behaviour: changingConfig, newSpec: changingText + `, more!: string`,
		object: map[string]any{}, want: []string{"ConfigMap/o-config: kept", "Stalled InvalidObject"},
	},
	{
		row: "a rule is added that the object breaks", spec: changingText, behaviour: changingConfig, newSpec: `text: *"a" | =~"^a"`,
		object: map[string]any{"text": "b"}, want: []string{"ConfigMap/o-config: kept", "Stalled InvalidObject"},
	},
	{
		row: "a field gets another type", spec: `text: *"a" | string`, behaviour: changingConfig, newSpec: `text: *1 | int`,
		newBehaviour: strings.Replace(changingConfig, "object.spec.text", `"\(object.spec.text)"`, 1),
		object:       map[string]any{"text": "b"}, want: []string{"ConfigMap/o-config: kept", "Stalled InvalidObject"},
	},
	{
		row: "a child is added", spec: changingText, behaviour: changingConfig, object: map[string]any{},
		newBehaviour: changingConfig + `, children: more: template: {apiVersion: "v1", kind: "Secret"}`,
		want:         []string{"ConfigMap/o-config: kept", "Secret/o-more: created", "Ready"},
	},
	{
		row: "a child is removed", spec: changingText, behaviour: changingConfig + `, children: more: template: {apiVersion: "v1", kind: "Secret"}`, object: map[string]any{},
		newBehaviour: changingConfig, want: []string{"ConfigMap/o-config: kept", "Secret/o-more: deleted", "Ready"},
	},
	{
		row: "a child gets another key", spec: changingText, behaviour: changingConfig, object: map[string]any{},
		newBehaviour: strings.Replace(changingConfig, "config:", "other:", 1), want: []string{"ConfigMap/o-config: deleted", "ConfigMap/o-other: created", "Ready"},
	},
	{
		row: "a child with a name gets another key", spec: changingText, behaviour: changingConfig + `, children: config: template: metadata: name: "n"`, object: map[string]any{},
		newBehaviour: strings.ReplaceAll(changingConfig+`, children: config: template: metadata: name: "n"`, "config:", "other:"),
		want:         []string{"ConfigMap/n: kept", "Ready"},
	},
	{
		row: "a child gets another name", spec: changingText, behaviour: changingConfig, object: map[string]any{},
		newBehaviour: changingConfig + `, children: config: template: metadata: name: "n"`, want: []string{"ConfigMap/n: created", "ConfigMap/o-config: deleted", "Ready"},
	},
	{
		row: "a child gets another type", spec: changingText, behaviour: changingConfig, object: map[string]any{},
		newBehaviour: `children: config: template: {apiVersion: "v1", kind: "Secret"}`, want: []string{"ConfigMap/o-config: deleted", "Secret/o-config: created", "Ready"},
	},
	{
		row: "a child becomes a set", spec: changingText, behaviour: changingPod, newBehaviour: strings.Replace(changingPods, "pods:", "pod:", 1),
		object: map[string]any{}, want: []string{"Pod/MEMBER: created", "Pod/o-pod: kept", "Ready"},
	},
	{
		row: "a set becomes a child", spec: changingText, behaviour: changingPods, newBehaviour: strings.Replace(changingPod, "pod:", "pods:", 1),
		object: map[string]any{}, want: []string{"Pod/MEMBER: deleted", "Pod/MEMBER: deleted", "Pod/o-pods: created", "Ready"},
	},
	{
		row: "a set gets another template", spec: changingText, behaviour: changingPods, newBehaviour: strings.Replace(changingPods, `"a"`, `"b"`, 1) + `, children: pods: update: "Recreate"`,
		object: map[string]any{}, want: []string{"Pod/MEMBER: created", "Pod/MEMBER: created", "Pod/MEMBER: deleted", "Pod/MEMBER: deleted", "Ready"},
	},
	{
		row: "the template changes a field that the API server keeps", spec: changingText, behaviour: changingPod, newBehaviour: strings.Replace(changingPod, `name: "c"`, `name: "d"`, 1),
		object: map[string]any{}, want: []string{"Pod/o-pod: kept", "Stalled ChildRejected"},
	},
	{
		row: "the template of a child with `update: \"Never\"` changes", spec: changingText, behaviour: changingConfig + `, children: config: update: "Never"`,
		newBehaviour: changingConfig + `, children: config: {update: "Never", template: data: more: "b"}`,
		object:       map[string]any{}, want: []string{"ConfigMap/o-config: kept", "Ready"},
	},
	{
		row: "phases are added", spec: changingText, behaviour: changingConfig, newBehaviour: changingPhases, object: map[string]any{},
		want: []string{"ConfigMap/o-config: kept", "FIRST"},
	},
	{
		row: "phases are removed", spec: changingText, behaviour: changingPhases, newBehaviour: changingConfig, object: map[string]any{},
		want: []string{"ConfigMap/o-config: kept", "Ready"},
	},
	{
		row: "the phase of the object is removed", spec: changingText, behaviour: changingPhases, object: map[string]any{},
		newBehaviour: strings.ReplaceAll(changingPhases, "FIRST", "OTHER"), want: []string{"ConfigMap/o-config: kept", "Stalled InvalidObject"},
	},
	{
		row: "the phase of the object gets another template", spec: changingText, behaviour: changingPhases, object: map[string]any{},
		newBehaviour: strings.Replace(changingPhases, "data: text: object.spec.text", `data: text: "b"`, 1), want: []string{"ConfigMap/o-config: updated", "FIRST"},
	},
	{
		row: "a terminal phase gets children", spec: changingText, behaviour: changingPhases, object: map[string]any{"text": "go"},
		newBehaviour: strings.Replace(changingPhases, "LAST: terminal: true", `LAST: {terminal: true, children: more: template: {apiVersion: "v1", kind: "Secret"}}`, 1),
		want:         []string{"ConfigMap/o-config: kept", "LAST"},
	},
	{
		row: "`onDelete` is added", spec: changingText, behaviour: changingPhases, object: map[string]any{},
		newBehaviour: changingPhases + changingDelete, want: []string{"ConfigMap/o-config: kept", "FIRST", "finalizer"},
	},
	{
		row: "`onDelete` is removed", spec: changingText, behaviour: changingPhases + changingDelete, object: map[string]any{},
		newBehaviour: changingPhases, want: []string{"ConfigMap/o-config: kept", "FIRST", "finalizer"},
	},
}

// TestKindChanges changes kinds while an object of them lives, in each way of the table in docs/changes.md.
func TestKindChanges(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/changes.md")
	require.NoError(t, err)
	for _, change := range kindChanges {
		require.Contains(t, string(page), "\n| "+change.row+" |")
		t.Run(change.row, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.deleteCRDs("changings." + c.group())
			changings := schema.GroupVersionResource{Group: c.group(), Version: "v1", Resource: "changings"}
			write := func(spec, behaviour string) string {
				dir, _ := writeKind(t, strings.NewReplacer("GROUP", c.group(), "SPEC", spec, "BEHAVIOUR", behaviour).Replace(changingKind))
				return dir
			}
			o := c.start("--kinds", write(change.spec, change.behaviour))
			c.create(changings, "Changing", "o", map[string]any{"spec": change.object})
			c.await(changings, "o", "at rest", func(o *unstructured.Unstructured) bool {
				return isTrue(o, "Ready") || phaseOf(o) == "LAST" || phaseOf(o) == "FIRST" && len(c.list(configMaps, "fescue.dev/child")) > 0
			})
			before := c.childrenOf(changings)
			require.NotEmpty(t, before)
			require.Zero(t, o.stop())

			o = c.start("--kinds", write(cmp.Or(change.newSpec, change.spec), cmp.Or(change.newBehaviour, change.behaviour)))
			isWanted := func() bool { return slices.Equal(c.becameOf(changings, before), change.want) }
			testcluster.WaitUntil(isWanted)
			require.Equal(t, change.want, c.becameOf(changings, before))
			later := map[string]any{}
			if strings.Contains(change.newSpec, "more!") {
				later["more"] = "b"
			}
			c.create(changings, "Changing", "later", map[string]any{"spec": later})
			c.await(changings, "later", "reconciled, as what was queued before it is", func(o *unstructured.Unstructured) bool {
				return isTrue(o, "Ready") || isTrue(o, "Stalled") || phaseOf(o) != ""
			})
			require.Equal(t, change.want, c.becameOf(changings, before))
			c.delete(changings, "o")
			c.awaitGone(changings, "o")
			require.Zero(t, o.stop())
		})
	}
}

// memberName is the name of a member of a set.
var memberName = regexp.MustCompile(`o-pods?-[0-9a-f]{5}-\d+$`)

// childrenOf returns the children of the object, by type and name.
func (c *cluster) childrenOf(owners schema.GroupVersionResource) map[string]*unstructured.Unstructured {
	owner, err := c.get(owners, "o")
	require.NoError(c.t, err)
	children := make(map[string]*unstructured.Unstructured)
	for _, resource := range []schema.GroupVersionResource{configMaps, secrets, pods} {
		for _, child := range c.list(resource, "fescue.dev/owner-uid="+string(owner.GetUID())) {
			children[simulate.NameOf(&child)] = &child
		}
	}
	return children
}

// becameOf returns what became of children, and of the conditions of the object.
func (c *cluster) becameOf(resource schema.GroupVersionResource, before map[string]*unstructured.Unstructured) (became []string) {
	after := c.childrenOf(resource)
	add := func(name, what string) {
		became = append(became, memberName.ReplaceAllString(name, "MEMBER")+": "+what)
	}
	for name, child := range after {
		was, existed := before[name]
		switch {
		case child.GetDeletionTimestamp() != nil:
			add(name, "ends")
		case !existed:
			add(name, "created")
		case was.GetUID() != child.GetUID():
			add(name, "replaced")
		case !equalValues(was.Object["data"], child.Object["data"]):
			add(name, "updated")
		default:
			add(name, "kept")
		}
	}
	for name := range before {
		if after[name] == nil {
			add(name, "deleted")
		}
	}
	slices.Sort(became)
	object, err := c.get(resource, "o")
	require.NoError(c.t, err)
	if _, reason, _ := condition(object, "Stalled"); isTrue(object, "Stalled") {
		became = append(became, "Stalled "+reason)
	} else if phase := phaseOf(object); phase != "" {
		became = append(became, phase)
	} else if isTrue(object, "Ready") {
		became = append(became, "Ready")
	}
	if len(object.GetFinalizers()) > 0 {
		became = append(became, "finalizer")
	}
	return became
}
