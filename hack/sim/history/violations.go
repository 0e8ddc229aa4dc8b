package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/hack/sim/apiserver"
)

// forgiven is how long after the creation of a child, whose answer was lost, it may be created again, as docs/children.md says: if it is
// gone before anyone has seen it. It is longer than an operator takes to try again.
const forgiven = 5 * time.Second

// violations returns what must not be in the writes of a history.
func (h *history) violations(changes []apiserver.Change) (found []string) {
	made := make(map[string]bool) // children for their owner
	once := onces{history: h, entered: make(map[types.UID]int), is: make(map[string]bool), made: make(map[string]string)}
	orphaned := make(map[types.UID]types.UID)
	last := make(map[string]*unstructured.Unstructured)
	for _, c := range changes {
		isInherited := c.Before != nil && h.isInherited(c.Before, last)
		if isByOperator(c) && !isInherited {
			found = append(found, h.harm(c)...)
		}
		if lost := h.lostOrphan(c, last, orphaned); lost != "" && !isInherited && !h.mayBeStray(c.Before) {
			found = append(found, lost)
		}
		object := c.After
		if object == nil {
			delete(last, idOf(c.Before))
			continue
		}
		if again := once.again(c, last); again != "" {
			found = append(found, again)
		}
		last[idOf(object)] = object
		if c.Before != nil && !hasNoLabel(c.Before) && hasNoLabel(object) {
			h.unlabelled[object.GetUID()] = c.At
		}
		for _, owner := range object.GetOwnerReferences() {
			id := idFor(object, owner)
			of := ownerIn(last, object, owner)
			isKnown := c.At.Sub(h.unanswered[id]) > forgiven
			if h.Once && c.Before == nil && made[id] && isKnown && of != nil && of.GetUID() == owner.UID { // one that is gone may be known to be so later
				found = append(found, fmt.Sprintf("%s is made again for %s", idOf(object), owner.Name))
			}
			made[id] = made[id] || c.Before == nil
		}
	}
	found = append(found, fought(changes)...)
	if !h.Moves {
		found = append(found, h.restless(last)...)
	}
	for _, id := range slices.Sorted(maps.Keys(last)) {
		object := last[id]
		mayStay := slices.ContainsFunc(h.Kinds, func(k *kind.Kind) bool { // for a Job that fails
			return k.GroupVersionKind == object.GroupVersionKind() && k.OnDelete != ""
		})
		if object.GetDeletionTimestamp() != nil && !mayStay {
			found = append(found, fmt.Sprintf("%s is still being deleted: %v", id, object.GetFinalizers()))
		}
		for _, owner := range object.GetOwnerReferences() {
			if ownerIn(last, object, owner) == nil {
				found = append(found, id+" has no owner")
			}
		}
		phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
		for _, k := range h.Kinds {
			if h.Ends && k.GroupVersionKind == object.GroupVersionKind() && !k.Phases[phase].Terminal {
				found = append(found, fmt.Sprintf("%s is %q at the end", id, phase))
			}
		}
	}
	return found
}

// isInherited reports whether nothing controls a child, and an object has the name of the one that it was created for: that may take it
// over or, if it was created once, replace it.
func (h *history) isInherited(child *unstructured.Unstructured, all map[string]*unstructured.Unstructured) bool {
	return metav1.GetControllerOf(child) == nil && !isCopy(child) && slices.ContainsFunc(h.Kinds, func(k *kind.Kind) bool {
		name, isOfKind := strings.CutPrefix(child.GetAnnotations()[annotationOwner], k.Name()+"/")
		owner := all[k.GroupVersionKind.Kind+"/"+namespaceFor(k)+"/"+name]
		return isOfKind && owner != nil && owner.GetDeletionTimestamp() == nil
	})
}

// lostOrphan reports an object that a deletion with --cascade=orphan has left, and that anyone but a user deletes, unless another object
// owns it by then. orphaned has the former owners of such objects, and all what exists.
func (h *history) lostOrphan(c apiserver.Change, all map[string]*unstructured.Unstructured, orphaned map[types.UID]types.UID) string {
	if c.Before == nil {
		return ""
	}
	uid, owner := c.Before.GetUID(), metav1.GetControllerOf(c.Before)
	isDeleted := c.After == nil || c.After.GetDeletionTimestamp() != nil && c.Before.GetDeletionTimestamp() == nil
	switch former, isOrphan := orphaned[uid]; {
	case isOrphan && isDeleted && c.By != users && c.By != emptier && c.Before.GetDeletionTimestamp() == nil && (owner == nil || owner.UID == former):
		return "an orphan is deleted: " + c.String()
	case !isDeleted && c.By == collector && owner != nil && metav1.GetControllerOf(c.After) == nil:
		if of := ownerIn(all, c.Before, *owner); of == nil || !isTrue(of, kind.ConditionDeleting) || !h.mayBeMissed(c.At) {
			orphaned[uid] = owner.UID
		}
	}
	return ""
}

// fightTime is a time in which someone who fights for a child changes it a hundred times, and mostCorrections how often operators may
// change it back then: five times at once, and then ever more slowly, and all over again when an operator starts or the owner changes.
const fightTime, mostCorrections = 10 * time.Second, 40

// fought returns the children that operators have changed back too often.
func fought(changes []apiserver.Change) (found []string) {
	corrections := make(map[types.UID][]time.Time)
	for _, c := range changes {
		if !isByOperator(c) || c.Before == nil || c.After == nil || c.After.GetLabels()[labelOwner] == "" {
			continue
		}
		times := append(corrections[c.After.GetUID()], c.At)
		times = slices.DeleteFunc(times, func(at time.Time) bool { return c.At.Sub(at) > fightTime })
		if corrections[c.After.GetUID()] = times; len(times) == mostCorrections+1 {
			found = append(found, fmt.Sprintf("%s is changed more than %d times in %v", idOf(c.After), mostCorrections, fightTime))
		}
	}
	return found
}

// harm returns what an operator has done to what is not its own.
func (h *history) harm(c apiserver.Change) (found []string) {
	before := c.Before
	if before == nil {
		return nil
	}
	for _, k := range h.Kinds {
		if before.GroupVersionKind() == k.GroupVersionKind {
			return nil
		}
	}
	mayDelete := h.mayBeStray(before)
	isDeleted := c.After == nil || c.After.GetDeletionTimestamp() != nil && before.GetDeletionTimestamp() == nil
	holder := metav1.GetControllerOf(before)
	isHeld := holder != nil && !slices.ContainsFunc(h.Kinds, func(k *kind.Kind) bool { return k.GroupVersionKind.Kind == holder.Kind })
	isMarked := before.GetLabels()[labelOwner] != "" || before.GetAnnotations()[annotationOwner] != "" || before.GetAnnotations()[annotationCreatedAs] != ""
	switch {
	case isHeld:
		found = append(found, "an operator changes an object of another controller: "+c.String())
	case !isMarked && holder == nil && (!isDeleted || !mayDelete):
		found = append(found, "an operator changes an object of somebody else: "+c.String())
	case isDeleted && !mayDelete && isCopy(before):
		found = append(found, "an operator deletes a copy: "+c.String())
	case isDeleted && !mayDelete && holder == nil && !h.isElsewhere(before) && !outlives(before):
		found = append(found, "an operator deletes what no object owns: "+c.String())
	}
	return found
}

// mayBeStray reports whether a set deletes objects of a type that nothing controls.
func (h *history) mayBeStray(object *unstructured.Unstructured) bool {
	for _, k := range h.Kinds {
		for _, set := range k.Sets {
			if set.Type == object.GroupVersionKind() && len(set.StrayLabels) > 0 {
				return true
			}
		}
	}
	return false
}

// isElsewhere reports whether the owner of a child may be in another namespace, so that no reference shows it.
func (h *history) isElsewhere(child *unstructured.Unstructured) bool {
	return slices.ContainsFunc(h.Kinds, func(k *kind.Kind) bool {
		return len(k.Elsewhere) > 0 && slices.Contains(k.Owns, child.GroupVersionKind())
	})
}

// ownerIn returns the owner of an object, which has its namespace or none, by its name.
func ownerIn(all map[string]*unstructured.Unstructured, object *unstructured.Unstructured, reference metav1.OwnerReference) *unstructured.Unstructured {
	if owner := all[reference.Kind+"/"+object.GetNamespace()+"/"+reference.Name]; owner != nil {
		return owner
	}
	return all[reference.Kind+"//"+reference.Name]
}

// idFor returns that of a child for an owner.
func idFor(child *unstructured.Unstructured, owner metav1.OwnerReference) string {
	return idOf(child) + " of " + string(owner.UID)
}

func idOf(object *unstructured.Unstructured) string {
	return object.GetKind() + "/" + object.GetNamespace() + "/" + object.GetName()
}
