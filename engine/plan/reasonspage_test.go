package plan

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"
)

const troubleshooting = "../../docs/operate/troubleshooting.md"

// Each reason of a condition or an Event, and of `fescue status`, has exactly one entry in docs/operate/troubleshooting.md, and
// so has each reason why a Pod does not get what it asks for.
func TestEachReasonHasAnEntry(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(troubleshooting)
	require.NoError(t, err)
	_, page, found := strings.Cut(string(text), "\n## Reasons\n")
	require.True(t, found)
	s := sourcesOf(t, "../../cue/kind/*.go", "*.go", "../*.go", "../../internal/operator/*.go", "../../internal/cli/status*.go")
	require.Subset(t, s.reasons.UnsortedList(), []string{"ChildRejected", "Waiting", "Deleting", "NotStarted", "Reconciled", "ForeignObject", "MissedSchedule", "FieldsDropped", "Unreadable"})
	require.Equal(t, sets.List(s.reasons), slices.Sorted(slices.Values(firsts(regexp.MustCompile(`(?m)^### (\w+)$`), page))))
	skips := sourcesOf(t, "../inject/status.go").skips
	require.Contains(t, skips, "PodSecurity")
	skips.Delete("Injected") // it has what it asks for
	_, table, _ := strings.Cut(string(text), "\n## A Pod has no sidecar\n")
	table, _, _ = strings.Cut(table, "\n## ")
	require.Equal(t, sets.List(skips), slices.Sorted(slices.Values(firsts(regexp.MustCompile("(?m)^\\| `(\\w+)` \\|"), table))))
}

// firsts returns what the first group of a pattern matches, each time.
func firsts(pattern *regexp.Regexp, text string) (all []string) {
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// reason matches what Kubernetes calls a reason: a word in CamelCase.
var reason = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)

// sources are what some packages state: their constants by name, the reasons that they write, and those that a Pod shows.
type sources struct {
	constants      map[string]string
	reasons, skips sets.Set[string]
}

func sourcesOf(t *testing.T, patterns ...string) sources {
	t.Helper()
	s := sources{constants: make(map[string]string), reasons: sets.New[string](), skips: sets.New[string]()}
	var files []*ast.File
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			files = append(files, file)
			ast.Inspect(file, s.readConstant)
		}
	}
	for _, file := range files {
		ast.Inspect(file, s.readReason)
	}
	return s
}

// readConstant notes a constant whose value is a text.
func (s sources) readConstant(n ast.Node) bool {
	spec, ok := n.(*ast.ValueSpec)
	if !ok {
		return true
	}
	for i, name := range spec.Names {
		if i < len(spec.Values) {
			for _, value := range s.texts(spec.Values[i]) {
				s.constants[name.Name] = value
				if of, isNamed := spec.Type.(*ast.Ident); isNamed && of.Name == "Reason" {
					s.skips.Insert(value)
				}
			}
		}
	}
	return true
}

// readReason notes what is written as a reason: a field Reason, the first field of a Problem, or an argument of an Event.
func (s sources) readReason(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Reason" {
			s.reasons.Insert(s.texts(n.Value)...)
		}
	case *ast.AssignStmt:
		for i, to := range n.Lhs {
			if field, ok := to.(*ast.SelectorExpr); ok && field.Sel.Name == "Reason" && len(n.Rhs) == len(n.Lhs) {
				s.reasons.Insert(s.texts(n.Rhs[i])...)
			}
		}
	case *ast.CompositeLit:
		if of, ok := n.Type.(*ast.Ident); ok && of.Name == "Problem" && len(n.Elts) > 0 {
			s.reasons.Insert(s.texts(n.Elts[0])...)
		}
	case *ast.CallExpr:
		switch f := n.Fun.(type) {
		case *ast.Ident:
			if f.Name == "newEvent" {
				s.reasons.Insert(s.texts(n.Args[1])...)
			}
		case *ast.SelectorExpr:
			if f.Sel.Name == "Eventf" {
				s.reasons.Insert(s.texts(n.Args[3])...)
			}
		}
	}
	return true
}

// texts returns the texts that an expression may be, as far as they are known.
func (s sources) texts(e ast.Expr) (all []string) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && reason.MatchString(text) {
			all = append(all, text)
		}
	case *ast.Ident:
		if text, ok := s.constants[e.Name]; ok {
			all = append(all, text)
		}
	case *ast.SelectorExpr:
		return s.texts(e.Sel)
	case *ast.CallExpr:
		for _, argument := range e.Args {
			all = append(all, s.texts(argument)...)
		}
	}
	return all
}
