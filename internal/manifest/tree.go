package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	yamlv2 "go.yaml.in/yaml/v2"
	"go.yaml.in/yaml/v3"
)

// parse returns the tree of nodes of a document, or nil if the text has no document. next is
// the document after it, if there is one.
func parse(text []byte) (root, next *yaml.Node, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var documents [2]yaml.Node
	for i := range documents {
		if err := decoder.Decode(&documents[i]); err != nil && !errors.Is(err, io.EOF) {
			return nil, nil, err
		}
	}
	return content(&documents[0]), content(&documents[1]), nil
}

// content returns what a document consists of.
func content(document *yaml.Node) *yaml.Node {
	if len(document.Content) == 0 {
		return nil
	}
	return document.Content[0]
}

var (
	lineOfError = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?`)
	// parserError matches the errors for which the YAML package names a line that is one
	// too small, unlike in errors of its scanner.
	parserError = regexp.MustCompile(`^(did not find expected|found (incompatible|duplicate|undefined))`)
)

// syntaxError finds the line, counted from 1, and the message of the error with which
// parse rejects the text of a document. Version 2 of the package names the line of the
// error, and version 3 often that at which the innermost mapping begins. Where neither
// knows a line it is the first.
func syntaxError(text []byte) (line int, message string) {
	// Without a line before it, errors in the first line have no line number.
	text = append([]byte("\n"), text...)
	// The struct without fields keeps aliases from being expanded.
	err := yamlv2.Unmarshal(text, &struct{}{})
	if err == nil {
		_, _, err = parse(text)
	}
	message = err.Error()
	m := lineOfError.FindStringSubmatch(message)
	message = message[len(m[0]):]
	line, _ = strconv.Atoi(m[1])
	if !parserError.MatchString(message) {
		line--
	}
	return max(line, 1), message
}

// checkExpansion rejects a document that contains itself, or that exceeds MaxSize once
// its aliases are expanded: a few lines of YAML can stand for gigabytes.
func checkExpansion(root *yaml.Node) error {
	size, err := expandedSize(root, make(map[*yaml.Node]int))
	if err == nil && size > MaxSize {
		err = fmt.Errorf("is larger than %d MiB with its aliases expanded", MaxSize>>20)
	}
	return err
}

// expandedSize returns about how long a node is with its aliases expanded; above MaxSize it is
// not exact. An anchor comes before its aliases, so anchored has the sizes of those that
// end before node.
func expandedSize(node *yaml.Node, anchored map[*yaml.Node]int) (int, error) {
	if node.Kind == yaml.AliasNode {
		size, done := anchored[node.Alias]
		if !done {
			return 0, fmt.Errorf("the value of anchor %q contains itself", node.Value)
		}
		return size, nil
	}
	size := len(node.Value) + 1
	for _, child := range node.Content {
		n, err := expandedSize(child, anchored)
		if err != nil {
			return 0, err
		}
		size = min(size+n, MaxSize+1) // the sum of many cannot overflow
	}
	if node.Anchor != "" {
		anchored[node] = size
	}
	return size, nil
}

// target returns the node that an alias refers to, and any other node itself.
func target(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// isMerge reports whether a key merges the fields of other mappings into its own.
func isMerge(key *yaml.Node) bool { return key.Kind == yaml.ScalarNode && key.Tag == "!!merge" }

// readKeys finds the names of all keys below a node, and reports those that cannot be
// read and those that a mapping has twice. It returns whether all can be read. Aliases
// are not followed, so that each node is seen once.
func (r *reader) readKeys(d *document, node *yaml.Node) (ok bool) {
	ok = true
	if node.Kind == yaml.MappingNode {
		seen := make(map[string]*yaml.Node)
		for i := 0; i < len(node.Content); i += 2 {
			key := node.Content[i]
			if isMerge(key) {
				continue
			}
			name, err := keyName(target(key))
			if err != nil {
				r.fail(d.position(key), Syntax, "this cannot be the name of a field: quote it")
				ok = false
				continue
			}
			d.names[key] = name
			if first, found := seen[name]; found {
				r.fail(d.position(key), DuplicateKey, "duplicate key %q: the first is in line %d%s", name,
					d.position(first).Line, hint(surprise(key)))
				continue
			}
			seen[name] = key
		}
	}
	for _, child := range node.Content {
		ok = r.readKeys(d, child) && ok
	}
	return ok
}

// hint returns a surprise as the end of a message.
func hint(surprise string) string {
	if surprise == "" {
		return ""
	}
	return "; " + surprise
}
