package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

func TestNeedsReconcile(t *testing.T) {
	t.Parallel()
	object := func(change func(*unstructured.Unstructured)) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: enginetest.At("2020-01-01T00:00:00Z", "PENDING")}
		change(u)
		return u
	}
	before := object(func(*unstructured.Unstructured) {})
	k := enginetest.Shipped(t, "At")
	for name, tc := range map[string]struct {
		change func(*unstructured.Unstructured)
		want   bool
	}{
		"status":     {func(u *unstructured.Unstructured) { u.Object["status"] = map[string]any{"phase": "DONE"} }, false},
		"version":    {func(u *unstructured.Unstructured) { u.SetResourceVersion("2") }, false},
		"finalizer":  {func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"a.example.com/b"}) }, false},
		"generation": {func(u *unstructured.Unstructured) { u.SetGeneration(2) }, true},
		"label":      {func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"a": "b"}) }, true},
		"annotation": {func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{"a": "b"}) }, true},
		"deletion":   {func(u *unstructured.Unstructured) { u.SetDeletionTimestamp(new(metav1.Now())) }, true},
		"uid":        {func(u *unstructured.Unstructured) { u.SetUID("2") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, needsReconcile(k, event{before: before, after: object(tc.change)}))
		})
	}
	require.True(t, needsReconcile(k, event{after: before}))
}

// What an event of a child means: whom it queues, when, and whether it shows anything that the kind reads.
func TestEventOf(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "Customcluster")
	child := func(change func(*unstructured.Unstructured)) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
			"name": "a-1", "namespace": "default", "labels": map[string]any{"fescue.dev/child": "pods"},
			"annotations": map[string]any{children.AnnotationOwner: children.OwnerPrefix(k) + "a"},
		}}}
		u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: k.GroupVersionKind.GroupVersion().String(), Kind: "Customcluster", Name: "a", UID: "a", Controller: new(true)}})
		change(u)
		return u
	}
	plain := child(func(*unstructured.Unstructured) {})
	running := child(func(u *unstructured.Unstructured) { u.Object["status"] = map[string]any{"phase": "Running"} })
	leaving := child(func(u *unstructured.Unstructured) { u.SetDeletionTimestamp(new(metav1.NewTime(time.Unix(1, 0)))) })
	annotated := child(func(u *unstructured.Unstructured) { u.Object["spec"] = map[string]any{"nodeName": "n"} })
	adopted := child(func(u *unstructured.Unstructured) {
		references := u.GetOwnerReferences()
		references[0].Name, references[0].UID = "b", "b"
		u.SetOwnerReferences(references)
	})
	single := child(func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"fescue.dev/child": "other"}) })
	singleLeaving := child(func(u *unstructured.Unstructured) {
		u.SetLabels(map[string]string{"fescue.dev/child": "other"})
		u.SetDeletionTimestamp(new(metav1.NewTime(time.Unix(1, 0))))
	})
	foreign := child(func(u *unstructured.Unstructured) {
		u.SetOwnerReferences(nil)
		u.SetAnnotations(map[string]string{children.AnnotationOwner: "ats.cnat.fescue.dev/a"})
	})
	for name, tc := range map[string]struct {
		event  event
		owners []string
		when   urgency
		isNews bool
	}{
		"a member that was there before":          {event{nil, plain, true}, []string{"a"}, atOnce, true},
		"a new member":                            {event{nil, plain, false}, []string{"a"}, collected, true},
		"a member starts":                         {event{plain, running, false}, []string{"a"}, collected, true},
		"nothing that is read":                    {event{plain, annotated, false}, []string{"a"}, collected, false},
		"a member begins to be deleted":           {event{plain, leaving, false}, []string{"a"}, unlessOurs, true},
		"a member is still being deleted":         {event{leaving, leaving, false}, []string{"a"}, collected, false},
		"a member that was being deleted is gone": {event{leaving, nil, false}, []string{"a"}, collected, true},
		"a member is gone at once":                {event{plain, nil, false}, []string{"a"}, atOnce, true},
		"another object adopts it":                {event{plain, adopted, false}, []string{"a", "b"}, collected, true},
		"a single child changes":                  {event{nil, single, false}, []string{"a"}, soon, true},
		"a single child is being deleted":         {event{single, singleLeaving, false}, []string{"a"}, soon, true},
		"a single child is gone":                  {event{singleLeaving, nil, false}, []string{"a"}, atOnce, true},
		"a child of another kind":                 {event{nil, foreign, false}, nil, collected, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := eventOf(k, tc.event)
			var owners []string
			for _, o := range c.owners {
				owners = append(owners, o.name.Name)
				require.Equal(t, "default", o.name.Namespace)
			}
			require.Equal(t, tc.owners, owners)
			require.Equal(t, tc.when, c.when)
			require.Equal(t, tc.isNews, c.isNews)
		})
	}
}

// A child names its owner in both states: the owner is queued once, and the echo of its write is asked for once.
func TestOwnerIsNamedOnce(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "At")
	pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "a-pod", "namespace": "default", "uid": "pod"}}}
	pod.SetAnnotations(map[string]string{children.AnnotationOwner: children.OwnerPrefix(k) + "a"})
	named := eventOf(k, event{before: pod, after: pod})
	require.Len(t, named.owners, 1)
	require.Equal(t, cache.ObjectName{Namespace: "default", Name: "a"}, named.owners[0].name)
	require.Len(t, named.owners[0].states, 2)
}
