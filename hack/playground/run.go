package playground

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/engine/simulate"
	"github.com/fescue-dev/fescue/internal/scenario"
)

const (
	// maxReconciles and maxSteps bound a run.
	maxReconciles = 1000
	maxSteps      = 60
	// maxWaits is how many of the times at which objects are reconciled a run waits for before it deletes them, and
	// after that.
	maxWaits = 8
	// maxManifests is how many objects a moment shows whole.
	maxManifests = 40
)

// Moment is what there is after a step of a run.
type Moment struct {
	Time time.Time `json:"time"`
	// Step is the command of a scenario.
	Step string `json:"step"`
	// Objects are those of kinds, and those that are gone since the last step.
	Objects []ObjectState `json:"objects,omitempty"`
	// Text is what fescue test prints about the step, and Manifests has all objects, as YAML.
	Text      string `json:"text"`
	Manifests string `json:"manifests"`
}

// ObjectState is an object after a step, as a scenario prints it.
type ObjectState struct {
	Name       string            `json:"name"`
	Gone       string            `json:"gone,omitempty"`
	Status     map[string]any    `json:"status,omitempty"`
	Conditions map[string]string `json:"conditions,omitempty"`
	Children   map[string]string `json:"children,omitempty"`
	Writes     []string          `json:"writes,omitempty"`
	Events     []string          `json:"events,omitempty"`
	WakeAt     string            `json:"wakeAt,omitempty"`
}

// run runs the steps of a request, or lets its sample live, and gives each moment to send.
func run(r Request, kinds *load.Kinds, send func(Moment)) error {
	if strings.TrimSpace(r.Steps) == "" {
		return newLife(kinds, send).live(r.Sample)
	}
	text := r.Steps
	if header := "-- " + SampleFile + " --\n"; strings.Contains(text, SampleFile) && !strings.Contains(text, header) {
		text = strings.TrimRight(text, "\n") + "\n" + header + r.Sample
	}
	s, err := scenario.Parse(StepsFile, []byte(text))
	if err != nil {
		return err
	}
	var outputs []string
	c := newCluster(kinds, s.Start)
	err = s.Play(c, func(step *scenario.Step, output string) {
		outputs = append(outputs, output)
		send(momentOf(c, step, output))
	})
	if slices.ContainsFunc(s.Steps, func(step *scenario.Step) bool { _, ok := step.Want(); return ok }) {
		for _, f := range s.Compare(outputs) {
			err = errors.Join(err, fmt.Errorf("%s:%d: %s\n%s", StepsFile, f.Line, f.Text, f.Difference))
		}
	}
	return err
}

func newCluster(kinds *load.Kinds, at time.Time) *simulate.Cluster {
	c := simulate.New(kinds.Behaviours(), at)
	c.Validate(kinds.ValidateChild)
	c.Limit(maxReconciles)
	return c
}

// momentOf returns what there is in a cluster after a step, and what the step has as its output.
func momentOf(c *simulate.Cluster, step *scenario.Step, output string) Moment {
	output = withinFolder(output)
	m := Moment{Time: c.Now(), Step: step.Text, Text: output}
	if step.Verb != "get" {
		m.Objects = statesIn(output)
	}
	var manifests []string
	for _, o := range c.Objects()[:min(maxManifests, len(c.Objects()))] {
		text, err := yaml.Marshal(c.Manifest(o))
		if err != nil {
			panic(err) // it was read from YAML, or from CUE
		}
		manifests = append(manifests, string(text))
	}
	m.Manifests = strings.Join(manifests, "---\n")
	return m
}

// statesIn reads the output of a step: a time, and the objects by their names.
func statesIn(output string) (states []ObjectState) {
	var objects map[string]json.RawMessage
	if err := yaml.Unmarshal([]byte(output), &objects); err != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		state := ObjectState{Name: name}
		if name != "time" && json.Unmarshal(objects[name], &state) == nil {
			states = append(states, state)
		}
	}
	return states
}

// life is a run without steps: it takes the commands that a person would write.
type life struct {
	cluster *simulate.Cluster
	send    func(Moment)
	ended   sets.Set[types.UID] // Jobs and Pods
	deleted sets.Set[types.UID]
	waits   int
}

func newLife(kinds *load.Kinds, send func(Moment)) *life {
	return &life{cluster: newCluster(kinds, start), send: send, ended: sets.New[types.UID](),
		deleted: sets.New[types.UID]()}
}

// live creates a sample, lets its Jobs succeed and time pass, and deletes it.
func (l *life) live(sample string) error {
	err := l.take("apply " + SampleFile + "\n-- " + SampleFile + " --\n" + sample)
	for range maxSteps {
		command := l.next()
		if err != nil || command == "" {
			return err
		}
		err = l.take(command)
	}
	return fmt.Errorf("the run ends after %d steps", maxSteps)
}

// take takes a step, which is a scenario of one command.
func (l *life) take(command string) error {
	s, err := scenario.Parse(StepsFile, []byte(command))
	if err != nil {
		return err
	}
	err = s.Play(l.cluster, func(step *scenario.Step, output string) { l.send(momentOf(l.cluster, step, output)) })
	if err != nil { // a line of steps that nobody wrote
		return errors.New(strings.TrimPrefix(err.Error(), StepsFile+":1: "))
	}
	return nil
}

// next returns the next command; "" at the end.
func (l *life) next() string {
	for _, o := range l.cluster.Objects() {
		policy, _, _ := unstructured.NestedString(o.Object, "spec", "restartPolicy")
		isServer := o.GetKind() == "Pod" && cmp.Or(policy, "Always") == "Always"
		if !isServer && !l.ended.Has(o.GetUID()) && l.cluster.End(o, true) != nil {
			l.ended.Insert(o.GetUID())
			return "succeed " + l.name(o)
		}
	}
	var wake time.Time
	for _, o := range l.cluster.Objects() {
		if at := l.cluster.WakeAt(o); at.After(l.cluster.Now()) && (wake.IsZero() || at.Before(wake)) {
			wake = at
		}
	}
	if l.waits++; !wake.IsZero() && l.waits <= maxWaits {
		return "wait " + wake.Sub(l.cluster.Now()).String()
	}
	for _, o := range l.cluster.Objects() {
		if l.cluster.IsRun(o) && len(o.GetOwnerReferences()) == 0 && !l.deleted.Has(o.GetUID()) &&
			o.GetDeletionTimestamp() == nil {
			l.deleted.Insert(o.GetUID())
			l.waits = 0
			return "delete " + l.name(o)
		}
	}
	return ""
}

// name names an object as commands do, with its namespace if there are others of its name.
func (l *life) name(o *unstructured.Unstructured) string {
	s := simulate.Selection{Type: strings.ToLower(o.GetKind()), Name: o.GetName()}
	if len(l.cluster.Select(s)) > 1 {
		s.Name = o.GetNamespace() + "/" + o.GetName()
	}
	return s.String()
}
