package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
	scenarios "github.com/fescue-dev/fescue/internal/scenario"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// example is how the scenario of an example is replayed on the real control plane.
type example struct {
	// edits are pairs of an old and a new text, for the kind and the scenario: kwok ends a container after
	// half a second unless it sleeps, and real seconds pass.
	edits []string
	// claims are the names of PersistentVolumeClaims that get a volume, which no provisioner makes here.
	claims []string
	// skip are steps that a real control plane cannot take, with the reason; those from end on are not
	// replayed.
	skip map[string]string
	end  int
	// namespaces are those with objects and children, if that is not one of the test's own. The first is that of the
	// objects; none is for objects of the cluster.
	namespaces []string
}

// examples are those with something particular; the others are replayed as they are.
var examples = map[string]example{
	"announcement": {
		edits:      []string{"    Service/public/team-a-shop: Terminating\n", ""}, // such children are not compared
		namespaces: []string{"team-a", "directory", "public"},
	},
	"archive": {
		edits:  []string{`args: ["save", "/files", object.spec.bucket]`, `command: ["sleep", "infinity"]`},
		claims: []string{"photos-files", "photos-files"}, // one after the other
	},
	"bluegreen":            {edits: []string{"minReadySeconds: 5", "minReadySeconds: 1"}},
	"catset":               {claims: []string{"www-nginx-0", "www-nginx-1", "www-nginx-2"}},
	"configmappropagation": {namespaces: []string{"", "default", "team-a", "team-b", "team-c"}},
	"cronjob": {
		edits: []string{
			`"*/1 * * * *"`, `"MINUTE * * * *"`, "wait 1m", "wait 1h", "startingDeadlineSeconds: 60", "startingDeadlineSeconds: 7200",
			"args: [/bin/sh, -c, date; echo Hello from the Kubernetes cluster]", "command: [sleep, infinity]",
		},
		end: 2, // the time at which the phase was entered can be moved, but not that of a Job
	},
	"database": {
		claims: []string{"data-books-db-0"},
		skip:   map[string]string{"patch statefulset/books-db {status: {readyReplicas: 0}}": "its controller corrects the status"},
	},
	"indexedjob": {edits: []string{`command: [sh, -c, "echo $JOB_INDEX"]`, "command: [sleep, infinity]", "- sh\n    - -c\n    - echo $JOB_INDEX", "- sleep\n    - infinity"}},
	"tenant":     {edits: []string{"Namespace/tenant001: Current", "Namespace/tenant001: Active (Current)"}, namespaces: []string{"", "tenant001"}},
}

// TestExamples replays the scenarios of the examples, which fescue test runs in memory: the real control
// plane comes to the same phases, status, conditions, children and Events, in namespaces that enforce the
// level restricted of Pod Security.
func TestExamples(t *testing.T) {
	t.Parallel()
	for name, run := range prepareExamples(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run.play(t)
		})
	}
}

// exampleRun is an example whose kinds are installed.
type exampleRun struct {
	example
	scenario *scenarios.Scenario
	kinds    []*kind.Kind
	flags    []string
}

// usesExamples is held by the test that has the kinds of the examples installed, and the namespaces of their scenarios.
var usesExamples sync.Mutex

// prepareExamples installs the kinds of the examples, by their names, once no other test has. The API server takes up to half a
// minute to learn of kinds, so all are installed first.
func prepareExamples(t *testing.T) map[string]exampleRun {
	t.Helper()
	usesExamples.Lock()
	all, runs := newClients(t, ""), make(map[string]exampleRun)
	var installed []string
	t.Cleanup(func() { // deleteCRDs does not wait until they are gone, and the next test installs them anew
		defer usesExamples.Unlock()
		for _, name := range installed {
			require.True(t, testcluster.WaitUntil(func() bool {
				_, err := all.client.Resource(definitions).Get(context.Background(), name, metav1.GetOptions{})
				return apierrors.IsNotFound(err)
			}), "the CRD %s is still there", name)
		}
	})
	files, err := filepath.Glob(filepath.Join("..", "examples", "*", "*.txtar"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		text, source := examples[name].edited(t, file, filepath.Join(filepath.Dir(file), "kind.cue"))
		s, err := scenarios.Parse(file, []byte(text))
		require.NoError(t, err)
		dir, kinds := writeKind(t, source)
		if len(kind.WithoutDecorators(kinds)) == 0 { // decorators_test.go has them
			continue
		}
		require.NoError(t, testcluster.InstallCRDs(t.Context(), all.client, kinds, crds.Webhook{}))
		for _, k := range kinds {
			all.deleteCRDs(k.Name())
			installed = append(installed, k.Name())
		}
		runs[name] = exampleRun{examples[name], s, kinds, []string{"--kinds", dir, "--shipped-kinds=false"}}
	}
	for _, name := range []string{"team-a", "team-b", "team-c", "directory", "public"} {
		all.createNamespace(name)
	}
	return runs
}

// play replays the scenario.
func (e exampleRun) play(t *testing.T) {
	t.Helper()
	r := e.replay(t)
	r.play(e.steps(t, e.scenario), e.flags...)
	r.requireEvents()
}

// replay returns a replay that has not begun.
func (e exampleRun) replay(t *testing.T) *replay {
	t.Helper()
	c := newCluster(t)
	c.restrict()
	r := &replay{cluster: c, home: c, namespaces: []string{c.namespace}, kinds: e.kinds, now: e.scenario.Start, numbered: len(e.flags) > 0}
	if len(e.namespaces) > 0 {
		c.everywhere = true
		r.cluster, r.namespaces = newClients(t, e.namespaces[0]), slices.DeleteFunc(slices.Clone(e.namespaces), func(name string) bool { return name == "" })
	}
	c.patch(serviceAccounts, "default", `{"automountServiceAccountToken":false}`) // Pods get no volume for it
	for _, claim := range e.claims {
		r.createVolume(claim)
	}
	return r
}

// edited returns the scenario and the kind with the edits, each of which is needed.
func (e example) edited(t *testing.T, scenarioFile, kindFile string) (scenario, source string) {
	t.Helper()
	read := func(file string) string {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return string(text)
	}
	scenario, source = read(scenarioFile), read(kindFile)
	for edit := range slices.Chunk(e.edits, 2) {
		require.Contains(t, scenario+source, edit[0])
		scenario, source = strings.ReplaceAll(scenario, edit[0], edit[1]), strings.ReplaceAll(source, edit[0], edit[1])
	}
	// The real time of an hourly schedule is in half an hour.
	scenario = strings.ReplaceAll(scenario, "MINUTE", strconv.Itoa(time.Now().Add(30*time.Minute).Minute()))
	return scenario, source
}

// steps returns the steps that are replayed.
func (e example) steps(t *testing.T, s *scenarios.Scenario) (steps []*scenarios.Step) {
	t.Helper()
	steps = s.Steps
	if e.end > 0 {
		steps = steps[:e.end]
	}
	left := slices.DeleteFunc(slices.Clone(steps), func(step *scenarios.Step) bool { return e.skip[step.Text] != "" })
	require.Len(t, left, len(steps)-len(e.skip))
	return left
}

// createNamespace creates a namespace of a name that a scenario has, when the one of another test is gone.
func (c *cluster) createNamespace(name string) {
	c.t.Helper()
	api := c.typed.CoreV1().Namespaces()
	var err error
	require.True(c.t, testcluster.WaitUntil(func() bool {
		_, err = api.Create(c.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: restricted}}, metav1.CreateOptions{})
		return !apierrors.IsAlreadyExists(err)
	}), "%v", err)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { require.NoError(c.t, api.Delete(context.Background(), name, metav1.DeleteOptions{})) })
}

// createVolume creates a volume for a claim of the test's namespace.
func (c *cluster) createVolume(claim string) {
	c.t.Helper()
	volumes := c.typed.CoreV1().PersistentVolumes()
	created, err := volumes.Create(c.t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{GenerateName: c.namespace + "-"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteMany},
			ClaimRef:               &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: c.namespace, Name: claim},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
		},
	}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	c.t.Cleanup(func() {
		require.NoError(c.t, volumes.Delete(context.Background(), created.Name, metav1.DeleteOptions{}))
	})
}
