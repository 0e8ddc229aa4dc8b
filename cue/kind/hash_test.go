package kind

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/internal/corpus"
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
		kinds, err := FromDir(corpus.Folder(t, text))
		require.NoError(t, err)
		return kinds[0].Hash
	}
	first := hash(source)
	require.Len(t, first, hashLength)
	require.Equal(t, first, hash(source))
	require.Equal(t, first, hash(strings.ReplaceAll(source, "// An object.", "// Another comment.")))
	require.Equal(t, first, hash(strings.ReplaceAll(source, "{object!: #A,", "{object!:   #A,")))
	require.NotEqual(t, first, hash(strings.ReplaceAll(source, "ConfigMap", "Secret")), "behaviour")
	require.NotEqual(t, first, hash(strings.ReplaceAll(source, "text!: string", "text!: int")), "schema")
}
