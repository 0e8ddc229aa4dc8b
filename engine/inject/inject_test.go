package inject

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/fescue-dev/fescue/internal/testing/corpus"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

// TestCases injects the objects of each archive into its Pod. out/outcomes, out/patch and
// out/pod.* hold what is expected; an archive may bring kinds of its own.
func TestCases(t *testing.T) {
	t.Parallel()
	corpus.Run(t, "testdata/inject", resultsOf)
}

func resultsOf(t *testing.T, archive *txtar.Archive) []txtar.File {
	t.Helper()
	kinds := kindtest.Shipped(t)
	var pod []byte
	var asText bool
	var candidates []*Injection
	for _, f := range archive.Files {
		switch {
		case filepath.Ext(f.Name) == ".cue":
			kinds = append(kinds, kindtest.From(t, string(f.Data))...)
		case f.Name == "pod.yaml":
			var err error
			pod, err = yaml.YAMLToJSON(f.Data)
			require.NoError(t, err)
		case f.Name == "pod.json":
			pod, asText = f.Data, true
		case f.Name == "objects.yaml":
			candidates = injections(t, kinds, f.Data)
		default:
			require.Fail(t, "unknown file "+f.Name)
		}
	}
	result := checked(t, NewInjector("fescue-system", kinds), pod, candidates)
	return append([]txtar.File{{Name: "out/outcomes", Data: outcomesText(result)}}, patched(t, result, asText)...)
}

// outcomesText has a line for each outcome.
func outcomesText(result *Result) []byte {
	var lines strings.Builder
	for _, o := range result.Outcomes {
		fmt.Fprintf(&lines, "%s: %s", o, o.Reason)
		if o.Done() {
			fmt.Fprintf(&lines, ", generation %d", o.Generation)
		} else {
			fmt.Fprintf(&lines, ": %s", o.Message)
		}
		lines.WriteByte('\n')
	}
	return []byte(lines.String())
}

// patched returns the patch and the Pod with it, as YAML or unchanged.
func patched(t *testing.T, result *Result, asText bool) []txtar.File {
	t.Helper()
	if result.Patch == nil {
		return nil
	}
	var operations []json.RawMessage
	require.NoError(t, json.Unmarshal(result.Patch, &operations))
	var patch bytes.Buffer
	for _, operation := range operations {
		patch.Write(operation)
		patch.WriteByte('\n')
	}
	files := []txtar.File{{Name: "out/patch", Data: patch.Bytes()}}
	if asText {
		return append(files, txtar.File{Name: "out/pod.json", Data: result.Pod()})
	}
	pod, err := yaml.JSONToYAML(result.Pod())
	require.NoError(t, err)
	return append(files, txtar.File{Name: "out/pod.yaml", Data: pod})
}

// Nothing is injected where it could stop what would repair it, and this is reported.
func TestSkipped(t *testing.T) {
	t.Parallel()
	_, pod, candidates := typical(t)
	i := NewInjector("fescue-system", watcherKinds)
	for name, want := range map[string]Reason{
		"kube-system": ExcludedNamespace, "kube-node-lease": ExcludedNamespace, "fescue-system": ExcludedNamespace,
		"other": NotFound, namespace: Injected,
	} {
		result, err := i.Inject(t.Context(), Target{Text: pod, Namespace: name}, candidates)
		require.NoError(t, err)
		require.Len(t, result.Outcomes, 1)
		require.Equal(t, want, result.Outcomes[0].Reason, name)
		require.Equal(t, want == ExcludedNamespace, result.Patch == nil, name)
		require.Equal(t, want == Injected, len(result.Warnings()) == 0, name)
	}
	mirror := bytes.Replace(pod, []byte(`"annotations":{`), []byte(`"annotations":{"kubernetes.io/config.mirror":"x",`), 1)
	result := checked(t, i, mirror, candidates)
	require.Equal(t, MirrorPod, result.Outcomes[0].Reason)
	require.Nil(t, result.Patch)
	require.Contains(t, result.Warnings()[0], "log-watcher")
}

func TestNotAPod(t *testing.T) {
	t.Parallel()
	i, _, candidates := typical(t)
	for _, text := range []string{"", "null", "[]", `{}`, `{"spec":null}`, `{"spec":[]}`, `{"spec":{}`, `{"spec":{}}x`} {
		_, err := i.Inject(t.Context(), Target{Text: []byte(text), Namespace: namespace}, candidates)
		require.Error(t, err, text)
	}
}

// A Pod that lists very many names does not get an annotation with all of them.
func TestManyNames(t *testing.T) {
	t.Parallel()
	i, _, candidates := typical(t)
	names := strings.Repeat("x,", 10)
	for n := range 1000 {
		names += fmt.Sprintf("n%d,", n)
	}
	pod := fmt.Sprintf(`{"metadata":{"annotations":{"watch.fescue.dev/inject":%q}},"spec":{}}`, names)
	result := checked(t, i, []byte(pod), candidates)
	require.Less(t, len(result.Outcomes), maxNames)
}

// The annotation reports to the engine what was injected into a Pod.
func TestInjectedInto(t *testing.T) {
	t.Parallel()
	i, pod, candidates := typical(t)
	result := checked(t, i, bytes.Replace(pod, []byte(`"log-watcher"`), []byte(`"log-watcher,gone"`), 1), candidates)
	require.Len(t, result.Outcomes, 2)
	annotations := fromJSON(t, result.Pod())["metadata"].(map[string]any)["annotations"].(map[string]any)
	read := InjectedInto(map[string]string{StatusAnnotation: annotations[StatusAnnotation].(string)})
	require.Equal(t, map[Object]int64{{watcherKind, "log-watcher"}: 3}, read)
	for _, text := range []string{"", "x", "[]", `{"":{}}`, `{"a":1}`} {
		require.Empty(t, InjectedInto(map[string]string{StatusAnnotation: text}), text)
	}
}

// The order of the candidates does not matter.
func TestOrder(t *testing.T) {
	t.Parallel()
	watcher := func(name string) string {
		return "apiVersion: watch.fescue.dev/v1alpha1\nkind: Watcher\nmetadata: {name: " + name + "}\n" +
			"spec: {container: {name: " + name + ", image: i}, selector: {}}"
	}
	candidates := injections(t, kindtest.Shipped(t), []byte(watcher("a")+"\n---\n"+watcher("b")+"\n---\n"+watcher("c")))
	i := NewInjector("", watcherKinds)
	pod := []byte(`{"spec":{"containers":[{"name":"app"}],"initContainers":[{"name":"mesh","restartPolicy":"Always"},{"name":"setup"}]}}`)
	want := checked(t, i, pod, candidates)
	var names []string
	for _, c := range fromJSON(t, want.Pod())["spec"].(map[string]any)["initContainers"].([]any) {
		names = append(names, c.(map[string]any)["name"].(string))
	}
	require.Equal(t, []string{"mesh", "a", "b", "c", "setup"}, names)
	slices.Reverse(candidates)
	require.Equal(t, string(want.Patch), string(checked(t, i, pod, candidates).Patch))
}

// An injection must not make the annotations of a Pod too large for the API server. If even the
// reason would, only the warning reports it.
func TestLargeAnnotations(t *testing.T) {
	t.Parallel()
	labelled, err := New(Source{
		Object: Object{watcherKind, "a"}, Namespace: namespace,
		Add: map[string]any{"metadata": map[string]any{"annotations": map[string]any{"added": strings.Repeat("x", 1000)}}},
	})
	require.NoError(t, err)
	const asks = "watch.fescue.dev/injecta" + "own"
	reason := len(StatusAnnotation) + len(`{"Watcher.watch.fescue.dev/a":{"reason":"TooLarge","message":"the annotations of the Pod would exceed 262144 bytes"}}`)
	injected := len(StatusAnnotation) + len(`{"Watcher.watch.fescue.dev/a":{"generation":0}}`) + len("added") + 1000
	for name, test := range map[string]struct {
		size   int // of the Pod's own annotations
		want   Reason
		status bool
	}{
		"just fits":          {maxAnnotations - injected, Injected, true},
		"does not fit":       {maxAnnotations - injected + 1, TooLarge, true},
		"the reason fits":    {maxAnnotations - reason, TooLarge, true},
		"reason too large":   {maxAnnotations - reason + 1, TooLarge, false},
		"is too large alone": {maxAnnotations + 1, TooLarge, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := fmt.Sprintf(`{"metadata":{"annotations":{"watch.fescue.dev/inject":"a","own":"%s"}},"spec":{"containers":[]}}`, strings.Repeat("\\n", test.size-len(asks)))
			result := checked(t, NewInjector("", watcherKinds), []byte(pod), []*Injection{labelled})
			require.Equal(t, test.want, result.Outcomes[0].Reason)
			require.Equal(t, test.want != Injected, len(result.Warnings()) == 1)
			require.Equal(t, test.status, result.Patch != nil)
			size := 0
			for name, annotation := range fromJSON(t, result.Pod())["metadata"].(map[string]any)["annotations"].(map[string]any) {
				size += len(name) + len(annotation.(string))
			}
			require.True(t, size <= maxAnnotations || test.size > maxAnnotations)
		})
	}
}
