package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/fescue-dev/fescue/engine/plan"
)

// freeCorrections is how often a child is corrected without delay: people edit a child a few times,
// and controllers that fight never stop.
const freeCorrections = 5

// errHeld reports that a correction is delayed.
var errHeld = errors.New("the correction is delayed")

// contests counts the corrections of children that someone undoes. They are slowed down until the
// object or its templates change, or the object stays in sync.
type contests struct {
	clock    clock.PassiveClock
	mu       sync.Mutex
	byObject map[cache.ObjectName]*contest
}

// contest is what is remembered for one object.
type contest struct {
	uid        types.UID
	generation int64
	children   map[childKey]*corrections
}

type childKey struct {
	resource schema.GroupVersionResource
	name     cache.ObjectName
}

// corrections are those of one child.
type corrections struct {
	plan.Slowing
	template  string // that was written
	described int    // the count for which the problem was described
}

func newContests(clock clock.PassiveClock) *contests {
	return &contests{clock: clock, byObject: make(map[cache.ObjectName]*contest)}
}

// of returns what is remembered for an object, without what is over or was for another state of
// it. It may be nil.
func (c *contests) of(owner *unstructured.Unstructured) *contest {
	name := cache.MetaObjectToName(owner)
	known := c.byObject[name]
	if known == nil {
		return nil
	}
	for key, corrections := range known.children {
		if corrections.IsOver(c.clock.Now()) {
			delete(known.children, key)
		}
	}
	if known.uid != owner.GetUID() || known.generation != owner.GetGeneration() || len(known.children) == 0 {
		delete(c.byObject, name)
		return nil
	}
	return known
}

// begin returns what is remembered for an object, and begins to remember it.
func (c *contests) begin(owner *unstructured.Unstructured) *contest {
	known := c.of(owner)
	if known == nil {
		known = &contest{uid: owner.GetUID(), generation: owner.GetGeneration(), children: make(map[childKey]*corrections)}
		c.byObject[cache.MetaObjectToName(owner)] = known
	}
	return known
}

func keyOf(s plan.Step) childKey {
	return childKey{s.Resource, cache.ObjectName{Namespace: s.Object().GetNamespace(), Name: s.Name}}
}

// wrote counts a correction.
func (c *contests) wrote(owner *unstructured.Unstructured, s plan.Step) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.begin(owner)
	child := known.children[keyOf(s)]
	if child == nil || child.isOther(s) {
		child = &corrections{Slowing: plan.Slowing{Free: freeCorrections}}
		known.children[keyOf(s)] = child
	}
	child.template = cmp.Or(s.Template(), child.template)
	child.Wrote(c.clock.Now())
}

// isOther reports whether a step writes another template than before.
func (c *corrections) isOther(s plan.Step) bool {
	return s.Template() != "" && c.template != "" && s.Template() != c.template
}

// holds reports whether a correction has to wait, and whether it is not described yet.
func (c *contests) holds(owner *unstructured.Unstructured, s plan.Step) (held, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.of(owner)
	if known == nil {
		return false, false
	}
	child := known.children[keyOf(s)]
	if child == nil || child.isOther(s) || !child.IsHeld(c.clock.Now()) {
		return false, false
	}
	return true, child.described < child.Count
}

// describe sets the description of a correction that is held.
func (c *contests) describe(owner *unstructured.Unstructured, s plan.Step, problem *plan.Problem) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.of(owner); known != nil && known.children[keyOf(s)] != nil {
		child := known.children[keyOf(s)]
		child.Problem, child.described = problem, child.Count
	}
}

// problem returns what to report of an object, which is nil if nothing is contested, and when
// that may change.
func (c *contests) problem(owner *unstructured.Unstructured) (problem *plan.Problem, next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.of(owner)
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
		next = earlier(next, child.Next(c.clock.Now()))
	}
	return problem, next
}

// earlier returns the earlier of two times; zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// isContested reports whether a write for an object was held.
func (c *contests) isContested(name cache.ObjectName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.byObject[name]
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

func (c *contests) forget(name cache.ObjectName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byObject, name)
}

// isHeld reports whether a correction has to wait. The first time, it finds out why.
func (a *applier) isHeld(ctx context.Context, s plan.Step) bool {
	held, isNew := a.contests.holds(a.owner, s)
	if isNew {
		live, err := a.client(s).Get(ctx, s.Name, metav1.GetOptions{})
		if err != nil {
			live = s.Live // the description has no manager then
		}
		a.contests.describe(a.owner, s, problemOf(s, live, a.manager))
	}
	return held
}

// The reasons of the condition Stalled for corrections that are delayed.
const (
	reasonContested = "Contested"
	reasonReplaced  = "ReplacedRepeatedly"
)

// problemOf describes a correction that is held, given the object with its managedFields and our
// own manager.
func problemOf(s plan.Step, live *unstructured.Unstructured, own string) *plan.Problem {
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
	case s.Verb == plan.Delete:
		return &plan.Problem{Reason: reasonReplaced, Message: child + " is deleted and recreated repeatedly; further deletions are delayed"}
	case len(managers) > 0:
		quoted := make([]string, len(managers))
		for i, m := range managers {
			quoted[i] = fmt.Sprintf("%q", m)
		}
		subject := "manager %s keeps"
		if len(managers) > 1 {
			subject = "managers %s keep"
		}
		return &plan.Problem{Reason: reasonContested, Message: fmt.Sprintf("%s: "+subject+" changing %s; corrections are delayed", child, listed(quoted), listed(managed))}
	}
	return &plan.Problem{Reason: reasonContested, Message: fmt.Sprintf("%s is changed repeatedly without another field manager, as by a mutating webhook or policy: %s; corrections are delayed", child, cmp.Or(listed(fields), "unknown fields"))}
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
