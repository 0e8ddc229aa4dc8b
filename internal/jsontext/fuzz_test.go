package jsontext

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// FuzzParse compares what is JSON with what encoding/json accepts, and reads what a text that is
// cut off still has.
func FuzzParse(f *testing.F) {
	typical, err := os.ReadFile(corpus.Path(f, "engine/inject/testdata/typical.json"))
	require.NoError(f, err)
	for _, pod := range append(corpus.Pods(f), typical) {
		f.Add(pod)
	}
	for _, text := range []string{"-", "01", "1.", "1e", "-0.1E+5", `"\u12"`, "\"\x01\"", `{"a":1,}`, "[1 2]", "nul", " [ ] ", "", `{"a":"b","c`, `{"a":{"b":[1,"c`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := Parse(text)
		defer v.Release()
		require.Equal(t, json.Valid(text), err == nil)
		if errors.Is(err, ErrTooDeep) {
			return // for ParseTo, it need not be
		}
		shallow, shallowErr := ParseTo(text, 1)
		defer shallow.Release()
		if !errors.Is(shallowErr, errTooMany) {
			require.Equal(t, err, shallowErr)
			requireSameMembers(t, v, shallow)
		}
		if err != nil {
			readAll(v)
			return
		}
		var want, got any
		require.NoError(t, json.Unmarshal(text, &want))
		require.NoError(t, json.Unmarshal(v.Raw(), &got))
		require.Equal(t, want, got)
	})
}

// requireSameMembers compares the members of two values by their texts.
func requireSameMembers(t *testing.T, want, got Value) {
	t.Helper()
	texts := func(v Value) (all []string) {
		for name, member := range v.Members {
			all = append(all, string(name.Raw()))
			if member.End() >= 0 { // otherwise the text breaks off within
				all = append(all, string(member.Raw()))
			}
		}
		return all
	}
	require.Equal(t, texts(want), texts(got))
}

// readAll visits every value of a text that need not be valid.
func readAll(v Value) {
	for name, member := range v.Members {
		_ = name.String()
		readAll(member)
	}
	for _, item := range v.Items {
		readAll(item)
	}
	if v.Is('"') && !v.isCutOff() {
		_ = v.Content()
	}
}
