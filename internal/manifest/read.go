package manifest

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/json"
	sigsyaml "sigs.k8s.io/yaml"
)

// MaxSize is the maximum size in bytes of a file, and of a document with its aliases
// expanded. The API server accepts requests of at most 3 MiB, so this is room for two of the
// largest possible objects, or thousands of usual ones. Nodes take memory: 8 MB of "1," are
// the worst case, with 1.6 GB and eight seconds.
const MaxSize = 8 << 20

// Object is one object of a manifest.
type Object struct {
	// Content is the object as the API machinery reads it.
	Content map[string]any
	// Position is where it begins.
	Position Position

	document *document
	node     *yaml.Node
}

// document is shared by the objects of one document.
type document struct {
	file string
	chunk
	// names holds the field name that the API machinery derives from each key.
	names map[*yaml.Node]string
}

// position returns the place of a node in the file.
func (d *document) position(node *yaml.Node) Position {
	p := Position{File: d.file, Line: d.line + node.Line, Column: node.Column}
	if node.Line == 1 {
		p.Column += d.column
	}
	return p
}

// Read reads all objects of a file, those in lists one by one, and returns all errors, sorted
// by position. A part that cannot be read does not prevent reading the others. Empty
// documents are skipped. file is the name of the file in positions.
func Read(file string, text []byte) ([]Object, []*Error) {
	r := reader{file: file}
	r.read(text)
	slices.SortStableFunc(r.errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Position.Line, b.Position.Line), cmp.Compare(a.Position.Column, b.Position.Column))
	})
	return r.objects, r.errs
}

// reader collects the objects and errors of one file.
type reader struct {
	file    string
	objects []Object
	errs    []*Error
}

func (r *reader) fail(position Position, errorType ErrorType, format string, args ...any) {
	r.errs = append(r.errs, &Error{Position: position, Type: errorType, Message: fmt.Sprintf(format, args...)})
}

func (r *reader) read(text []byte) {
	if len(text) > MaxSize {
		r.fail(Position{File: r.file}, TooLarge, "is larger than %d MiB: split it", MaxSize>>20)
		return
	}
	// The byte order mark has no part in the columns.
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	chunks := splitJSON(text)
	if chunks == nil {
		var rejected []int
		chunks, rejected = splitYAML(text)
		for _, line := range rejected {
			r.fail(Position{r.file, line + 1, 4}, Syntax,
				"only a comment may follow --- on its line: kubectl rejects anything else")
		}
	}
	for _, c := range chunks {
		r.readDocument(&document{file: r.file, chunk: c, names: make(map[*yaml.Node]string)})
	}
}

// readDocument adds the objects of one document.
func (r *reader) readDocument(d *document) {
	root, next, err := parse(d.text)
	switch {
	case err != nil && d.json:
		// YAML rejects some JSON, such as characters in two \u escapes: then everything
		// is located at the beginning of the document.
		root = &yaml.Node{Kind: yaml.ScalarNode, Line: 1, Column: 1}
	case err != nil:
		line, message := syntaxError(d.text)
		r.fail(Position{File: d.file, Line: d.line + line}, Syntax, "%s", message)
		return
	case root == nil:
		return
	}
	if next != nil {
		r.fail(d.position(next), Syntax, "kubectl ignores text after the end of a document: begin the next with ---")
	}
	if err := checkExpansion(root); err != nil {
		r.fail(d.position(root), TooLarge, "%v", err)
		return
	}
	if !r.readKeys(d, root) {
		return
	}
	value, err := decode(d.chunk)
	if err != nil {
		r.fail(d.position(root), Syntax, "%s", strings.TrimPrefix(err.Error(), "yaml: "))
		return
	}
	if value != nil {
		r.add(d, value, root)
	}
}

// decode reads a document as the API machinery does: integers are int64.
func decode(c chunk) (value any, err error) {
	text := c.text
	if !c.json {
		if text, err = sigsyaml.YAMLToJSON(text); err != nil {
			return nil, err
		}
	}
	err = json.Unmarshal(text, &value)
	return value, err
}

// add adds an object, or those in a list.
func (r *reader) add(d *document, value any, node *yaml.Node) {
	content, ok := value.(map[string]any)
	if !ok {
		r.fail(d.position(node), Syntax, "must be an object with apiVersion and kind, is %s", typeName(value))
		return
	}
	items, isList := listItems(content)
	if !isList {
		r.objects = append(r.objects, Object{Content: content, Position: d.position(node), document: d, node: node})
		return
	}
	list := match{value: node}.find(d, "items")
	nodes := target(list.value).Content
	for i, item := range items {
		itemNode := node
		if i < len(nodes) { // false only if the document has no tree of nodes
			itemNode = nodes[i]
		}
		r.add(d, typed(item, content), itemNode)
	}
}

// listItems returns the items of a list: of the List that kubectl prints, and of the
// lists of single kinds, which the API server answers with.
func listItems(content map[string]any) (items []any, isList bool) {
	items, isList = content["items"].([]any)
	kind, _ := content["kind"].(string)
	if value, ok := content["items"]; kind == "List" && content["apiVersion"] == "v1" && ok && value == nil {
		return nil, true
	}
	return items, isList && strings.HasSuffix(kind, "List")
}

// typed gives an item of a list its type from the list if it states none, as in the
// lists that the API server answers with.
func typed(item any, list map[string]any) any {
	content, ok := item.(map[string]any)
	kind, _ := list["kind"].(string)
	kind = strings.TrimSuffix(kind, "List")
	if !ok || kind == "" || content["apiVersion"] != nil || content["kind"] != nil {
		return item
	}
	content["apiVersion"], content["kind"] = list["apiVersion"], kind
	return content
}

// typeName returns what people call the type of a value.
func typeName(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case []any:
		return "a list"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	}
	return "a number"
}
