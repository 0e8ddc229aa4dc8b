package plan

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// runningAt returns an At in RUNNING that records these children.
func runningAt(created map[string]any) *unstructured.Unstructured {
	object := enginetest.At("2020-01-01T00:00:00Z", "RUNNING")
	if created != nil {
		object["status"].(map[string]any)["childInventory"] = map[string]any{"created": created}
	}
	return &unstructured.Unstructured{Object: object}
}

// withPod returns a view of an At whose Pod is in a phase, after a change; there is none if the phase is empty.
func withPod(k *kind.Kind, phase string, change func(*unstructured.Unstructured)) *View {
	v := &View{Normalized: children.NewNormalized(), Types: map[schema.GroupVersionKind]ChildType{podKind: {Resource: pods, IsNamespaced: true}}}
	if phase == "" {
		return v
	}
	v.Children = childrenOf(k, runningAt(nil).Object, pod(phase))
	if change != nil {
		change(v.Children[0].Object)
	}
	return v
}

func isLeavingNow(o *unstructured.Unstructured) { o.SetDeletionTimestamp(new(metav1.NewTime(now))) }

func isOld(age time.Duration) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) { o.SetCreationTimestamp(metav1.NewTime(now.Add(-age))) }
}

const uidOfPod = "uid-of-pod"

// What a phase creates once is recorded by its UID, and is not created again once it is recorded, or was seen.
func TestCreatedOnce(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "At")
	isKnown := map[string]types.UID{"pod": uidOfPod}
	for name, tc := range map[string]struct {
		created map[string]any
		seen    map[string]types.UID
		view    *View
		steps   string
		phase   string
		gone    bool
		records map[string]types.UID
	}{
		"not created":               {view: withPod(k, "", nil), steps: "create a-pod", phase: "RUNNING", records: map[string]types.UID{}},
		"created and not recorded":  {view: withPod(k, "Running", nil), phase: "RUNNING", records: isKnown},
		"recorded":                  {created: map[string]any{"pod": uidOfPod}, view: withPod(k, "Running", nil), phase: "RUNNING", records: isKnown},
		"gone":                      {created: map[string]any{"pod": uidOfPod}, view: withPod(k, "", nil), phase: "RUNNING", gone: true, records: isKnown},
		"seen and gone":             {seen: isKnown, view: withPod(k, "", nil), phase: "RUNNING", gone: true, records: isKnown},
		"only a copy is left":       {created: map[string]any{"pod": uidOfPod}, view: withPod(k, "Running", func(o *unstructured.Unstructured) { *o = *copied(o, "copy") }), phase: "RUNNING", gone: true, records: isKnown},
		"being deleted":             {view: withPod(k, "Running", isLeavingNow), phase: "RUNNING", records: isKnown},
		"ended and being deleted":   {view: withPod(k, "Succeeded", isLeavingNow), phase: "DONE", records: map[string]types.UID{}},
		"restored with another UID": {created: map[string]any{"pod": "former"}, seen: map[string]types.UID{"pod": "former"}, view: withPod(k, "Running", nil), phase: "RUNNING", records: isKnown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := runningAt(tc.created)
			tc.view.Seen = &Seen{unrecorded: &Unrecorded{phase: "RUNNING", created: tc.seen}}
			p := Decide(k, object, tc.view, now)
			require.Nil(t, p.Stalled)
			require.Equal(t, tc.phase, p.Phase)
			c := Compare(p, tc.view)
			require.Equal(t, tc.steps, describe(c.Steps))
			require.Empty(t, c.Prunes)
			o := outcomeOf(p, c, &Changes{}, tc.view)
			require.Equal(t, tc.records, o.inventory.Created)
			require.Equal(t, tc.gone, o.Stalled != nil && o.Stalled.Reason == reasonGone)
			missing := Missing(k, object, tc.view, now)
			if !tc.gone {
				require.Empty(t, missing)
				return
			}
			require.Len(t, missing, 1)
			require.Equal(t, []any{"a-pod", types.UID(uidOfPod), pods}, []any{missing[0].Object.GetName(), missing[0].Object.GetUID(), missing[0].Resource})
		})
	}
}

// The record of a child that was just created is no reason to write the status.
func TestRecordWaits(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "At")
	object := runningAt(nil)
	outcome := func(v *View, failed error) (*Plan, *Outcome, map[string]any) {
		p := Decide(k, object, v, now)
		o := outcomeOf(p, Compare(p, v), &Changes{Obstacles: Obstacles{Failed: failed}}, v)
		status, err := Report(p, o)
		require.NoError(t, err)
		return p, o, status
	}
	p, o, stored := outcome(withPod(k, "", nil), nil)
	require.True(t, o.IsDue(p, stored))
	object.Object["status"] = stored
	seen := &Unrecorded{phase: "RUNNING", created: map[string]types.UID{"pod": uidOfPod}}
	for name, tc := range map[string]struct {
		view   *View
		seen   *Unrecorded
		failed error
		isDue  bool
		at     time.Time
	}{
		"not created":                      {view: withPod(k, "", nil)},
		"created":                          {view: withPod(k, "Pending", isOld(0)), at: now.Add(recordAfter)},
		"running":                          {view: withPod(k, "Running", isOld(recordAfter-time.Second)), at: now.Add(time.Second)},
		"old enough":                       {view: withPod(k, "Running", isOld(recordAfter)), isDue: true, at: now},
		"created by a clock that is ahead": {view: withPod(k, "Running", isOld(-time.Second)), at: now.Add(time.Second + recordAfter)},
		"created by a clock far ahead":     {view: withPod(k, "Running", isOld(-time.Hour)), isDue: true, at: now},
		"being deleted":                    {view: withPod(k, "Running", isLeavingNow), isDue: true, at: now},
		"seen and gone":                    {view: withPod(k, "", nil), seen: seen, isDue: true, at: now},
		"ended":                            {view: withPod(k, "Succeeded", isOld(0)), isDue: true},
		"a failure":                        {view: withPod(k, "Running", isOld(0)), failed: errors.New("no answer"), isDue: true, at: now.Add(recordAfter)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.view.Seen = &Seen{unrecorded: tc.seen}
			p, o, status := outcome(tc.view, tc.failed)
			require.Equal(t, tc.isDue, o.IsDue(p, status))
			require.WithinDuration(t, tc.at, o.RecordAt(p, object), 0)
			written := &unstructured.Unstructured{Object: map[string]any{"status": status}}
			require.Zero(t, o.RecordAt(p, written))
		})
	}
}

// What a reconcile has seen is known to the next one, however that ends, as long as the object stays in its phase.
func TestSeenIsRemembered(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "At")
	isKnown := map[string]types.UID{"pod": uidOfPod}
	seen := Decide(k, runningAt(nil), withPod(k, "Running", nil), now).Unrecorded()
	require.NotNil(t, seen)
	require.Equal(t, isKnown, seen.created)
	require.Nil(t, Decide(k, runningAt(map[string]any{"pod": uidOfPod}), withPod(k, "Running", nil), now).Unrecorded(), "the status has it")
	require.Nil(t, Decide(k, runningAt(nil), withPod(k, "", nil), now).Unrecorded())
	ended := Decide(k, runningAt(nil), withPod(k, "Succeeded", nil), now)
	require.Equal(t, "DONE", ended.Phase)
	require.Equal(t, isKnown, ended.Unrecorded().created, "until DONE is stored")

	object := runningAt(nil)
	next := func(object *unstructured.Unstructured) *Plan {
		v := withPod(k, "", nil)
		v.Seen = &Seen{unrecorded: seen}
		return Decide(k, object, v, now)
	}
	require.Equal(t, isKnown, next(object).created)
	invalid := runningAt(nil)
	invalid.Object["spec"].(map[string]any)["schedule"] = "tomorrow"
	p := next(invalid)
	require.Equal(t, reasonInvalid, p.Stalled.Reason)
	require.Equal(t, isKnown, p.created)
	p, o := Unreportable(ended, &Outcome{}, errors.New("status: invalid"))
	require.Equal(t, isKnown, o.inventory.Created)
	require.Equal(t, isKnown, p.Unrecorded().created)
	p, o = stayInPhase(ended, &Outcome{}, &Problem{ReasonNoProgress, ""})
	require.Equal(t, isKnown, o.inventory.Created)
	require.Equal(t, isKnown, p.Unrecorded().created)

	again := runningAt(nil)
	again.Object["status"].(map[string]any)[enteredField] = children.EntryOf(now)
	require.Empty(t, next(again).created, "the phase was entered again")
	pending := runningAt(nil)
	pending.Object["status"].(map[string]any)["phase"] = "PENDING"
	require.Empty(t, next(pending).created)
}

// What a former object of the name left without an owner was not created for this entry: it is replaced, and never
// recorded, whether or not it was adopted before.
func TestOrphanOfAFormerObjectIsReplaced(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "At")
	object := runningAt(nil)
	object.Object["status"].(map[string]any)["lastPhaseTransitionTime"] = now.Format(time.RFC3339)
	v := withPod(k, "Running", func(o *unstructured.Unstructured) {
		o.SetOwnerReferences(nil)
		o.SetLabels(map[string]string{children.LabelManagedBy: children.ManagedBy, children.LabelOwnerUID: "former"})
		children.MarkEntered(o, now.Add(-time.Hour))
	})
	p := Decide(k, object, v, now)
	require.Nil(t, p.Stalled)
	c := Compare(p, v)
	require.Equal(t, "delete a-pod", describe(c.Steps))
	require.Empty(t, outcomeOf(p, c, &Changes{}, v).inventory.Created)
}

// What a former entry has created is not observed either while the template of its successor waits for something, also
// if its name in the kind is computed.
func TestFormerChildIsNotObservedWhileItsTemplateWaits(t *testing.T) {
	t.Parallel()
	const once = `{update: "Never", template: {apiVersion: "v1", kind: "Pod", spec: containers: [{name: "c", image: object.spec.image}]}}`
	for name, test := range map[string]struct {
		children string
		observed int64
	}{
		"constant":                    {`c: ` + once, 0},
		"computed":                    {`for n in ["c"] {"\(n)": ` + once + `}`, 0},
		"computed, beside a constant": {`for n in ["c"] {"\(n)": ` + once + `}, d: template: {apiVersion: "v1", kind: "Pod"}`, 0},
		"computed, beside corrected":  {`for n in ["c"] {"\(n)": ` + once + `}, for n in ["d"] {"\(n)": template: {apiVersion: "v1", kind: "Pod"}}`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := enginetest.Kind(t, `
package again

import "fescue.dev/cue/contract"

#A: {apiVersion!: "again.example.com/v1", kind!: "A", metadata!: {...}, spec: image?: string, status?: {contract.#Status, phase?: "X" | "Y", n?: int}}
#AController: contract.#Controller & {
	object!: #A
	observed: _
	names: plural: "as"
	owns: [{apiVersion: "v1", kind: "Pod"}]
	initial: "X"
	phases: {
		X: {children: {`+test.children+`}, next: [{to: "Y", after: "1h"}]}
		Y: next: [{to: "X", after: "1h"}]
	}
	status: n: len([for name, child in observed if child.kind == "Pod" {name}])
}
`)
			object := map[string]any{"apiVersion": "again.example.com/v1", "kind": "A", "metadata": map[string]any{"name": "a", "uid": "1"}, "spec": map[string]any{},
				"status": map[string]any{"phase": "X", enteredField: children.EntryOf(now)}}
			live := childrenOf(k, object, map[string]any{"c": map[string]any{}})
			children.Origin{Child: "c", Phase: "X"}.Mark(k, &unstructured.Unstructured{Object: object}, live[0].Object)
			children.MarkEntered(live[0].Object, now.Add(-time.Hour))
			p := Decide(k, &unstructured.Unstructured{Object: object}, &View{Children: live}, now)
			require.Nil(t, p.Stalled)
			require.Equal(t, map[string]any{"n": test.observed}, p.Projection)
		})
	}
}
