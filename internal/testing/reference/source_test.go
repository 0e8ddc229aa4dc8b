package reference

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// folder is the source of one package.
type folder struct {
	files  []*ast.File
	values map[string]ast.Expr // of constants
	scope  *types.Package      // has those that were evaluated
}

// product returns the packages of the product, by the path of their folder. Tests, and what helps them, are left out.
func product(t *testing.T) map[string]*folder {
	t.Helper()
	folders := make(map[string]*folder)
	for _, root := range []string{"admission", "crds", "cue", "engine", "internal"} {
		dir := corpus.Path(t, root)
		require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && path == corpus.Path(t, "internal/testing"):
				return filepath.SkipDir
			case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(corpus.Path(t, "."), filepath.Dir(path))
			if err != nil {
				return err
			}
			name = filepath.ToSlash(name)
			if folders[name] == nil {
				folders[name] = newFolder(name)
			}
			folders[name].add(file)
			return nil
		}))
	}
	return folders
}

// newFolder returns one whose constants can be those of package time.
func newFolder(name string) *folder {
	f := &folder{values: make(map[string]ast.Expr), scope: types.NewPackage(name, name)}
	duration := types.NewNamed(types.NewTypeName(token.NoPos, f.scope, "Duration", nil), types.Typ[types.Int64], nil)
	for unit, value := range map[string]int64{"Millisecond": 1e6, "Second": 1e9, "Minute": 60e9, "Hour": 3600e9} {
		f.scope.Scope().Insert(types.NewConst(token.NoPos, f.scope, unit, duration, constant.MakeInt64(value)))
	}
	return f
}

func (f *folder) add(file *ast.File) {
	f.files = append(f.files, file)
	ast.Inspect(file, func(n ast.Node) bool {
		if decl, ok := n.(*ast.GenDecl); ok && decl.Tok == token.CONST {
			for _, spec := range decl.Specs {
				spec := spec.(*ast.ValueSpec)
				for i, value := range spec.Values {
					f.values[spec.Names[i].Name] = value
				}
			}
		}
		return true
	})
}

// constant evaluates a constant, which may depend on others of its package and on those of package time.
func (f *folder) constant(t *testing.T, name string) types.TypeAndValue {
	t.Helper()
	expr := f.values[name]
	require.NotNil(t, expr, "%s has no constant %s", f.scope.Path(), name)
	ast.Inspect(expr, func(n ast.Node) bool {
		if ident, ok := n.(*ast.Ident); ok && f.values[ident.Name] != nil && f.scope.Scope().Lookup(ident.Name) == nil {
			value := f.constant(t, ident.Name)
			f.scope.Scope().Insert(types.NewConst(token.NoPos, f.scope, ident.Name, value.Type, value.Value))
		}
		return true
	})
	value, err := types.Eval(token.NewFileSet(), f.scope, token.NoPos, strings.ReplaceAll(types.ExprString(expr), "time.", ""))
	require.NoError(t, err, "%s.%s", f.scope.Path(), name)
	return value
}

// text returns the value of a constant that is a literal text.
func (f *folder) text(name string) string {
	return literal(f.values[name])
}

// literal returns the value of a literal text; it is empty for anything else.
func literal(n ast.Node) string {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		panic(err) // it was parsed
	}
	return text
}

// row is a row of a table, with the headings above it.
type row struct {
	section string
	cells   []string
}

// page returns the rows of all tables of a page, and its headings of the third level. The header of a table, and the line below it,
// are no rows.
func page(t *testing.T, name string) (rows []row, headings []string) {
	t.Helper()
	text, err := os.ReadFile(corpus.Path(t, "docs/reference/"+name))
	require.NoError(t, err)
	section, isTable := "", false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			section = heading
		}
		if heading, ok := strings.CutPrefix(line, "### "); ok {
			headings = append(headings, heading)
		}
		switch {
		case !strings.HasPrefix(line, "|"):
			isTable = false
		case strings.HasPrefix(line, "|---"):
			isTable = true
		case isTable:
			cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, row{section, cells})
		}
	}
	require.NotEmpty(t, rows)
	return rows, headings
}

// code returns the part of a cell that is marked as code at its beginning.
func code(cell string) string {
	rest, ok := strings.CutPrefix(cell, "`")
	if !ok {
		return ""
	}
	text, _, _ := strings.Cut(rest, "`")
	return text
}
