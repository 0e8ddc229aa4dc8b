package e2e

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/simulate"
	"github.com/fescue-dev/fescue/internal/testing/damagetest"
)

// foreignLabel is on objects that look like children, and that nobody but the test may change.
const foreignLabel = "foreign"

// observer sees what the API server shows to everyone, and tells the story of each object.
type observer struct {
	mu      sync.Mutex
	began   time.Time
	story   []string
	counts  map[string]int // what happened how often
	isOwner func(*unstructured.Unstructured) bool
	live    map[types.UID]*unstructured.Unstructured
	shown   map[types.UID]string // the last line about an object
	known   map[types.UID]bool   // the objects and children that were seen
	// most is how many members of a child there were at a time, and limits how many its owner wanted at most.
	most   map[membership]int
	limits map[types.UID]int
	// runs are the children that were created once, by the entry of the phase.
	runs       map[string]types.UID
	foreign    map[types.UID]string
	violations []string
}

// membership is a child of an owner: one object, or the members of a set.
type membership struct {
	owner types.UID
	child string
}

// observe watches resources in some namespaces, and of the cluster, until the test ends.
func observe(t *testing.T, client dynamic.Interface, namespaces []string, counts map[string]int, isOwner func(*unstructured.Unstructured) bool, resources []schema.GroupVersionResource) *observer {
	t.Helper()
	o := &observer{
		began: time.Now(), counts: counts, isOwner: isOwner,
		live: make(map[types.UID]*unstructured.Unstructured), shown: make(map[types.UID]string), known: make(map[types.UID]bool),
		most: make(map[membership]int), limits: make(map[types.UID]int), runs: make(map[string]types.UID), foreign: make(map[types.UID]string),
	}
	saw := func(seen any, isGone bool) {
		object := seen.(*unstructured.Unstructured)
		if in := object.GetNamespace(); in == "" || slices.Contains(namespaces, in) {
			o.saw(object, isGone)
		}
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	for _, resource := range resources {
		_, _ = factory.ForResource(resource).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { saw(object, false) },
			UpdateFunc: func(_, object any) { saw(object, false) },
			DeleteFunc: func(object any) {
				if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
					object = last.Obj
				}
				saw(object, true)
			},
		})
	}
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop); factory.Shutdown() })
	factory.Start(stop)
	factory.WaitForCacheSync(stop)
	return o
}

// did counts something that happened, and adds it to the story.
func (o *observer) did(what, format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts[what]++
	o.add(what, format, args...)
}

func (o *observer) add(what, format string, args ...any) {
	o.story = append(o.story, fmt.Sprintf("%7.2fs %s: %s", time.Since(o.began).Seconds(), what, fmt.Sprintf(format, args...)))
}

func (o *observer) violated(format string, args ...any) {
	o.violations = append(o.violations, fmt.Sprintf(format, args...))
	o.add("VIOLATION", format, args...)
}

// saw takes note of an object.
func (o *observer) saw(object *unstructured.Unstructured, isGone bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	uid, line := object.GetUID(), o.describe(object)
	if o.live[uid] = object; isGone {
		line = "gone"
		delete(o.live, uid)
	}
	if line != o.shown[uid] {
		o.shown[uid] = line
		o.add("saw", "%s %s/%s %.5s: %s", object.GetKind(), object.GetNamespace(), object.GetName(), uid, line)
	}
	isNew := !o.known[uid]
	switch {
	case object.GetLabels()[foreignLabel] != "":
		o.checkForeign(object, isGone)
		return
	case o.isOwner(object):
		count, _, _ := unstructured.NestedInt64(object.Object, "spec", "count")
		namespaces, _, _ := unstructured.NestedSlice(object.Object, "spec", "namespaces")
		o.limits[uid] = max(o.limits[uid], int(count), len(namespaces))
	case isNew && isGone || children.NameInKind(object) == "" || object.GetLabels()[children.LabelOwnerUID] == "":
		return
	case isNew:
		o.checkCreated(object)
	}
	o.known[uid] = true
	if isNew {
		o.counts["created "+object.GetKind()]++
	} else if isGone {
		o.counts["gone "+object.GetKind()]++
	}
}

// describe returns what matters of an object.
func (o *observer) describe(object *unstructured.Unstructured) string {
	deleted := ""
	if object.GetDeletionTimestamp() != nil {
		deleted = fmt.Sprintf("being deleted %v, ", object.GetFinalizers())
	}
	if o.isOwner(object) {
		return fmt.Sprintf("%sgeneration %d %s, %v", deleted, object.GetGeneration(), jsonText(object.Object["spec"]), simulate.StateOf(object, nil))
	}
	var references []string
	for _, reference := range object.GetOwnerReferences() {
		references = append(references, fmt.Sprintf("%.5s", reference.UID))
	}
	return fmt.Sprintf("%schild %s of %.5s, references %v, %s, %v", deleted, children.NameInKind(object), object.GetLabels()[children.LabelOwnerUID], references,
		object.GetAnnotations()["fescue.dev/created-as"], object.Object["data"])
}

// checkForeign requires that nobody changes or deletes a foreign object.
func (o *observer) checkForeign(object *unstructured.Unstructured, isGone bool) {
	before, isKnown := o.foreign[object.GetUID()]
	object = object.DeepCopy()
	object.SetManagedFields(nil)
	object.SetResourceVersion("")
	now := jsonText(object.Object)
	if !isKnown && !isGone {
		o.foreign[object.GetUID()] = now
	} else if before != "" && (isGone || now != before) {
		o.violated("%s %s/%s is not Fescue's, and was changed or deleted: %s", object.GetKind(), object.GetNamespace(), object.GetName(), now)
	}
}

// release returns the foreign objects of a namespace, or of all, and allows that they are deleted.
func (o *observer) release(namespace string) []*unstructured.Unstructured {
	released := o.where(func(object *unstructured.Unstructured) bool {
		return object.GetLabels()[foreignLabel] != "" && (namespace == "" || object.GetNamespace() == namespace)
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, object := range released {
		o.foreign[object.GetUID()] = ""
	}
	return released
}

// checkCreated counts a child that was created, with those that exist.
func (o *observer) checkCreated(object *unstructured.Unstructured) {
	of := membership{types.UID(object.GetLabels()[children.LabelOwnerUID]), children.NameInKind(object)}
	n := 0
	for _, other := range o.live {
		labels := other.GetLabels()
		if labels[foreignLabel] == "" && other.GetDeletionTimestamp() == nil && children.NameInKind(other) == of.child && labels[children.LabelOwnerUID] == string(of.owner) && !children.IsCopy(other) {
			n++
		}
	}
	o.most[of] = max(o.most[of], n)
	if object.GetLabels()["fescue.dev/phase"] == "" {
		return
	}
	entry := fmt.Sprint(of, object.GetAnnotations()[children.AnnotationEntered])
	if o.runs[entry] != "" {
		o.violated("%s/%s was created again in one entry of its phase", object.GetKind(), object.GetName())
	}
	o.runs[entry] = object.GetUID()
}

// doubled returns what there was too much of at a time, and whose. Objects want members of these sets, and one of any
// other child.
func (o *observer) doubled() (owner, what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for of, n := range o.most {
		limit := 1
		if slices.Contains([]string{"pods", "rows", "crowd"}, of.child) {
			limit = o.limits[of.owner]
		}
		if n > limit {
			return string(of.owner)[:5], fmt.Sprintf("there were %d of %s, and not %d", n, of.child, limit)
		}
	}
	return "", ""
}

// where returns the objects that exist and satisfy a condition, in the order of their names.
func (o *observer) where(holds func(*unstructured.Unstructured) bool) (found []*unstructured.Unstructured) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, object := range o.live {
		if holds(object) {
			found = append(found, object)
		}
	}
	slices.SortFunc(found, func(a, b *unstructured.Unstructured) int {
		return strings.Compare(a.GetKind()+a.GetName()+a.GetNamespace(), b.GetKind()+b.GetName()+b.GetNamespace())
	})
	return found
}

// childrenOf returns the objects that are labelled as the children of an object.
func (o *observer) childrenOf(owner *unstructured.Unstructured) []*unstructured.Unstructured {
	return o.where(func(object *unstructured.Unstructured) bool {
		return children.IsLabelledFor(object, owner) && !children.IsCopy(object)
	})
}

// about returns the last lines that name an object or its children, and those about operators.
func about(lines []string, name string) string {
	pattern := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b|s operator `)
	lines = slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !pattern.MatchString(line) })
	return strings.Join(lines[max(0, len(lines)-80):], "\n")
}

// state returns what there is of an object and its children, without what differs between two objects of the same spec.
func (o *observer) state(owner *unstructured.Unstructured, home string) string {
	state := simulate.StateOf(owner, nil)
	lines := []string{"status " + jsonText(state.Status)}
	for name, text := range state.Conditions {
		word, _, _ := strings.Cut(text, ": ")
		lines = append(lines, "condition "+name+": "+word)
	}
	phase, _, _ := unstructured.NestedString(owner.Object, "status", "phase")
	for _, child := range o.childrenOf(owner) {
		labels, annotations := child.GetLabels(), child.GetAnnotations()
		if labels["fescue.dev/phase"] != "" && phase == "" {
			continue // another object of this name was deleted with orphan in that phase, and this one has taken what it left
		}
		maps.DeleteFunc(annotations, func(name, _ string) bool { // the others follow from the time, or are those of Kubernetes' controllers
			return !strings.HasPrefix(name, "fescue.dev/") || name == "fescue.dev/template" || name == children.AnnotationEntered
		})
		if child.GetKind() == "Pod" || child.GetKind() == "PersistentVolumeClaim" { // changes of them are ignored
			maps.DeleteFunc(labels, func(name, _ string) bool { return !damagetest.IsMark(name) })
		}
		replicas, _, _ := unstructured.NestedInt64(child.Object, "spec", "replicas")
		parts := []any{labels, annotations, child.Object["data"], replicas, child.GetDeletionTimestamp() != nil}
		for _, r := range child.GetOwnerReferences() {
			parts = append(parts, r.Kind, r.Name, r.UID, r.Controller != nil && *r.Controller)
		}
		containers, _, _ := unstructured.NestedSlice(child.Object, "spec", "containers")
		for _, c := range containers {
			parts = append(parts, c.(map[string]any)["env"])
		}
		lines = append(lines, fmt.Sprint(child.GetKind(), "/", child.GetNamespace(), "/", child.GetName(), " ", jsonText(parts)))
	}
	slices.Sort(lines)
	text := strings.NewReplacer(string(owner.GetUID()), "UID", owner.GetName(), "NAME", home, "HOME").Replace(strings.Join(lines, "\n"))
	return setMember.ReplaceAllString(text, "-MEMBER")
}

// isWhole reports whether a child has what it is recognized by. Its phase is told by a label and at the end of the record: one
// that has lost both is no child of a phase any more.
func isWhole(child *unstructured.Unstructured, home string) bool {
	_, hasOwner := child.GetAnnotations()[children.AnnotationOwner]
	record, isOrphan := strings.CutSuffix(child.GetAnnotations()["fescue.dev/created-as"], "/Orphan")
	parts, phase := strings.Split(record, "/"), child.GetLabels()["fescue.dev/phase"]
	tellsPhase := len(parts) == 3 && phase == "" || len(parts) == 4 && phase == parts[3]
	return child.GetLabels()[children.LabelOwnerUID] != "" && hasOwner && tellsPhase &&
		(isOrphan || child.GetNamespace() != home || metav1.GetControllerOf(child) != nil)
}
