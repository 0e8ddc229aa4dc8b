package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUpToDate fails if the committed types are not those of the pinned release.
func TestUpToDate(t *testing.T) {
	committed, err := os.ReadFile("../../../cue/kind/types/kubernetes.json.gz")
	require.NoError(t, err)
	r, err := gzip.NewReader(bytes.NewReader(committed))
	require.NoError(t, err)
	have, err := io.ReadAll(r)
	require.NoError(t, err)
	want, err := document()
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, have), "cue/kind/types/kubernetes.json.gz is not up to date: run make generate")
	require.Contains(t, string(have), `"enum":["Always","IfNotPresent","Never"]`)
}
