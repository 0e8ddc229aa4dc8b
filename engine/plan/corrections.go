package plan

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/fescue-dev/fescue/cue/kind"
)

// freeCorrections is how often a child is corrected without delay: people edit a child a few times,
// and controllers that fight never stop.
const freeCorrections = 5

// correctedChild names a child that is corrected.
type correctedChild struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

// correction counts the corrections of one child that someone undoes. They are slowed down until the object or the
// template changes, or the child stays in sync.
type correction struct {
	Slowing
	template string // that was written
	// adopts means that the last one was an adoption: a child that was not found by its label.
	adopts    bool
	described int // the count for which Problem is
}

func correctedBy(s Step) correctedChild {
	return correctedChild{s.Resource, s.Object().GetNamespace(), s.Name}
}

// corrects reports whether a step may undo what someone has done. A creation does not, but for that of a child that
// exists and has lost the label by which it is found.
func (c *correction) corrects(s Step) bool {
	return (s.Verb != Create || c.adopts) && (s.Template() == "" || c.template == "" || s.Template() == c.template)
}

// delayCorrections returns a comparison without the corrections that have to wait. The first time, it asks for what
// describes them.
func (m *Memory) delayCorrections(todo *Comparison, now time.Time) (left *Comparison, isHeld bool) {
	var asks []Step
	isDue := func(steps []Step) (due []Step) {
		for _, s := range steps {
			c := m.corrections[correctedBy(s)]
			if c == nil || !c.IsHeld(now) || !c.corrects(s) {
				due = append(due, s)
				continue
			}
			if isHeld = true; c.described < c.Count {
				asks = append(asks, s)
			}
		}
		return due
	}
	if len(m.corrections) == 0 {
		return todo, false
	}
	steps, prunes := isDue(todo.Steps), isDue(todo.Prunes)
	if !isHeld {
		return todo, false
	}
	held := *todo
	held.Steps, held.Prunes, held.Inspect = steps, prunes, asks
	return &held, true
}

// corrected counts what was written of a comparison, and describes what is held.
func (m *Memory) corrected(k *kind.Kind, todo *Comparison, done *Changes, now time.Time) {
	if len(todo.Inspect) > 0 {
		m.describe(k, todo.Inspect, done.Inspected)
	}
	written := make(map[types.UID]bool, len(done.Stored))
	for _, child := range done.Stored {
		written[child.Object.GetUID()] = true
	}
	for _, steps := range [][]Step{todo.Steps, todo.Prunes, done.Adopted} {
		for _, s := range steps {
			// a former child ends with its entry
			if s.Verb != Create && !s.Former && (written[s.Live.GetUID()] || done.Deleted[s.Live.GetUID()]) {
				m.correct(s, now)
			}
		}
	}
}

// correct counts one correction.
func (m *Memory) correct(s Step, now time.Time) {
	known := m.corrections[correctedBy(s)]
	if known == nil || !known.corrects(s) {
		known = &correction{Slowing: Slowing{Free: freeCorrections}}
		if m.corrections == nil {
			m.corrections = make(map[correctedChild]*correction)
		}
		m.corrections[correctedBy(s)] = known
	}
	known.template, known.adopts = cmp.Or(s.Template(), known.template), s.Verb == Adopt
	known.Wrote(now)
}

// describe describes the corrections that are held, given their objects with the fields' managers.
func (m *Memory) describe(k *kind.Kind, held []Step, inspected []*unstructured.Unstructured) {
	for _, s := range held {
		live := s.Live
		for _, object := range inspected {
			if object.GetName() == s.Name && object.GetNamespace() == s.Object().GetNamespace() &&
				object.GroupVersionKind() == s.Object().GroupVersionKind() {
				live = object
			}
		}
		if c := m.corrections[correctedBy(s)]; c != nil && live != nil {
			if s.Verb == Create {
				s.Verb = Adopt
			}
			c.Problem, c.described = heldProblem(s, live, FieldManager(k)), c.Count
		}
	}
}

// contested returns what to report of corrections that are held or were, nil if there are none, and when that may
// change.
func (m *Memory) contested(now time.Time) (problem *Problem, next time.Time) {
	for _, c := range m.corrections {
		if c.Problem == nil {
			continue
		}
		if problem == nil || c.Problem.Message < problem.Message { // the same one each time
			problem = c.Problem
		}
		next = Earlier(next, c.Next(now))
	}
	return problem, next
}

// FieldManager is the owner of the fields that the controller of a kind writes.
func FieldManager(k *kind.Kind) string { return "fescue/" + k.Name() }

// heldProblem describes a correction that is held, given the object with its managedFields and our
// own manager.
func heldProblem(s Step, live *unstructured.Unstructured, own string) *Problem {
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
		return &Problem{reasonReplaced, child + " is deleted and recreated repeatedly; further deletions are delayed"}
	case len(managers) > 0:
		quoted := make([]string, len(managers))
		for i, m := range managers {
			quoted[i] = fmt.Sprintf("%q", m)
		}
		subject := "manager %s keeps"
		if len(managers) > 1 {
			subject = "managers %s keep"
		}
		return &Problem{reasonContested, fmt.Sprintf("%s: "+subject+" changing %s; corrections are delayed", child,
			listed(quoted), listed(managed))}
	}
	return &Problem{reasonContested,
		fmt.Sprintf(
			"%s is changed repeatedly without another field manager, as by a mutating webhook or policy: %s; corrections are delayed",
			child, cmp.Or(listed(fields), "unknown fields"))}
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

// managersOf returns the managers of a field, or of one above it as a whole, as metadata.managedFields has them.
func managersOf(object *unstructured.Unstructured, path []string) (managers []string) {
	for _, entry := range object.GetManagedFields() {
		var fields fieldpath.Set
		if entry.FieldsV1 == nil || fields.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())) != nil {
			continue
		}
		wholes, at := fields.Leaves(), fieldpath.Path{}
		for _, name := range path {
			if at = append(at, fieldpath.PathElement{FieldName: &name}); wholes.Has(at) {
				managers = append(managers, entry.Manager)
				break
			}
		}
	}
	return managers
}
