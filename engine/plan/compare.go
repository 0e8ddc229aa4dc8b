package engine

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
)

// verb is what a step does to a child.
type verb string

const (
	// verbCreate makes a child that is not there.
	verbCreate verb = "create"
	// verbApply makes a child say what its template says.
	verbApply verb = "apply"
	// verbAdopt gives a child back its labels and its controller reference.
	verbAdopt verb = "adopt"
	// verbDelete deletes exactly the object that was seen.
	verbDelete verb = "delete"
)

// step is one write that brings the children closer to their plan.
type step struct {
	verb     verb
	child    string // as the kind calls it
	resource schema.GroupVersionResource
	// wanted is what to create, apply or adopt by.
	wanted *unstructured.Unstructured
	// is is the object to apply to, adopt or delete, which must not be changed.
	is *unstructured.Unstructured
	// stray says that the object to delete was not made by us, and keeps that what is
	// written is to stay as the template says.
	stray, keeps bool
}

// name is that of the object.
func (s step) name() string {
	if s.is != nil {
		return s.is.GetName()
	}
	return s.wanted.GetName()
}

// comparison is how the children of an object stand against its plan.
type comparison struct {
	// steps are what is to be written, those of one child in a row.
	steps []step
	// prunes delete what is no longer wanted, which is done only once all steps are.
	prunes []step
	// states say how each child stands now.
	states []childState
	// refused is what a person has to see.
	refused error
	// waiting says that a child waits for the end of another object.
	waiting bool
}

// errNotServed says that the API server does not know the type of a child. It is looked
// for until it does, and then the object is worked on again.
var errNotServed = errors.New("its type is not served by the cluster: install its CRD")

// compare decides what is to be written for the children of a plan. It changes nothing
// and asks nobody.
func compare(k *kind.Kind, owner *unstructured.Unstructured, p *plan, v *view) *comparison {
	c := &comparer{comparison: &comparison{}, kind: k, owner: owner, view: v, wanted: make(map[types.UID]bool)}
	children := make([]wantedChild, 0, len(p.children))
	for _, child := range p.children {
		w, err := v.wantedChild(k, owner, child)
		if err != nil {
			c.leave(child, err)
			continue
		}
		children = append(children, w)
	}
	for _, child := range children {
		if i := slices.IndexFunc(children, child.clashesWith); i >= 0 {
			c.leave(child.Child, fmt.Errorf("%s %q is wanted by child %q as well", child.resource.Resource, child.object.GetName(), children[i].Name))
			continue
		}
		if child.Set != nil {
			c.set(child)
		} else {
			c.single(child)
		}
	}
	c.adoptOthers(p)
	if p.prune {
		c.prune()
	}
	return c.comparison
}

// wantedChild is a child of the plan as an object.
type wantedChild struct {
	kind.Child
	resource schema.GroupVersionResource
	object   *unstructured.Unstructured
}

// clashesWith tells whether another child could be the same object.
func (w wantedChild) clashesWith(other wantedChild) bool {
	if w.Name == other.Name || w.resource != other.resource {
		return false
	}
	if (w.Set == nil) == (other.Set == nil) {
		return w.object.GetName() == other.object.GetName()
	}
	set, single := w, other
	if w.Set == nil {
		set, single = other, w
	}
	_, isMember := memberNumber(set.object.GetName(), single.object.GetName())
	return isMember
}

// comparer compares the children of one object.
type comparer struct {
	*comparison
	kind  *kind.Kind
	owner *unstructured.Unstructured
	view  *view
	// wanted are the children that exist and belong to the plan.
	wanted map[types.UID]bool
}

func (c *comparer) refuse(child string, err error) {
	c.refused = errors.Join(c.refused, fmt.Errorf("child %q: %w", child, err))
}

// leave refuses a child and does nothing for it.
func (c *comparer) leave(child kind.Child, err error) {
	c.refuse(child.Name, err)
	state := childState{name: child.Name, wanted: 1}
	if child.Set != nil {
		state.set, state.wanted = true, child.Set.Replicas
	}
	c.states = append(c.states, state)
}

func (c *comparer) add(verb verb, child wantedChild, wanted, is *unstructured.Unstructured) {
	c.steps = append(c.steps, step{verb: verb, child: child.Name, resource: child.resource, wanted: wanted, is: is, keeps: child.Update == kind.Apply})
}

// single compares a child that is one object.
func (c *comparer) single(child wantedChild) {
	state := childState{name: child.Name, wanted: 1}
	defer func() { c.states = append(c.states, state) }()
	i := slices.IndexFunc(c.view.children, func(e existingChild) bool {
		return e.resource == child.resource && e.object.GetName() == child.object.GetName()
	})
	if i < 0 {
		c.add(verbCreate, child, child.object, nil)
		return
	}
	is := c.view.children[i].object
	c.wanted[is.GetUID()] = true
	switch other := metav1.GetControllerOfNoCopy(is); {
	case is.GetDeletionTimestamp() != nil:
		c.waiting = true
	case other != nil && other.UID != c.owner.GetUID():
		c.refuse(child.Name, controlledBy(child.resource, is, other))
	case !isOurs(is, child.object):
		c.add(verbAdopt, child, child.object, is)
	case child.Update == kind.Apply && !isCorrect(is, child.object, c.view.settled):
		c.add(verbApply, child, child.object, is)
	case child.Update == kind.Recreate && !sameTemplate(is, child.object):
		c.add(verbDelete, child, nil, is)
	case isReady(is):
		state.ready = 1
	}
}

// controlledBy says that an object is another's.
func controlledBy(resource schema.GroupVersionResource, is *unstructured.Unstructured, holder *metav1.OwnerReference) error {
	return fmt.Errorf("%s %q exists and is controlled by %s %q", resource.Resource, is.GetName(), holder.Kind, holder.Name)
}

// adoptOthers takes back what was made for the object and is not of its plan now, as what a
// phase made before: without a controller reference it would outlive the object.
func (c *comparer) adoptOthers(p *plan) {
	for _, e := range c.view.children {
		ofSet := slices.ContainsFunc(p.children, func(child kind.Child) bool { return child.Set != nil && child.Name == e.name })
		if c.wanted[e.object.GetUID()] || ofSet || e.object.GetDeletionTimestamp() != nil || metav1.GetControllerOfNoCopy(e.object) != nil {
			continue
		}
		wanted := e.object.DeepCopy()
		wanted.SetLabels(merged(wanted.GetLabels(), map[string]string{labelManagedBy: managedBy, labelOwnerUID: string(c.owner.GetUID())}))
		wanted.SetAnnotations(merged(wanted.GetAnnotations(), map[string]string{annotationOwner: ownerName(c.kind, c.owner.GetName())}))
		wanted.SetOwnerReferences([]metav1.OwnerReference{ownerReference(c.kind, c.owner)})
		c.steps = append(c.steps, step{verb: verbAdopt, child: e.name, resource: e.resource, wanted: wanted, is: e.object})
	}
}

// prune deletes the children that are of no phase and not wanted.
func (c *comparer) prune() {
	for _, e := range c.view.children {
		_, ofPhase := e.object.GetLabels()[labelPhase]
		if c.wanted[e.object.GetUID()] || ofPhase || e.name == "" ||
			e.object.GetDeletionTimestamp() != nil || !metav1.IsControlledBy(e.object, c.owner) {
			continue
		}
		c.prunes = append(c.prunes, step{verb: verbDelete, child: e.name, resource: e.resource, is: e.object})
	}
}
