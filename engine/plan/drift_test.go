package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestContains(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	type list = []any
	for name, tc := range map[string]struct {
		live, wanted any
		want         bool
	}{
		"equal":               {object{"a": int64(1)}, object{"a": int64(1)}, true},
		"defaulted by server": {object{"a": int64(1), "b": "x"}, object{"a": int64(1)}, true},
		"other value":         {object{"a": int64(2)}, object{"a": int64(1)}, false},
		"missing":             {object{}, object{"a": int64(1)}, false},
		"missing but empty":   {object{}, object{"a": object{}}, true},
		"nested":              {object{"a": list{object{"b": "x", "c": "y"}}}, object{"a": list{object{"b": "x"}}}, true},
		"longer list":         {object{"a": list{"x", "y"}}, object{"a": list{"x"}}, false},
		"empty list missing":  {object{}, object{"a": list{}}, true},
		"empty list emptied":  {object{"a": list{"x"}}, object{"a": list{}}, false},
		"other type":          {object{"a": "1"}, object{"a": object{}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, contains(tc.live, tc.wanted))
		})
	}
}
