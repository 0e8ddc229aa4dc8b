package binding_test

import (
	"maps"
	"slices"
	"testing"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/parser"
	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind/binding"
)

const source = `
package p

import (
	"strings"
	other "example.com/q:r"
)

let top = 1
atTop: 2
atTop: int
x: {
	own:     string
	let inner = 3
	own:     "a"
	A=alias: {value: V={self: V}, label: A}
	[N=string]: N
	results: [for k, v in elsewhere let w = v if v > 0 {k}]
	uses: [top, atTop, own, inner, strings.ToUpper(own), other.#D, w]
}
`

// TestOf compares each name with what the specification of CUE says that it refers to.
func TestOf(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile("p.cue", source)
	require.NoError(t, err)
	found := make(map[string]binding.Binding)
	ast.Walk(file, func(n ast.Node) bool {
		if f, ok := n.(*ast.Field); ok {
			ast.Walk(f.Value, func(n ast.Node) bool {
				if ident, ok := n.(*ast.Ident); ok && (ident.Node != nil || found[ident.Name].Kind == 0) {
					found[ident.Name] = binding.Of(ident)
				}
				return true
			}, nil)
		}
		return true
	}, nil)
	kinds := make(map[string]binding.Kind)
	for name, b := range found {
		if b.Kind != binding.Unbound {
			kinds[name] = b.Kind
		}
	}
	require.Equal(t, map[string]binding.Kind{
		"strings": binding.Import, "other": binding.Import, "top": binding.Let, "inner": binding.Let, "A": binding.Alias,
		"V": binding.Alias, "own": binding.Field, "atTop": binding.Top, "N": binding.Variable, "k": binding.Variable,
		"v": binding.Variable,
	}, kinds, "w is known in its comprehension only, elsewhere and the types are not in the file")
	require.Contains(t, found, "w")
	require.Contains(t, found, "elsewhere")

	require.Equal(t, "example.com/q", found["other"].Path)
	require.Equal(t, "3", found["inner"].Expr.(*ast.BasicLit).Value)
	require.IsType(t, (*ast.StructLit)(nil), found["A"].Expr)
	require.Equal(t, "v", found["v"].Expr.(*ast.Ident).Name)
	own := found["own"].Fields("own")
	require.Len(t, own, 2)
	require.Same(t, own[1].Value, found["own"].Expr)

	tops := make(binding.TopLevels).FieldsOf(&build.Instance{Files: []*ast.File{file}})
	require.Equal(t, []string{"atTop", "x"}, slices.Sorted(maps.Keys(tops)))
	require.Len(t, tops["atTop"], 2)
}

// TestSelected selects from packages, and from what is none.
func TestSelected(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile("p.cue", `
package p
import "example.com/q:r"
x: {a: 1}
uses: [r.#D, x.a, x["a"], x.a.b, {a: 1}.a]
`)
	require.NoError(t, err)
	var all [][2]string
	ast.Walk(file, func(n ast.Node) bool {
		if e, ok := n.(*ast.SelectorExpr); ok {
			path, name := binding.Selected(e)
			all = append(all, [2]string{path, name})
		}
		return true
	}, nil)
	require.Equal(t, [][2]string{{"example.com/q", "#D"}, {"", "a"}, {"", "b"}, {"", "a"}, {"", "a"}}, all)

	library := &build.Instance{ImportPath: "example.com/q:r", PkgName: "r"}
	in := &build.Instance{Imports: []*build.Instance{library}}
	require.Same(t, library, binding.Imported(in, "example.com/q"))
	require.Nil(t, binding.Imported(in, "strings"))
}
