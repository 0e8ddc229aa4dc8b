package history

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/hack/sim/apiserver"
)

// onces follow the children that are created once in a phase, of whatever kind.
type onces struct {
	*history
	// entered is how often an object has changed its phase.
	entered map[types.UID]int
	// is tells of children that belong to a phase whether they are created once, and made which operator has, in an
	// entry of the phase.
	is   map[string]bool
	made map[string]string
	// existed tells of children of phases that they existed once, and of those that are created once in which entry of
	// the phase.
	existed map[string]bool
}

// leftEarly reports an object that has left a phase, not for its time, although one of the phase's children has never
// existed.
func (o onces) leftEarly(c apiserver.Change, all map[string]*unstructured.Unstructured) string {
	if c.Before == nil {
		id := fmt.Sprint(c.After.GetLabels()[labelOwner], "/", c.After.GetLabels()[labelPhase], "/", childName(c.After))
		o.existed[id], o.existed[id+entryOf(c.After.GetAnnotations()[annotationEntered])] = true, true
		return ""
	}
	phase := phaseIn(c.Before)
	if !isByOperator(c) || phase == "" || phase == phaseIn(c.After) || o.isRestored ||
		c.After.GetDeletionTimestamp() != nil {
		return ""
	}
	for _, k := range o.Kinds {
		if k.Target != nil || k.GroupVersionKind != c.Before.GroupVersionKind() {
			continue
		}
		observed, err := o.observed(k, c.Before, o.childrenOf(k, c.Before, all), all)
		if err != nil {
			return ""
		}
		d, err := k.Decide(k.NewBudget(), c.Before.Object, observed)
		isTimed := func(t kind.Transition) bool { return t.After != nil || t.Cron != nil }
		if err != nil || len(d.Undecided) > 0 || slices.ContainsFunc(d.Next, isTimed) {
			return ""
		}
		for _, child := range d.Children {
			id := fmt.Sprint(c.Before.GetUID(), "/", phase, "/", child.Name)
			if isReplaced(child) {
				id += entryOf(enteredIn(c.Before)) // each entry has its own
			}
			if child.Phase == phase && child.Set == nil && child.Template != nil && !o.existed[id] &&
				!o.inherits(k, c.Before, child.Name, all) {
				return fmt.Sprintf("%s has left %s, and its child %s has never existed: %s", idOf(c.Before), phase,
					child.Name, c)
			}
		}
	}
	return ""
}

// isReplaced reports whether each entry of the phase of a child has its own.
func isReplaced(child kind.Child) bool {
	return child.Update == kind.Never && child.Phase != "" && child.Set == nil && child.OnDelete != kind.Orphan
}

// enteredIn returns the time at which an object entered its phase, as its status has it.
func enteredIn(object *unstructured.Unstructured) string {
	entered, _, _ := unstructured.NestedString(object.Object, "status", "lastPhaseTransitionTime")
	return entered
}

// entryOf returns the time of an entry as both status and children may write it.
func entryOf(entered string) string {
	at, _ := time.Parse(time.RFC3339, entered)
	return fmt.Sprint(" in ", at.UnixMilli())
}

// again reports a child that an operator makes again in the same entry of its phase, though it had the answer to the
// first creation, or the status of the object records that. all is what existed before the change.
func (o onces) again(c apiserver.Change, all map[string]*unstructured.Unstructured) string {
	if c.Before != nil {
		if phaseIn(c.Before) != phaseIn(c.After) || enteredIn(c.Before) != enteredIn(c.After) {
			o.entered[c.After.GetUID()]++
		}
		return ""
	}
	phase, reference := c.After.GetLabels()[labelPhase], metav1.GetControllerOf(c.After)
	if !isByOperator(c) || phase == "" || reference == nil || o.isRestored || o.arrivedLate.Has(idOf(c.After)) {
		return ""
	}
	owner := ownerIn(all, c.After, *reference)
	if owner == nil || owner.GetUID() != reference.UID || phaseIn(owner) != phase ||
		!o.isOnce(owner, childName(c.After), phase, all) {
		return ""
	}
	entry := fmt.Sprint(idFor(c.After, *reference), " in entry ", o.entered[reference.UID])
	by, wasMade := o.made[entry]
	o.made[entry] = c.By
	recorded, _, _ := unstructured.NestedStringMap(owner.Object, "status", "childInventory", "created")
	untried := forgiven + o.stalled() // it waits for an answer before it tries again
	isAnswered := c.At.Sub(o.unanswered[idFor(c.After, *reference)]) > untried
	if wasMade && (recorded[childName(c.After)] != "" || by == c.By && isAnswered) {
		return fmt.Sprintf("%s is made again for %s in %s", idOf(c.After), reference.Name, phase)
	}
	return ""
}

// inherits reports whether a child exists that was created for a former object of the name.
func (o onces) inherits(
	k *kind.Kind, owner *unstructured.Unstructured, child string, all map[string]*unstructured.Unstructured,
) bool {
	for _, object := range all {
		if childName(object) == child && strings.HasPrefix(object.GetAnnotations()[annotationOwner], k.Name()+"/") &&
			strings.HasSuffix(object.GetAnnotations()[annotationOwner], "/"+owner.GetName()) {
			return true
		}
	}
	return false
}

// isOnce reports whether a child of an object in a phase is created once, as its kind says.
func (o onces) isOnce(
	owner *unstructured.Unstructured, name, phase string, all map[string]*unstructured.Unstructured,
) bool {
	child := fmt.Sprint(owner.GetKind(), "/", phase, "/", name)
	is, isKnown := o.is[child]
	if isKnown {
		return is
	}
	for _, k := range o.Kinds {
		if k.Target != nil || k.GroupVersionKind != owner.GroupVersionKind() {
			continue
		}
		observed, err := o.observed(k, owner, o.childrenOf(k, owner, all), all)
		if err != nil {
			return false
		}
		d, err := k.Decide(k.NewBudget(), owner.Object, observed)
		if err != nil {
			return false
		}
		for _, c := range d.Children {
			if c.Name == name && c.Phase == phase {
				o.is[child] = c.Update == kind.Never && c.Set == nil
			}
		}
	}
	return o.is[child]
}

func phaseIn(object *unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	return phase
}
