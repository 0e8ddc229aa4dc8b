package load

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"
	"github.com/stretchr/testify/require"

	fescuecue "github.com/fescue-dev/fescue/cue"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// Every type of the library can be written where it belongs, in a child and in what is injected: with the fields that
// Kubernetes requires, and with all of its fields; whatever values they have.
func TestLibraryTypesCanBeWritten(t *testing.T) {
	t.Parallel()
	library := readLibrary(t)
	var text strings.Builder
	text.WriteString("package k\nimport (\"fescue.dev/cue/contract\", \"fescue.dev/cue/k8s\")\n")
	names := slices.Sorted(maps.Keys(library))
	places := library.places()
	for i, name := range names {
		for j, full := range []bool{false, true} {
			write := places[name]
			require.NotNil(t, write, "%s stands nowhere in a child", name)
			child, inject := write("k8s." + name + " & " + library.sample(name, full))
			fmt.Fprintf(&text, `
#K%[1]dN%[2]d: {apiVersion!: "try.example.com/v1", kind!: "K%[1]dN%[2]d", metadata!: {...}, status?: contract.#Status}
#K%[1]dN%[2]dController: contract.#Controller & {
	object!: #K%[1]dN%[2]d
	names: plural: "k%[1]dn%[2]ds"
	children: child: template: %[3]s
	%[4]s
}
`, i, j, child, inject)
		}
	}
	kinds, err := draftsOf(t, text.String())
	require.NoError(t, err)
	require.Len(t, kinds, 2*len(names))
	requireNoMistakes(t, kinds, mistake.InvalidValue)
}

// libraryTypes are the definitions of the library, each with its conjuncts.
type libraryTypes map[string][]ast.Expr

func readLibrary(t *testing.T) libraryTypes {
	library := make(libraryTypes)
	files, err := fs.Glob(fescuecue.Files, "k8s/*.cue")
	require.NoError(t, err)
	for _, name := range files {
		text, err := fescuecue.Files.ReadFile(name)
		require.NoError(t, err)
		file, err := parser.ParseFile(name, text)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.Field); ok {
				name, _, err := ast.LabelName(f.Label)
				require.NoError(t, err)
				library[name] = append(library[name], f.Value)
			}
		}
	}
	return library
}

// fieldsOf returns the fields of a type with what is unified in each, and the names of those that are required.
func (l libraryTypes) fieldsOf(name string) (fields map[string][]ast.Expr, required []string) {
	fields = make(map[string][]ast.Expr)
	for _, e := range l[name] {
		s, ok := e.(*ast.StructLit)
		if !ok {
			continue
		}
		for _, decl := range s.Elts {
			if f, ok := decl.(*ast.Field); ok {
				field, _, _ := ast.LabelName(f.Label)
				fields[field] = append(fields[field], f.Value)
				if f.Constraint == token.NOT && !slices.Contains(required, field) {
					required = append(required, field)
				}
			}
		}
	}
	return fields, required
}

// leftOut are the fields that a full sample leaves out: Kubernetes takes them only without others, or they cannot be
// injected.
var leftOut = map[string][]string{
	"#EnvVar": {"valueFrom"}, "#Probe": {"grpc", "httpGet", "tcpSocket"}, "#Volume": kind.RemovedVolumes,
}

// sample returns a value of a type, with all fields or those that are required.
func (l libraryTypes) sample(name string, full bool) string {
	switch name {
	case "#Quantity", "#IntOrString", "#PortNumber", "#FileMode", "#ID":
		return "1"
	case "#DNSLabel", "#DNSSubdomain", "#LabelValue", "#PortName", "#ConfigKey":
		return `"a"`
	case "#EmbeddedObject":
		return `{apiVersion: "v1", kind: "ConfigMap", metadata: {}}`
	}
	fields, names := l.fieldsOf(name)
	if full {
		names = slices.Sorted(maps.Keys(fields))
		names = slices.DeleteFunc(names, func(field string) bool { return slices.Contains(leftOut[name], field) })
	}
	return l.structure(fields, names)
}

func (l libraryTypes) structure(fields map[string][]ast.Expr, names []string) string {
	var texts []string
	for _, field := range names {
		texts = append(texts, field+": "+l.valueOf(field, fields[field]))
	}
	return "{" + strings.Join(texts, ", ") + "}"
}

// valueOf returns a value of a field.
func (l libraryTypes) valueOf(field string, exprs []ast.Expr) string {
	switch field {
	case "expirationSeconds":
		return "600"
	case "path":
		return `"/a"`
	}
	inner, wrap := element(exprs)
	for _, e := range inner {
		for _, e := range syntax.Flatten(e) {
			switch e := e.(type) {
			case *ast.Ident:
				if l[e.Name] != nil {
					return wrap(l.sample(e.Name, false))
				}
				switch e.Name {
				case "string":
					return wrap(`"a"`)
				case "bool":
					return wrap("true")
				case "int32", "int64":
					return wrap("1")
				}
			case *ast.SelectorExpr:
				if syntax.SourceOf(e) == "time.Time" {
					return wrap(`"2026-01-01T00:00:00Z"`)
				}
			case *ast.BasicLit:
				return wrap(e.Value)
			}
		}
	}
	return wrap(`"a"`)
}

// element returns what the values in a list or a map are unified from, and what makes one of them the list or map.
func element(exprs []ast.Expr) (inner []ast.Expr, wrap func(string) string) {
	wrap = func(text string) string { return text }
	for _, e := range exprs {
		for _, e := range syntax.Conjuncts(e) {
			switch e := e.(type) {
			case *ast.ListLit:
				wrap = func(text string) string { return "[" + text + "]" }
				inner = append(inner, e.Elts[0].(*ast.Ellipsis).Type)
			case *ast.StructLit: // [string]: T
				wrap = func(text string) string { return "{a: " + text + "}" }
				inner = append(inner, e.Elts[0].(*ast.Field).Value)
			default:
				inner = append(inner, e)
			}
		}
	}
	return inner, wrap
}

// places returns where each type can be written: the template of a child and, if it can be injected, an inject around a
// value.
func (l libraryTypes) places() map[string]func(string) (child, inject string) {
	const configMap = `{apiVersion: "v1", kind: "ConfigMap"}`
	places := map[string]func(string) (child, inject string){
		"#EmbeddedObject": func(text string) (string, string) { return text + " & " + configMap, "" },
		"#ObjectMeta":     func(text string) (string, string) { return configMap + " & {metadata: " + text + "}", "" },
	}
	deployment := func(template string) string {
		if strings.Contains(template, "volumeMounts") {
			template += ` & {spec: volumes: [{name: "a"}]}`
		}
		return `{apiVersion: "apps/v1", kind: "Deployment", spec: {selector: matchLabels: a: "a", template: {metadata: labels: a: "a", spec: containers: [...{image: "a"}]} & ` + template + `}}`
	}
	for name, write := range l.within("#PodTemplateSpec") {
		places[name] = func(text string) (string, string) { return deployment(write(text)), "" }
	}
	for name, write := range l.within("#PodSpec") {
		places[name] = func(text string) (child, inject string) {
			child = deployment("{spec: " + write(text) + "}")
			if slices.ContainsFunc(kind.RemovedVolumes, func(name string) bool { return strings.Contains(child, name+": ") }) {
				return child, ""
			}
			return child, `inject: {annotation: "try.example.com/a", add: spec: ` + write(text) + "}"
		}
	}
	return places
}

// within returns where each type that a type contains can be written in it.
func (l libraryTypes) within(root string) map[string]func(string) string {
	found := map[string]func(string) string{root: func(text string) string { return text }}
	for queue := []string{root}; len(queue) > 0; queue = queue[1:] {
		name := queue[0]
		fields, required := l.fieldsOf(name)
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			inner, wrap := element(fields[field])
			for _, e := range inner {
				ident, ok := e.(*ast.Ident)
				if !ok || l[ident.Name] == nil || found[ident.Name] != nil {
					continue
				}
				others := l.structure(fields, slices.DeleteFunc(slices.Clone(required), func(name string) bool { return name == field }))
				found[ident.Name] = func(text string) string {
					return found[name](others + " & {" + field + ": " + wrap(text) + "}")
				}
				queue = append(queue, ident.Name)
			}
		}
	}
	return found
}
