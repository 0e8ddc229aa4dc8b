package behaviour

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An element that is wrong is an error of what it is an argument of, also behind one that is absent and where the
// result would not depend on it.
func TestWrongElementsLikeCUE(t *testing.T) {
	t.Parallel()
	const wrong = "1/(object.spec.n-3)"
	lists := []string{
		"[object.spec.absent, " + wrong + "]",
		"[" + wrong + ", object.spec.absent]",
		"[for i in [0, 3] {[if i == 0 {object.spec.absent}, if i == 3 {" + wrong + "}][0]}]",
		"[1, " + wrong + "]",
		"[1, [object.spec.absent, " + wrong + "]]",
		"[{a: object.spec.absent, b: " + wrong + "}, 1]",
	}
	operations := []string{
		`list.Contains(LIST, 1)`, `list.Contains(LIST, 7)`, `strings.Join(LIST, ",")`, `list.Sum(LIST)`, `len(LIST)`, `list.Concat([LIST, [1]])`,
		`list.Sort(LIST, list.Ascending)`, `json.Marshal(LIST)`, `yaml.Marshal(LIST)`, `LIST == [1, 2]`, `[1, 2] != LIST`, `list.Max(LIST)`,
		`list.Reverse(LIST)`, `list.UniqueItems(LIST)`, `list.Take(LIST, 1)`, `list.Drop(LIST, 1)`, `list.Repeat(LIST, 1)`, `list.FlattenN(LIST, 1)`,
		`list.MaxItems(1) & LIST`, `and(LIST)`, `LIST`,
	}
	for _, list := range lists {
		for _, operation := range operations {
			expression := strings.ReplaceAll(operation, "LIST", list)
			o := newOracle(t, packageWith(expression))
			want, _ := o.evaluated(sampleObject(), sampleObserved(), "out")
			class, got := o.compiled(sampleObject(), sampleObserved(), "out")
			require.Equal(t, want, class, "%s: %v", expression, got)
		}
	}
}
