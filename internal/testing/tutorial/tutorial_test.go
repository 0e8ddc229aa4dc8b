package tutorial

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		page, printed string
		want          bool
	}{
		{"", "", true},
		{"", "more\n", false},
		{"a\n", "a  \n", true},
		{"a\n", "b\n", false},
		{"a\n", "a\nb\n", false},
		{"age …s\n", "age 12s\n", true},
		{"age …s\n", "age 12\ns\n", false},
		{"…      a\n", "12s  a\n", true},
		{"…      a\n", "12sa\n", false},
		{"a\n…\nz\n", "a\nb\nc\nz\n", true},
		{"a\n…\nz\n", "a\nz\n", true},
		{"a\n…\n", "b\n", false},
		{"a.c\n", "abc\n", false},
	} {
		require.Equal(t, c.want, matches(c.page, c.printed), "%q and %q", c.page, c.printed)
	}
}
