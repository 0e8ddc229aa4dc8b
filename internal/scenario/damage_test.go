package scenario

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/engine/simulate"
)

// damage is what someone does to a child. A nil patch deletes it.
type damage struct {
	name  string
	patch map[string]any
}

// damagesOf lists what can happen to a child: that it is deleted, edited, orphaned, and that it loses its marks, or
// gets others.
func damagesOf(child *unstructured.Unstructured) []damage {
	of := func(field string, value any) map[string]any {
		return map[string]any{"metadata": map[string]any{field: value}}
	}
	all := []damage{
		{"deleted", nil},
		{"edited", edited(child.Object)},
		{"orphaned", of("ownerReferences", nil)},
		{"without labels", of("labels", nil)},
		{"without annotations", of("annotations", nil)},
	}
	for field, entries := range map[string]map[string]string{"labels": child.GetLabels(), "annotations": child.GetAnnotations()} {
		for name := range entries {
			if isMark(name) {
				all = append(all, damage{"without " + name, of(field, map[string]any{name: nil})}, damage{"other " + name, of(field, map[string]any{name: "x"})})
			}
		}
	}
	slices.SortFunc(all, func(a, b damage) int { return strings.Compare(a.name, b.name) })
	return all
}

// edited returns a patch that changes the first value in an object's own fields; it is empty if there is none.
func edited(fields map[string]any) map[string]any {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch name {
		case "metadata", "apiVersion", "kind", "status", "clusterIP": // the last is the cluster's
			continue
		}
		switch value := fields[name].(type) {
		case map[string]any:
			if inner := edited(value); len(inner) > 0 {
				return map[string]any{name: inner}
			}
		case string:
			return map[string]any{name: value + "x"}
		case int64:
			return map[string]any{name: value + 1}
		case bool:
			return map[string]any{name: !value}
		}
	}
	return map[string]any{}
}

// isMark reports whether a label or an annotation is one by which a child is recognized.
func isMark(name string) bool {
	return name == "app.kubernetes.io/managed-by" || strings.HasPrefix(name, "fescue.dev/") && name != "fescue.dev/template"
}

// remaining are the differences that remain, as regular expressions for "SCENARIO CHILD DAMAGE", or, of an object that is
// being deleted, "SCENARIO CHILD DAMAGE while it is deleted".
var remaining = []struct {
	what, reason string
	left         bool // something may be left when all objects have been deleted
}{
	{what: `(at\S*|indexedjob) Pod/\S+ deleted`, reason: "it is created once: ChildGone, and in a later phase nothing"},
	{
		what:   `(at\S*|indexedjob) Pod/\S+ (other fescue.dev/(created-as|entered)|without (fescue.dev/entered|annotations))`,
		reason: "its phase is over: a record that names something else makes it a copy, and its entry has no meaning any more",
	},
	{
		what:   `cronjob Job/\S+ (deleted|other fescue.dev/created-as)`,
		reason: "the kind wants a Job of the past as long as it sees it; one whose record names something else is a copy",
	},
	{
		what:   `customcluster\S* Pod/\S+ (deleted|other fescue.dev/created-as)`,
		reason: "another member takes its place, and becomes ready later; one whose record names something else is a copy",
	},
	{
		what:   `bluegreen ReplicaSet/\S+ (deleted|edited|without annotations)`,
		reason: "the kind keeps the template of the colour that serves in an annotation of its own, and reads its status",
	},
	{
		what:   `(configmappropagation ConfigMap|rollout Deployment|serviceperpod Service)/\S+ (deleted|edited|other fescue.dev/created-as)`,
		reason: "what its template reads does not exist, so nobody knows how it has to be; one whose record names something else is a copy",
	},
	{what: `(webapp Ingress|webservice Ingress|database StatefulSet)/\S+ deleted`, reason: "the status that the scenario gave it is gone"},
	{what: `announcement Service/\S+ deleted`, reason: "the scenario gave it a finalizer, so it stays until that is removed"},
	{what: `database Deployment/\S+ deleted`, reason: "its when waits for the database, which the scenario stopped"},
	{
		what:   `archive Job/\S+ deleted while it is deleted`,
		reason: "it is created once: ChildGone, and nobody saved the files, so the Archive stays until someone decides",
		left:   true,
	},
	{
		what:   `(archive|announcement) \S+ .* while it is deleted`,
		reason: "nothing is created any more, and what a child has lost matters only if it would be left",
	},
}

// trial is a cluster in which a scenario runs.
type trial struct {
	*simulate.Cluster
	t     *testing.T
	s     *Scenario
	kinds *kind.Catalog
}

// newTrial returns a cluster in which the first steps of a scenario were taken.
func newTrial(t *testing.T, s *Scenario, kinds *kind.Catalog, steps int) *trial {
	t.Helper()
	c := &trial{simulate.New(kinds.Behaviours(), s.Start), t, s, kinds}
	c.Validate(kinds.ValidateChild)
	require.NoError(t, c.take(0, steps))
	return c
}

// take takes some of the steps. Those that only look are left out.
func (c *trial) take(from, to int) error {
	for _, step := range c.s.Steps[from:to] {
		if step.Verb == "get" {
			continue
		}
		if err := do(c.Cluster, step); err != nil && !step.Fails {
			return err
		}
		if err := c.Wait(step.Wait); err != nil {
			return err
		}
	}
	return nil
}

// damage does something to an object, and lets what follows happen.
func (c *trial) damage(live *unstructured.Unstructured, d damage) {
	c.t.Helper()
	if d.patch == nil {
		c.Delete(live)
	} else {
		require.NoError(c.t, c.Patch(live, d.patch), d.name)
	}
	require.NoError(c.t, c.Settle(), d.name)
}

// find returns the object of a name as it is now; nil if there is none.
func (c *trial) find(o *unstructured.Unstructured) *unstructured.Unstructured {
	for _, live := range c.Objects() {
		if live.GroupVersionKind() == o.GroupVersionKind() && live.GetNamespace() == o.GetNamespace() && live.GetName() == o.GetName() {
			return live
		}
	}
	return nil
}

// end deletes all objects of kinds, has their last Jobs succeed, and returns what is left.
func (c *trial) end() string {
	c.t.Helper()
	for range 3 {
		for _, o := range c.Objects() {
			if len(o.GetOwnerReferences()) == 0 && c.IsRun(o) {
				c.Delete(o)
			}
		}
		require.NoError(c.t, c.Settle())
		for _, o := range c.Objects() {
			if patch := c.End(o, true); patch != nil {
				require.NoError(c.t, c.Patch(o, patch))
			}
		}
	}
	var left []string
	for _, o := range c.Objects() {
		left = append(left, memberName.ReplaceAllString(simulate.NameOf(o), "-MEMBER"))
	}
	slices.Sort(left)
	return strings.Join(left, "\n")
}

var memberName = regexp.MustCompile(`-[0-9a-f]{5}-[0-9]+\b`)

// state returns what there is: the status of objects of kinds, and children with their marks and, if they are to be
// as in their templates, their fields. Members of a set have no names, because those that are created again have others.
func (c *trial) state() string {
	var names []string
	for _, o := range c.Objects() {
		names = append(names, string(o.GetUID()), simulate.NameOf(o))
	}
	var all []string
	for _, o := range c.Objects() {
		shown := map[string]any{"marks": marksOf(o), "owners": o.GetOwnerReferences()}
		if c.isCorrected(o) {
			manifest := c.Manifest(o)
			delete(manifest, "status")
			shown["object"] = manifest
		}
		if c.KindOf(o) != nil {
			shown["state"] = simulate.StateOf(o, nil)
		}
		text, err := json.Marshal(shown)
		require.NoError(c.t, err)
		line := simulate.NameOf(o) + " " + strings.NewReplacer(names...).Replace(string(text))
		all = append(all, memberName.ReplaceAllString(line, "-MEMBER"))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// marksOf returns the labels and annotations by which a child is recognized.
func marksOf(o *unstructured.Unstructured) map[string]string {
	marks := make(map[string]string)
	maps.Copy(marks, o.GetLabels())
	maps.Copy(marks, o.GetAnnotations())
	maps.DeleteFunc(marks, func(name, _ string) bool { return !isMark(name) })
	return marks
}

// isCorrected reports whether changes of an object are reverted, if it is a child.
func (c *trial) isCorrected(o *unstructured.Unstructured) bool {
	return !slices.ContainsFunc(c.kinds.Behaviours(), func(k *kind.Kind) bool {
		return slices.ContainsFunc(k.Behaviour().Children, func(f kind.ChildFacts) bool { return f.Kind == o.GetKind() && f.Update != kind.Apply })
	})
}

// TestDamagedChildren runs the scenarios of the examples and the shipped kinds. After each step, in each state that there
// is, it does each damage to each child. What there is then, at the end of the scenario, and when all objects have been
// deleted, is as without the damage.
func TestDamagedChildren(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs each scenario hundreds of times")
	}
	t.Parallel()
	files, err := filepath.Glob("../../examples/*/*.txtar")
	require.NoError(t, err)
	shipped, err := filepath.Glob("../../cue/testdata/*.txtar")
	require.NoError(t, err)
	for _, file := range append(files, shipped...) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			var dirs []string
			if !slices.Contains(shipped, file) {
				dirs = append(dirs, filepath.Dir(file))
			}
			kinds, err := kind.Load(len(dirs) == 0, dirs...)
			require.NoError(t, err)
			require.NoError(t, kinds.AddTypes())
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			s, err := Parse(file, text)
			require.NoError(t, err)
			seen := make(map[string]bool)
			for steps := range len(s.Steps) {
				if c := newTrial(t, s, kinds, steps+1); !seen[c.state()] {
					seen[c.state()] = true
					c.damageAll(steps + 1)
				}
			}
		})
	}
}

// damageAll does each damage to one child of each name, one after the other as long as nothing remains of them.
func (c *trial) damageAll(steps int) {
	c.t.Helper()
	children, now, undamaged := c.children(), c.state(), newTrial(c.t, c.s, c.kinds, steps)
	isDeleted := slices.ContainsFunc(c.Objects(), func(o *unstructured.Unstructured) bool { return c.IsRun(o) && o.GetDeletionTimestamp() != nil })
	last, left, err := undamaged.finish(steps)
	require.NoError(c.t, err)
	for _, child := range children {
		for _, d := range damagesOf(child) {
			if c.find(child) == nil { // another member took its place
				c = newTrial(c.t, c.s, c.kinds, steps)
			}
			if c.damage(c.find(child), d); c.state() == now {
				continue
			}
			_, isLeft, _ := c.finish(steps) // a step may name what is gone
			c.remains(child, d, isDeleted, isLeft != left)
			c = newTrial(c.t, c.s, c.kinds, steps)
		}
	}
	isLast, isLeft, err := c.finish(steps)
	if err == nil { // members that were created again have other names, so that a step may not find one
		require.Equal(c.t, last, isLast)
	}
	require.Equal(c.t, left, isLeft)
}

// children returns one child of each name of each object.
func (c *trial) children() (children []*unstructured.Unstructured) {
	seen := make(map[string]bool)
	for _, o := range c.Objects() {
		name := o.GetLabels()[plan.LabelOwnerUID] + "/" + plan.ChildName(o)
		if plan.ChildName(o) != "" && !seen[name] {
			seen[name] = true
			children = append(children, o)
		}
	}
	return children
}

// finish takes the other steps, and returns what there is then, and what is left when all objects have been deleted.
func (c *trial) finish(steps int) (last, left string, err error) {
	err = c.take(steps, len(c.s.Steps))
	return c.state(), c.end(), err
}

// remains requires that a difference is expected.
func (c *trial) remains(child *unstructured.Unstructured, d damage, isDeleted, isMoreLeft bool) {
	c.t.Helper()
	what := strings.TrimSuffix(filepath.Base(c.s.File), ".txtar") + " " + simulate.NameOf(child) + " " + d.name
	if isDeleted {
		what += " while it is deleted"
	}
	for _, r := range remaining {
		if regexp.MustCompile("^"+r.what+"$").MatchString(what) && (r.left || !isMoreLeft) {
			return
		}
	}
	c.t.Errorf("%s: %s remains, something is left after deletion: %t", c.s.File, what, isMoreLeft)
}
