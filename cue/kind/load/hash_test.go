package load

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	fescuecue "github.com/fescue-dev/fescue/cue"
	"github.com/fescue-dev/fescue/cue/kind/place"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// The hash of a kind follows what it does and not how it is written.
func TestHash(t *testing.T) {
	t.Parallel()
	const source = `
package a

import "fescue.dev/cue/contract"

// An object.
#A: {apiVersion!: "hash.example.com/v1", kind!: "A", metadata!: {...}, spec!: text!: string, status?: contract.#Status}
#AController: contract.#Controller & {object!: #A, names: plural: "as", children: c: template: {apiVersion: "v1", kind: "ConfigMap"}}
`
	hash := func(text string) string {
		kinds, err := Drafts(corpus.Folder(t, text))
		require.NoError(t, err)
		return kinds[0].Hash
	}
	first := hash(source)
	require.Len(t, first, hashLength)
	require.Equal(t, first, hash(source))
	require.Equal(t, first, hash(strings.ReplaceAll(source, "// An object.", "// Another comment.")))
	require.Equal(t, first, hash(strings.ReplaceAll(source, "{object!: #A,", "{object!:   #A,")))
	spread := strings.ReplaceAll(source, "spec!: text!: string, ", "\n\t// What is said.\n\n\tspec!: {text!: string}\n\n")
	require.Equal(t, hash(strings.ReplaceAll(source, "spec!: text!: string, ", "spec!: {text!: string}, ")), hash(spread), "a comment and blank lines between fields")
	require.NotEqual(t, first, hash(strings.ReplaceAll(source, "ConfigMap", "Secret")), "behaviour")
	require.NotEqual(t, first, hash(strings.ReplaceAll(source, "text!: string", "text?: string")), "constraint")
	sliced := func(bounds string) string {
		return hash(strings.ReplaceAll(source, `kind: "ConfigMap"`, `kind: "ConfigMap", data: x: "\([1, 2][`+bounds+`][0])"`))
	}
	require.NotEqual(t, sliced("1:"), sliced(":1"), "which bound of a slice")
	require.NotEqual(t, first, hash(strings.ReplaceAll(source, "text!: string", "text!: =~\"a\" & string")), "operator")
	require.NotEqual(t, first, hash(strings.ReplaceAll(source, "text!: string", "text!: int")), "schema")
}

// The hash follows the contract of a version of Fescue, and not its library of types.
func TestHashOfAnotherContract(t *testing.T) {
	t.Parallel()
	dir := corpus.Folder(t, `
package a

import ("fescue.dev/cue/contract", "fescue.dev/cue/k8s")

#A: {apiVersion!: "hash.example.com/v1", kind!: "A", metadata!: k8s.#ObjectMeta, spec!: {}, status?: contract.#Status}
#AController: contract.#Controller & {object!: #A, names: plural: "as"}
`)
	hash := func() string {
		kinds, err := Drafts(dir)
		require.NoError(t, err)
		return kinds[0].Hash
	}
	own := hash()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "cue.mod"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cue.mod", "module.cue"), []byte("module: \"a.example.com@v0\"\nlanguage: version: \""+languageVersion+"\"\n"), 0o600))
	library := filepath.Join(dir, "cue.mod", "pkg", place.ModulePath, "cue")
	require.NoError(t, os.CopyFS(library, fescuecue.Files))
	require.Equal(t, own, hash(), "the same contract")
	add := func(file, text string) {
		path := filepath.Join(library, filepath.FromSlash(file))
		old, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, append(old, text...), 0o600))
	}
	add("k8s/meta.cue", "#Another: int\n")
	add("contract/status.cue", "// A comment.\n")
	require.Equal(t, own, hash())
	add("contract/status.cue", "#Another: int\n")
	require.NotEqual(t, own, hash())
}
