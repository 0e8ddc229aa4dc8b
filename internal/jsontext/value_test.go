package jsontext

import (
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
