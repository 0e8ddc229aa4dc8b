package kind

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestCorpus loads the kinds of each archive, and validates, defaults and decides for
// each of its objects. out/load, out/schema-KIND and out/OBJECT hold what is expected.
func TestCorpus(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob("../../testdata/kinds/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, archives)
	for _, file := range archives {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			require.NoError(t, err)
			inputs := &txtar.Archive{Comment: archive.Comment}
			expected := make(map[string]string)
			for _, f := range archive.Files {
				if name, ok := strings.CutPrefix(f.Name, "out/"); ok {
					expected[name] = string(f.Data)
					continue
				}
				inputs.Files = append(inputs.Files, f)
			}
			results := resultsOf(t, inputs)
			if *update {
				inputs.Files = append(inputs.Files, results...)
				require.NoError(t, os.WriteFile(file, txtar.Format(inputs), 0o600))
				return
			}
			actual := make(map[string]string)
			for _, f := range results {
				actual[strings.TrimPrefix(f.Name, "out/")] = string(f.Data)
			}
			require.Equal(t, expected, actual)
		})
	}
}

func resultsOf(t *testing.T, inputs *txtar.Archive) []txtar.File {
	dir := t.TempDir()
	data := make(map[string][]byte)
	for _, f := range inputs.Files {
		data[f.Name] = f.Data
		if strings.HasSuffix(f.Name, ".cue") {
			require.NoError(t, os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o600))
		}
	}
	kinds, err := FromDir(dir)
	var load strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&load, "%s: %s, children %v\n", k.GroupVersionKind.Kind, k.GroupVersionResource(), k.Owns)
	}
	if err != nil {
		fmt.Fprintln(&load, strings.ReplaceAll(err.Error(), dir, "DIR"))
	}
	results := []txtar.File{{Name: "out/load", Data: []byte(load.String())}}
	if len(kinds) != 1 {
		return results
	}
	k := kinds[0]
	results = append(results, txtar.File{Name: "out/schema", Data: toYAML(t, k.Schema)})
	for _, f := range inputs.Files {
		name, isObject := strings.CutSuffix(f.Name, ".yaml")
		if isObject {
			result := resultOf(t, k, fromYAML(t, f.Data), fromYAML(t, data[name+".observed"]))
			results = append(results, txtar.File{Name: "out/" + name, Data: []byte(result)})
		}
	}
	return results
}

// resultOf says what a kind makes of an object: what is wrong with it, or its defaulted
// form and the decision.
func resultOf(t *testing.T, k *Kind, object, observed map[string]any) string {
	if errs := k.Validate(object); len(errs) > 0 {
		var lines []string
		for _, err := range errs {
			lines = append(lines, err.Error())
		}
		return strings.Join(lines, "\n") + "\n"
	}
	defaulted, err := k.Default(object)
	require.NoError(t, err)
	decision, err := k.Decide(defaulted, observed)
	if err != nil {
		var evaluation *EvaluationError
		require.ErrorAs(t, err, &evaluation)
		return err.Error() + "\n"
	}
	var next []string
	for _, transition := range decision.Next {
		if transition.After == nil {
			next = append(next, fmt.Sprintf("%s when %t", transition.To, transition.When))
			continue
		}
		entered := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		next = append(next, fmt.Sprintf("%s at %s if entered at %s", transition.To,
			transition.After.Due(entered).Format(time.RFC3339), entered.Format(time.RFC3339)))
	}
	result := map[string]any{"spec": defaulted["spec"], "children": decision.Children, "next": next, "status": decision.Status}
	if k.Injects() {
		injection, err := k.Injection(defaulted)
		if err != nil {
			var evaluation *EvaluationError
			require.ErrorAs(t, err, &evaluation)
			return err.Error() + "\n"
		}
		result["inject"] = injection
	}
	return string(toYAML(t, result))
}

func toYAML(t testing.TB, value any) []byte {
	b, err := yaml.Marshal(value)
	require.NoError(t, err)
	return b
}

// fromYAML reads an object as the API machinery does, with integers as int64.
func fromYAML(t testing.TB, text []byte) map[string]any {
	b, err := yaml.YAMLToJSON(text)
	require.NoError(t, err)
	object := make(map[string]any)
	require.NoError(t, json.Unmarshal(b, &object))
	return object
}
