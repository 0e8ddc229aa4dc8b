package mistake

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each check has one explanation.
func TestChecksAreExplained(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "mistake.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	var declared, explained []string
	for _, d := range file.Decls {
		constants, _ := d.(*ast.GenDecl)
		if constants == nil || constants.Tok != token.CONST {
			continue
		}
		for _, spec := range constants.Specs {
			value := spec.(*ast.ValueSpec).Values[0].(*ast.BasicLit).Value
			declared = append(declared, value[1:len(value)-1])
		}
	}
	for _, e := range All() {
		explained = append(explained, string(e.Check))
	}
	require.ElementsMatch(t, declared, explained)
}
