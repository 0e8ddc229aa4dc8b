package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/format"
	apiext "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-tools/pkg/crd"
)

// objectMeta is written by hand as #TemplateMeta: for controller-tools it is any object.
var objectMeta = typeName{metaV1, "ObjectMeta"}

// library collects the CUE definitions of Go types.
type library struct {
	schemas map[typeName]apiext.JSONSchemaProps
	// names has the type of each definition, since types of two packages may have the same name.
	names map[string]typeName
	// definitions holds the text of each definition by its name.
	definitions map[string]string
	// open are the types that are being written, each referred to by the one before it.
	open    []typeName
	imports map[string]bool
}

// render returns a CUE file with the definitions of roots and of all types that they refer to, and
// the number of definitions.
func render(header, pkg string, schemas map[typeName]apiext.JSONSchemaProps, roots []typeName) ([]byte, int, error) {
	l := &library{
		schemas:     schemas,
		names:       map[string]typeName{},
		definitions: map[string]string{},
		imports:     map[string]bool{},
	}
	for _, root := range roots {
		if _, err := l.reference(root); err != nil {
			return nil, 0, err
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n\npackage %s\n\n", header, pkg)
	if len(l.imports) > 0 {
		b.WriteString("import (\n")
		for _, path := range slices.Sorted(maps.Keys(l.imports)) {
			fmt.Fprintf(&b, "\t%q\n", path)
		}
		b.WriteString(")\n\n")
	}
	for _, name := range slices.Sorted(maps.Keys(l.definitions)) {
		b.WriteString(l.definitions[name] + "\n")
	}
	text, err := format.Source(b.Bytes())
	if err != nil {
		return nil, 0, fmt.Errorf("format the definitions: %w", err)
	}
	return text, len(l.definitions), nil
}

// value is a CUE expression, and the attributes that belong on its field.
type value struct {
	expr  string
	attrs []string
}

// reference returns the value of a field of the type t: the name of its definition, which it adds
// if needed, or the type's own value if it is neither a struct nor a union.
func (l *library) reference(t typeName) (value, error) {
	if t == objectMeta {
		return value{expr: "#TemplateMeta"}, nil
	}
	schema, ok := l.schemas[t]
	if !ok {
		return value{}, fmt.Errorf("%s.%s: no schema", t.pkg, t.name)
	}
	if slices.Contains(l.open, t) {
		return value{}, fmt.Errorf("%s.%s: is recursive, through %v", t.pkg, t.name, l.open)
	}
	l.open = append(l.open, t)
	defer func() { l.open = l.open[:len(l.open)-1] }()

	if schema.Properties == nil && !schema.XIntOrString {
		return l.value(schema, t.pkg)
	}
	if known, ok := l.names[t.name]; ok {
		if known != t {
			return value{}, fmt.Errorf("%s.%s: package %s also has a type with this name", t.pkg, t.name, known.pkg)
		}
		return value{expr: "#" + t.name}, nil
	}
	l.names[t.name] = t
	text, err := l.definition(t, schema)
	if err != nil {
		return value{}, fmt.Errorf("%s: %w", t.name, err)
	}
	l.definitions[t.name] = text
	return value{expr: "#" + t.name}, nil
}

// definition returns the text of the definition of t, a struct or an int-or-string.
func (l *library) definition(t typeName, schema apiext.JSONSchemaProps) (string, error) {
	if schema.XIntOrString {
		return fmt.Sprintf("%s#%s: %s\n", comment(schema.Description), t.name, intOrString(schema)), nil
	}
	s, err := l.flatten(t)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s#%s: {\n", comment(schema.Description), t.name)
	if s.mapType != "" {
		fmt.Fprintf(&b, "@kube(mapType=%s)\n", s.mapType)
	}
	for _, f := range s.sorted() {
		text, err := l.field(f)
		if err != nil {
			return "", fmt.Errorf("%s: %w", f.name, err)
		}
		b.WriteString(text)
	}
	b.WriteString("}\n")
	return b.String(), nil
}

// field is a field of a struct, with the package of its local references.
type field struct {
	name     string
	pkg      string
	required bool
	schema   apiext.JSONSchemaProps
}

// structure is a Go struct, including the fields of the structs that it inlines.
type structure struct {
	fields  map[string]field
	mapType string
}

// sorted returns the fields sorted by name, the required ones first.
func (s structure) sorted() []field {
	return slices.SortedFunc(maps.Values(s.fields), func(a, b field) int {
		switch {
		case a.required && !b.required:
			return -1
		case b.required && !a.required:
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
}

// flatten returns the fields of the struct t. Like controller-gen, it gives t the map type of a
// struct that it inlines.
func (l *library) flatten(t typeName) (structure, error) {
	schema := l.schemas[t]
	s := structure{fields: map[string]field{}}
	for _, inlined := range schema.AllOf {
		if inlined.Ref == nil {
			return s, errors.New("an inlined struct without a name")
		}
		target, err := resolve(*inlined.Ref, t.pkg)
		if err != nil {
			return s, err
		}
		inner, err := l.flatten(target)
		if err != nil {
			return s, err
		}
		maps.Copy(s.fields, inner.fields)
		s.mapType = inner.mapType
	}
	for name, property := range schema.Properties {
		s.fields[name] = field{name, t.pkg, slices.Contains(schema.Required, name), property}
	}
	if schema.XMapType != nil {
		s.mapType = *schema.XMapType
	}
	schema.AllOf, schema.Properties, schema.Required, schema.XMapType = nil, nil, nil, nil
	schema.Type, schema.Description = "", ""
	return s, rejectRest(schema)
}

// resolve returns the type that a reference in the package pkg means.
func resolve(ref, pkg string) (typeName, error) {
	name, other, err := crd.RefParts(ref)
	if err != nil {
		return typeName{}, err
	}
	if other != "" {
		pkg = other
	}
	return typeName{pkg, name}, nil
}

// field returns the text of one field.
func (l *library) field(f field) (string, error) {
	v, err := l.value(f.schema, f.pkg)
	if err != nil {
		return "", err
	}
	marker := "?"
	switch {
	case f.schema.Default != nil:
		// A field with a default is never missing, whether or not it is required.
		marker = ""
		v.expr = withDefault(string(f.schema.Default.Raw), v.expr)
	case f.required:
		marker = "!"
	}
	text := fmt.Sprintf("%s%s%s: %s", comment(f.schema.Description), label(f.name), marker, wrap(v.expr))
	if len(v.attrs) > 0 {
		text += fmt.Sprintf(" @kube(%s)", strings.Join(v.attrs, ","))
	}
	return text + "\n", nil
}

// label returns the name of a field as a label. Names with another meaning in CUE or in this file
// are quoted, so that they do not hide that meaning.
func label(name string) string {
	taken := []string{"bool", "int", "int32", "int64", "list", "number", "string", "strings", "struct", "time"}
	if ast.StringLabelNeedsQuoting(name) || slices.Contains(taken, name) {
		return fmt.Sprintf("%q", name)
	}
	return name
}

// withDefault marks the default among the alternatives of expr, or adds it before them.
func withDefault(literal, expr string) string {
	alternatives := strings.Split(expr, alternative)
	if i := slices.Index(alternatives, literal); i >= 0 {
		alternatives[i] = "*" + literal
		return strings.Join(alternatives, alternative)
	}
	return "*" + literal + alternative + expr
}

// wrap breaks the lines of a long enum between its alternatives.
func wrap(expr string) string {
	alternatives := strings.Split(expr, alternative)
	var b strings.Builder
	b.WriteString(alternatives[0])
	width := len(alternatives[0])
	for _, next := range alternatives[1:] {
		if width += len(alternative) + len(next); width > enumWidth {
			b.WriteString(" |\n\t" + next)
			width = len(next)
			continue
		}
		b.WriteString(alternative + next)
	}
	return b.String()
}

// rejectRest returns an error if schema still has something that was not written, so that nothing
// is lost when Kubernetes starts to use another part of JSON schema.
func rejectRest(schema apiext.JSONSchemaProps) error {
	if !reflect.DeepEqual(schema, apiext.JSONSchemaProps{}) {
		return fmt.Errorf("no CUE for this part of its schema: %s", schema.String())
	}
	return nil
}

// Lines of comments end in column 100 if a tab is four columns wide. So do lines of enums, except
// after the longest labels.
const (
	docWidth  = 100 - 4 - len("// ")
	enumWidth = 80
)

// comment returns doc as lines of a comment. Only lines that are too long are broken, since doc may
// have lists and tables.
func comment(doc string) string {
	if doc == "" {
		return ""
	}
	var b strings.Builder
	for line := range strings.SplitSeq(doc, "\n") {
		for len(line) > docWidth {
			end := strings.LastIndexByte(line[:docWidth+1], ' ')
			if end <= 0 {
				break
			}
			b.WriteString("// " + line[:end] + "\n")
			line = strings.TrimLeft(line[end:], " ")
		}
		b.WriteString(strings.TrimRight("// "+line, " ") + "\n")
	}
	return b.String()
}
