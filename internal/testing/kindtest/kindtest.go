// Package kindtest loads kinds for tests: the shipped ones, those of the corpus in
// testdata/kinds, and others from text.
package kindtest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// Corpus is the folder of the repository with archives of kinds.
const Corpus = "testdata/kinds"

// Shipped returns the kinds that Fescue ships.
func Shipped(tb testing.TB) []*kind.Kind {
	tb.Helper()
	kinds, err := load.Shipped()
	require.NoError(tb, err)
	return kinds
}

// From returns the kinds of a CUE file, all of which must load.
func From(tb testing.TB, text string) []*kind.Kind {
	tb.Helper()
	return FromDir(tb, corpus.Folder(tb, text))
}

// FromDir returns the kinds of a folder, all of which must load.
func FromDir(tb testing.TB, dir string) []*kind.Kind {
	tb.Helper()
	kinds, err := load.FromDir(dir)
	require.NoError(tb, err)
	return kinds
}

// InCorpus returns the kinds of the archive testdata/kinds/NAME.txtar, all of which must load.
func InCorpus(tb testing.TB, name string) []*kind.Kind {
	tb.Helper()
	return FromDir(tb, corpus.Unpack(tb, corpus.Read(tb, corpus.Path(tb, Corpus+"/"+name+".txtar"))))
}

// AllInCorpus returns all kinds of the corpus that load. TestCorpus in cue/kind/proof tests the
// others.
func AllInCorpus(tb testing.TB) []*kind.Kind {
	tb.Helper()
	var all []*kind.Kind
	for _, file := range corpus.Archives(tb, Corpus) {
		kinds, _ := load.FromDir(corpus.Unpack(tb, corpus.Read(tb, file)))
		all = append(all, kinds...)
	}
	return all
}

// Named returns the one of the kinds with that name, as in "At".
func Named(tb testing.TB, kinds []*kind.Kind, name string) *kind.Kind {
	tb.Helper()
	i := slices.IndexFunc(kinds, func(k *kind.Kind) bool { return k.GroupVersionKind.Kind == name })
	require.GreaterOrEqual(tb, i, 0, "there is no kind %s", name)
	return kinds[i]
}
