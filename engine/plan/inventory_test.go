package plan

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/internal/enginetest"
)

// What a phase creates once is created with a finalizer, is recorded by its UID, and is not created
// again once it is recorded.
func TestCreatedOnce(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "At")
	running := func(created map[string]any) *unstructured.Unstructured {
		object := enginetest.At("2020-01-01T00:00:00Z", "RUNNING")
		if created != nil {
			object["status"].(map[string]any)["childInventory"] = map[string]any{"created": created}
		}
		return &unstructured.Unstructured{Object: object}
	}
	live := func(phase string, change func(*unstructured.Unstructured)) []LiveChild {
		child := children(k, running(nil).Object, pod(phase))[0]
		change(child.Object)
		return []LiveChild{child}
	}
	isLeaving := func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(new(metav1.NewTime(now))) }
	asIs := func(*unstructured.Unstructured) {}
	hold := func(o *unstructured.Unstructured) { o.SetFinalizers([]string{Finalizer}) }
	const recorded = "uid-of-pod"
	for name, tc := range map[string]struct {
		created map[string]any
		live    []LiveChild
		steps   string
		phase   string
		gone    bool
		records map[string]types.UID
		tracked int
	}{
		"not created":               {steps: "create a-pod", phase: "RUNNING", records: map[string]types.UID{}},
		"created and not recorded":  {live: live("Running", hold), phase: "RUNNING", records: map[string]types.UID{"pod": recorded}, tracked: 1},
		"recorded":                  {created: map[string]any{"pod": recorded}, live: live("Running", asIs), phase: "RUNNING", records: map[string]types.UID{"pod": recorded}},
		"gone":                      {created: map[string]any{"pod": recorded}, phase: "RUNNING", gone: true, records: map[string]types.UID{"pod": recorded}},
		"only a copy is left":       {created: map[string]any{"pod": recorded}, live: []LiveChild{Live(pods, copied(live("Running", asIs)[0].Object, "copy"))}, phase: "RUNNING", gone: true, records: map[string]types.UID{"pod": recorded}},
		"being deleted":             {created: map[string]any{"pod": recorded}, live: live("Running", isLeaving), phase: "RUNNING", records: map[string]types.UID{"pod": recorded}},
		"ended and being deleted":   {live: live("Succeeded", func(o *unstructured.Unstructured) { hold(o); isLeaving(o) }), phase: "DONE", records: map[string]types.UID{}, tracked: 1},
		"restored with another UID": {created: map[string]any{"pod": "former"}, live: live("Running", asIs), phase: "RUNNING", records: map[string]types.UID{"pod": recorded}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := &View{Children: tc.live, Normalized: NewNormalized(), Types: map[schema.GroupVersionKind]ChildType{podKind: {Resource: pods, IsNamespaced: true}}}
			p := Decide(k, running(tc.created), v, now)
			require.Nil(t, p.Stalled)
			require.Equal(t, tc.phase, p.Phase)
			c := Compare(p, v)
			require.Equal(t, tc.steps, describe(c.Steps))
			for _, s := range c.Steps {
				require.True(t, IsHeld(s.Wanted))
			}
			require.Empty(t, c.Prunes)
			o, err := outcomeOf(p, c, &Changes{}, v)
			require.NoError(t, err)
			require.Equal(t, tc.records, o.inventory.created)
			require.Len(t, o.Tracked, tc.tracked)
			require.Equal(t, tc.gone, o.Stalled != nil && o.Stalled.Reason == reasonGone)
		})
	}
}

// The record of a child is no reason to write the status while the finalizer keeps the child.
func TestRecordWaits(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "At")
	object := &unstructured.Unstructured{Object: enginetest.At("2020-01-01T00:00:00Z", "RUNNING")}
	hold := func(o *unstructured.Unstructured) { o.SetFinalizers([]string{Finalizer}) }
	outcome := func(phase string, failed error, change func(*unstructured.Unstructured)) (*Plan, *Outcome, map[string]any) {
		v := &View{Normalized: NewNormalized(), Types: map[schema.GroupVersionKind]ChildType{podKind: {Resource: pods, IsNamespaced: true}}}
		if phase != "" {
			v.Children = children(k, object.Object, pod(phase))
			change(v.Children[0].Object)
		}
		p := Decide(k, object, v, now)
		o, err := outcomeOf(p, Compare(p, v), &Changes{Failed: failed}, v)
		require.NoError(t, err)
		status, err := Report(p, o)
		require.NoError(t, err)
		return p, o, status
	}
	p, o, stored := outcome("", nil, nil)
	require.True(t, o.IsDue(p, stored))
	object.Object["status"] = stored
	for name, tc := range map[string]struct {
		phase  string
		failed error
		change func(*unstructured.Unstructured)
		due    bool
	}{
		"not created":   {"", nil, nil, false},
		"created":       {"Pending", nil, hold, false},
		"running":       {"Running", nil, hold, false},
		"being deleted": {"Running", nil, func(o *unstructured.Unstructured) { hold(o); o.SetDeletionTimestamp(new(metav1.NewTime(now))) }, true},
		"not kept":      {"Running", nil, func(*unstructured.Unstructured) {}, true},
		"ended":         {"Succeeded", nil, hold, true},
		"a failure":     {"Running", errors.New("no answer"), hold, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, o, status := outcome(tc.phase, tc.failed, tc.change)
			require.Equal(t, tc.due, o.IsDue(p, status))
			written := &unstructured.Unstructured{Object: map[string]any{"status": status}}
			require.True(t, o.IsRecorded(written))
			require.Equal(t, tc.due || tc.phase == "", o.IsRecorded(object) || o.IsDue(p, status), "children are released with their record only")
		})
	}
}

// A type that the kind no longer owns stays in the inventory while it has children, or while they
// cannot be read.
func TestFormerTypes(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, odd)
	secret := schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	owner := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "odd.example.com/v1", "kind": "A", "spec": map[string]any{"case": "none"},
		"metadata": map[string]any{"name": "o", "namespace": "default", "uid": "owner"},
		"status": map[string]any{"childInventory": map[string]any{"types": []any{
			map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}, map[string]any{"apiVersion": "v1", "kind": "Secret"},
		}}},
	}}
	require.Equal(t, []schema.GroupVersionKind{secret}, FormerTypes(k, owner))
	former := func(of origin) LiveChild {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "o-s", "namespace": "default", "uid": "s"}}}
		of.mark(k, owner, object)
		return Live(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, object)
	}
	for name, tc := range map[string]struct {
		live   []LiveChild
		err    error
		prunes string
		keeps  bool
		pruned string
	}{
		"a child is left":            {live: []LiveChild{former(origin{child: "s"})}, prunes: "delete o-s", keeps: true},
		"a child of a phase is left": {live: []LiveChild{former(origin{child: "s", phase: "RUNNING"})}},
		"nothing is left":            {},
		"it cannot be read":          {err: errors.New("secrets is forbidden"), keeps: true, pruned: "children of type Secret may be left from an earlier version of the kind: secrets is forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := &View{Children: tc.live, Normalized: NewNormalized(), Former: map[schema.GroupVersionKind]error{secret: tc.err}}
			p := Decide(k, owner, v, now)
			c := Compare(p, v)
			require.Equal(t, tc.prunes, describe(c.Prunes))
			o, err := outcomeOf(p, c, &Changes{}, v)
			require.NoError(t, err)
			status, err := Report(p, o)
			require.NoError(t, err)
			_, _, message := conditionIn(status, kind.ConditionPruned)
			require.Equal(t, tc.pruned, message)
			stored := &unstructured.Unstructured{Object: map[string]any{"status": status}}
			require.Equal(t, tc.keeps, len(inventoryOf(stored).types) == 3, inventoryOf(stored).types)
			require.Equal(t, tc.pruned != "", o.WakeAt.Equal(now.Add(formerRetry)))
		})
	}
}
