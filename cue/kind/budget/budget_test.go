package budget

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTake(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		take          []int
		low, exceeded bool
	}{
		"nothing":          {},
		"a half":           {take: []int{Steps / 2}},
		"more than a half": {take: []int{Steps / 2, 1}, low: true},
		"all":              {take: []int{Steps - 1, 1, 0}, low: true},
		"one too many":     {take: []int{Steps, 1}, low: true, exceeded: true},
		"after that":       {take: []int{Steps + 1, 0, 1}, low: true, exceeded: true},
		"a large number":   {take: []int{math.MaxInt, math.MaxInt}, low: true, exceeded: true},
		"an overflow":      {take: []int{-1}, low: true, exceeded: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := New("Pool")
			isEnough := true
			for _, n := range test.take {
				isEnough = b.Take(n)
			}
			require.Equal(t, !test.exceeded, isEnough)
			require.Equal(t, test.exceeded, b.IsExceeded())
			require.Equal(t, test.low, b.IsLow())
		})
	}
	require.Equal(t, "Pool takes more than 500000 steps: make the object smaller, or have its kind compute less", New("Pool").Excess())
}
