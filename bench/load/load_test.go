package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/fescue-dev/fescue/bench/byhand/api"
)

// TestMain makes the test binary serve as the floor.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == floorCommand {
		if err := runFloor(context.Background(), os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctrllog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// defaults are the values of flags that are not set.
var defaults = options{fescueArgs: "--workers 10", byHandArgs: "--workers 10", root: filepath.Join("..", "..")}

// timeout bounds every wait.
const timeout = 90 * time.Second

func settingsOf(t *testing.T, operator string, scale float64) settings {
	t.Helper()
	program, args, err := defaults.command(operator)
	require.NoError(t, err)
	return settings{operator: operator, program: program, args: args, scale: scale, idle: 2 * time.Second}
}

// The scenarios run with few objects, count the requests of each operator apart and compare them.
func TestScenarios(t *testing.T) {
	require.NoError(t, build(t.Context(), defaults.root))
	var results table
	for _, s := range scenarios {
		if s.name != "ats" && s.name != "watchers" {
			continue
		}
		for _, operator := range []string{fescue, byHand, floor} {
			rows, err := runScenario(t.Context(), s, t.TempDir(), settingsOf(t, operator, 0.005))
			require.NoError(t, err, "%s, %s", s.name, operator)
			for _, r := range rows {
				require.Empty(t, r.Note, r.Name)
				require.GreaterOrEqual(t, r.Requests.writes(), 10, "%s, %s: %s", r.Name, operator, r.Requests)
				require.Positive(t, r.Values[apiServerCPU])
				require.Positive(t, r.Values[peakMemory])
				require.Less(t, r.Values[ownMemory], r.Values[peakMemory])
			}
			results.add(operator, rows)
			deleteObjects(t)
		}
	}
	require.Equal(t, []string{"5 Ats due, all DONE", "5 Watchers created", "5 Watchers changed"}, results.names)
	counted := results.runs["5 Ats due, all DONE"][byHand][0].Requests
	for what, n := range map[string]int{"create pods": 5, "patch ats/status": 10, "create events": 10} {
		require.Equal(t, n, counted[what], "%s: %s", what, counted)
	}
	var text strings.Builder
	results.print(&text)
	require.Contains(t, text.String(), "| 5 Watchers created | ")
	t.Log(text.String())
}

// deleteObjects deletes the objects of all kinds, which the next operator would reconcile.
func deleteObjects(t *testing.T) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(os.Getenv("DEVCLUSTER_DIR"), "admin.kubeconfig"))
	require.NoError(t, err)
	c, err := newClient(config)
	require.NoError(t, err)
	var namespaces corev1.NamespaceList
	require.NoError(t, c.List(t.Context(), &namespaces))
	for _, n := range namespaces.Items {
		for _, object := range []client.Object{&api.At{}, &api.Watcher{}, &api.Customcluster{}} {
			require.NoError(t, c.DeleteAllOf(t.Context(), object, client.InNamespace(n.Name)))
		}
	}
}

// Both operators bring the same objects to the same status, with the same children.
func TestSameResults(t *testing.T) {
	require.NoError(t, build(t.Context(), defaults.root))
	results := make(map[string]string)
	for _, operator := range []string{fescue, byHand} {
		results[operator] = resultsOf(t, operator)
	}
	require.Equal(t, results[byHand], results[fescue])
}

func resultsOf(t *testing.T, operator string) string {
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	controlPlane := os.Getenv("DEVCLUSTER_DIR")
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(controlPlane, "admin.kubeconfig"))
	require.NoError(t, err, "run the tests under .devcluster/bin/devcluster")
	e, err := newEnvironment(ctx, config, controlPlane, t.TempDir(), settingsOf(t, operator, 1))
	require.NoError(t, err)
	e.args = append(e.args, "--namespace", e.namespace)
	require.NoError(t, e.startOperator(false))
	defer func() { require.NoError(t, e.process.stop()) }()
	require.NoError(t, e.process.awaitReady(ctx))

	due, later := newAt(e.namespace, "due", time.Now().Add(-time.Hour)), newAt(e.namespace, "later", time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC))
	watcher, cluster := newWatcher(e.namespace, "log", "first"), newCustomcluster(e.namespace, "web", 3, "first")
	watcher.Spec.ConfigBinaryData = map[string][]byte{"binary": {0, 1, 2}}
	objects := []client.Object{due, later, watcher, cluster}
	for _, o := range objects {
		require.NoError(t, e.client.Create(ctx, o))
	}
	settled := func() {
		t.Helper()
		require.NoError(t, until(ctx, func() (bool, error) {
			for _, o := range objects {
				if err := e.client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
					return false, err
				}
			}
			return due.Status.Phase == api.PhaseDone && later.Status.Phase == api.PhasePending &&
				isDone(watcher, &watcher.Status.Status) && isDone(cluster, &cluster.Status.Status), nil
		}), "%s: not settled: %v", operator, objects)
	}
	settled()
	first := e.results(t)
	require.NoError(t, e.changeWatcher(ctx, "log", "second"))
	cluster.Spec.Count, cluster.Spec.Message = 2, "second"
	require.NoError(t, e.client.Update(ctx, cluster))
	settled()
	return first + "\nchanged:\n" + e.results(t)
}

// isDone reports whether the status of an object is that of its generation, and Ready.
func isDone(object client.Object, s *api.Status) bool {
	return s.ObservedGeneration == object.GetGeneration() && slices.ContainsFunc(s.Conditions, func(c metav1.Condition) bool {
		return c.Type == "Ready" && c.Status == metav1.ConditionTrue && c.ObservedGeneration == object.GetGeneration()
	})
}

// results returns what is compared of the objects and children in the namespace, as text: all but
// what identifies the operator or the moment.
func (e *environment) results(t *testing.T) string {
	t.Helper()
	var all []map[string]any
	for _, list := range []client.ObjectList{&api.AtList{}, &api.WatcherList{}, &api.CustomclusterList{}, &corev1.PodList{}, &corev1.ConfigMapList{}} {
		gvk, err := e.client.GroupVersionKindFor(list)
		require.NoError(t, err)
		found := &unstructured.UnstructuredList{}
		found.SetGroupVersionKind(gvk)
		require.NoError(t, e.client.List(t.Context(), found, client.InNamespace(e.namespace)))
		for _, o := range found.Items {
			if o.GetName() != "kube-root-ca.crt" {
				all = append(all, essence(&o))
			}
		}
	}
	texts := make([]string, len(all))
	for i, o := range all {
		text, err := json.MarshalIndent(o, "", "  ")
		require.NoError(t, err)
		texts[i] = string(text)
	}
	slices.Sort(texts)
	return strings.Join(texts, "\n")
}

func essence(o *unstructured.Unstructured) map[string]any {
	labels := o.GetLabels()
	maps.DeleteFunc(labels, func(name, _ string) bool {
		return strings.HasPrefix(name, "fescue.dev/") || name == "app.kubernetes.io/managed-by"
	})
	result := map[string]any{"kind": o.GetKind(), "labels": labels}
	for _, field := range []string{"data", "binaryData", "status"} {
		result[field] = o.Object[field]
	}
	owner := metav1.GetControllerOf(o)
	if owner != nil {
		result["controller"] = owner.APIVersion + " " + owner.Kind + " " + owner.Name
	}
	// The members of a set have names of their own.
	if owner == nil || owner.Kind != "Customcluster" {
		result["name"] = o.GetName()
	}
	status, _ := result["status"].(map[string]any)
	if o.GetKind() == "Pod" {
		result["status"] = status["phase"]
		result["spec"] = containers(o)
		return result
	}
	delete(status, "childInventory")
	delete(status, "lastPhaseTransitionTime")
	conditions, _ := status["conditions"].([]any)
	slices.SortFunc(conditions, func(a, b any) int {
		return cmp.Compare(a.(map[string]any)["type"].(string), b.(map[string]any)["type"].(string))
	})
	for _, c := range conditions {
		delete(c.(map[string]any), "lastTransitionTime")
		delete(c.(map[string]any), "message")
	}
	return result
}

// containers returns the containers of a Pod without the mount of its token, whose name is random.
func containers(pod *unstructured.Unstructured) any {
	list, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
	for _, c := range list {
		delete(c.(map[string]any), "volumeMounts")
	}
	return list
}

func TestFreeAddresses(t *testing.T) {
	t.Parallel()
	addresses, err := freeAddresses(20)
	require.NoError(t, err)
	for i, address := range addresses {
		require.Regexp(t, `^127\.0\.0\.1:2\d{4}$`, address, "a connection, or a NodePort, may have another one")
		require.NotContains(t, addresses[:i], address)
	}
}

// A ratio above its limit is an error, and so is a limit that nothing is compared with.
func TestLimits(t *testing.T) {
	var l limits
	for _, text := range []string{"requests=1.1", "CPU s=2", "seconds=1"} {
		require.NoError(t, l.add(text))
	}
	require.ErrorContains(t, l.add("request=1"), `"request" is not one of seconds, CPU s, `)
	require.ErrorContains(t, l.add("requests=x"), "the ratio of requests: ")
	var compared table
	for _, cpu := range []float64{3, 1, 2} { // the median counts
		compared.add(fescue, []*row{{Name: "Ats", Values: map[string]float64{requestCount: 120, operatorCPU: cpu}}})
		compared.add(byHand, []*row{{Name: "Ats", Values: map[string]float64{requestCount: 100, operatorCPU: 1}}})
	}
	require.EqualError(t, l.check(&compared), "Ats: requests: 120 / 100 = 1.20, above 1.10\nno row compares seconds")
}
