package playground_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/hack/playground"
)

// answerOf returns the parts of an answer, joined.
type answerOf struct {
	findings      []playground.Finding
	checked       []string
	crd, rendered string
	moments       []playground.Moment
}

func ask(r playground.Request) (a answerOf) {
	playground.Answer(r, func(p playground.Part) {
		a.findings = append(a.findings, p.Findings...)
		if p.Checked != "" {
			a.checked = append(a.checked, p.Checked)
		}
		a.crd += p.CRD
		a.rendered += p.Rendered
		if p.Moment != nil {
			a.moments = append(a.moments, *p.Moment)
		}
	})
	return a
}

// example returns the texts of an example.
func example(t *testing.T, name string) playground.Request {
	t.Helper()
	read := func(file string) string {
		text, err := os.ReadFile(filepath.Join("../../examples", name, file))
		require.NoError(t, err)
		return string(text)
	}
	return playground.Request{Kind: read("kind.cue"), Sample: read("sample.yaml")}
}

// TestExamples has each example live without an error.
func TestExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../examples/*/kind.cue")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := ask(example(t, name))
			for _, f := range a.findings {
				require.True(t, f.Advice, "%+v", f)
			}
			require.Equal(t, []string{"kind.cue", "steps", "sample.yaml"}, a.checked)
			require.NotEmpty(t, a.rendered)
			steps := make([]string, len(a.moments))
			for i, m := range a.moments {
				steps[i] = m.Step
			}
			require.Contains(t, strings.Join(steps, "\n"), "\ndelete ", "%v", steps)
		})
	}
}

const kind = `package kinds

import (
	"fescue.dev/cue/contract"
	"fescue.dev/cue/k8s"
)

#Hello: {
	apiVersion!: "example.com/v1"
	kind!:       "Hello"
	metadata!:   k8s.#ObjectMeta
	spec!: count: *1 | int & >=0 & <=5
	status?: #HelloStatus
}

#HelloStatus: {}

#HelloController: contract.#Controller & {
	names: plural: "hellos"
	object: #Hello
	children: config: template: {
		apiVersion: "v1"
		kind:       "ConfigMap"
		data: count: "\(object.spec.count)"
	}
}
`

const sample = `apiVersion: example.com/v1
kind: Hello
metadata:
  name: hello
spec:
  count: 2
`

// TestAnswer has the parts of an answer about a kind without mistakes.
func TestAnswer(t *testing.T) {
	t.Parallel()
	a := ask(playground.Request{Kind: kind, Sample: sample})
	require.Empty(t, a.findings)
	require.Contains(t, a.crd, "kind: CustomResourceDefinition")
	require.Contains(t, a.rendered, "verb: create")
	require.Len(t, a.moments, 2)
	require.Equal(t, "apply sample.yaml", a.moments[0].Step)
	require.Equal(t, "Hello/hello", a.moments[0].Objects[0].Name)
	require.Equal(t, map[string]string{"ConfigMap/hello-config": "Current"}, a.moments[0].Objects[0].Children)
	require.Equal(t, []string{"create ConfigMap/hello-config"}, a.moments[0].Objects[0].Writes)
	require.Contains(t, a.moments[0].Manifests, `count: "2"`)
	require.Equal(t, "delete hello/hello", a.moments[1].Step)
	require.NotEmpty(t, a.moments[1].Objects[0].Gone)
}

// TestFindings names the text, the line and the check of what is wrong.
func TestFindings(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		request playground.Request
		want    playground.Finding
	}{
		"the syntax of the kind": {
			playground.Request{Kind: "package kinds\n\n#A: {\n"},
			playground.Finding{File: "kind.cue", Line: 3, Text: "expected '}', found 'EOF'", Check: "cue-syntax"},
		},
		"a field that the contract does not have": {
			playground.Request{Kind: strings.Replace(kind, "template:", "tmpl:", 1), Sample: sample},
			playground.Finding{File: "kind.cue", Line: 21, Text: "kind Hello: children.config.tmpl: unknown field: its fields are maxUnavailable, onDelete, ordered, ready, replicas, strays, template, update, when", Check: "unknown-field"},
		},
		"a field of the sample": {
			playground.Request{Kind: kind, Sample: strings.Replace(sample, "count: 2", "count: 9", 1)},
			playground.Finding{File: "sample.yaml", Line: 6, Text: "Hello/hello: spec.count: Invalid value: 9: must satisfy <=5"},
		},
		"the YAML of the sample": {
			playground.Request{Kind: kind, Sample: "a: [\n"},
			playground.Finding{File: "sample.yaml", Line: 2, Check: "invalid-manifest"},
		},
		"a command": {
			playground.Request{Kind: kind, Sample: sample, Steps: "apply sample.yaml\njump 1m\n"},
			playground.Finding{File: "steps", Line: 2},
		},
		"an object of a command": {
			playground.Request{Kind: kind, Sample: sample, Steps: "apply sample.yaml\ndelete hello/world\n"},
			playground.Finding{File: "steps", Line: 2, Text: "delete hello/world: hello/world does not exist; there are: Hello/hello, ConfigMap/hello-config"},
		},
		"what a scenario expects": {
			playground.Request{Kind: kind, Sample: sample, Steps: "apply sample.yaml\n-- after apply sample.yaml --\nnothing\n"},
			playground.Finding{File: "steps", Line: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := ask(test.request).findings
			require.NotEmpty(t, found)
			if test.want.Text == "" {
				test.want.Text = found[0].Text
			}
			require.Contains(t, found, test.want)
		})
	}
}

// TestEndlessBehaviour has a run end that would not.
func TestEndlessBehaviour(t *testing.T) {
	t.Parallel()
	a := ask(playground.Request{Kind: kind, Sample: sample, Steps: "apply sample.yaml\n" + strings.Repeat("delete configmap/hello-config\n", 2000)})
	require.Contains(t, a.findings[0].Text, "the limit of reconciles is reached")
}
