package proof

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/cuecontext"
	cueload "cuelang.org/go/cue/load"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"
	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// contractPaths are what the fields of a definition of the contract are called on the page, where they stand in a kind.
var contractPaths = map[string]string{
	"#Controller": "", "#Column": "columns: ", "#Child": "children: ", "#Read": "reads: ", "#Phase": "phases: ", "#Transition": "next: ",
	"#Injection": "inject: ", "#Decorator": "decorator: ", "#Target": "target: ", "#Decorated": "decorated: ", "#Conversion": "conversion: ",
	"#Status": "status: ", "#ScheduleStatus": "status: ", "#InjectionStatus": "status: ", "#Condition": "condition: ",
}

// docs/reference/contract.md has each field of the contract, with its comment, and each example in a comment is valid.
func TestContractPage(t *testing.T) {
	t.Parallel()
	p := contractPage{T: t, dir: "../../contract"}
	for _, file := range []string{"contract.cue", "decorator.cue", "conversion.cue", "status.cue"} {
		text, err := os.ReadFile(filepath.Join(p.dir, file))
		require.NoError(t, err)
		parsed, err := parser.ParseFile(file, text, parser.ParseComments)
		require.NoError(t, err)
		p.file = string(text)
		for _, decl := range parsed.Decls {
			if field, ok := decl.(*ast.Field); ok {
				p.definition(field)
			}
		}
	}
	files, err := filepath.Glob(p.dir + "/*.cue")
	require.NoError(t, err)
	require.Len(t, files, 4, "the page lacks a file of the contract")
	corpus.GoldenRest(t, "../../../docs/reference/contract.md", "<!-- Generated from cue/contract: go test ./cue/kind/proof -run TestContractPage -update -->", p.text.String())
}

// contractPage is the text of the page.
type contractPage struct {
	*testing.T
	dir, file string // file is the text that is read
	text      strings.Builder
}

func (p *contractPage) definition(d *ast.Field) {
	name := nameOf(d)
	require.Contains(p, contractPaths, name)
	fmt.Fprintf(&p.text, "\n## %s\n", map[bool]string{true: name + " fields", false: name}[name == "#Status"]) // status is a field, too
	p.comment(d, func(example string) string {
		if !strings.HasPrefix(example, "#") {
			return fmt.Sprintf("object: _\nobserved: _\nexample: #Controller & {\n%s\n}\n", example)
		}
		return "#At: {...}\n" + example
	})
	for _, elt := range d.Value.(*ast.StructLit).Elts {
		field, ok := elt.(*ast.Field)
		if !ok { // an ellipsis
			continue
		}
		fmt.Fprintf(&p.text, "\n### %s%s\n", contractPaths[name], nameOf(field))
		p.value(field)
		p.comment(field, func(example string) string {
			return fmt.Sprintf("object: _\nobserved: _\nstored: _\nindex: _\nexample: %s & {\n%s\n}\n", name, example)
		})
		p.parts(field)
	}
}

// value writes the type and the default of a field, and whether it is required.
func (p *contractPage) value(field *ast.Field) {
	value := p.source(field.Value)
	var facts []string
	if starred, ok := defaultIn(field.Value); ok {
		value = strings.Replace(value, "*", "", 1)
		facts = append(facts, "default `"+p.source(starred)+"`")
	}
	switch field.Constraint {
	case token.NOT:
		facts = append(facts, "required")
	case token.OPTION:
		facts = append(facts, "optional")
	}
	if strings.Contains(value, "\n") {
		fmt.Fprintf(&p.text, "\n%s:\n\n```\n%s\n```\n", strings.Join(append([]string{"A struct"}, facts...), ", "), value)
		return
	}
	fmt.Fprintf(&p.text, "\n%s\n", strings.Join(append([]string{"`" + value + "`"}, facts...), ", "))
}

// defaultIn returns the default of a disjunction.
func defaultIn(e ast.Expr) (ast.Expr, bool) {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		if found, ok := defaultIn(e.X); ok {
			return found, true
		}
		return defaultIn(e.Y)
	case *ast.UnaryExpr:
		return e.X, e.Op == token.MUL
	}
	return nil, false
}

// source returns the text of a node without comments.
func (p *contractPage) source(n ast.Node) string {
	var lines []string
	for line := range strings.SplitSeq(p.file[n.Pos().Offset():n.End().Offset()], "\n") {
		if line = strings.TrimPrefix(line, "\t"); !strings.HasPrefix(strings.TrimSpace(line), "//") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// parts writes the comments above the fields within a field; its type has those behind them.
func (p *contractPage) parts(field *ast.Field) {
	isFirst := true
	ast.Walk(field.Value, func(n ast.Node) bool {
		part, ok := n.(*ast.Field)
		if !ok {
			return true
		}
		if text, _ := commentsOf(part); text != "" {
			if isFirst {
				p.text.WriteString("\n")
			}
			isFirst = false
			fmt.Fprintf(&p.text, "- %s\n", strings.ReplaceAll(marked(nameOf(part), text), "\n", "\n  "))
		}
		return true
	}, nil)
}

// comment writes that of a field. What is indented is an example, which a package has that CUE can evaluate.
func (p *contractPage) comment(field *ast.Field, packageOf func(example string) string) {
	above, behind := commentsOf(field)
	text := marked(nameOf(field), cmp.Or(above, behind))
	if text == "" {
		return
	}
	var example []string
	end := func() {
		if len(example) > 0 {
			code := strings.Join(example, "\n")
			p.check(code, packageOf(code))
			fmt.Fprintf(&p.text, "\n```\n%s\n```\n", code)
			example = nil
		}
	}
	after := ""
	for line := range strings.SplitSeq("\n"+text, "\n") {
		code, isExample := strings.CutPrefix(line, "\t")
		switch {
		case isExample:
			example, after = append(example, code), "\n"
		case line == "":
			end()
			after = "\n"
		default:
			end()
			fmt.Fprintf(&p.text, "%s%s\n", after, line)
			after = ""
		}
	}
	end()
}

// check evaluates a text as a further file of the contract.
func (p *contractPage) check(example, text string) {
	dir, err := filepath.Abs(p.dir)
	require.NoError(p, err)
	overlay := map[string]cueload.Source{filepath.Join(dir, "example.cue"): cueload.FromString("package contract\n\n" + text)}
	instance := cueload.Instances([]string{"."}, &cueload.Config{Dir: dir, Overlay: overlay})[0]
	require.NoError(p, instance.Err, example)
	require.NoError(p, cuecontext.New().BuildInstance(instance).Validate(cue.Concrete(false)), example)
}

// nameOf returns the name of a field; a pattern like [string] has none.
func nameOf(field *ast.Field) string {
	name, _, _ := ast.LabelName(field.Label)
	return name
}

// codeInText is what a comment has of names and expressions that Markdown would change.
var codeInText = regexp.MustCompile(`(?:<\w+>-?)+[\w-]*|\S+ != _\|_|_\|_`)

// marked returns a comment in which the name at the beginning, and other code, is marked as such.
func marked(name, comment string) string {
	comment = codeInText.ReplaceAllString(comment, "`$0`")
	if rest, ok := strings.CutPrefix(comment, name+" "); ok {
		return "`" + name + "` " + rest
	}
	return comment
}

// commentsOf returns the comment above a field, and the one behind it, which has no name and no end.
func commentsOf(field *ast.Field) (above, behind string) {
	for _, group := range slices.Concat(ast.Comments(field), ast.Comments(field.Value)) {
		for _, line := range group.List {
			text := strings.TrimPrefix(strings.TrimPrefix(line.Text, "//"), " ")
			if group.Line {
				behind += strings.ToUpper(text[:1]) + text[1:] + "."
			} else if group.Doc {
				above += text + "\n"
			}
		}
	}
	return strings.TrimSpace(above), behind
}
