package syntax

import (
	"testing"

	"cuelang.org/go/cue/parser"
	"github.com/stretchr/testify/require"
)

// CUE's formatter panics for a comprehension alone.
func TestComprehensionIsNoLiteral(t *testing.T) {
	t.Parallel()
	expr, err := parser.ParseExpr("kind.cue", `["a", for x in ["b"] {x}]`)
	require.NoError(t, err)
	_, err = LiteralValue(expr)
	require.ErrorContains(t, err, `for x in ["b"]`)
}
