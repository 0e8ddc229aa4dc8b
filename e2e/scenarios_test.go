package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/inject"
	"github.com/fescue-dev/fescue/engine/simulate"
	scenarios "github.com/fescue-dev/fescue/internal/scenario"
	"github.com/fescue-dev/fescue/internal/testcluster"
)

// TestScenarios replays scenarios of the shipped kinds, which fescue test runs in memory: after each
// step, the objects come to the phase, the status, the conditions and the children that the
// scenario expects.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"at", "customcluster", "watcher"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join("..", "cue", "testdata", name+".txtar")
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			s, err := scenarios.Parse(file, text)
			require.NoError(t, err)
			r := &replay{cluster: newCluster(t), now: s.Start, reasons: make(map[string][]string)}
			r.kinds, err = kind.Shipped()
			require.NoError(t, err)
			r.flags, _ = r.webhookURLFlags()
			r.operator = r.start(r.flags...)
			r.awaitRegistration()
			for _, step := range s.Steps {
				t.Logf("%s", step.Text)
				r.do(step)
				r.expect(step)
			}
			for object, want := range r.reasons {
				require.True(t, testcluster.WaitUntil(func() bool { return slices.Equal(r.eventReasons(object), want) }), "Events of %s: %v, want %v", object, r.eventReasons(object), want)
			}
		})
	}
}

// replay is a scenario on a real control plane.
type replay struct {
	*cluster
	kinds    []*kind.Kind
	operator *process
	flags    []string
	now      time.Time // in the scenario
	objects  []*unstructured.Unstructured
	// reasons are those of the Events that are expected for the objects that exist, by name.
	reasons map[string][]string
}

// resource returns where a type is served that is named as in a command.
func (r *replay) resource(typ string) schema.GroupVersionResource {
	for _, k := range r.kinds {
		if strings.EqualFold(typ, k.GroupVersionKind.Kind) {
			return k.GroupVersionResource()
		}
	}
	resource, ok := map[string]schema.GroupVersionResource{"pod": pods, "configmap": configMaps}[strings.ToLower(typ)]
	require.True(r.t, ok, "unknown type %s", typ)
	return resource
}

// do carries out a step. Time cannot be moved here, so the times in the objects are.
func (r *replay) do(step *scenarios.Step) {
	switch step.Verb {
	case "apply":
		for _, object := range step.Objects {
			r.apply(object)
		}
	case "patch":
		r.mergePatch(step.Target, step.Patch)
	case "fail":
		r.mergePatch(step.Target, map[string]any{"status": map[string]any{"phase": "Failed"}})
	case "delete":
		r.delete(r.resource(step.Target.Type), step.Target.Name)
		delete(r.reasons, step.Target.Name)
	case "restart":
		require.Zero(r.t, r.operator.stop())
		r.operator = r.start(r.flags...)
	case "wait":
		before := r.now
		r.now = r.now.Add(step.Wait)
		for _, object := range r.objects {
			moved := withTimes(object.Object["spec"], func(t time.Time) time.Time {
				if t.After(before) && !t.After(r.now) {
					return time.Now().Add(time.Second)
				}
				return r.real(t)
			})
			if dueNow := !equalValues(moved, withTimes(object.Object["spec"], r.real)); dueNow {
				r.mergePatch(simulate.Selection{Type: object.GetKind(), Name: object.GetName()}, map[string]any{"spec": moved})
			}
		}
	case "get":
	default:
		require.Fail(r.t, "cannot be replayed", step.Text)
	}
}

// real returns a time as far away from now as it is in the scenario.
func (r *replay) real(t time.Time) time.Time { return time.Now().Add(t.Sub(r.now)) }

func equalValues(a, b any) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// withTimes returns a value with other times in the place of those in RFC 3339.
func withTimes(value any, other func(time.Time) time.Time) any {
	switch value := value.(type) {
	case string:
		if t, err := time.Parse(time.RFC3339, value); err == nil {
			return other(t).UTC().Format(time.RFC3339)
		}
	case map[string]any:
		moved := make(map[string]any, len(value))
		for name, field := range value {
			moved[name] = withTimes(field, other)
		}
		return moved
	}
	return value
}

// apply creates or changes an object.
func (r *replay) apply(object *unstructured.Unstructured) {
	resource := r.resource(object.GetKind())
	moved := object.DeepCopy()
	moved.Object["spec"] = withTimes(object.Object["spec"], r.real)
	r.objects = append(r.objects, object)
	if watcher := object.GetAnnotations()["watch.fescue.dev/inject"]; watcher != "" {
		r.awaitInjection(moved, watcher)
	}
	_, err := r.cluster.objects(resource).Create(r.t.Context(), moved, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return // the scenarios do not change objects in this way
	}
	require.NoError(r.t, err)
	if r.ofKind(object.GetKind()) {
		r.reasons[object.GetName()] = nil
	}
}

func (r *replay) ofKind(name string) bool {
	return slices.ContainsFunc(r.kinds, func(k *kind.Kind) bool { return k.GroupVersionKind.Kind == name })
}

// awaitInjection waits until the webhooks inject a Watcher as it is now into a Pod, and until a Pod of
// the same name is gone.
func (r *replay) awaitInjection(pod *unstructured.Unstructured, watcher string) {
	live, err := r.get(watchers, watcher)
	require.NoError(r.t, err)
	r.awaitGone(pods, pod.GetName())
	require.True(r.t, testcluster.WaitUntil(func() bool {
		created, err := r.cluster.objects(pods).Create(r.t.Context(), pod.DeepCopy(), dryRun)
		return err == nil && strings.Contains(created.GetAnnotations()[inject.StatusAnnotation], fmt.Sprintf(`"generation":%d`, live.GetGeneration()))
	}), "the Watcher is not injected")
}

// mergePatch patches an object and its status.
func (r *replay) mergePatch(target simulate.Selection, patch map[string]any) {
	text, err := json.Marshal(patch)
	require.NoError(r.t, err)
	var subresources []string
	if _, ofStatus := patch["status"]; ofStatus {
		subresources = append(subresources, "status")
	}
	_, err = r.cluster.objects(r.resource(target.Type)).Patch(r.t.Context(), target.Name, types.MergePatchType, text, metav1.PatchOptions{}, subresources...)
	require.NoError(r.t, err)
}

// setMember is the number of a member of a set, which follows from when its predecessors were gone.
var setMember = regexp.MustCompile(`-\d+$`)

// compared returns what is compared of a state: conditions without their messages, in which there
// are times, and members of sets without their numbers.
func compared(s simulate.State) string {
	for name, text := range s.Conditions {
		s.Conditions[name], _, _ = strings.Cut(text, ": ")
	}
	var children []string
	for name, text := range s.Children {
		children = append(children, setMember.ReplaceAllString(name, "-N")+": "+text)
	}
	slices.Sort(children)
	s.Children = nil
	text, err := yaml.Marshal(map[string]any{"state": s, "children": children})
	if err != nil {
		panic(err) // it was read from YAML or JSON
	}
	return string(text)
}

// expect waits until the objects are as a step expects them.
func (r *replay) expect(step *scenarios.Step) {
	text, ok := step.Want()
	require.True(r.t, ok)
	if step.Verb == "get" {
		var want map[string]any
		require.NoError(r.t, yaml.Unmarshal([]byte(text), &want))
		unstructured.RemoveNestedField(want, "metadata", "namespace")
		r.await(r.resource(step.Target.Type), step.Target.Name, "as expected", func(o *unstructured.Unstructured) bool { return contains(o.Object, want) })
		return
	}
	var expected map[string]json.RawMessage
	require.NoError(r.t, yaml.Unmarshal([]byte(text), &expected))
	for name, fields := range expected {
		if name == "time" {
			continue
		}
		var want struct {
			simulate.State
			Writes []string `json:"writes"`
			Events []string `json:"events"`
		}
		require.NoError(r.t, json.Unmarshal(fields, &want))
		typ, object, _ := strings.Cut(name, "/")
		for _, event := range want.Events { // "Normal REASON note", perhaps after a time
			words := strings.Fields(event)
			at := slices.IndexFunc(words, func(word string) bool { return word == "Normal" || word == "Warning" })
			r.reasons[object] = append(r.reasons[object], words[at+1])
		}
		wanted, actual := compared(want.State), ""
		if !testcluster.WaitUntil(func() bool {
			live, err := r.get(r.resource(typ), object)
			if err == nil {
				actual = compared(simulate.StateOf(live, r.children()))
			}
			return actual == wanted
		}) {
			require.Equal(r.t, wanted, actual, "%s after: %s", name, step.Text)
		}
		for _, applied := range step.Objects { // strays
			if slices.Contains(want.Writes, "delete "+simulate.NameOf(applied)) {
				r.awaitGone(r.resource(applied.GetKind()), applied.GetName())
			}
		}
	}
	for object := range r.reasons {
		require.Contains(r.t, text, "/"+object+":", "the scenario shows all objects")
	}
}

// children returns the objects of the types of children, without those that are being deleted.
func (r *replay) children() (children []*unstructured.Unstructured) {
	for _, resource := range []schema.GroupVersionResource{pods, configMaps} {
		for _, object := range r.list(resource, "") {
			if object.GetDeletionTimestamp() == nil {
				children = append(children, &object)
			}
		}
	}
	return children
}

// contains reports whether a value has all that is wanted; lists must be of the same length.
func contains(value, wanted any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		has, _ := value.(map[string]any)
		for name, field := range wanted {
			if !contains(has[name], field) {
				return false
			}
		}
		return true
	case []any:
		has, _ := value.([]any)
		return slices.EqualFunc(has, wanted, contains)
	}
	return equalValues(value, wanted)
}
