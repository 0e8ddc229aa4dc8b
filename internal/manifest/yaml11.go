package manifest

import (
	"fmt"
	"regexp"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/json"
	sigsyaml "sigs.k8s.io/yaml"
)

// readScalar returns what the API machinery reads for a scalar that stands alone.
func readScalar(node *yaml.Node) (value any, err error) {
	text, err := yaml.Marshal(withoutComments(node))
	if err != nil {
		return nil, err
	}
	return decode(chunk{text: text})
}

// withoutComments copies a scalar without its comments.
func withoutComments(node *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: node.Kind, Style: node.Style, Tag: node.Tag, Value: node.Value}
}

// keyName returns the field name that the API machinery derives from a key: the key on is
// the field "true" for it.
func keyName(key *yaml.Node) (string, error) {
	if key.Kind != yaml.ScalarNode {
		return "", fmt.Errorf("a key must be a scalar")
	}
	if isString(key) {
		return key.Value, nil
	}
	null := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	text, err := yaml.Marshal(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{withoutComments(key), null}})
	if err != nil {
		return "", err
	}
	text, err = sigsyaml.YAMLToJSON(text)
	if err != nil {
		return "", err
	}
	var mapping map[string]any
	if err := json.Unmarshal(text, &mapping); err != nil {
		return "", err
	}
	for name := range mapping {
		return name, nil
	}
	return "", fmt.Errorf("a key must not be empty")
}

// isString reports whether a scalar is surely a string, which saves reading it again. The
// node's tag follows YAML 1.2; the only strings there that YAML 1.1 reads differently are booleans
// such as off, of at most three letters.
func isString(node *yaml.Node) bool {
	return node.Tag == "!!str" && (node.Style&^yaml.TaggedStyle != 0 || len(node.Value) > 3)
}

// core matches the plain scalars that are not strings and mean the same in YAML 1.1 and in
// the core schema of 1.2.
var core = regexp.MustCompile(`^(true|True|TRUE|false|False|FALSE` +
	`|[-+]?(0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+` +
	`|[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+)$`)

// surprise explains how the API machinery reads a scalar that people, or the rules of YAML
// 1.2, read as something else.
func surprise(node *yaml.Node) string {
	node = target(node)
	if node.Kind != yaml.ScalarNode || node.Style != 0 || core.MatchString(node.Value) {
		return ""
	}
	value, err := readScalar(node)
	if err != nil {
		return ""
	}
	const format = "YAML 1.1, which Kubernetes reads, takes the plain %s for the %s %v: quote it"
	switch value.(type) {
	case bool:
		return fmt.Sprintf(format, node.Value, "boolean", value)
	case int64, float64:
		return fmt.Sprintf(format+", or write %[3]v", node.Value, "number", value)
	}
	return ""
}
