package inject

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fescue-dev/fescue/internal/manifest"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

var manifests = flag.String("corpus", "", "folder with manifests: every Pod and Pod template in it is injected into")

// everywhere are Watchers for all Pods, one for each mode, with everything that they can add.
const everywhere = `
apiVersion: watch.fescue.dev/v1alpha1
kind: Watcher
metadata: {name: native, generation: 1}
spec:
  selector: {}
  container: {name: native-watcher, image: "watcher:1", volumeMounts: [{name: watched, mountPath: /watched}], ports: [{containerPort: 15999}]}
  volume: {name: watched, emptyDir: {}}
  imagePullSecrets: {name: watchers}
---
apiVersion: watch.fescue.dev/v1alpha1
kind: Watcher
metadata: {name: classic, generation: 2}
spec:
  selector: {}
  mode: Container
  container: {name: classic-watcher, image: "watcher:1", env: [{name: A, value: ""}], ports: [{containerPort: 8080}], args: [], stdin: false, resources: {limits: {cpu: 1000m, memory: "0.5Gi"}}}
`

// corpusCounts are the results of TestInjectCorpus.
type corpusCounts struct {
	files, unreadable, withPods, pods int
	outcomes                          map[Reason]int
	accepted, rejected                int // by the API server, before and after
}

// TestInjectCorpus injects into every Pod and Pod template of a folder of manifests and
// checks the invariants. On a control plane it also makes the API server validate each Pod
// before and after.
func TestInjectCorpus(t *testing.T) {
	if *manifests == "" {
		t.Skip("-corpus names no folder")
	}
	injector := NewInjector("", watcherKinds)
	candidates := injections(t, kindtest.Shipped(t), []byte(everywhere))
	server := newJudge(t)
	counts := corpusCounts{outcomes: make(map[Reason]int)}
	require.NoError(t, filepath.WalkDir(*manifests, func(file string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		if err != nil || entry.IsDir() || !strings.Contains(name, ".yaml") && !strings.Contains(name, ".yml") && !strings.Contains(name, ".json") {
			return err
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		counts.files++
		objects, errs := manifest.Read(file, text)
		if len(errs) > 0 {
			counts.unreadable++
		}
		before := counts.pods
		for _, object := range objects {
			pod := podIn(object.Content)
			if pod == nil {
				continue
			}
			counts.pods++
			raw, err := json.Marshal(pod)
			require.NoError(t, err)
			t.Run(fmt.Sprintf("%s:%d", file, object.Position.Line), func(t *testing.T) {
				result := checked(t, injector, raw, candidates)
				require.Len(t, result.Outcomes, len(candidates))
				for _, o := range result.Outcomes {
					counts.outcomes[o.Reason]++
				}
				stored := server.judge(t, &counts, pod, fromJSON(t, result.Pod()))
				if stored == nil {
					return
				}
				// As the API server sends it to a webhook that it calls again.
				text, err := json.Marshal(stored)
				require.NoError(t, err)
				again, err := injector.Inject(t.Context(), Target{Text: text, Namespace: namespace}, candidates)
				require.NoError(t, err)
				require.Nil(t, again.Patch, "%s", again.Patch)
			})
		}
		if counts.pods > before {
			counts.withPods++
		}
		return nil
	}))
	require.Positive(t, counts.pods, "%s has no Pods", *manifests)
	t.Logf("%d files, %d with errors; %d have %d Pods and Pod templates: %v; the API server accepted %d before and after, and rejected %d",
		counts.files, counts.unreadable, counts.withPods, counts.pods, counts.outcomes, counts.accepted, counts.rejected)
}

// podIn returns the Pod or Pod template of an object, if it has one with a spec.
func podIn(object map[string]any) map[string]any {
	u := unstructured.Unstructured{Object: object}
	path, found := TemplateOf(u.GroupVersionKind())
	if !found {
		return nil
	}
	pod, _, err := unstructured.NestedMap(object, path...)
	if _, hasSpec := pod["spec"].(map[string]any); err != nil || !hasSpec {
		return nil
	}
	return pod
}

// judge submits Pods to the API server of this run, if there is one.
type judge struct {
	namespace string
	client    dynamic.Interface
}

func newJudge(t *testing.T) *judge {
	t.Helper()
	dir := os.Getenv("DEVCLUSTER_DIR")
	if dir == "" {
		return nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig"))
	require.NoError(t, err)
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	j := &judge{namespace: "corpus", client: client}
	j.ensure(t, "v1", "Namespace", "namespaces", "", j.namespace)
	return j
}

// ensure creates an object of the core group that has only a name.
func (j *judge) ensure(t *testing.T, apiVersion, kind, resource, namespace, name string) {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}}}
	_, err := j.client.Resource(corev1.SchemeGroupVersion.WithResource(resource)).Namespace(namespace).Create(t.Context(), u, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsInvalid(err) {
		require.NoError(t, err)
	}
}

// judge fails unless the API server accepts a Pod after the injection exactly if it did
// before. It returns what the API server would store.
func (j *judge) judge(t *testing.T, counts *corpusCounts, before, after map[string]any) (stored map[string]any) {
	t.Helper()
	if j == nil {
		return nil
	}
	accounts := []string{"default"}
	for _, field := range []string{"serviceAccountName", "serviceAccount"} {
		if name, _, _ := unstructured.NestedString(before, "spec", field); name != "" {
			accounts = append(accounts, name)
		}
	}
	for _, account := range accounts {
		j.ensure(t, "v1", "ServiceAccount", "serviceaccounts", j.namespace, account)
	}
	_, errBefore := j.dryRun(t.Context(), before)
	stored, errAfter := j.dryRun(t.Context(), after)
	require.Equal(t, errBefore == nil, errAfter == nil, "before: %v\nafter: %v", errBefore, errAfter)
	if errBefore != nil {
		counts.rejected++
		t.Logf("rejected: %v", errBefore)
		return nil
	}
	counts.accepted++
	return stored
}

func (j *judge) dryRun(ctx context.Context, pod map[string]any) (stored map[string]any, err error) {
	metadata, _ := pod["metadata"].(map[string]any)
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "spec": pod["spec"],
		"metadata": map[string]any{"name": "pod", "labels": metadata["labels"], "annotations": metadata["annotations"]},
	}}
	created, err := j.client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(j.namespace).
		Create(ctx, u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil {
		return created.Object, nil
	}
	if _, answered := errors.AsType[*apierrors.StatusError](err); !answered {
		panic(fmt.Sprintf("the API server does not answer: %v", err))
	}
	return nil, err
}
