package main

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/internal/cli"
)

// TestMain runs the command line if that asks for a process of its own, in which it loads kinds.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "load-kinds" {
		os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// fescue runs the command line, and returns what it prints.
func fescue(t *testing.T, args ...string) []byte {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := cli.Main(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
	require.Zero(t, code, stderr.String())
	return stdout.Bytes()
}

// writeChart writes a chart of the shipped kinds, and returns its folder.
func writeChart(t *testing.T, flags ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "fescue")
	fescue(t, append([]string{"manifests", "--chart", dir}, flags...)...)
	return dir
}

// objects reads YAML documents by their types and names.
func objects(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	all := make(map[string]map[string]any)
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		var content map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(document), &content), document)
		if content == nil {
			continue
		}
		object := unstructured.Unstructured{Object: content}
		key := strings.Join([]string{object.GetAPIVersion(), object.GetKind(), object.GetNamespace(), object.GetName()}, " ")
		require.NotContains(t, all, key)
		all[key] = content
	}
	return all
}

// render does what helm template does.
func render(t *testing.T, c *chart.Chart, namespace string, values map[string]any) (string, error) {
	t.Helper()
	all, err := util.ToRenderValues(c, values, common.ReleaseOptions{Name: "fescue", Namespace: namespace, IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return "", err
	}
	rendered, err := engine.Render(c, all)
	if err != nil {
		return "", err
	}
	var documents []string
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if strings.HasSuffix(name, ".yaml") {
			documents = append(documents, strings.TrimSpace(rendered[name]))
		}
	}
	return strings.Join(documents, "\n---\n"), nil
}

// installed returns what `fescue manifests` prints, without what the chart leaves to Helm and to the operator: the namespace
// and the webhook configurations.
func installed(t *testing.T, namespace string, flags []string) map[string]map[string]any {
	t.Helper()
	all := objects(t, string(fescue(t, append([]string{"manifests", "--namespace", namespace}, flags...)...)))
	left := []string{"v1 Namespace  " + namespace}
	if !slices.Contains(flags, "--webhooks=false") {
		name := "fescue"
		if slices.Contains(flags, "--namespaced") {
			name += "-" + namespace
		}
		left = append(left, "admissionregistration.k8s.io/v1 MutatingWebhookConfiguration  "+name, "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration  "+name)
	}
	for _, key := range left {
		require.Contains(t, all, key)
		delete(all, key)
	}
	return all
}

// The chart installs what `fescue manifests` prints for the same options, object by object.
func TestChartIsLikeManifests(t *testing.T) {
	t.Parallel()
	loaded, err := loader.Load(writeChart(t))
	require.NoError(t, err)
	bools := []bool{false, true}
	var cases []struct {
		flags  []string
		values map[string]any
	}
	add := func(flags []string, values map[string]any) {
		cases = append(cases, struct {
			flags  []string
			values map[string]any
		}{flags, values})
	}
	for _, webhooks := range bools {
		for _, monitoring := range bools {
			for _, auth := range bools {
				flags := []string{}
				values := map[string]any{"webhooks": webhooks, "serviceMonitor": monitoring, "metricsAuth": auth}
				if !webhooks {
					flags = append(flags, "--webhooks=false")
				}
				if monitoring {
					flags = append(flags, "--service-monitor")
				}
				if auth {
					flags = append(flags, "--metrics-auth")
				}
				namespaced := maps.Clone(values)
				namespaced["namespaced"] = []any{"team-a", "team-b"}
				add(flags, values)
				add(append(slices.Clone(flags), "--namespaced", "team-a,team-b"), namespaced)
			}
		}
	}
	add([]string{"--shards", "2", "--service-monitor"}, map[string]any{"shards": 2, "serviceMonitor": true})
	add([]string{"--shards", "3", "--namespaced", "a"}, map[string]any{"shards": 3, "namespaced": []any{"a"}})
	add([]string{"--shards", "16"}, map[string]any{"shards": install.MaxShards})
	add([]string{"--api-server-cidr", "10.0.0.0/28", "--api-server-cidr", "10.1.0.0/28"}, map[string]any{"apiServerCIDRs": []any{"10.0.0.0/28", "10.1.0.0/28"}})
	add([]string{"--namespaced", "123", "--image", "registry.example.com/fescue:1.0"}, map[string]any{"namespaced": []any{"123"}, "image": "registry.example.com/fescue:1.0"})

	for _, c := range cases {
		t.Run(strings.Join(c.flags, " "), func(t *testing.T) {
			t.Parallel()
			for _, namespace := range []string{"fescue-system", "12345"} {
				want := installed(t, namespace, c.flags)
				text, err := render(t, loaded, namespace, c.values)
				require.NoError(t, err)
				got := objects(t, text)
				require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
				for key := range want {
					require.Equal(t, want[key], got[key], key)
				}
			}
		})
	}
}

// Flags of the command are the defaults of the values.
func TestChartDefaults(t *testing.T) {
	t.Parallel()
	flags := []string{"--shards", "3", "--service-monitor", "--namespaced", "team-a,team-b", "--image", "registry.example.com/fescue:v1"}
	loaded, err := loader.Load(writeChart(t, flags...))
	require.NoError(t, err)
	text, err := render(t, loaded, "fescue-system", nil)
	require.NoError(t, err)
	want := installed(t, "fescue-system", flags)
	require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(objects(t, text))))
	require.Equal(t, want["apps/v1 Deployment fescue-system fescue"], objects(t, text)["apps/v1 Deployment fescue-system fescue"])
}

// A chart of kinds of one's own has their files, whatever is in them, and rejects what the kinds do not allow.
func TestChartOfOwnKinds(t *testing.T) {
	t.Parallel()
	kinds := t.TempDir()
	require.NoError(t, os.CopyFS(kinds, os.DirFS("../../examples/tenant")))
	file := filepath.Join(kinds, "kind.cue")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	text = append(text, "\n// {{ .Values.image }} and {{ end }}, with\n//   - ipBlock:\n"...)
	require.NoError(t, os.WriteFile(file, text, 0o600))

	flags := []string{"--kinds", kinds, "--shipped-kinds=false"}
	loaded, err := loader.Load(writeChart(t, flags...))
	require.NoError(t, err)
	rendered, err := render(t, loaded, "fescue-system", nil)
	require.NoError(t, err)
	want, got := installed(t, "fescue-system", flags), objects(t, rendered)
	for key := range want {
		if !strings.Contains(key, "CustomResourceDefinition") {
			require.Equal(t, want[key], got[key], key)
		}
	}
	require.Len(t, got, len(want))
	_, err = render(t, loaded, "fescue-system", map[string]any{"namespaced": []any{"team-a"}})
	require.ErrorContains(t, err, "it is cluster-scoped, so it cannot be limited to namespaces")
}

// What the manifests have no flags for can be set, and what is wrong is rejected.
func TestChartValues(t *testing.T) {
	t.Parallel()
	loaded, err := loader.Load(writeChart(t))
	require.NoError(t, err)
	text, err := render(t, loaded, "fescue-system", map[string]any{
		"crds": false, "userRoles": false, "extraArgs": []any{"--workers=8"}, "tolerations": []any{map[string]any{"operator": "Exists"}},
		"podAnnotations": map[string]any{"example.com/a": "b"}, "priorityClassName": "system-cluster-critical",
		"resources": map[string]any{"limits": map[string]any{"memory": "1Gi"}},
	})
	require.NoError(t, err)
	all := objects(t, text)
	for key := range all {
		require.NotContains(t, key, "CustomResourceDefinition")
		require.NotContains(t, key, "-viewer")
	}
	deployment := all["apps/v1 Deployment fescue-system fescue"]
	pod, _, err := unstructured.NestedMap(deployment, "spec", "template", "spec")
	require.NoError(t, err)
	container := pod["containers"].([]any)[0].(map[string]any)
	args := container["args"].([]any)
	require.Equal(t, "--workers=8", args[len(args)-1])
	require.Equal(t, "1Gi", container["resources"].(map[string]any)["limits"].(map[string]any)["memory"])
	require.Equal(t, []any{map[string]any{"operator": "Exists"}}, pod["tolerations"])
	require.Equal(t, "system-cluster-critical", pod["priorityClassName"])

	for _, wrong := range []map[string]any{
		{"shards": 0}, {"shards": install.MaxShards + 1}, {"image": ""}, {"namespaced": "team-a"}, {"namespace": "a"},
		{"webhooks": false, "apiServerCIDRs": []any{"10.0.0.0/28"}}, {"apiServerCIDRs": []any{"all"}},
	} {
		_, err := render(t, loaded, "fescue-system", wrong)
		require.Error(t, err, wrong)
	}
}

// helm lint has nothing to complain about.
func TestChartLint(t *testing.T) {
	t.Parallel()
	dir := writeChart(t)
	for _, values := range []map[string]any{nil, {"namespaced": []any{"team-a"}, "serviceMonitor": true, "shards": 3, "metricsAuth": true}} {
		for _, message := range lint.RunAll(dir, values, "fescue-system").Messages {
			require.Less(t, message.Severity, support.WarningSev, message.Error())
		}
	}
}

// All values are in the schema with a description in one of the two, and the other way round.
func TestChartSchemaHasAllValues(t *testing.T) {
	t.Parallel()
	dir := writeChart(t)
	text, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
	require.NoError(t, err)
	var values, schema map[string]any
	require.NoError(t, yaml.Unmarshal(text, &values))
	text, err = os.ReadFile(filepath.Join(dir, "values.schema.json"))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &schema))
	properties := schema["properties"].(map[string]any)
	require.EqualValues(t, install.MaxShards, properties["shards"].(map[string]any)["maximum"])
	delete(properties, "global")
	require.Equal(t, slices.Sorted(maps.Keys(properties)), slices.Sorted(maps.Keys(values)))
}
