package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// freeCorrections is how often a child is corrected without delay: people edit a child a few times,
// and controllers that fight never stop.
const freeCorrections = 5

// Contests count the corrections of children that someone undoes. They are slowed down until the
// object or its templates change, or the object stays in sync.
type Contests struct {
	mu       sync.Mutex
	byObject map[types.NamespacedName]*contest
}

// contest is what is remembered for one object.
type contest struct {
	uid        types.UID
	generation int64
	children   map[childKey]*corrections
}

type childKey struct {
	resource schema.GroupVersionResource
	name     types.NamespacedName
}

// corrections are those of one child.
type corrections struct {
	Slowing
	template  string // that was written
	described int    // the count for which the problem was described
}

// NewContests returns a memory that is empty.
func NewContests() *Contests {
	return &Contests{byObject: make(map[types.NamespacedName]*contest)}
}

func nameFor(object *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// of returns what is remembered for an object, without what is over or was for another state of
// it. It may be nil.
func (c *Contests) of(owner *unstructured.Unstructured, now time.Time) *contest {
	known := c.byObject[nameFor(owner)]
	if known == nil {
		return nil
	}
	for key, corrections := range known.children {
		if corrections.IsOver(now) {
			delete(known.children, key)
		}
	}
	if known.uid != owner.GetUID() || known.generation != owner.GetGeneration() || len(known.children) == 0 {
		delete(c.byObject, nameFor(owner))
		return nil
	}
	return known
}

// begin returns what is remembered for an object, and begins to remember it.
func (c *Contests) begin(owner *unstructured.Unstructured, now time.Time) *contest {
	known := c.of(owner, now)
	if known == nil {
		known = &contest{uid: owner.GetUID(), generation: owner.GetGeneration(), children: make(map[childKey]*corrections)}
		c.byObject[nameFor(owner)] = known
	}
	return known
}

func keyOf(s Step) childKey {
	return childKey{s.Resource, types.NamespacedName{Namespace: s.Object().GetNamespace(), Name: s.Name}}
}

// Wrote counts a step that was carried out, if it is a correction: a child that somebody deletes is created again at
// once, and a former entry of a phase ends once.
func (c *Contests) Wrote(owner *unstructured.Unstructured, s Step, now time.Time) {
	if s.Verb == Create || s.Former {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.begin(owner, now)
	child := known.children[keyOf(s)]
	if child == nil || child.isOther(s) {
		child = &corrections{Slowing: Slowing{Free: freeCorrections}}
		known.children[keyOf(s)] = child
	}
	child.template = cmp.Or(s.Template(), child.template)
	child.Wrote(now)
}

// isOther reports whether a step writes another template than before.
func (c *corrections) isOther(s Step) bool {
	return s.Template() != "" && c.template != "" && s.Template() != c.template
}

// Holds reports whether a step has to wait, and whether that is not described yet.
func (c *Contests) Holds(owner *unstructured.Unstructured, s Step, now time.Time) (held, isNew bool) {
	if s.Verb == Create {
		return false, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.of(owner, now)
	if known == nil {
		return false, false
	}
	child := known.children[keyOf(s)]
	if child == nil || child.isOther(s) || !child.IsHeld(now) {
		return false, false
	}
	return true, child.described < child.Count
}

// Describe sets the description of a step that is held, given the child with its managedFields, and our own manager.
func (c *Contests) Describe(owner *unstructured.Unstructured, s Step, live *unstructured.Unstructured, own string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.of(owner, now); known != nil && known.children[keyOf(s)] != nil {
		child := known.children[keyOf(s)]
		child.Problem, child.described = contestOf(s, live, own), child.Count
	}
}

// Report adds to an outcome what is contested of an object, and when that may change.
func (c *Contests) Report(owner *unstructured.Unstructured, o *Outcome, now time.Time) {
	problem, next := c.problem(owner, now)
	if problem == nil {
		return
	}
	o.wake(next)
	if o.Stalled == nil {
		o.Stalled = problem
	}
}

// problem returns what to report of an object, which is nil if nothing is contested, and when
// that may change.
func (c *Contests) problem(owner *unstructured.Unstructured, now time.Time) (problem *Problem, next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.of(owner, now)
	if known == nil {
		return nil, time.Time{}
	}
	for _, child := range known.children {
		if child.Problem == nil {
			continue
		}
		if problem == nil || child.Problem.Message < problem.Message { // the same one each time
			problem = child.Problem
		}
		if due := child.Next(now); next.IsZero() || due.Before(next) {
			next = due
		}
	}
	return problem, next
}

// IsContested reports whether a write for an object was held.
func (c *Contests) IsContested(object types.NamespacedName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.byObject[object]
	if known == nil {
		return false
	}
	for _, child := range known.children {
		if child.Problem != nil {
			return true
		}
	}
	return false
}

// Forget drops what is remembered for an object.
func (c *Contests) Forget(object types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byObject, object)
}

// The reasons of the condition Stalled for corrections that are delayed.
const (
	reasonContested = "Contested"
	reasonReplaced  = "ReplacedRepeatedly"
)

// contestOf describes a correction that is held, given the object with its managedFields, if they are known, and our
// own manager.
func contestOf(s Step, live *unstructured.Unstructured, own string) *Problem {
	child := fmt.Sprintf("child %q: %s %q", s.Child, s.Resource.Resource, s.Name)
	var fields, managed, managers []string
	for _, path := range s.Differences(live) {
		fields = append(fields, fieldText(path))
		by := managersOf(live, path)
		by = slices.DeleteFunc(by, func(m string) bool { return m == own })
		if len(by) > 0 {
			managed = append(managed, fieldText(path))
			managers = append(managers, by...)
		}
	}
	slices.Sort(managers)
	managers = slices.Compact(managers)
	switch {
	case s.Verb == Delete:
		return &Problem{Reason: reasonReplaced, Message: child + " is deleted and recreated repeatedly; further deletions are delayed"}
	case len(managers) > 0:
		quoted := make([]string, len(managers))
		for i, m := range managers {
			quoted[i] = fmt.Sprintf("%q", m)
		}
		subject := "manager %s keeps"
		if len(managers) > 1 {
			subject = "managers %s keep"
		}
		return &Problem{Reason: reasonContested, Message: fmt.Sprintf("%s: "+subject+" changing %s; corrections are delayed", child, listed(quoted), listed(managed))}
	}
	by := ""
	if len(live.GetManagedFields()) > 0 {
		by = " without another field manager, as by a mutating webhook or policy"
	}
	return &Problem{Reason: reasonContested, Message: fmt.Sprintf("%s is changed repeatedly%s: %s; corrections are delayed", child, by, cmp.Or(listed(fields), "unknown fields"))}
}

// maxFields is how many fields a description names.
const maxFields = 3

func listed(names []string) string {
	if more := len(names) - maxFields; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxFields], ", "), more)
	}
	return strings.Join(names, ", ")
}

var plainField = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// fieldText writes a path as metadata.labels[example.com/team].
func fieldText(path []string) string {
	var b strings.Builder
	for i, name := range path {
		switch {
		case !plainField.MatchString(name):
			b.WriteString("[" + name + "]")
		case i > 0:
			b.WriteString("." + name)
		default:
			b.WriteString(name)
		}
	}
	return b.String()
}

// managersOf returns the managers of a field, as metadata.managedFields has them.
func managersOf(object *unstructured.Unstructured, path []string) (managers []string) {
	for _, entry := range object.GetManagedFields() {
		var fields map[string]any
		if entry.FieldsV1 != nil && json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) == nil && hasField(fields, path) {
			managers = append(managers, entry.Manager)
		}
	}
	return managers
}

// hasField reports whether a set of fields in the format FieldsV1 has a field, or one above it as
// a whole.
func hasField(fields map[string]any, path []string) bool {
	for _, name := range path {
		below, ok := fields["f:"+name].(map[string]any)
		if !ok {
			return false
		}
		if len(below) == 0 {
			return true
		}
		fields = below
	}
	return true
}
