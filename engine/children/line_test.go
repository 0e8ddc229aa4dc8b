package children

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// leadingBack has a kind with children of its own type in other namespaces, and two decorators whose children they are
// for in turn.
const leadingBack = `
package cycle

import "fescue.dev/cue/contract"

#Self: {apiVersion!: "cycle.example.com/v1", kind!: "Self", metadata!: {name!: string, ...}, spec: {to?: string}, status?: contract.#Status}
#SelfController: contract.#Controller & {
	object!: #Self
	names: plural: "selves"
	owns: [{apiVersion: "cycle.example.com/v1", kind: "Self"}]
	children: {
		if object.spec.to != _|_ {next: template: {apiVersion: "cycle.example.com/v1", kind: "Self", metadata: namespace: object.spec.to}}
		plain: template: {apiVersion: "v1", kind: "Service", metadata: {}, spec: ports: [{port: 80}]}
	}
}
#SecretsDecorator: contract.#Decorator & {
	target: {apiVersion: "v1", kind: "ConfigMap", selector: matchLabels: cycle: "yes"}
	children: next: template: {apiVersion: "v1", kind: "Secret", metadata: labels: cycle: "yes"}
}
#ConfigsDecorator: contract.#Decorator & {
	target: {apiVersion: "v1", kind: "Secret", selector: matchLabels: cycle: "yes"}
	children: next: template: {apiVersion: "v1", kind: "ConfigMap", metadata: labels: cycle: "yes"}
}
`

// lineage creates objects, each for the one before, as the engine marks them.
type lineage struct {
	t     *testing.T
	kinds []*kind.Kind
	byUID map[types.UID]*unstructured.Unstructured
	// found are the names that were asked for.
	found []types.NamespacedName
}

func kindsThatLeadBack(t *testing.T) []*kind.Kind {
	t.Helper()
	catalog, err := load.All(false, corpus.Folder(t, leadingBack))
	require.NoError(t, errors.Join(err, catalog.BrokenError()))
	return catalog.Behaviours()
}

func newLineage(t *testing.T, kinds []*kind.Kind) *lineage {
	t.Helper()
	return &lineage{t: t, kinds: kinds, byUID: make(map[types.UID]*unstructured.Unstructured)}
}

// object returns an object of the type of a kind, or of what a decorator is for, that nothing has created.
func (l *lineage) object(of, namespace string) (*kind.Kind, *unstructured.Unstructured) {
	l.t.Helper()
	for _, k := range l.kinds {
		if k.GroupVersionKind.Kind == of {
			o := &unstructured.Unstructured{}
			o.SetGroupVersionKind(k.GroupVersionKind)
			uid := fmt.Sprint(len(l.byUID))
			o.SetName("o" + uid)
			o.SetNamespace(namespace)
			o.SetUID(types.UID(uid))
			l.byUID[o.GetUID()] = o
			return k, o
		}
	}
	require.Fail(l.t, "no kind is for "+of)
	return nil, nil
}

// chain creates objects of these types, each as a child of the one before, and returns the last.
func (l *lineage) chain(namespaceOf func(i int) string, of ...string) *unstructured.Unstructured {
	l.t.Helper()
	k, last := l.object(of[0], namespaceOf(0))
	for i, name := range of[1:] {
		next, child := l.object(name, namespaceOf(i+1))
		Origin{Child: "next"}.Mark(k, last, child)
		k, last = next, child
	}
	return last
}

func (l *lineage) find(p Parent) (*unstructured.Unstructured, error) {
	l.found = append(l.found, p.Name)
	for _, o := range l.byUID {
		if o.GroupVersionKind() == p.Type && o.GetName() == p.Name.Name && o.GetNamespace() == p.Name.Namespace {
			return o, nil
		}
	}
	return nil, nil
}

func times(n int, names ...string) (all []string) {
	for range n {
		all = append(all, names...)
	}
	return all
}

// What leads back to its own type is followed by references and, elsewhere, by labels, and ends at ten objects.
func TestLine(t *testing.T) {
	t.Parallel()
	kinds := kindsThatLeadBack(t)
	here := func(int) string { return "default" }
	elsewhere := func(i int) string { return fmt.Sprint("ns-", i) }
	const selves, configs = `it is not created: 11 objects of type Self.cycle.example.com lead to it, beginning with Self`, `it is not created: 11 objects of type ConfigMap lead to it, beginning with ConfigMap`
	const kept = `it is not created: it leads back to the type of an object that outlived its owner, Self "ns-`
	for name, test := range map[string]struct {
		namespaceOf func(int) string
		chain       []string
		change      func(last *unstructured.Unstructured, all map[types.UID]*unstructured.Unstructured)
		root        types.UID
		err         string
		isBroken    bool
		reads       int
	}{
		"nothing leads to it":     {here, times(1, "Self"), nil, "0", "", false, 0},
		"ten":                     {here, times(10, "Self"), nil, "0", "", false, 9},
		"eleven":                  {here, times(11, "Self"), nil, "0", selves + ` "default/o0"`, false, 10},
		"no more are read":        {here, times(50, "Self"), nil, "39", selves + ` "default/o39"`, false, 10},
		"in other namespaces":     {elsewhere, times(11, "Self"), nil, "0", selves + ` "ns-0/o0"`, false, 10},
		"two decorators":          {here, times(10, "ConfigMap", "Secret"), nil, "0", "", false, 19},
		"two decorators, too far": {here, times(11, "Secret", "ConfigMap"), nil, "1", configs + ` "default/o1"`, false, 20},
		"a user cut it": {here, times(11, "Self"), func(_ *unstructured.Unstructured, all map[types.UID]*unstructured.Unstructured) {
			all["5"].SetOwnerReferences(nil)
			all["5"].SetLabels(nil)
		}, "5", "", false, 5},
		"a lost reference is not a cut": {here, times(11, "Self"), func(_ *unstructured.Unstructured, all map[types.UID]*unstructured.Unstructured) {
			all["5"].SetOwnerReferences(nil)
		}, "0", selves, false, 10},
		"the annotation decides nothing": {elsewhere, times(3, "Self"), func(last *unstructured.Unstructured, _ map[types.UID]*unstructured.Unstructured) {
			last.SetLabels(map[string]string{LabelOwnerUID: "another"})
		}, "2", kept + `2/o2": to let that begin anew, remove its label fescue.dev/owner-uid`, false, 1},
		"it is about to be collected": {here, times(5, "Self"), func(_ *unstructured.Unstructured, all map[types.UID]*unstructured.Unstructured) {
			delete(all, "2")
		}, "3", "", true, 2},
		"what outlived its owner": {elsewhere, times(5, "Self"), func(_ *unstructured.Unstructured, all map[types.UID]*unstructured.Unstructured) {
			delete(all, "2")
		}, "3", kept + `3/o3"`, false, 2},
		"what outlived its owner and was released": {elsewhere, times(5, "Self"), func(_ *unstructured.Unstructured, all map[types.UID]*unstructured.Unstructured) {
			delete(all, "2")
			all["3"].SetLabels(map[string]string{LabelManagedBy: ManagedBy})
		}, "3", "", false, 2},
		"a circle": {here, times(2, "Self"), func(last *unstructured.Unstructured, all map[types.UID]*unstructured.Unstructured) {
			all["0"].SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "cycle.example.com/v1", Kind: "Self", Name: last.GetName(), UID: last.GetUID(), Controller: new(true)}})
		}, "1", selves, false, 10},
		"an owner of others": {here, times(1, "Self"), func(last *unstructured.Unstructured, _ map[types.UID]*unstructured.Unstructured) {
			last.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "r", Controller: new(true)}})
		}, "0", "", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLineage(t, kinds)
			last := l.chain(test.namespaceOf, test.chain...)
			if test.change != nil {
				test.change(last, l.byUID)
			}
			line, err := Trace(last, l.kinds, l.find)
			require.NoError(t, err)
			require.Equal(t, test.root, line.Root.GetUID())
			require.Equal(t, test.isBroken, line.IsBroken)
			require.Len(t, l.found, test.reads)
			require.True(t, line.Repeats(last.GroupVersionKind().GroupKind()))
			require.False(t, line.Repeats(schema.GroupKind{Kind: "Service"}))
			if test.err == "" {
				require.NoError(t, line.Check())
				return
			}
			require.ErrorContains(t, line.Check(), test.err)
		})
	}
}

// An operator that may not read an owner has not created what it owns; another error is returned.
func TestLineThatCannotBeRead(t *testing.T) {
	t.Parallel()
	l := newLineage(t, kindsThatLeadBack(t))
	last := l.chain(func(int) string { return "default" }, "Self", "Self")
	failing := func(err error) func(Parent) (*unstructured.Unstructured, error) {
		return func(Parent) (*unstructured.Unstructured, error) { return nil, err }
	}
	line, err := Trace(last, l.kinds, failing(apierrors.NewForbidden(schema.GroupResource{}, "o0", nil)))
	require.NoError(t, err)
	require.Equal(t, last, line.Root)
	require.False(t, line.IsBroken)
	_, err = Trace(last, l.kinds, failing(apierrors.NewInternalError(errors.New("down"))))
	require.ErrorContains(t, err, "down")
}

// Only types that can lead back to themselves are followed: others cost nothing.
func TestLeadsBack(t *testing.T) {
	t.Parallel()
	kinds := kindsThatLeadBack(t)
	for gk, leads := range map[schema.GroupKind]bool{
		{Group: "cycle.example.com", Kind: "Self"}: true, {Kind: "ConfigMap"}: true, {Kind: "Secret"}: true, {Kind: "Service"}: false, {Kind: "Self"}: false,
	} {
		require.Equal(t, leads, LeadsBack(kinds, gk), "%s", gk)
	}
}

// What leads back is an error of its own.
func TestEndlessError(t *testing.T) {
	t.Parallel()
	l := newLineage(t, kindsThatLeadBack(t))
	line, err := Trace(l.chain(func(int) string { return "default" }, times(11, "Self")...), l.kinds, l.find)
	require.NoError(t, err)
	for _, err := range []error{line.Check(), line.TooMany(1000, 60)} {
		require.ErrorAs(t, err, new(EndlessError))
	}
}
