package history

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/hack/sim/apiserver"
)

// These are the documented labels of a child: what it is in its kind, the phase that it belongs to, its owner, and the
// decorator that has created it.
const labelChild, labelPhase, labelOwner, labelDecorator = "fescue.dev/child", "fescue.dev/phase",
	"fescue.dev/owner-uid", "fescue.dev/decorator"

// annotationOwner names the object that a child was created for, and annotationCreatedAs the type, the name and the
// child that it was created as; annotationEntered names the entry of a phase that a child was created in, if it is
// created once in each.
const annotationOwner, annotationCreatedAs, annotationEntered = "fescue.dev/owner", "fescue.dev/created-as",
	"fescue.dev/entered"

// restless returns what is not as the kinds decide it, of all objects that exist at the end of a history. It knows of
// the engine only the labels of children: what a kind decides about an object and the children that exist must be what
// exists.
func (h *history) restless(live map[string]*unstructured.Unstructured) (found []string) {
	for _, k := range h.Kinds {
		for _, id := range slices.Sorted(maps.Keys(live)) {
			object := live[id]
			isOver := object.GetDeletionTimestamp() != nil || k.Phases[k.PhaseOf(object.Object)].Terminal ||
				isTrue(object, "Stalled") // it waits for its user
			isSelected := k.Target == nil || k.Target.Selects(object)
			if object.GroupVersionKind() != k.GroupVersionKind || isOver || !isSelected {
				continue
			}
			for _, problem := range h.restlessObject(k, object, live) {
				found = append(found, id+" "+problem)
			}
		}
	}
	return found
}

// childrenOf returns the objects that another one controls, by the names that its kind gives them.
func (h *history) childrenOf(
	k *kind.Kind, owner *unstructured.Unstructured, live map[string]*unstructured.Unstructured,
) map[string][]*unstructured.Unstructured {
	found := make(map[string][]*unstructured.Unstructured)
	decorator := ""
	if k.Target != nil {
		decorator = k.Target.Decorator
	}
	for _, object := range live {
		name := childName(object)
		isElsewhere := object.GetNamespace() != owner.GetNamespace() && owner.GetNamespace() != ""
		isChild := metav1.IsControlledBy(object, owner)
		if isElsewhere || outlives(object) {
			_, isMarked := object.GetAnnotations()[annotationCreatedAs]
			// one that lost the annotation before the status of its owner had its UID looks like anybody's
			isChild = object.GetLabels()[labelOwner] == string(owner.GetUID()) && !h.copies.Has(object.GetUID()) &&
				(isMarked || h.recorded.Has(object.GetUID()))
		}
		if isChild && object.GetLabels()[labelDecorator] == decorator && name != "" &&
			object.GetDeletionTimestamp() == nil && !isCopy(object) {
			found[name] = append(found[name], object)
		}
	}
	for _, children := range found {
		slices.SortFunc(children, func(a, b *unstructured.Unstructured) int {
			return cmp.Or(cmp.Compare(numberOf(a), numberOf(b)), strings.Compare(a.GetName(), b.GetName()))
		})
	}
	return found
}

// childName returns what an object is in its kind: the label says it unless no label could.
func childName(object *unstructured.Unstructured) string {
	if record := strings.Split(object.GetAnnotations()[annotationCreatedAs], "/"); len(record) > 2 {
		name, err := url.PathUnescape(record[2])
		if err == nil && len(validation.IsValidLabelValue(name)) > 0 {
			return name
		}
	}
	return object.GetLabels()[labelChild]
}

// outlives reports whether a child was created to outlive its owner, so that no reference shows it.
func outlives(object *unstructured.Unstructured) bool {
	return metav1.GetControllerOf(object) == nil && strings.HasSuffix(object.GetAnnotations()[annotationCreatedAs],
		"/"+string(kind.Orphan))
}

// hasNoLabel reports whether a child has lost the label by which it is watched.
func hasNoLabel(child *unstructured.Unstructured) bool { return child.GetLabels()[labelOwner] == "" }

// mayBeUnseen reports whether a child lost its label when no operator could mend that.
func (h *history) mayBeUnseen(child *unstructured.Unstructured) bool {
	return hasNoLabel(child) && h.mayBeMissed(h.unlabelled[child.GetUID()])
}

// mayBeMissed reports whether something may have happened while no operator acted, or so shortly before the operator
// ended that it could not answer: what fails is tried again after some seconds, events may be late, and the reconcile
// before may still wait for an answer.
func (h *history) mayBeMissed(at time.Time) bool {
	late := max(10*time.Second, h.latest()) + h.stalled()
	return !h.Stays && (h.Operators+h.Kills > 0 || at.After(h.began.Add(h.Disturbed-late)))
}

// latest returns how late events may be.
func (h *history) latest() time.Duration {
	if h.Faults.Lag == 0 {
		return 0
	}
	return time.Minute
}

// isCopy reports whether an object was created under another name than the mark says that it bears.
func isCopy(object *unstructured.Unstructured) bool {
	as, isMarked := object.GetAnnotations()[annotationCreatedAs]
	return isMarked && !strings.Contains(as, "/"+object.GetName()+"/") &&
		!strings.Contains(as, "/"+object.GetName()+"@"+object.GetNamespace()+"/")
}

// numberOf returns the number at the end of the name of a member of a set.
func numberOf(object *unstructured.Unstructured) int {
	n, _ := strconv.Atoi(object.GetName()[strings.LastIndex(object.GetName(), "-")+1:])
	return n
}

func (h *history) restlessObject(
	k *kind.Kind, object *unstructured.Unstructured, live map[string]*unstructured.Unstructured,
) (found []string) {
	if k.Target == nil {
		// it may be stored without, while nothing validates it
		object = &unstructured.Unstructured{Object: k.Default(object.Object)}
		for _, problem := range k.Problems(object.Object) {
			found = append(found, "is invalid: "+problem.Error.Error())
		}
	}
	children := h.childrenOf(k, object, live)
	for name := range k.Sets {
		children[name] = slices.DeleteFunc(children[name], h.mayBeUnseen)
	}
	observed, err := h.observed(k, object, children, live)
	if err != nil {
		return []string{"is not stalled: " + err.Error()}
	}
	d, err := k.Decide(k.NewBudget(), object.Object, observed)
	if err != nil {
		return []string{"is not stalled: " + err.Error()}
	}
	wanted, isBlocked := make(map[types.UID]bool), false
	for _, c := range d.Children {
		if k.Target != nil && isTaken(c, k.Target.Decorator, object, live) {
			isBlocked = true // an Event says so, and nothing is pruned
			continue
		}
		found = append(found, h.missing(c, object, children[c.Name], wanted)...)
		found = append(found, strays(c, object, live)...)
	}
	for name, of := range children {
		for _, child := range of {
			isElsewhere := child.GetNamespace() != object.GetNamespace()
			// its place may not be listed any more
			isLate := isElsewhere && h.arrivedLate.Has(idOf(child))
			// it goes with its object
			isUnseen := h.mayBeUnseen(child)
			// it lost its mark in a former place before the status had its UID
			isLost := isElsewhere && !h.recorded.Has(child.GetUID()) &&
				child.GetLabels()[labelOwner] != string(object.GetUID())
			isStaying := isLate || isUnseen || isLost || isBlocked || len(d.Undecided) > 0
			if child.GetLabels()[labelPhase] == "" && !wanted[child.GetUID()] && !isStaying {
				found = append(found, fmt.Sprintf("has the child %s, %s with %v, which it does not want", name,
					idOf(child), child.GetAnnotations()))
			}
		}
	}
	for _, t := range d.Next {
		if t.When && t.After == nil && t.Cron == nil && !isLosing(object, live) {
			found = append(found, "stays, although it can go on to "+t.To)
		}
	}
	isUnnamed := len(d.Undecided) > 0 ||
		slices.ContainsFunc(d.Children, func(c kind.Child) bool { return c.Template == nil })
	if isUnnamed && slices.ContainsFunc(slices.Concat(slices.Collect(maps.Values(children))...),
		hasNoLabel) {
		return found // a child that lost its label is found when its name is known
	}
	if problem := misreported(k, object, live); problem != "" {
		found = append(found, problem)
	}
	status, _ := object.Object["status"].(map[string]any)
	for name, value := range d.Status {
		if !covers(status[name], value) {
			found = append(found, fmt.Sprintf("has status.%s: %v, and should have %v", name, status[name], value))
		}
	}
	return found
}

// observed returns what a kind is told about an object: its children, and what it reads of all that exists.
func (h *history) observed(
	k *kind.Kind, object *unstructured.Unstructured, children map[string][]*unstructured.Unstructured,
	live map[string]*unstructured.Unstructured,
) (map[string]any, error) {
	observed, err := h.read(k, object, live)
	if err != nil {
		return nil, err
	}
	created, _, _ := unstructured.NestedStringMap(object.Object, "status", "childInventory", "created")
	for name, of := range children {
		if _, isSet := k.Sets[name]; !isSet {
			// A copy that has lost its record is a child as well, but not the one that the status names.
			isNamed := func(child *unstructured.Unstructured) bool { return string(child.GetUID()) == created[name] }
			if i := slices.IndexFunc(of, isNamed); i >= 0 {
				observed[name] = of[i].Object
				continue
			}
			of = slices.DeleteFunc(slices.Clone(of), func(child *unstructured.Unstructured) bool {
				return isOfFormerEntry(child, object)
			})
			if len(of) == 0 {
				continue
			}
			newest := slices.MaxFunc(of, func(a, b *unstructured.Unstructured) int {
				return strings.Compare(string(a.GetUID()), string(b.GetUID()))
			})
			observed[name] = newest.Object
		}
	}
	for name := range k.Sets {
		members := []any{}
		for _, m := range children[name] {
			members = append(members, m.Object)
		}
		observed[name] = members
	}
	return observed, nil
}

// isOfFormerEntry reports whether a child was created in another entry of the phase of its owner than this one.
func isOfFormerEntry(child, owner *unstructured.Unstructured) bool {
	entered, isMarked := child.GetAnnotations()[annotationEntered]
	return isMarked && !outlives(child) && child.GetLabels()[labelPhase] == phaseIn(owner) &&
		entryOf(entered) != entryOf(enteredIn(owner))
}

// read returns what a kind reads for an object, apart from its children.
func (h *history) read(
	k *kind.Kind, object *unstructured.Unstructured, live map[string]*unstructured.Unstructured,
) (map[string]any, error) {
	values := make(map[string]any)
	lookups, err := k.LookupsOf(k.NewBudget(), object.Object)
	for _, l := range lookups {
		if len(l.Absent) > 0 {
			continue
		}
		in := l.In(object.GetNamespace(), !h.resource(l.Type).IsClusterScoped)
		var found []any
		for _, id := range slices.Sorted(maps.Keys(live)) {
			o := live[id]
			isNamed := o.GetName() == l.ObjectName || l.Selector != nil && l.Selector.Matches(labels.Set(o.GetLabels()))
			if o.GroupVersionKind() == l.Type && (in == "" || in == o.GetNamespace()) && isNamed {
				found = append(found, o.Object)
			}
		}
		switch {
		case l.Selector != nil:
			values[l.Name] = found
		case len(found) > 0:
			values[l.Name] = found[0]
		}
	}
	return values, err
}

// isTaken reports whether an object that has the name of a decorator's child is not that child: another controls it, or
// someone has removed or changed both marks that name the decorator.
func isTaken(
	c kind.Child, decorator string, owner *unstructured.Unstructured, live map[string]*unstructured.Unstructured,
) bool {
	template := &unstructured.Unstructured{Object: c.Template}
	other := live[template.GetKind()+"/"+cmp.Or(template.GetNamespace(), owner.GetNamespace())+"/"+template.GetName()]
	return other != nil && (!metav1.IsControlledBy(other, owner) || other.GetLabels()[labelDecorator] != decorator &&
		!strings.HasPrefix(other.GetAnnotations()[annotationOwner], "decorator:"))
}

// isLosing reports whether a child is being deleted, which a user may hold: no phase is left before it is gone.
func isLosing(owner *unstructured.Unstructured, live map[string]*unstructured.Unstructured) bool {
	for _, object := range live {
		isChild := metav1.IsControlledBy(object, owner) || object.GetLabels()[labelOwner] == string(owner.GetUID())
		if isChild && object.GetDeletionTimestamp() != nil {
			return true
		}
	}
	return false
}

// strays returns the objects that a set should have deleted: those of nobody that have the labels of its members.
func strays(
	c kind.Child, owner *unstructured.Unstructured, live map[string]*unstructured.Unstructured,
) (found []string) {
	if c.Template == nil || c.Set == nil || !c.Set.DeleteStrays || c.Set.Ordered {
		return nil
	}
	template := &unstructured.Unstructured{Object: c.Template}
	namespace, selected := cmp.Or(template.GetNamespace(), owner.GetNamespace()), template.GetLabels()
	for _, id := range slices.Sorted(maps.Keys(live)) {
		object := live[id]
		_, isManaged := object.GetLabels()[labelOwner]
		isStray := object.GroupVersionKind() == template.GroupVersionKind() && object.GetNamespace() == namespace &&
			!isManaged && metav1.GetControllerOf(object) == nil && object.GetDeletionTimestamp() == nil
		if isStray && len(selected) > 0 && labels.SelectorFromSet(selected).Matches(labels.Set(object.GetLabels())) {
			found = append(found, fmt.Sprintf("leaves the stray %s of %s", id, c.Name))
		}
	}
	return found
}

// missing returns what lacks of a child that an object wants, and notes the objects that are the child.
func (h *history) missing(
	c kind.Child, owner *unstructured.Unstructured, live []*unstructured.Unstructured, wanted map[types.UID]bool,
) []string {
	if c.Template == nil || c.Set != nil {
		for _, child := range live {
			wanted[child.GetUID()] = true
		}
		return h.missingMembers(c, live)
	}
	template := &unstructured.Unstructured{Object: c.Template}
	name := cmp.Or(template.GetName(), owner.GetName()+"-"+c.Name)
	namespace := cmp.Or(template.GetNamespace(), owner.GetNamespace())
	i := slices.IndexFunc(live,
		func(child *unstructured.Unstructured) bool {
			return (child.GetName() == name || isShortened(child.GetName(), name)) &&
				(child.GetNamespace() == namespace || child.GetNamespace() == "")
		})
	switch {
	case i < 0 && !c.Delayed:
		return []string{"lacks the child " + c.Name}
	case i < 0:
		return nil
	}
	wanted[live[i].GetUID()] = true
	entry := h.entries[idFor(live[i], metav1.OwnerReference{UID: owner.GetUID()})]
	if isReplaced(c) && entry != "" && entryOf(entry) != entryOf(enteredIn(owner)) && !h.isRestored {
		return []string{fmt.Sprintf("has a child %s that was created in the entry at %s, and not in that at %s",
			idOf(live[i]), entry, enteredIn(owner))}
	}
	if h.differs(c, live[i], c.Template) {
		return []string{fmt.Sprintf("has a child %s that differs from its template %v: %v", idOf(live[i]), c.Template,
			live[i].Object)}
	}
	return nil
}

// isShortened reports whether a name begins as one that is too long for an object, and ends in a hash.
func isShortened(name, long string) bool {
	i := strings.LastIndex(name, "-")
	return i > 0 && len(long) > validation.DNS1123SubdomainMaxLength && strings.HasPrefix(long, name[:i])
}

// orderedName is that of a member of an ordered set.
var orderedName = regexp.MustCompile(`-[0-9]+$`)

// missingMembers returns what lacks of a set. A child without a template waits for what it reads.
func (h *history) missingMembers(c kind.Child, live []*unstructured.Unstructured) (found []string) {
	if c.Template == nil {
		return nil
	}
	templates := c.Set.Members
	if c.Set.Ordered { // a copy that has lost its record is a child of the phase, and no member
		live = slices.DeleteFunc(slices.Clone(live), func(m *unstructured.Unstructured) bool {
			return !orderedName.MatchString(m.GetName())
		})
	} else {
		templates = slices.Repeat([]map[string]any{c.Template}, c.Set.Replicas)
	}
	if len(live) != c.Set.Replicas {
		found = append(found, fmt.Sprintf("has %d of %d members of %s", len(live), c.Set.Replicas, c.Name))
	}
	for i, m := range live {
		if i < len(templates) && h.differs(c, m, templates[i]) {
			found = append(found, fmt.Sprintf("has a member %s that differs from its template %v: %v", idOf(m),
				templates[i], m.Object))
		}
	}
	return found
}

// differs reports whether a child should be as its template is, and is not. What users change in a child that is not
// applied stays.
func (h *history) differs(c kind.Child, live *unstructured.Unstructured, template map[string]any) bool {
	wanted := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(template)}
	if wanted.GetNamespace() == "" {
		wanted.SetNamespace(live.GetNamespace()) // that of the owner
	}
	if kind.IsSecret(wanted.GroupVersionKind()) {
		apiserver.StoreText(wanted.Object)
	}
	marks := wanted.GetLabels() // a template may have those of another child
	maps.DeleteFunc(marks, func(name, _ string) bool { return isMark(name) })
	wanted.SetLabels(marks)
	if c.Set != nil {
		wanted.SetName(live.GetName()) // the template has the prefix
	}
	return c.Update != kind.Never && (c.Update == kind.Apply || !h.altered.Has(live.GetUID())) &&
		!covers(live.Object, wanted.Object)
}

// isMark reports whether a label is one by which the engine finds children.
func isMark(name string) bool {
	return strings.HasPrefix(name, "fescue.dev/") || name == "app.kubernetes.io/managed-by"
}

// covers reports whether a value has all fields of another.
func covers(value, of any) bool {
	switch of := of.(type) {
	case map[string]any:
		fields, isStruct := value.(map[string]any)
		for name, v := range of {
			if !covers(fields[name], v) {
				return false
			}
		}
		return isStruct || len(of) == 0
	case []any:
		list, _ := value.([]any)
		for _, item := range of { // others may add some
			if !slices.ContainsFunc(list, func(v any) bool { return covers(v, item) }) {
				return false
			}
		}
		return true
	}
	number, isNumber := numberIn(value)
	other, isOther := numberIn(of)
	return isNumber && isOther && number == other || reflect.DeepEqual(value, of)
}

// numberIn returns the number that a value is: 4 and 4.0 are the same one.
func numberIn(value any) (number float64, ok bool) {
	switch value := value.(type) {
	case int64:
		return float64(value), true
	case float64:
		return value, true
	}
	return 0, false
}
