package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/simulate"
	scenarios "github.com/fescue-dev/fescue/internal/scenario"
	"github.com/fescue-dev/fescue/internal/testing/damagetest"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

var (
	allDamages  = flag.Bool("all-damages", false, "TestDamagedChildren does each damage after each step, and not a few after one step")
	damagesSeed = flag.Uint64("damages-seed", 0, "seed of TestDamagedChildren; 0 is another one each time")
)

// fewDamages is how many damages are done after each other. After five corrections of a child, the next is delayed.
const fewDamages = 3

// remainingHere are the differences that remain on a control plane, beside those that remain in memory.
var remainingHere = []struct{ what, reason string }{
	{`\S+ PersistentVolumeClaim/\S+ deleted`, "a Pod uses it, so it stays until that is gone"},
	{`(at|indexedjob|customcluster|catset|workerpool) Pod/\S+ without labels`, "those of its template are not restored, and steps look at them"},
	{`customcluster Pod/\S+ without annotations`, "nothing shows its template, so another member takes its place"},
	{`\S+ Namespace/\S+ deleted`, "it stays until all in it is gone, and has no labels of the test then"},
}

// TestDamagedChildren replays the scenarios of the examples and the shipped kinds up to a step, and damages children then:
// each damage is repaired, and all is as the step expects. Then the namespace is deleted. The test of this name in
// internal/scenario does the same damage in memory, and deletes the objects. It is not parallel to TestExamples, which uses
// the same namespaces.
func TestDamagedChildren(t *testing.T) {
	if *faults == 0 && !*allDamages {
		t.Skip("it takes minutes: make test-faults runs it, or -all-damages")
	}
	runs := prepareExamples(t)
	for _, name := range shippedScenarios {
		runs[name] = prepareShipped(t, name)
	}
	seed := *damagesSeed
	if seed == 0 {
		seed = rand.Uint64N(1_000_000)
	}
	t.Logf("-damages-seed %d", seed)
	for name, run := range runs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hash := fnv.New64a()
			_, _ = hash.Write([]byte(name))
			random := rand.New(rand.NewPCG(seed, hash.Sum64()))
			steps := run.steps(t, run.scenario)
			ends := random.Perm(len(steps))
			if !*allDamages {
				ends = ends[:1]
			}
			for _, end := range ends {
				t.Run(steps[end].Text, func(t *testing.T) {
					r := run.replay(t)
					r.numbered = false
					r.play(steps[:end+1], run.flags...)
					r.damageChildren(name, steps[end], random)
					r.end()
					r.releaseConversions()
				})
			}
		})
	}
}

// owned returns the children that exist of the objects of kinds.
func (r *replay) owned() []*unstructured.Unstructured {
	owners := make(map[string]bool)
	for _, k := range r.kinds {
		for _, object := range r.list(k.GroupVersionResource(), "") {
			owners[string(object.GetUID())] = true
		}
	}
	return slices.DeleteFunc(r.children(), func(child *unstructured.Unstructured) bool { return !owners[child.GetLabels()[children.LabelOwnerUID]] })
}

// damageChildren damages children at random, but only one of each set.
func (r *replay) damageChildren(name string, step *scenarios.Step, random *rand.Rand) {
	type damaged struct {
		child *unstructured.Unstructured
		damagetest.Damage
	}
	var all []damaged
	seen := make(map[string]bool)
	for _, child := range r.owned() {
		if of := child.GetLabels()[children.LabelOwnerUID] + "/" + children.NameInKind(child); !seen[of] {
			seen[of] = true
			fields := map[string]any{"metadata": child.Object["metadata"]}
			if applied := appliedBy(child); applied != nil { // another may not be corrected
				maps.Copy(fields, ownFields(child, applied))
			}
			for _, d := range damagetest.Of(&unstructured.Unstructured{Object: fields}) {
				all = append(all, damaged{child, d})
			}
		}
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i, d := range all {
		if i > 0 && i%fewDamages == 0 {
			if !*allDamages {
				return
			}
			require.Zero(r.t, r.operator.stop()) // it counts corrections in memory
			r.operator = r.home.start(r.flags...)
		}
		r.damage(name, d.child, d.Damage, step)
	}
}

// damage damages a child and waits until it is repaired, and all is as the step expects.
func (r *replay) damage(name string, child *unstructured.Unstructured, d damagetest.Damage, step *scenarios.Step) {
	what := name + " " + simulate.NameOf(child) + " " + d.Name
	for _, k := range r.kinds {
		for _, object := range r.list(k.GroupVersionResource(), "") {
			if object.GetDeletionTimestamp() != nil && children.IsLabelledFor(child, &object) {
				what += " while it is deleted"
			}
		}
	}
	if damagetest.Remains(what, false) || slices.ContainsFunc(remainingHere, func(remains struct{ what, reason string }) bool {
		return regexp.MustCompile("^" + remains.what + "$").MatchString(what)
	}) {
		return
	}
	r.t.Log(what)
	in := newClients(r.t, child.GetNamespace())
	resource := r.resource(child.GetKind())
	before, err := in.get(resource, child.GetName())
	if apierrors.IsNotFound(err) { // another member took its place
		return
	}
	require.NoError(r.t, err, what)
	if d.Patch == nil {
		err = in.objects(resource).Delete(r.t.Context(), child.GetName(), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	} else if _, err = in.objects(resource).Patch(r.t.Context(), child.GetName(), types.MergePatchType, []byte(jsonText(d.Patch)), metav1.PatchOptions{}); apierrors.IsInvalid(err) {
		return // the field cannot be changed
	}
	require.NoError(r.t, err, what)
	want, is := "", ""
	if !testcluster.WaitUntil(func() bool {
		is = "gone"
		if live, err := in.get(resource, child.GetName()); err == nil && (d.Patch != nil || live.GetUID() != before.GetUID()) {
			applied := cmp.Or(appliedBy(before), appliedBy(live)) // nothing may have corrected it so far
			want, is = jsonText(kept(before, applied)), jsonText(kept(live, applied))
		}
		return is == want
	}) {
		require.FailNow(r.t, what, "it is\n%s\nand not\n%s", is, want)
	}
	r.expect(step)
}

// kept returns what of a child is as before when a damage has been repaired: its marks, its owners and, if it is corrected,
// its labels and the fields that Fescue applies.
func kept(child *unstructured.Unstructured, applied *metav1.FieldsV1) map[string]any {
	marks := make(map[string]string)
	for _, entries := range []map[string]string{child.GetLabels(), child.GetAnnotations()} {
		for name, value := range entries {
			if damagetest.IsMark(name) {
				marks[name] = value
			}
		}
	}
	kept := map[string]any{"marks": marks, "owners": child.GetOwnerReferences()}
	if applied != nil {
		kept["fields"], kept["labels"] = ownFields(child, applied), child.GetLabels()
	}
	return kept
}

// appliedBy returns the fields of an object that Fescue has applied; nil if it has not: it has only created the object.
func appliedBy(object *unstructured.Unstructured) *metav1.FieldsV1 {
	for _, entry := range object.GetManagedFields() {
		if entry.Operation == metav1.ManagedFieldsOperationApply && strings.HasPrefix(entry.Manager, "fescue") {
			return entry.FieldsV1
		}
	}
	return nil
}

// ownFields returns some fields of an object, without its metadata and lists.
func ownFields(object *unstructured.Unstructured, these *metav1.FieldsV1) map[string]any {
	var fields map[string]any
	if err := json.Unmarshal(these.GetRawBytes(), &fields); err != nil {
		return map[string]any{"managedFields": err.Error()}
	}
	delete(fields, "f:metadata")
	return managed(fields, object.Object)
}

// releaseConversions ends the operator, and has nobody convert the objects of the kinds: the next replay is another installation.
func (r *replay) releaseConversions() {
	require.Zero(r.t, r.operator.stop())
	for _, k := range r.kinds {
		if len(k.Versions) > 1 {
			_, err := r.client.Resource(definitions).Patch(r.t.Context(), k.Name(), types.MergePatchType, []byte(`{"spec":{"conversion":{"strategy":"None","webhook":null}}}`), metav1.PatchOptions{})
			require.NoError(r.t, err)
		}
	}
}

func managed(fields, of map[string]any) map[string]any {
	values := make(map[string]any)
	for key, inner := range fields {
		name, _ := strings.CutPrefix(key, "f:")
		switch value := of[name].(type) {
		case map[string]any:
			values[name] = managed(inner.(map[string]any), value)
		case nil, []any:
		default:
			values[name] = value
		}
	}
	return values
}

// end deletes the namespace, and requires that it goes. An operator of one namespace cannot remove finalizers then, because it
// loses its rights: ondelete_test.go has objects that have some, and elsewhere_test.go those with children elsewhere. In
// namespaces that other replays use as well, all is deleted instead.
func (r *replay) end() {
	if r.cluster != r.home {
		r.clear()
		return
	}
	for _, k := range r.kinds {
		if slices.ContainsFunc(r.list(k.GroupVersionResource(), ""), func(o unstructured.Unstructured) bool { return len(o.GetFinalizers()) > 0 }) {
			return
		}
	}
	api := r.typed.CoreV1().Namespaces()
	require.NoError(r.t, api.Delete(r.t.Context(), r.namespace, metav1.DeleteOptions{}))
	require.True(r.t, testcluster.WaitUntil(func() bool {
		_, err := api.Get(context.Background(), r.namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}), "the namespace is not gone")
}

// clear deletes all that the steps applied, and waits until that and all children are gone. A step may have given a child a
// finalizer of someone else.
func (r *replay) clear() {
	for _, object := range r.objects {
		err := r.in(object).objects(r.resource(object.GetKind())).Delete(r.t.Context(), object.GetName(), metav1.DeleteOptions{})
		require.True(r.t, err == nil || apierrors.IsNotFound(err), "%v", err)
	}
	require.True(r.t, testcluster.WaitUntil(func() bool {
		left := 0
		for _, k := range r.kinds {
			left += len(r.list(k.GroupVersionResource(), ""))
		}
		for _, resource := range builtIn {
			for _, namespace := range r.namespaces {
				in := newClients(r.t, namespace)
				for _, child := range in.list(resource, children.LabelOwnerUID) {
					left++
					if len(child.GetFinalizers()) > 0 {
						_, _ = in.objects(resource).Patch(r.t.Context(), child.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
					}
				}
			}
		}
		return left == 0
	}), "not all is gone")
}
