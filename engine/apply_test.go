package engine

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// The cache hears that a child was orphaned before it hears that its owner is being deleted.
func TestOnlyOwnersThatStayAdopt(t *testing.T) {
	t.Parallel()
	leaving := func(object *unstructured.Unstructured) *unstructured.Unstructured {
		object.SetDeletionTimestamp(new(metav1.Now()))
		return object
	}
	successor := keptObject()
	successor.SetUID("2")
	for name, test := range map[string]struct {
		cached  *unstructured.Unstructured
		stored  []runtime.Object
		shown   string // the version that events have shown
		adopted bool
	}{
		"as it was":                      {keptObject(), []runtime.Object{keptObject()}, "", true},
		"is being deleted":               {keptObject(), []runtime.Object{leaving(keptObject())}, "", false},
		"is in the phase of its leaving": {leaving(keptObject()), []runtime.Object{leaving(keptObject())}, "5", true},
		"its events are late":            {leaving(keptObject()), []runtime.Object{leaving(keptObject())}, "4", false},
		"is gone":                        {keptObject(), nil, "", false},
		"has a successor":                {keptObject(), []runtime.Object{successor}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := enginetest.Kind(t, keptKind)
			orphan := version("3", "7")
			orphan.SetAPIVersion("v1")
			orphan.SetKind("Pod")
			orphan.SetNamespace("default")
			client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
				map[schema.GroupVersionResource]string{pods: "PodList", k.GroupVersionResource(): "KeptList"}, append(test.stored, orphan)...)
			e, err := New(Config{Client: client, Log: quiet()})
			require.NoError(t, err)
			c := newController(k, &e.config, e.shards, 0)
			t.Cleanup(c.queue.ShutDown)
			c.resource = k.GroupVersionResource()
			r := c.reconciliation(cache.MetaObjectToName(test.cached), quiet())
			r.shown = test.shown
			wanted := orphan.DeepCopy()
			wanted.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(test.cached, k.GroupVersionKind)})
			done := r.CarryOut(t.Context(), test.cached, &plan.Comparison{Steps: []plan.Step{
				{Verb: plan.Adopt, Child: "pod", Resource: pods, Name: orphan.GetName(), Wanted: wanted, Live: orphan},
			}})
			require.NoError(t, done.Failed)
			require.NoError(t, done.Rejected)
			require.Equal(t, !test.adopted, done.Waiting)
			live, err := client.Resource(pods).Namespace("default").Get(t.Context(), orphan.GetName(), metav1.GetOptions{})
			require.NoError(t, err)
			require.Equal(t, test.adopted, metav1.IsControlledBy(live, test.cached))
			list, ok := client.Actions()[0].(clienttesting.ListAction)
			require.True(t, ok)
			require.Equal(t, "metadata.name=a", list.GetListRestrictions().Fields.String())
		})
	}
}

// A child that has changed since it was seen is written only if it still belongs to its object. One that was orphaned
// meanwhile is not written.
func TestOnlyChildrenThatAreOwnedAreWritten(t *testing.T) {
	t.Parallel()
	changed := func(pod *unstructured.Unstructured) *unstructured.Unstructured {
		pod.SetResourceVersion("4")
		return pod
	}
	replaced := changed(keptPod(true))
	replaced.SetUID("other")
	renamed := changed(keptPod(true))
	renamed.SetAnnotations(map[string]string{"fescue.dev/created-as": "other"})
	recording := keptObject() // the UID of its child: then that needs no reference to be its child
	recording.SetNamespace("")
	recording.Object["status"] = map[string]any{"childInventory": map[string]any{"elsewhere": []any{
		map[string]any{"apiVersion": "v1", "kind": "Pod", "namespace": "default", "children": map[string]any{"a-pod": "pod"}},
	}}}
	for name, test := range map[string]struct {
		stored  *unstructured.Unstructured
		written bool
	}{
		"as it was":         {keptPod(true), true},
		"has changed":       {changed(keptPod(true)), true},
		"was orphaned":      {changed(keptPod(false)), false},
		"has a successor":   {replaced, false},
		"is gone meanwhile": {nil, false},
		"is a copy by now":  {renamed, false},
	} {
		for where, owner := range map[string]*unstructured.Unstructured{"in the namespace": keptObject(), "of the cluster": recording} {
			for how, step := range map[string]plan.Step{
				"apply": {Verb: plan.Apply}, "take over": {Verb: plan.Apply, TakesOver: true}, "delete": {Verb: plan.Delete},
			} {
				t.Run(name+"/"+where+"/"+how, func(t *testing.T) {
					t.Parallel()
					k := enginetest.Kind(t, keptKind)
					client := fake.NewSimpleDynamicClient(runtime.NewScheme())
					written := false
					client.PrependReactor("*", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
						var version string
						switch action := action.(type) {
						case clienttesting.DeleteActionImpl:
							version = *action.DeleteOptions.Preconditions.ResourceVersion
						case clienttesting.PatchActionImpl:
							wanted := &unstructured.Unstructured{}
							require.NoError(t, wanted.UnmarshalJSON(action.GetPatch()))
							version = wanted.GetResourceVersion()
						default:
							if test.stored == nil {
								return true, nil, apierrors.NewNotFound(pods.GroupResource(), "a-pod")
							}
							return true, test.stored.DeepCopy(), nil
						}
						if test.stored == nil || version != test.stored.GetResourceVersion() {
							return true, nil, apierrors.NewConflict(pods.GroupResource(), "a-pod", nil)
						}
						written = true
						return true, test.stored.DeepCopy(), nil
					})
					e, err := New(Config{Client: client, Log: quiet()})
					require.NoError(t, err)
					c := newController(k, &e.config, e.shards, 0)
					t.Cleanup(c.queue.ShutDown)
					r := c.reconciliation(cache.MetaObjectToName(owner), quiet())
					step.Child, step.Resource, step.Name = "pod", pods, "a-pod"
					step.Wanted, step.Live = keptPod(true), keptPod(true)
					done := r.CarryOut(t.Context(), owner, &plan.Comparison{Steps: []plan.Step{step}})
					require.NoError(t, done.Failed)
					require.NoError(t, done.Rejected)
					require.Equal(t, test.written, written)
					require.Equal(t, !test.written, done.Waiting)
				})
			}
		}
	}
}

// A correction can take several writes: fields are handed over to apply, the template is applied, and applied again if
// that has removed a struct that became empty. The caches have to show each before the next reconcile writes the child,
// also if the write that follows fails.
func TestEachWriteOfACorrectionIsAwaited(t *testing.T) {
	t.Parallel()
	type fields = map[string]any
	for name, test := range map[string]struct {
		applied        int // how many applies succeed
		before, unseen string
	}{
		"no apply":  {0, "8", "9"},
		"one apply": {1, "10", "11"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, owner, pod := enginetest.Kind(t, keptKind), keptObject(), keptPod(true)
			pod.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "m", Operation: metav1.ManagedFieldsOperationUpdate,
				APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}})
			wanted, emptied := pod.DeepCopy(), pod.DeepCopy()
			pod.Object["spec"] = fields{"affinity": fields{"podAffinity": fields{}}}
			wanted.Object["spec"] = fields{"affinity": fields{}}
			emptied.Object["spec"] = fields{}
			emptied.SetResourceVersion("11")
			client, applies := fake.NewSimpleDynamicClient(runtime.NewScheme()), 0
			client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, pod, nil })
			client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if patch, ok := action.(clienttesting.PatchAction); ok && patch.GetPatchType() == types.JSONPatchType {
					handedOver := pod.DeepCopy()
					handedOver.SetResourceVersion("9")
					return true, handedOver, nil
				}
				if applies++; applies <= test.applied {
					return true, emptied.DeepCopy(), nil
				}
				return true, nil, apierrors.NewServiceUnavailable("not now")
			})
			c, r, done := corrected(t, client, k, owner, plan.Step{Name: pod.GetName(), Wanted: wanted, Live: pod})
			require.ErrorContains(t, done.Failed, "not now")
			require.Equal(t, test.applied+1, applies)
			isSeen, _ := c.records.seen(r.name, &fixedCaches{version: test.before})
			require.False(t, isSeen)
			isSeen, _ = c.records.seen(r.name, &fixedCaches{version: test.unseen})
			require.True(t, isSeen)
		})
	}
}

// corrected carries out a step that applies the template of the Pod of an object, and takes fields over.
func corrected(
	t *testing.T, client *fake.FakeDynamicClient, k *kind.Kind, owner *unstructured.Unstructured, s plan.Step,
) (*controller, *reconciliation, *plan.Changes) {
	t.Helper()
	e, err := New(Config{Client: client, Log: quiet()})
	require.NoError(t, err)
	c := newController(k, &e.config, e.shards, 0)
	t.Cleanup(c.queue.ShutDown)
	r := c.reconciliation(cache.MetaObjectToName(owner), quiet())
	r.manager = "m"
	s.Verb, s.Child, s.Resource, s.TakesOver = plan.Apply, "pod", pods, true
	return c, r, r.CarryOut(t.Context(), owner, &plan.Comparison{Steps: []plan.Step{s}})
}

// A child that was applied before has no Update entry, so there is nothing to hand over. A child that is read has the
// keys of a list in the order of their text, and the library writes them in that of their values.
func TestAnApplyEntryIsNotHandedOver(t *testing.T) {
	t.Parallel()
	k, owner, pod := enginetest.Kind(t, keptKind), keptObject(), keptPod(true)
	pod.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "m", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:ports":{"k:{\"port\":443}":{".":{},"f:port":{}},"k:{\"port\":80}":{".":{},"f:port":{}}}}}`)}})
	client := fake.NewSimpleDynamicClient(runtime.NewScheme())
	var sent []types.PatchType
	client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, pod, nil })
	client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		sent = append(sent, action.(clienttesting.PatchAction).GetPatchType())
		return true, pod.DeepCopy(), nil
	})
	_, _, done := corrected(t, client, k, owner, plan.Step{Name: pod.GetName(), Wanted: pod.DeepCopy(), Live: pod})
	require.NoError(t, done.Failed)
	require.Equal(t, []types.PatchType{types.ApplyPatchType}, sent)
}

// A rejection is met once, and not with each member of a set.
func TestARejectionEndsTheBatches(t *testing.T) {
	t.Parallel()
	client, creations := fake.NewSimpleDynamicClient(runtime.NewScheme()), 0
	client.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		creations++
		return true, nil, apierrors.NewForbidden(pods.GroupResource(), "p", errors.New("exceeded quota"))
	})
	e, err := New(Config{Client: client, Log: quiet()})
	require.NoError(t, err)
	c := newController(enginetest.Kind(t, keptKind), &e.config, e.shards, 0)
	t.Cleanup(c.queue.ShutDown)
	owner := keptObject()
	var steps []plan.Step
	for range 8 {
		steps = append(steps, plan.Step{Verb: plan.Create, Child: "pod", Resource: pods, Name: "a-pod", Wanted: keptPod(true)})
	}
	done := c.reconciliation(cache.MetaObjectToName(owner), quiet()).CarryOut(t.Context(), owner, &plan.Comparison{Steps: steps})
	require.ErrorContains(t, done.Rejected, "exceeded quota")
	require.Equal(t, 1, creations)
}
