package load

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/format"
	"cuelang.org/go/cue/parser"

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
// Fescue's version, while other types of children only change the schema of the CRD.
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
			text, err := format.Node(file)
			if err != nil {
				return err
			}
			// Parsing leaves out comments. What CUE v0.17.1 writes it does not always parse:
			// imports on one line, for example, or < before a negative number.
			if bare, err := parser.ParseFile(file.Filename, text); err == nil {
				if text, err = format.Node(bare, format.Simplify()); err != nil {
					return err
				}
			}
			hash.Write(text)
		}
		imports := slices.SortedFunc(slices.Values(of.Imports), func(a, b *build.Instance) int { return strings.Compare(a.ImportPath, b.ImportPath) })
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
