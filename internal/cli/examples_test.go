package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/fescue-dev/fescue/cue/kind/load"
)

// TestExamples runs the scenarios of each example and checks its object, as its user would, that a
// HorizontalPodAutoscaler can scale what has a scale, and that the table of the examples has its lines. Templates of
// Pods in the object meet the level restricted of Pod Security, as those in the kinds do in the scenarios that package
// e2e replays.
func TestExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("each starts processes that load kinds")
	}
	t.Parallel()
	folder := filepath.Join(repository, "examples")
	table, err := os.ReadFile(filepath.Join(folder, "README.md"))
	require.NoError(t, err)
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	comments, examples := regexp.MustCompile(`//.*`), 0
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		examples++
		t.Run(entry.Name(), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(folder, entry.Name())
			requireFolder(t, dir)
			catalog, err := load.Folders(false, nil, load.Folder{Dir: dir})
			require.NoError(t, err)
			for _, k := range catalog.Added() {
				for _, advice := range k.Advice {
					require.NotEqual(t, "scale", advice.Field, advice.Text)
				}
			}
			source, err := os.ReadFile(filepath.Join(dir, "kind.cue"))
			require.NoError(t, err)
			lines := 0
			for line := range strings.Lines(comments.ReplaceAllString(string(source), "")) {
				if strings.TrimSpace(line) != "" {
					lines++
				}
			}
			require.Regexp(t, `(?m)^\| \[`+entry.Name()+`\].* `+strconv.Itoa(lines)+` \|$`, string(table), "the table in examples/README.md")
			readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
			require.NoError(t, err)
			require.Contains(t, string(readme), entry.Name()+".txtar")
		})
	}
	require.Positive(t, examples)
}

// requireFolder runs the scenarios of a folder and checks its object. Templates of Pods in the object meet the level
// restricted of Pod Security.
func requireFolder(t *testing.T, dir string) {
	t.Helper()
	path, err := exec.LookPath("fescue")
	require.NoError(t, err)
	for _, args := range [][]string{
		{"test", "--shipped-kinds=false", dir},
		{"vet", "--shipped-kinds=false", "--kinds", dir, filepath.Join(dir, "sample.yaml")},
	} {
		out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	podSecurity, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	require.NoError(t, err)
	sample, err := os.ReadFile(filepath.Join(dir, "sample.yaml"))
	require.NoError(t, err)
	for document := range strings.SplitSeq(string(sample), "\n---\n") {
		var object any
		require.NoError(t, yaml.Unmarshal([]byte(document), &object))
		for _, spec := range podSpecs(t, object) {
			result := policy.AggregateCheckResults(podSecurity.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &metav1.ObjectMeta{}, &spec))
			require.True(t, result.Allowed, result.ForbiddenDetail())
		}
	}
}

// podSpecs returns what is the spec of a Pod in an object.
func podSpecs(t *testing.T, part any) (specs []corev1.PodSpec) {
	t.Helper()
	fields, ok := part.(map[string]any)
	if !ok {
		return nil
	}
	if fields["containers"] != nil {
		var spec corev1.PodSpec
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &spec))
		return []corev1.PodSpec{spec}
	}
	for _, value := range fields {
		specs = append(specs, podSpecs(t, value)...)
	}
	return specs
}
