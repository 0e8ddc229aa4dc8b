package load

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"

	"github.com/fescue-dev/fescue/cue/kind/place"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// hashLength is the number of hexadecimal digits of a hash: enough to tell versions apart, and short
// enough to be read.
const hashLength = 16

// isContract reports whether a package is the contract, of whatever version of its module.
func isContract(of *build.Instance) bool {
	path, _, _ := strings.Cut(strings.SplitN(of.ImportPath, ":", 2)[0], "@")
	return path == syntax.ContractPackage
}

// hashOf identifies the source of a package and of what it imports, without comments and formatting.
// Of Fescue's own packages, only the contract counts: what it means to be a kind may change with
// Fescue's version, while other types of children only change the schema of the CRD. Whoever changes what counts, or
// the contract, moves otherBuild in e2e/builds_test.go: no build runs the CRDs of one with another hash.
func hashOf(instance *build.Instance) (string, error) {
	hash := sha256.New()
	seen := make(map[*build.Instance]bool)
	var add func(*build.Instance) error
	add = func(of *build.Instance) error {
		if seen[of] || of != instance && strings.HasPrefix(of.ImportPath, place.ModulePath+"/") && !isContract(of) {
			return nil
		}
		seen[of] = true
		for _, file := range of.Files {
			hashSyntax(hash, file)
		}
		imports := slices.SortedFunc(slices.Values(of.Imports),
			func(a, b *build.Instance) int { return strings.Compare(a.ImportPath, b.ImportPath) })
		for _, imported := range imports {
			if err := add(imported); err != nil {
				return err
			}
		}
		return nil
	}
	if err := add(instance); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil))[:hashLength], nil
}

// hashSyntax writes the nodes of a file, without comments and positions.
func hashSyntax(to io.Writer, file *ast.File) {
	ast.Walk(file, func(n ast.Node) bool {
		var text any
		switch n := n.(type) {
		case *ast.CommentGroup:
			return false
		case *ast.Ident:
			text = n.Name
		case *ast.BasicLit:
			text = n.Value
		case *ast.Attribute:
			text = n.Text
		case *ast.Field:
			text = n.Constraint
		case *ast.UnaryExpr:
			text = n.Op
		case *ast.BinaryExpr:
			text = n.Op
		case *ast.PostfixExpr:
			text = n.Op
		case *ast.SliceExpr:
			text = [2]bool{n.Low != nil, n.High != nil}
		}
		_, _ = fmt.Fprintf(to, "(%T %q", n, fmt.Sprint(text)) // a hash returns no error
		return true
	}, func(ast.Node) { _, _ = io.WriteString(to, ")") })
}
