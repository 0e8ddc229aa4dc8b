// Package enginetest has the kinds and objects that the tests of the engine and of its
// parts share.
package enginetest

import (
	"testing"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

// Shipped returns the shipped kind of a name.
func Shipped(tb testing.TB, name string) *kind.Kind {
	tb.Helper()
	return kindtest.Named(tb, kindtest.Shipped(tb), name)
}

// Corpus loads the kind of an archive of testdata/kinds.
func Corpus(tb testing.TB, name string) *kind.Kind {
	tb.Helper()
	return kindtest.InCorpus(tb, name)[0]
}

// Kind loads a kind from its text.
func Kind(tb testing.TB, text string) *kind.Kind {
	tb.Helper()
	return kindtest.From(tb, text)[0]
}

// At returns an At in a phase; it has no status if that is empty.
func At(schedule, phase string) map[string]any {
	object := map[string]any{
		"apiVersion": "cnat.fescue.dev/v1alpha1", "kind": "At",
		"metadata": map[string]any{"name": "a", "namespace": "default", "uid": "1", "generation": int64(1)},
		"spec":     map[string]any{"schedule": schedule, "command": "echo"},
	}
	if phase != "" {
		object["status"] = map[string]any{"phase": phase}
	}
	return object
}
