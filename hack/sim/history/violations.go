package history

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/hack/sim/apiserver"
)

// forgiven is how long after the creation of a child, whose answer was lost, it may be created again, as
// docs/children.md says: if it is gone before anyone has seen it. It is longer than an operator takes to try again,
// with faults on the way.
const forgiven = 7 * time.Second

// isClaim reports whether a write of a child that users have altered only says who manages its fields. An operator that
// has seen that its apply changes nothing does not send it again; a fresh one does.
func (h *history) isClaim(c apiserver.Change) bool {
	if c.Before == nil || c.After == nil || !h.altered.Has(c.After.GetUID()) {
		return false
	}
	return reflect.DeepEqual(contentOf(c.Before), contentOf(c.After))
}

// contentOf returns an object without what each write changes.
func contentOf(object *unstructured.Unstructured) map[string]any {
	object = object.DeepCopy()
	object.SetManagedFields(nil)
	object.SetResourceVersion("")
	object.SetGeneration(0)
	return object.Object
}

// restarted returns what a fresh operator writes although nothing has changed. It may add empty structs of a template:
// an apply that drops all that is in one drops the struct as well, and only the next apply adds it again. The status of
// the owner follows. And it forgets children of whose end nothing told the last operator: those that were disowned.
func restarted(h *history, changes []apiserver.Change, disowned sets.Set[types.UID]) (found []string) {
	owners := sets.New[types.UID]()
	for _, c := range changes {
		isStatus := c.After != nil && owners.Has(c.After.GetUID())
		switch {
		case !isWrite(h, c) || isStatus:
		case addsEmpty(c):
			owners.Insert(types.UID(c.After.GetLabels()[labelOwner]))
		case forgets(c, disowned):
			owners.Insert(c.After.GetUID())
		default:
			found = append(found, "a fresh operator writes although nothing has changed: "+c.String())
		}
	}
	return found
}

// disowned returns the children that lost the name of their owner while they were being deleted. Nothing leads from the
// last event of one in another namespace to the owner.
func disowned(changes []apiserver.Change) sets.Set[types.UID] {
	found := sets.New[types.UID]()
	for _, c := range changes {
		if c.Before != nil && c.After != nil && c.After.GetDeletionTimestamp() != nil &&
			c.Before.GetAnnotations()[annotationOwner] != "" && c.After.GetAnnotations()[annotationOwner] == "" {
			found.Insert(c.After.GetUID())
		}
	}
	return found
}

// forgets reports whether a write of a status drops the record of one of some children in another namespace.
func forgets(c apiserver.Change, some sets.Set[types.UID]) bool {
	return c.Before != nil && c.After != nil &&
		elsewhereOf(c.Before).Difference(elsewhereOf(c.After)).HasAny(some.UnsortedList()...)
}

// elsewhereOf returns the children in other namespaces that a status records.
func elsewhereOf(object *unstructured.Unstructured) sets.Set[types.UID] {
	found := sets.New[types.UID]()
	places, _, _ := unstructured.NestedFieldNoCopy(object.Object, "status", "childInventory", "elsewhere")
	list, _ := places.([]any)
	for _, place := range list {
		uids, _, _ := unstructured.NestedStringMap(place.(map[string]any), "children")
		for _, uid := range uids {
			found.Insert(types.UID(uid))
		}
	}
	return found
}

// addsEmpty reports whether a write changes nothing but which empty structs and lists an object has.
func addsEmpty(c apiserver.Change) bool {
	if c.Before == nil || c.After == nil {
		return false
	}
	before, after := contentOf(c.Before), contentOf(c.After)
	return !reflect.DeepEqual(before, after) && reflect.DeepEqual(withoutEmpty(before), withoutEmpty(after))
}

// withoutEmpty returns a value without empty structs and lists in structs; nil if nothing is left.
func withoutEmpty(value any) any {
	switch value := value.(type) {
	case map[string]any:
		full := make(map[string]any)
		for name, v := range value {
			if v = withoutEmpty(v); v != nil {
				full[name] = v
			}
		}
		if len(full) == 0 {
			return nil
		}
		return full
	case []any:
		items := make([]any, len(value))
		for i, item := range value {
			items[i] = withoutEmpty(item)
		}
		if len(items) == 0 {
			return nil
		}
		return items
	}
	return value
}

// observer looks at single writes of a history.
type observer struct{ *history }

// violations returns what must not be in the writes of a history.
func (h *history) violations(changes []apiserver.Change) (found []string) {
	made := make(map[string]bool) // children for their owner
	once := onces{history: h, entered: make(map[types.UID]int), is: make(map[string]bool),
		made: make(map[string]string), existed: make(map[string]bool)}
	orphaned := make(map[types.UID]types.UID)
	members := sets.New[string]()
	seen := observer{h}
	rollouts := rollouts{history: h, wasReady: sets.New[types.UID](), late: sets.New[string](),
		deleted: make(map[string]int)}
	last := make(map[string]*unstructured.Unstructured)
	for _, c := range changes {
		isInherited := c.Before != nil && (seen.isInherited(c, last) || seen.wasInherited(c.Before))
		if isByOperator(c) && !isInherited {
			found = append(found, seen.harm(c)...)
		}
		wrong := []string{seen.unheld(c, last), seen.reused(c, members, last), seen.letGoEarly(c, last),
			rollouts.hurried(c, last), seen.misinjected(c, last)}
		if lost := seen.lostOrphan(c, last, orphaned); lost != "" && !isInherited && !seen.mayBeStray(c.Before) {
			wrong = append(wrong, lost)
		}
		object := c.After
		if object != nil {
			wrong = append(wrong, once.leftEarly(c, last), once.again(c, last))
		}
		found = append(found, slices.DeleteFunc(wrong, func(text string) bool { return text == "" })...)
		if c.Before != nil && c.Before.GetDeletionTimestamp() == nil && isDeletion(c) {
			seen.left[idOf(c.Before)] = c.At
		}
		if object == nil {
			delete(last, idOf(c.Before))
			continue
		}
		last[idOf(object)] = object
		seen.note(c.At, c.Before, object)
		for _, owner := range object.GetOwnerReferences() {
			id := idFor(object, owner)
			of := ownerIn(last, object, owner)
			isKnown := c.At.Sub(h.unanswered[id]) > forgiven
			// one that is gone may be known to be so later
			if h.Once && c.Before == nil && made[id] && isKnown && of != nil && of.GetUID() == owner.UID {
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
			return (k.GroupVersionKind == object.GroupVersionKind() || k.Name() == object.GetName()) && k.OnDelete != ""
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

// isInherited reports whether nothing controls a child that is written, and an object has the name of the one that it
// was created for: that may take it over or, if it was created once, replace it. An operator may not have heard yet
// that the object is gone.
func (h observer) isInherited(c apiserver.Change, all map[string]*unstructured.Unstructured) bool {
	child := c.Before
	return metav1.GetControllerOf(child) == nil && !isCopy(child) &&
		slices.ContainsFunc(h.Kinds, func(k *kind.Kind) bool {
			name, isOfKind := strings.CutPrefix(child.GetAnnotations()[annotationOwner], k.Name()+"/")
			id := k.GroupVersionKind.Kind + "/" + namespaceFor(k) + "/" + name
			owner := all[id]
			isThere := owner != nil && owner.GetDeletionTimestamp() == nil
			return isOfKind && (isThere || c.At.Sub(h.left[id]) <= h.unheard())
		})
}

// wasInherited reports whether nothing controls a child, and a deletion of it arrived late: an object that had the name
// of the one that it was created for, and replaced it, may be gone by then.
func (h observer) wasInherited(child *unstructured.Unstructured) bool {
	return metav1.GetControllerOf(child) == nil && h.deletedLate.Has(child.GetUID())
}

// memberName is that of a member of a set without an order: its number counts on.
var memberName = regexp.MustCompile(`-[0-9a-f]{5}-[0-9]+$`)

// reused reports a member of a set that an operator gives a name which it has given to another one of the same object.
// It learns the numbers of a set only where the template has a value: one that waits may do so since the creation.
func (h observer) reused(
	c apiserver.Change, given sets.Set[string], all map[string]*unstructured.Unstructured,
) string {
	if c.Before != nil || !isByOperator(c) || h.isRestored || h.isStopped || h.Shards > 1 ||
		!memberName.MatchString(c.After.GetName()) {
		return ""
	}
	isOfSet := slices.ContainsFunc(h.Kinds,
		func(k *kind.Kind) bool { return k.Sets[childName(c.After)].Type == c.After.GroupVersionKind() })
	id := strings.Join([]string{c.By, c.After.GetLabels()[labelOwner], idOf(c.After)}, " ")
	isKnown := true                                   // to whoever had an answer to the first creation
	untold := max(forgiven, h.latest()) + h.stalled() // for the creation of another member, in the same reconcile
	for _, owner := range c.After.GetOwnerReferences() {
		of := ownerIn(all, c.After, owner)
		isWaiting := of != nil && (reasonOf(of, kind.ConditionReady) == kind.ReasonWaiting ||
			reasonOf(of, kind.ConditionSucceeded) == kind.ReasonWaiting)
		isAnswered := c.At.Sub(h.unanswered[idFor(c.After, owner)]) > untold
		isKnown = isKnown && isAnswered && !isWaiting
	}
	if isOfSet && given.Has(id) && isKnown && !h.arrivedLate.Has(idOf(c.After)) {
		return "a name is used again: " + c.String()
	}
	given.Insert(id)
	return ""
}

// finalizer is that of objects for which something is left to do when they are deleted.
const finalizer = "fescue.dev/on-delete"

// unheld reports a child that an operator has created for an object without the finalizer, although its kind needs it.
func (h observer) unheld(c apiserver.Change, all map[string]*unstructured.Unstructured) string {
	if c.Before != nil || !isByOperator(c) || h.isRestored {
		return ""
	}
	for _, k := range h.Kinds {
		for _, owner := range all {
			isOwner := string(owner.GetUID()) == c.After.GetLabels()[labelOwner] &&
				owner.GroupVersionKind() == k.GroupVersionKind
			if isOwner && k.IsHeld() && owner.GetDeletionTimestamp() == nil &&
				!slices.Contains(owner.GetFinalizers(), finalizer) {
				return idOf(owner) + " has a child and no finalizer: " + c.String()
			}
		}
	}
	return ""
}

// letGoEarly reports an object whose finalizer an operator has removed before its last phase, or while it has children
// elsewhere.
func (h observer) letGoEarly(c apiserver.Change, all map[string]*unstructured.Unstructured) string {
	isHeld := c.Before != nil && c.Before.GetDeletionTimestamp() != nil &&
		slices.Contains(c.Before.GetFinalizers(), finalizer)
	if !isHeld || !isByOperator(c) || h.isRestored || c.After != nil &&
		slices.Contains(c.After.GetFinalizers(), finalizer) {
		return ""
	}
	for _, k := range h.Kinds {
		if k.GroupVersionKind != c.Before.GroupVersionKind() {
			continue
		}
		phase, _, _ := unstructured.NestedString(c.Before.Object, "status", "phase")
		isOver := isTrue(c.Before, kind.ConditionDeleting) && k.Phases[phase].Terminal
		if k.OnDelete != "" && !h.isEnded && !isOver {
			return fmt.Sprintf("%s is let go in the phase %q: %s", idOf(c.Before), phase, c)
		}
		for id, child := range all {
			isElsewhere := child.GetNamespace() != c.Before.GetNamespace() &&
				child.GetLabels()[labelOwner] == string(c.Before.GetUID())
			// Without this mark, it is a child only once the status of its owner has its UID.
			isMarked := child.GetAnnotations()[annotationCreatedAs] != ""
			if isElsewhere && isMarked && k.Target == nil && !isCopy(child) && !outlives(child) &&
				child.GetDeletionTimestamp() == nil && metav1.GetControllerOf(child) == nil && !h.arrivedLate.Has(id) {
				return fmt.Sprintf("%s is let go, and has %s: %s", idOf(c.Before), id, c)
			}
		}
	}
	return ""
}

// note notes what later writes are judged by: when an object was made, was edited, lost its label, or began to be
// deleted, and which children its status records.
func (h observer) note(at time.Time, before, object *unstructured.Unstructured) {
	h.recorded.Insert(elsewhereOf(object).UnsortedList()...)
	if before == nil || isMarkedAgain(before, object) {
		owner := metav1.OwnerReference{UID: types.UID(object.GetLabels()[labelOwner])}
		h.entries[idFor(object, owner)] = object.GetAnnotations()[annotationEntered]
	}
	if before == nil {
		return
	}
	if !hasNoLabel(before) && hasNoLabel(object) {
		h.unlabelled[object.GetUID()] = at
	}
	if before.GetGeneration() != object.GetGeneration() {
		h.edited[object.GetUID()] = at
	}
}

// isMarkedAgain reports whether a young child that had lost the mark of its entry gets one, or one of any age that had
// the mark of a copy is the child again: it counts as created in the present entry (decision 60).
func isMarkedAgain(before, object *unstructured.Unstructured) bool {
	if as := before.GetAnnotations()[annotationCreatedAs]; as != "" && as != object.GetAnnotations()[annotationCreatedAs] {
		return true
	}
	if before.GetAnnotations()[annotationEntered] != "" {
		return false
	}
	mark, err := time.Parse(time.RFC3339, object.GetAnnotations()[annotationEntered])
	return err == nil && mark.Before(object.GetCreationTimestamp().Add(time.Minute+time.Second))
}

// isDeletion reports whether an object is gone after a write, or begins to be deleted.
func isDeletion(c apiserver.Change) bool {
	return c.After == nil || c.After.GetDeletionTimestamp() != nil && c.Before.GetDeletionTimestamp() == nil
}

// lostOrphan reports an object that a deletion with --cascade=orphan has left, and that anyone but a user deletes,
// unless another object owns it by then. orphaned has the former owners of such objects, and all what exists.
func (h observer) lostOrphan(
	c apiserver.Change, all map[string]*unstructured.Unstructured, orphaned map[types.UID]types.UID,
) string {
	if c.Before == nil {
		return ""
	}
	uid, owner := c.Before.GetUID(), metav1.GetControllerOf(c.Before)
	isDeleted := isDeletion(c)
	if isDeleted && isByOperator(c) && owner != nil && c.Before.GetLabels()[labelPhase] == "" &&
		h.isOrphaning(c.Before, *owner, all) && c.At.Sub(h.left[idOf(ownerIn(all, c.Before, *owner))]) > h.unheard() {
		return "a child is deleted that is about to be orphaned: " + c.String()
	}
	switch former, isOrphan := orphaned[uid]; {
	case isOrphan && isDeleted && c.By != users && c.By != emptier && c.Before.GetDeletionTimestamp() == nil &&
		(owner == nil || owner.UID == former):
		return "an orphan is deleted: " + c.String()
	case !isDeleted && c.By == collector && owner != nil && metav1.GetControllerOf(c.After) == nil:
		isMissed := h.mayBeMissed(c.At) || h.Faults.Forget > 0 // a list shows nothing of what was before it
		if of := ownerIn(all, c.Before, *owner); of == nil || !isTrue(of, kind.ConditionDeleting) || !isMissed {
			orphaned[uid] = owner.UID
		}
	}
	return ""
}

// unheard returns how long a reconcile that has begun before, a late request, or a webhook may go by an object as it
// was: no write of a child says which version of its owner it is for.
func (h observer) unheard() time.Duration {
	return time.Second/2 + 2*h.Faults.Delay + h.latest() + h.stalled() // an answer, and the next request
}

// isOrphaning reports whether the owner of an object is one of the objects of the kinds, and is being deleted with
// --cascade=orphan.
func (h observer) isOrphaning(
	object *unstructured.Unstructured, reference metav1.OwnerReference, all map[string]*unstructured.Unstructured,
) bool {
	owner := ownerIn(all, object, reference)
	return owner != nil && owner.GetUID() == reference.UID && owner.GetDeletionTimestamp() != nil &&
		slices.Contains(owner.GetFinalizers(), metav1.FinalizerOrphanDependents) &&
		slices.ContainsFunc(h.Kinds,
			func(k *kind.Kind) bool { return k.Target == nil && k.GroupVersionKind == owner.GroupVersionKind() })
}

// fightTime is a time in which someone who fights for a child changes it a hundred times, and mostCorrections how often
// operators may change it back then: five times at once, and then ever more slowly, and all over again when an operator
// starts or the owner changes.
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
			found = append(found, fmt.Sprintf("%s is changed more than %d times in %v", idOf(c.After), mostCorrections,
				fightTime))
		}
	}
	return found
}

// harm returns what an operator has done to what is not its own.
func (h observer) harm(c apiserver.Change) (found []string) {
	before := c.Before
	if before == nil || isDefinition(c) {
		return nil
	}
	for _, k := range h.Kinds {
		if before.GroupVersionKind() == k.GroupVersionKind {
			return nil
		}
	}
	mayDelete := h.mayBeStray(before)
	isDeleted := isDeletion(c)
	holder := metav1.GetControllerOf(before)
	isHeld := holder != nil &&
		!slices.ContainsFunc(h.Kinds, func(k *kind.Kind) bool { return k.GroupVersionKind.Kind == holder.Kind })
	isMarked := before.GetLabels()[labelOwner] != "" || before.GetAnnotations()[annotationOwner] != "" ||
		before.GetAnnotations()[annotationCreatedAs] != ""
	// a child of a former entry, which lost its reference, and goes without getting it again
	isFormer := before.GetLabels()[labelOwner] != "" && before.GetAnnotations()[annotationEntered] != ""
	switch {
	case isHeld:
		found = append(found, "an operator changes an object of another controller: "+c.String())
	case !isMarked && holder == nil && (!isDeleted || !mayDelete):
		found = append(found, "an operator changes an object of somebody else: "+c.String())
	case isDeleted && !mayDelete && isCopy(before):
		found = append(found, "an operator deletes a copy: "+c.String())
	case isDeleted && !mayDelete && holder == nil && !isFormer && !h.isElsewhere(before) && !outlives(before):
		found = append(found, "an operator deletes what no object owns: "+c.String())
	}
	return found
}

// mayBeStray reports whether a set deletes objects of a type that nothing controls.
func (h observer) mayBeStray(object *unstructured.Unstructured) bool {
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
func (h observer) isElsewhere(child *unstructured.Unstructured) bool {
	return slices.ContainsFunc(h.Kinds, func(k *kind.Kind) bool {
		return len(k.Elsewhere) > 0 && slices.Contains(k.Owns, child.GroupVersionKind())
	})
}

// ownerIn returns the owner of an object, which has its namespace or none, by its name.
func ownerIn(
	all map[string]*unstructured.Unstructured, object *unstructured.Unstructured, reference metav1.OwnerReference,
) *unstructured.Unstructured {
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
