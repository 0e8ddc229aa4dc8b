package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMeasure(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, page               string
		words, you, rel, passive int
		total                    int
		mistakes                 []string
	}{
		{name: "code, tables and headings do not count", page: "# A page that is read\n\nYou run `a b`.\n\n    code that is run\n\n| a | that |\n|---|---|\n| b | is made |\n", words: 3, you: 1, total: 1},
		{name: "sentences", page: "Fescue writes it: your object is stored. A Pod that it made is not deleted.\n\n- those are kept\n", words: 18, you: 1, rel: 2, passive: 3, total: 4},
		{name: "wrapped lines", page: "The object is\nalways rejected.\n", words: 5, passive: 1, total: 1},
		{name: "links", page: "See [what you need](a-page-that-is-linked.md).\n", words: 4, you: 1, total: 1},
		{name: "authors", page: "The kind author writes it.\nAuthors apply it.\n", words: 8, total: 2, mistakes: []string{`p.md:1: "Authors": write the kind author, or the user: Authors apply it.`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := measure("p.md", []byte(test.page))
			p.notes = nil
			require.Equal(t, &page{path: "p.md", words: test.words, you: test.you, relative: test.rel, passive: test.passive, total: test.total, mistakes: test.mistakes}, p)
		})
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	require.Empty(t, (&page{words: 200, relative: 3, total: 20, passive: 3}).problems())
	require.Len(t, (&page{words: 200, relative: 4, total: 20, passive: 4}).problems(), 2)
	require.Empty(t, (&page{words: 200, total: 10, passive: 9}).problems(), "few sentences")
}
