package jsontext

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What precedes the end of a text that is cut off can be read.
func TestCutOff(t *testing.T) {
	t.Parallel()
	const text = `{"a":"x","b":{"c":"y","d":[1,{"e":"z"}]}}`
	for n := range text {
		v, err := Parse([]byte(text[:n]))
		require.Error(t, err, text[:n])
		require.Equal(t, n >= len(`{"a":"x"`), v.Member("a").String() == "x", text[:n])
		require.Equal(t, n >= len(`{"a":"x","b":{"c":"y"`), v.Member("b").Member("c").String() == "y", text[:n])
		require.Equal(t, n >= len(`{"a":"x","b":{"c":"y","d":[1,{"e":"z"`), v.Member("b").Member("d").Item(1).Member("e").String() == "z", text[:n])
		readAll(v)
		v.Release()
	}
	v, err := Parse([]byte(text + "}"))
	require.Error(t, err)
	require.Equal(t, "x", v.Member("a").String(), "before what should not be there")
}

// Values below the levels that are read take no memory, and too many above are an error.
func TestParseToKeepsFewValues(t *testing.T) {
	t.Parallel()
	zeros := "[" + strings.Repeat("0,", 100_000) + "0]"
	v, err := ParseTo([]byte(`{"request":{"object":{"spec":`+zeros+`},"kind":{"kind":"At"}}}`), 3)
	require.NoError(t, err)
	defer v.Release()
	require.Equal(t, zeros, string(v.Member("request").Member("object").Member("spec").Raw()))
	require.Zero(t, v.Member("request").Member("object").Member("spec").Len())
	require.Equal(t, "At", v.Member("request").Member("kind").Member("kind").String())
	require.LessOrEqual(t, len(v.doc.tokens), 20)

	v, err = ParseTo([]byte(`{"request":{"uid":"a","object":`+zeros+`}}`), 3)
	require.EqualError(t, err, "has too many values")
	defer v.Release()
	require.Equal(t, "a", v.Member("request").Member("uid").String())
	require.LessOrEqual(t, len(v.doc.tokens), maxKeptTokens)
}

// The limit of the depth is that of encoding/json, for the whole text or for each value of the last
// level that is read.
func TestDepth(t *testing.T) {
	t.Parallel()
	nested := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	for n, want := range map[int]error{maxDepth: nil, maxDepth + 1: ErrTooDeep} {
		v, err := Parse(nested(n))
		require.Equal(t, want, err, n)
		v.Release()
		require.Equal(t, json.Valid(nested(n)), err == nil, n)
		const levels = 3
		v, err = ParseTo(nested(levels+n), levels)
		require.Equal(t, want, err, n)
		v.Release()
	}
}
