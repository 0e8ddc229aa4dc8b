package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// nonSpecificTag matches the one thing that version 3 of the YAML package drops and
// version 2 heeds: the tag ! turns any scalar into a string.
var nonSpecificTag = regexp.MustCompile(`!(\s|\x{85}|\x{2028}|\x{2029}|$)`)

// FuzzRead feeds any bytes as a file: nothing panics, every value is found at its path,
// and an object that stands alone equals that of the API machinery.
func FuzzRead(f *testing.F) {
	f.Add([]byte(located))
	f.Add([]byte("apiVersion: v1\nkind: List\nitems:\n- {on: [NO, 0777, ~]}\n--- # x\na: &a [1]\n? *a\n: b\n"))
	f.Add([]byte(`{"a":"\ud83d","b":[1.0,1e3]} {"a":{"a":null}}`))
	f.Add([]byte("a: |\n one\n two"))
	f.Add([]byte("a: b: c\n--- |\n x\n...\n%YAML 1.1\n---\n!!binary aGk=: !x y\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		objects, errs := Read("f", text)
		for _, err := range errs {
			require.NotEmpty(t, err.Error())
		}
		for _, o := range objects {
			if o.node.Kind == yaml.MappingNode && !nonSpecificTag.Match(text) {
				requireLocated(t, o, nil, o.Content)
			}
		}
		if len(errs) == 0 && len(objects) == 1 && !objects[0].document.json {
			requireSameAsAPIMachinery(t, text, objects[0])
		}
	})
}

func requireLocated(t *testing.T, o Object, path *field.Path, value any) {
	t.Helper()
	if path != nil {
		l := o.Locate(path.String())
		require.True(t, l.Found, "%s", path)
		require.Positive(t, l.Value.Line)
		require.Positive(t, l.Value.Column)
	}
	switch value := value.(type) {
	case map[string]any:
		for name, v := range value {
			requireLocated(t, o, path.Child(name), v)
		}
	case []any:
		for i, v := range value {
			requireLocated(t, o, path.Index(i), v)
		}
	}
}

// requireSameAsAPIMachinery compares an object with the documents that kubectl reads from the
// same file.
func requireSameAsAPIMachinery(t *testing.T, file []byte, o Object) {
	t.Helper()
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(bytes.TrimPrefix(file, []byte("\ufeff")))))
	var documents []any
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		text, err := sigsyaml.YAMLToJSON(document)
		require.NoError(t, err)
		var value any
		require.NoError(t, json.Unmarshal(text, &value))
		if list, isMap := value.(map[string]any); isMap {
			if _, isList := listItems(list); isList {
				return
			}
		}
		documents = append(documents, value)
	}
	require.Contains(t, documents, any(o.Content))
}
