package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
)

// view is what one pass sees of the cluster besides its object.
type view struct {
	// children are those of the object, also those that are being deleted.
	children []existingChild
	// strays lists the objects beside them that carry the labels of a set's template.
	strays func(set string, template map[string]string) []*unstructured.Unstructured
	// types are where the types of children are served.
	types map[schema.GroupVersionKind]childType
	// settled knows what the API server writes in another way than a template.
	settled *settled
	// taken are names that belong to objects which are not ours.
	taken map[takenName]bool
}

// existingChild is a child as the API server had it last.
type existingChild struct {
	name     string // as the kind calls it; empty if it has lost its label
	resource schema.GroupVersionResource
	object   *unstructured.Unstructured
}

type takenName struct {
	resource schema.GroupVersionResource
	name     string
}

func newExistingChild(resource schema.GroupVersionResource, object *unstructured.Unstructured) existingChild {
	return existingChild{name: object.GetLabels()[labelChild], resource: resource, object: object}
}

// wantedChild completes a child of a plan.
func (v *view) wantedChild(k *kind.Kind, owner *unstructured.Unstructured, child kind.Child) (wantedChild, error) {
	object, err := childObject(k, owner, child)
	if err != nil {
		return wantedChild{}, err
	}
	gvk := object.GroupVersionKind()
	served, owned := v.types[gvk]
	switch {
	case !owned:
		return wantedChild{}, fmt.Errorf("its type %s is not among those that the kind owns; add it to owns in #%sController", gvk, k.GroupVersionKind.Kind)
	case served.err != nil:
		return wantedChild{}, fmt.Errorf("%s: %w", gvk, served.err)
	}
	return wantedChild{child, served.resource, object}, nil
}

// observed is what a kind sees of the children: those that its object controls and that are
// not being deleted, by the names that it gives them, and of a set a list by number. What
// someone has copied or taken over says nothing of the object.
func (v *view) observed(k *kind.Kind, owner *unstructured.Unstructured) map[string]any {
	observed := make(map[string]any, len(v.children))
	sets := make(map[string][]*unstructured.Unstructured)
	for _, child := range v.children {
		_, isSet := k.Sets[child.name]
		switch {
		case child.object.GetDeletionTimestamp() != nil, !metav1.IsControlledBy(child.object, owner):
		case isSet:
			sets[child.name] = append(sets[child.name], child.object)
		default:
			observed[child.name] = child.object.Object
		}
	}
	for name := range k.Sets {
		members := sets[name]
		slices.SortFunc(members, func(a, b *unstructured.Unstructured) int {
			return cmp.Or(cmp.Compare(len(a.GetName()), len(b.GetName())), cmp.Compare(a.GetName(), b.GetName()))
		})
		list := make([]any, len(members))
		for i, m := range members {
			list[i] = m.Object
		}
		observed[name] = list
	}
	return observed
}

// with is the view after a pass has written something.
func (v *view) with(done *changes) *view {
	next := *v
	next.children = nil
	newer := make(map[types.UID]existingChild, len(done.stored))
	for _, child := range done.stored {
		newer[child.object.GetUID()] = child
	}
	for _, child := range v.children {
		uid := child.object.GetUID()
		if stored, ok := newer[uid]; ok {
			child = stored
			delete(newer, uid)
		}
		if done.deleted[uid] && child.object.GetDeletionTimestamp() == nil {
			child.object = child.object.DeepCopy()
			child.object.SetDeletionTimestamp(new(metav1.Now()))
		}
		next.children = append(next.children, child)
	}
	for _, child := range done.stored {
		if _, isNew := newer[child.object.GetUID()]; isNew {
			next.children = append(next.children, child)
		}
	}
	next.strays = func(set string, template map[string]string) []*unstructured.Unstructured {
		return slices.DeleteFunc(slices.Clone(v.strays(set, template)), func(s *unstructured.Unstructured) bool { return done.deleted[s.GetUID()] })
	}
	next.taken = make(map[takenName]bool)
	for name := range v.taken {
		next.taken[name] = true
	}
	for _, name := range done.taken {
		next.taken[name] = true
	}
	return &next
}

// look reads the children of an object from the caches.
func (c *controller) look(object *unstructured.Unstructured) (*view, error) {
	v := c.newView()
	for resource, w := range c.types.watches() {
		owned, err := ownedBy(w, object, ownerName(c.kind, object.GetName()))
		if err != nil {
			return nil, err
		}
		for _, child := range owned {
			v.children = append(v.children, newExistingChild(resource, child))
		}
	}
	v.strays = func(set string, template map[string]string) []*unstructured.Unstructured {
		return c.types.strays(c.kind, object, set, template)
	}
	return v, nil
}

// lookAgain reads the children of an object from the API server. It is for when a cache
// does not come to see what was written.
func (c *controller) lookAgain(ctx context.Context, object *unstructured.Unstructured) (*view, error) {
	list := func(resource schema.GroupVersionResource, selector string) ([]*unstructured.Unstructured, error) {
		found, err := c.config.Client.Resource(resource).Namespace(object.GetNamespace()).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return nil, err
		}
		items := make([]*unstructured.Unstructured, len(found.Items))
		for i := range found.Items {
			items[i] = &found.Items[i]
		}
		return items, nil
	}
	v := c.newView()
	for resource := range c.types.watches() {
		items, err := list(resource, managedSelector)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			if isChildOf(item, object, ownerName(c.kind, object.GetName())) {
				v.children = append(v.children, newExistingChild(resource, item))
			}
		}
	}
	strays := make(map[string][]*unstructured.Unstructured)
	for set, facts := range c.kind.Sets {
		served, ok := v.types[facts.Type]
		if len(facts.StrayLabels) == 0 || !ok || served.err != nil {
			continue
		}
		items, err := list(served.resource, straySelector(facts.StrayLabels))
		if err != nil {
			return nil, err
		}
		strays[set] = items
	}
	v.strays = func(set string, template map[string]string) []*unstructured.Unstructured {
		return withLabels(strays[set], template)
	}
	return v, nil
}

func (c *controller) newView() *view {
	return &view{types: c.types.known(), settled: c.settled}
}
