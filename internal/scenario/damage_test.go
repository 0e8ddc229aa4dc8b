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
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/simulate"
	"github.com/fescue-dev/fescue/internal/testing/damagetest"
)

// trial is a cluster in which a scenario runs.
type trial struct {
	*simulate.Cluster
	t     *testing.T
	s     *Scenario
	kinds *load.Kinds
}

// newTrial returns a cluster in which the first steps of a scenario were taken.
func newTrial(t *testing.T, s *Scenario, kinds *load.Kinds, steps int) *trial {
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
func (c *trial) damage(live *unstructured.Unstructured, d damagetest.Damage) {
	c.t.Helper()
	if d.Patch == nil {
		c.Delete(live)
	} else if err := c.Patch(live, d.Patch); err != nil {
		require.ErrorContains(c.t, err, "immutable", d.Name)
		return
	}
	require.NoError(c.t, c.Settle(), d.Name)
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
	maps.DeleteFunc(marks, func(name, _ string) bool { return !damagetest.IsMark(name) })
	return marks
}

// isCorrected reports whether changes of an object are reverted, if it is a child.
func (c *trial) isCorrected(o *unstructured.Unstructured) bool {
	return !slices.ContainsFunc(c.kinds.Behaviours(), func(k *kind.Kind) bool {
		return slices.ContainsFunc(k.Behaviour.Children, func(f kind.ChildFacts) bool { return f.Kind == o.GetKind() && f.Update != kind.Apply })
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
			kinds, err := load.All(len(dirs) == 0, dirs...)
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
		for _, d := range damagetest.Of(child) {
			if c.find(child) == nil { // another member took its place
				c = newTrial(c.t, c.s, c.kinds, steps)
			}
			c.damage(c.find(child), d)
			c.Restart() // otherwise repairs would be slowed down
			if c.state() == now {
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
func (c *trial) children() (existing []*unstructured.Unstructured) {
	seen := make(map[string]bool)
	for _, o := range c.Objects() {
		name := o.GetLabels()[children.LabelOwnerUID] + "/" + children.NameInKind(o)
		if children.NameInKind(o) != "" && !seen[name] {
			seen[name] = true
			existing = append(existing, o)
		}
	}
	return existing
}

// finish takes the other steps, and returns what there is then, and what is left when all objects have been deleted.
func (c *trial) finish(steps int) (last, left string, err error) {
	err = c.take(steps, len(c.s.Steps))
	return c.state(), c.end(), err
}

// remains requires that a difference is expected.
func (c *trial) remains(child *unstructured.Unstructured, d damagetest.Damage, isDeleted, isMoreLeft bool) {
	c.t.Helper()
	what := strings.TrimSuffix(filepath.Base(c.s.File), ".txtar") + " " + simulate.NameOf(child) + " " + d.Name
	if isDeleted {
		what += " while it is deleted"
	}
	if !damagetest.Remains(what, isMoreLeft) {
		c.t.Errorf("%s: %s remains, something is left after deletion: %t", c.s.File, what, isMoreLeft)
	}
}
