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
	"k8s.io/pod-security-admission/api"
	"sigs.k8s.io/yaml"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/engine/inject"
	"github.com/fescue-dev/fescue/engine/simulate"
	scenarios "github.com/fescue-dev/fescue/internal/scenario"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// TestScenarios replays scenarios of the shipped kinds, which fescue test runs in memory: after each
// step, the objects come to the phase, the status, the conditions and the children that the
// scenario expects, in a namespace that enforces the level restricted of Pod Security.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, name := range shippedScenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prepareShipped(t, name).play(t)
		})
	}
}

// shippedScenarios are those of the shipped kinds.
var shippedScenarios = []string{"at", "customcluster", "watcher"}

// prepareShipped returns a scenario of the shipped kinds, which are installed.
func prepareShipped(t *testing.T, name string) exampleRun {
	t.Helper()
	file := filepath.Join("..", "cue", "testdata", name+".txtar")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	s, err := scenarios.Parse(file, text)
	require.NoError(t, err)
	kinds, err := load.Shipped()
	require.NoError(t, err)
	return exampleRun{scenario: s, kinds: kinds}
}

// restricted are the labels of a namespace in which Pod Security enforces its level restricted.
var restricted = map[string]string{api.EnforceLevelLabel: string(api.LevelRestricted)}

// restrict has Pod Security enforce its level restricted in the namespace of the test.
func (c *cluster) restrict() {
	c.t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": restricted}})
	require.NoError(c.t, err)
	_, err = c.typed.CoreV1().Namespaces().Patch(c.t.Context(), c.namespace, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(c.t, err)
}

// replay is a scenario on a real control plane: in a namespace or, for objects of the cluster, without one.
type replay struct {
	*cluster
	home       *cluster // where the operator runs
	namespaces []string // in which there may be children
	kinds      []*kind.Kind
	operator   *process
	flags      []string
	now        time.Time // in the scenario
	objects    []*unstructured.Unstructured
	// reasons are those of the Events that are expected for the objects that exist, by name.
	reasons map[string][]string
	// numbered is false if members of sets have numbers that a replay does not repeat.
	numbered bool
	builds   *builds // nil is this one alone
}

// play starts an operator, and carries out steps.
func (r *replay) play(steps []*scenarios.Step, flags ...string) {
	r.reasons = make(map[string][]string)
	if r.home.everywhere { // there is one configuration of webhooks for all namespaces, which other tests have
		r.flags = flags
		r.operator = r.start()
	} else {
		var url string
		r.flags, url = r.home.webhookURLFlags()
		r.flags = append(r.flags, flags...)
		if r.builds != nil {
			relayWebhooks(r.t, url, r.builds.forward)
		}
		r.operator = r.start()
		r.home.awaitRegistration()
	}
	for _, step := range steps {
		r.t.Logf("%s", step.Text)
		err := r.do(step)
		if step.Fails && step.Verb != "get" {
			r.rejected(step, err)
		} else {
			require.NoError(r.t, err)
		}
		r.expect(step)
		if r.builds != nil {
			r.changeBuild()
		}
	}
}

// requireEvents requires that the Events of all objects are those that the steps expect.
func (r *replay) requireEvents() {
	for _, k := range r.kinds {
		for _, object := range r.list(k.GroupVersionResource(), "") {
			want := r.reasons[object.GetName()]
			got := func() []string { return r.selectEventReasons("regarding.uid=" + string(object.GetUID())) }
			require.True(r.t, testcluster.WaitUntil(func() bool { return slices.Equal(got(), want) }), "Events of %s: %v, want %v", object.GetName(), got(), want)
		}
	}
}

// builtIn are the types of children and of objects that are read, by their names in commands.
var builtIn = map[string]schema.GroupVersionResource{
	"configmap": configMaps, "pod": pods, "secret": secrets,
	"service":               {Version: "v1", Resource: "services"},
	"persistentvolumeclaim": {Version: "v1", Resource: "persistentvolumeclaims"},
	"deployment":            {Group: "apps", Version: "v1", Resource: "deployments"},
	"replicaset":            replicaSets,
	"statefulset":           {Group: "apps", Version: "v1", Resource: "statefulsets"},
	"ingress":               {Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
	"networkpolicy":         {Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
	"resourcequota":         quotas,
	"job":                   {Group: "batch", Version: "v1", Resource: "jobs"},
	"cronjob":               {Group: "batch", Version: "v1", Resource: "cronjobs"},
}

// resource returns where a type is served that is named as in a command.
func (r *replay) resource(typ string) schema.GroupVersionResource {
	for _, k := range r.kinds {
		if strings.EqualFold(typ, k.GroupVersionKind.Kind) {
			return k.GroupVersionResource()
		}
	}
	if strings.EqualFold(typ, "Namespace") {
		return namespaces
	}
	resource, ok := builtIn[strings.ToLower(typ)]
	require.True(r.t, ok, "unknown type %s", typ)
	return resource
}

// at returns where an object is that is named as in a command, and its name there.
func (r *replay) at(target simulate.Selection) (in *cluster, name string) {
	namespace, name, isElsewhere := strings.Cut(target.Name, "/")
	if !isElsewhere {
		return r.cluster, target.Name
	}
	return newClients(r.t, namespace), name
}

// in returns where an object of a step is.
func (r *replay) in(object *unstructured.Unstructured) *cluster {
	if namespace := object.GetNamespace(); namespace != "" {
		return newClients(r.t, namespace)
	}
	return r.cluster
}

// do carries out a step, and returns the error of the API server. Time cannot be moved here, so the times
// in the objects are.
func (r *replay) do(step *scenarios.Step) error {
	switch step.Verb {
	case "apply":
		for _, object := range step.Objects {
			r.apply(object)
		}
	case "patch":
		return r.tryPatch(step.Target, step.Patch)
	case "hold", "release":
		r.hold(step.Verb == "hold")
	case "succeed":
		r.succeed(step.Target)
	case "fail":
		r.fail(step.Target)
	case "delete":
		in, name := r.at(step.Target)
		in.delete(r.resource(step.Target.Type), name)
	case "restart":
		require.Zero(r.t, r.operator.stop())
		r.operator = r.start()
	case "wait":
		before := r.now
		r.now = r.now.Add(step.Wait)
		for _, object := range r.objects {
			if step.Wait > 0 && equalValues(object.Object["spec"], withTimes(object.Object["spec"], r.real)) {
				r.enterEarlier(object, step.Wait)
				continue
			}
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
	return nil
}

// rejected requires the error that a step expects, from the CRD's schema or from the webhook.
func (r *replay) rejected(step *scenarios.Step, err error) {
	r.t.Helper()
	require.True(r.t, apierrors.IsInvalid(err), "%v", err)
	text, _ := step.Want()
	var want struct {
		Rejected string `json:"rejected"`
	}
	require.NoError(r.t, yaml.Unmarshal([]byte(text), &want))
	field, _, ok := strings.Cut(want.Rejected, ": ")
	require.True(r.t, ok, text)
	require.ErrorContains(r.t, err, field)
}

// hold lets no Pods be created from now on, or lets them again: what creates Pods does not become ready.
func (r *replay) hold(on bool) {
	const name = "hold"
	if !on {
		r.delete(quotas, name)
		r.awaitGone(quotas, name)
		return
	}
	r.create(quotas, "ResourceQuota", name, map[string]any{"spec": map[string]any{"hard": map[string]any{"pods": "0"}}})
	r.awaitQuota(name, "0")
}

// succeed ends a Pod, or the Pods of a Job.
func (r *replay) succeed(target simulate.Selection) {
	succeeded := map[string]any{"status": map[string]any{"phase": "Succeeded"}}
	if r.resource(target.Type) == pods {
		r.mergePatch(target, succeeded)
		return
	}
	require.True(r.t, testcluster.WaitUntil(func() bool {
		for _, pod := range r.list(pods, "batch.kubernetes.io/job-name="+target.Name) {
			if err := r.tryPatch(simulate.Selection{Type: "pod", Name: pod.GetName()}, succeeded); err != nil {
				return false
			}
		}
		job, err := r.get(r.resource(target.Type), target.Name)
		return apierrors.IsNotFound(err) || err == nil && isTrue(job, "Complete")
	}), "the Job %s does not complete", target.Name)
}

// fail ends a Pod with an error. A Job is marked as failed, since it would try again for a minute.
func (r *replay) fail(target simulate.Selection) {
	if r.resource(target.Type) == pods {
		r.mergePatch(target, map[string]any{"status": map[string]any{"phase": "Failed"}})
		return
	}
	condition := func(of string) map[string]any {
		return map[string]any{"type": of, "status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}
	}
	patch := map[string]any{"status": map[string]any{"active": 0, "ready": 0, "terminating": 0, "failed": 4, "conditions": []any{condition("FailureTarget"), condition("Failed")}}}
	r.await(r.resource(target.Type), target.Name, "failed", func(*unstructured.Unstructured) bool {
		return r.tryPatch(target, patch) == nil
	})
}

// enterEarlier lets time pass for an object that waits in a phase: it was entered earlier.
func (r *replay) enterEarlier(object *unstructured.Unstructured, wait time.Duration) {
	live, err := r.get(r.resource(object.GetKind()), object.GetName())
	if apierrors.IsNotFound(err) {
		return
	}
	require.NoError(r.t, err)
	text, hasPhase, _ := unstructured.NestedString(live.Object, "status", "lastPhaseTransitionTime")
	if !hasPhase {
		return
	}
	entered, err := time.Parse(time.RFC3339, text)
	require.NoError(r.t, err)
	selection := simulate.Selection{Type: object.GetKind(), Name: object.GetName()}
	r.mergePatch(selection, map[string]any{"status": map[string]any{"lastPhaseTransitionTime": entered.Add(-wait).Format(time.RFC3339)}})
	r.mergePatch(selection, map[string]any{"metadata": map[string]any{"annotations": map[string]any{"e2e": "look at the status"}}})
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
	resource.Version = object.GroupVersionKind().Version
	moved := object.DeepCopy()
	if spec, ok := object.Object["spec"]; ok {
		moved.Object["spec"] = withTimes(spec, r.real)
	}
	r.objects = append(r.objects, object)
	in := r.in(object)
	if watcher := object.GetAnnotations()["watch.fescue.dev/inject"]; watcher != "" {
		r.awaitInjection(moved, watcher)
	}
	var err error
	require.True(r.t, testcluster.WaitUntil(func() bool {
		_, err = in.objects(resource).Apply(r.t.Context(), object.GetName(), moved, metav1.ApplyOptions{FieldManager: "author", Force: true})
		return !apierrors.IsInternalError(err) // the API server calls conversion webhooks once their address is known
	}), "%v", err)
	require.NoError(r.t, err)
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

// mergePatch patches an object, or its status.
func (r *replay) mergePatch(target simulate.Selection, patch map[string]any) {
	require.NoError(r.t, r.tryPatch(target, patch))
}

func (r *replay) tryPatch(target simulate.Selection, patch map[string]any) error {
	text, err := json.Marshal(patch)
	require.NoError(r.t, err)
	var subresources []string
	if _, ofStatus := patch["status"]; ofStatus {
		subresources = append(subresources, "status")
	}
	in, name := r.at(target)
	_, err = in.objects(r.resource(target.Type)).Patch(r.t.Context(), name, types.MergePatchType, text, metav1.PatchOptions{}, subresources...)
	return err
}

var (
	// setMember ends the name of a member of a set with a number that follows from when its predecessors were gone.
	setMember = regexp.MustCompile(`(-[0-9a-f]{5})-\d+\b`)
	// varying are the addresses and the times of schedules, with the names that have them.
	varying = regexp.MustCompile(`\b(10(\.\d{1,3}){3}|\d{4}-\d\d-\d\dT\d\d:\d\d:00Z|\d{8}-\d{4})\b`)
)

// compared returns what is compared of a state: conditions without their messages, in which there
// are times.
func (r *replay) compared(s simulate.State) string {
	for name, text := range s.Conditions {
		s.Conditions[name], _, _ = strings.Cut(text, ": ")
	}
	var children []string
	for name, text := range s.Children {
		if !r.numbered {
			name = setMember.ReplaceAllString(name, "$1-N")
		}
		children = append(children, name+": "+text)
	}
	slices.Sort(children)
	s.Children = nil
	text, err := yaml.Marshal(map[string]any{"state": s, "children": children})
	if err != nil {
		panic(err) // it was read from YAML or JSON
	}
	return varying.ReplaceAllString(string(text), "VARIES")
}

// expect waits until the objects are as a step expects them.
func (r *replay) expect(step *scenarios.Step) {
	text, ok := step.Want()
	require.True(r.t, ok)
	if step.Verb == "get" && step.Fails {
		in, name := r.at(step.Target)
		in.awaitGone(r.resource(step.Target.Type), name)
		return
	}
	if step.Verb == "get" {
		var want map[string]any
		require.NoError(r.t, yaml.Unmarshal([]byte(varying.ReplaceAllString(text, "VARIES")), &want))
		unstructured.RemoveNestedField(want, "metadata", "namespace")
		// Fescue's finalizer goes when the status is written again, which depends on when the API server knows a new kind.
		unstructured.RemoveNestedField(want, "metadata", "finalizers")
		in, name := r.at(step.Target)
		in.await(r.resource(step.Target.Type), name, "as expected", func(o *unstructured.Unstructured) bool { return contains(o.Object, want) })
		return
	}
	var expected map[string]json.RawMessage
	require.NoError(r.t, yaml.Unmarshal([]byte(text), &expected))
	for name, fields := range expected {
		if name == "time" || name == "rejected" {
			continue
		}
		var want struct {
			simulate.State
			Writes []string `json:"writes"`
			Events []string `json:"events"`
			Gone   string   `json:"gone"`
		}
		require.NoError(r.t, json.Unmarshal(fields, &want))
		typ, object, _ := strings.Cut(name, "/")
		if want.Gone != "" {
			r.awaitGone(r.resource(typ), object)
			delete(r.reasons, object)
			continue
		}
		for _, event := range want.Events { // "Normal REASON note", perhaps after a time
			words := strings.Fields(event)
			at := slices.IndexFunc(words, func(word string) bool { return word == "Normal" || word == "Warning" })
			r.reasons[object] = append(r.reasons[object], words[at+1])
		}
		wanted, actual := r.compared(want.State), ""
		if !testcluster.WaitUntil(func() bool {
			live, err := r.get(r.resource(typ), object)
			if err == nil {
				actual = r.compared(simulate.StateOf(live, r.children()))
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
	for _, k := range r.kinds { // the scenario shows all objects
		for _, object := range r.list(k.GroupVersionResource(), "") {
			if _, shown := expected[k.GroupVersionKind.Kind+"/"+object.GetName()]; !shown {
				r.awaitGone(k.GroupVersionResource(), object.GetName())
				delete(r.reasons, object.GetName())
			}
		}
	}
}

// children returns the objects of the types of children, without those that are being deleted.
func (r *replay) children() (children []*unstructured.Unstructured) {
	add := func(objects []unstructured.Unstructured) {
		for _, object := range objects {
			if object.GetDeletionTimestamp() == nil {
				children = append(children, &object)
			}
		}
	}
	for _, resource := range builtIn {
		for _, namespace := range r.namespaces {
			in := *r.cluster
			in.namespace = namespace
			add(in.list(resource, ""))
		}
	}
	if r.namespace == "" {
		add(r.list(namespaces, ""))
	}
	return children
}

// contains reports whether a value has all that is wanted; lists must be of the same length.
func contains(value, wanted any) bool {
	switch wanted := wanted.(type) {
	case string: // the API server leaves out an empty one
		text, _ := value.(string)
		return varying.ReplaceAllString(text, "VARIES") == wanted
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
