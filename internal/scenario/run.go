package scenario

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pmezard/go-difflib/difflib"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/engine/simulate"
)

// Run runs the scenario, and returns what there is after each step. An error names file and line of
// the step that failed; the output is that of the steps before it.
func (s *Scenario) Run(kinds *load.Kinds) (outputs []string, err error) {
	c := simulate.New(kinds.Behaviours(), s.Start)
	c.Validate(kinds.ValidateChild)
	err = s.Play(c, func(_ *Step, output string) { outputs = append(outputs, output) })
	return outputs, err
}

// Play runs the scenario on a cluster. after gets what there is after each step. An error names file and line of the
// step that failed.
func (s *Scenario) Play(c *simulate.Cluster, after func(step *Step, output string)) error {
	for _, step := range s.Steps {
		output, err := run(c, step)
		if err != nil {
			return fmt.Errorf("%s:%d: %s: %w", s.File, step.Line, step.Text, err)
		}
		after(step, output)
	}
	return nil
}

// run runs one step and returns what there is then.
func run(c *simulate.Cluster, step *Step) (string, error) {
	if step.Verb == "get" && step.Fails {
		return absent(c, step.Target)
	}
	var rejected string
	if err := do(c, step); err != nil {
		if !step.Fails {
			return "", err
		}
		rejected = "rejected: " + scalar(err.Error()) + "\n"
	} else if step.Fails {
		return "", errors.New("it was expected to be rejected, and succeeded")
	}
	if step.Verb == "get" {
		object, err := one(c, step.Target)
		if err != nil {
			return "", err
		}
		text, err := yaml.Marshal(c.Manifest(object))
		return string(text), err
	}
	if err := c.Wait(step.Wait); err != nil {
		return "", err
	}
	return rejected + describe(c), nil
}

// do does what a command says.
func do(c *simulate.Cluster, step *Step) error {
	switch step.Verb {
	case "apply":
		for i, object := range step.Objects {
			if err := c.Apply(object); err != nil {
				return fmt.Errorf("%s: %w", simulate.NameOf(object), step.sources[i].Explain(err))
			}
		}
		return nil
	case "restart":
		c.Restart()
		return nil
	case "get", "wait":
		return nil
	case "hold", "release", "reject", "allow":
		if !c.Known(step.Target) {
			return unknownType(step.Target)
		}
		switch step.Verb {
		case "hold":
			c.Hold(step.Target)
		case "release":
			c.Release(step.Target)
		case "reject":
			c.Reject(step.Verbs, step.Target, step.Message)
		case "allow":
			c.Allow(step.Verbs, step.Target)
		}
		return nil
	}
	object, err := one(c, step.Target)
	if err != nil {
		return err
	}
	switch step.Verb {
	case "delete":
		c.Delete(object)
		return nil
	case "patch":
		return step.sources[0].Explain(c.Patch(object, step.Patch))
	}
	patch := c.End(object, step.Verb == "succeed")
	if patch == nil {
		return fmt.Errorf("%s does not end: only Pods and Jobs do; use patch", simulate.NameOf(object))
	}
	return c.Patch(object, patch)
}

// absent returns what is expected of an object that does not exist. The error says that it does, or that
// its type is unknown.
func absent(c *simulate.Cluster, s simulate.Selection) (string, error) {
	if !c.Known(s) {
		return "", unknownType(s)
	}
	found := c.Select(s)
	switch {
	case len(found) == 0:
		return "it does not exist\n", nil
	case found[0].GetDeletionTimestamp() != nil:
		return "", fmt.Errorf("it was expected not to exist, and is being deleted; its finalizers are %s",
			strings.Join(found[0].GetFinalizers(), ", "))
	}
	return "", errors.New("it was expected not to exist, and exists")
}

func unknownType(s simulate.Selection) error {
	return fmt.Errorf("unknown type %q: no kind has it or creates it, and no object is of it", s.Type)
}

// one returns the object that a selection names.
func one(c *simulate.Cluster, s simulate.Selection) (*unstructured.Unstructured, error) {
	found := c.Select(s)
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		if !c.Known(s) {
			return nil, unknownType(s)
		}
		var existing []string
		for _, o := range c.Objects() {
			existing = append(existing, simulate.NameOf(o))
		}
		return nil, fmt.Errorf("%s does not exist; there are: %s%s", s, strings.Join(existing, ", "), unready(c))
	}
	return nil, fmt.Errorf("%s is the name of %d objects", s, len(found))
}

// unready says why objects of kinds are not ready: they may lack a child for that.
func unready(c *simulate.Cluster) (text string) {
	for _, object := range c.Objects() {
		if c.KindOf(object) == nil {
			continue
		}
		conditions := simulate.StateOf(object, nil).Conditions
		for _, name := range []string{"Stalled", "Ready"} {
			if why := conditions[name]; why != "" && !strings.HasPrefix(why, "True") == (name == "Ready") {
				text += fmt.Sprintf("; %s is %s=%s", simulate.NameOf(object), name, why)
				break
			}
		}
	}
	return text
}

// describe returns what there is in a cluster, and what has happened since the last time, as YAML: first
// the objects that are gone since.
func describe(c *simulate.Cluster) string {
	var b strings.Builder
	fmt.Fprintf(&b, "time: %s\n", c.Now().Format(time.RFC3339))
	records := c.Take()
	for _, r := range records {
		if r.Gone != nil {
			fmt.Fprintf(&b, "%s:\n  gone: %s\n", simulate.NameOf(r.Gone), r.At.Format(time.RFC3339))
			writeRecords(&b, c.Now(), r.Object, records)
		}
	}
	for _, object := range c.Objects() {
		isOfKind, hasRecord := c.KindOf(object) != nil,
			slices.ContainsFunc(records, func(r simulate.Record) bool { return r.Object == object.GetUID() })
		if !hasRecord && !c.IsRun(object) {
			continue
		}
		state := simulate.StateOf(object, c.Objects())
		if !isOfKind { // others write its status
			state.Status, state.Conditions = nil, nil
		}
		fmt.Fprintf(&b, "%s:\n", simulate.NameOf(object))
		if len(state.Status) > 0 {
			text, err := yaml.Marshal(state.Status)
			if err != nil {
				panic(err) // it was read from YAML, or from CUE
			}
			fmt.Fprintf(&b, "  status:\n    %s\n", strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n    "))
		}
		writeMap(&b, "conditions", state.Conditions)
		writeMap(&b, "children", state.Children)
		writeRecords(&b, c.Now(), object.GetUID(), records)
		if wakeAt := c.WakeAt(object); !wakeAt.IsZero() {
			fmt.Fprintf(&b, "  wakeAt: %s\n", wakeAt.UTC().Format(time.RFC3339Nano))
		}
	}
	return b.String()
}

// writeRecords writes the writes and the Events of one object. Those before now begin with their time.
func writeRecords(b *strings.Builder, now time.Time, object types.UID, records []simulate.Record) {
	var writes, events []string
	for _, r := range records {
		text := r.String()
		if !r.At.Equal(now) {
			text = r.At.Format(time.RFC3339) + " " + text
		}
		switch {
		case r.Object != object:
		case r.Event != nil:
			events = append(events, text)
		case r.Step != nil:
			writes = append(writes, text)
		}
	}
	writeList(b, "writes", writes)
	writeList(b, "events", events)
}

// writeMap writes the entries in the order of their names, in which c-2 is before c-10.
func writeMap(b *strings.Builder, name string, values map[string]string) {
	if len(values) == 0 {
		return
	}
	fmt.Fprintf(b, "  %s:\n", name)
	keys := slices.Collect(maps.Keys(values))
	slices.SortFunc(keys, func(a, b string) int {
		prefix := func(s string) string { return strings.TrimRight(s, "0123456789") }
		if prefix(a) == prefix(b) && len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	for _, key := range keys {
		fmt.Fprintf(b, "    %s: %s\n", key, scalar(values[key]))
	}
}

func writeList(b *strings.Builder, name string, items []string) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintf(b, "  %s:\n", name)
	for _, item := range items {
		fmt.Fprintf(b, "  - %s\n", scalar(item))
	}
}

// scalar returns a text as YAML on one line.
func scalar(text string) string {
	var read any
	if err := yaml.Unmarshal([]byte(text), &read); err == nil && read == text {
		return text
	}
	if strings.ContainsAny(text, "\n\t") {
		return fmt.Sprintf("%q", text)
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

// Failure is a difference between what is and what is expected.
type Failure struct {
	// Line is that of the step in the file, and Text the step.
	Line int
	Text string
	// Difference is a unified diff, or a sentence where there is nothing to compare.
	Difference string
}

// Compare returns how outputs differ from what is expected.
func (s *Scenario) Compare(outputs []string) (failures []Failure) {
	for i, step := range s.Steps[:len(outputs)] {
		want, ok := step.Want()
		switch {
		case !ok:
			failures = append(failures,
				Failure{step.Line, step.Text,
					"nothing is written about what is expected after this step: --update writes it\n"})
		case want != outputs[i]:
			difference, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
				A: slices.Collect(strings.Lines(want)), B: slices.Collect(strings.Lines(outputs[i])),
				FromFile: "expected", ToFile: "actual", Context: 3,
			})
			if err != nil {
				panic(err) // writing to memory does not fail
			}
			failures = append(failures, Failure{step.Line, step.Text, difference})
		}
	}
	if len(outputs) == len(s.Steps) {
		for _, in := range s.stale {
			failures = append(failures,
				Failure{in.line, in.Name, "there is no such step, or not at this place: --update removes this\n"})
		}
	}
	return failures
}
