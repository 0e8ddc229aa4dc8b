package election

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClaims(t *testing.T) {
	t.Parallel()
	of := func(layout string, members, shards []string) holders { return holders{layout, members, shards} }
	three := layoutOf(3)
	for name, tc := range map[string]struct {
		seen holders
		want claims
	}{
		"first":                 {of("", []string{"", "", ""}, []string{"", "", ""}), claims{0, []int{0, 1, 2}, nil}},
		"second":                {of(three, []string{"a", "", ""}, []string{"a", "a", "a"}), claims{1, nil, nil}},
		"second has its own":    {of(three, []string{"a", "me", ""}, []string{"a", "a", ""}), claims{1, []int{2}, nil}},
		"a second has joined":   {of(three, []string{"me", "b", ""}, []string{"me", "me", "me"}), claims{0, []int{0, 1}, []int{2}}},
		"a third has joined":    {of(three, []string{"a", "me", "c"}, []string{"a", "me", "me"}), claims{1, []int{1}, []int{2}}},
		"each has one":          {of(three, []string{"a", "b", "me"}, []string{"a", "b", "me"}), claims{2, []int{2}, nil}},
		"a fourth is a standby": {of(three, []string{"a", "b", "c"}, []string{"a", "b", "c"}), claims{-1, nil, nil}},
		"one has died":          {of(three, []string{"", "b", "me"}, []string{"", "b", "me"}), claims{2, []int{2}, nil}},
		"one has died, other":   {of(three, []string{"", "me", "z"}, []string{"", "me", "z"}), claims{1, []int{0, 1}, nil}},
		"its member left":       {of(three, []string{"me", "", ""}, []string{"me", "b", ""}), claims{0, []int{0, 2}, nil}},
		"one has two Leases":    {of(three, []string{"a", "a", "me"}, []string{"a", "a", ""}), claims{2, []int{2}, nil}},
		"it has two Leases":     {of(three, []string{"me", "a", "me"}, []string{"", "a", "me"}), claims{0, []int{2}, nil}},
		"a leader acts":         {of("host_1", []string{"", "", ""}, []string{"", "", ""}), claims{-1, nil, nil}},
		"five shards":           {of(layoutOf(5), []string{"a", "b", ""}, []string{"a", "b", ""}), claims{-1, nil, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.seen.claims("me", three))
		})
	}
}

// No matter how members join and leave, shares differ by one at most, all processes compute the
// same shares, no shard moves without need, and the holder of shard 0 keeps it.
func TestShare(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		shards := make([]string, 1+random.IntN(9))
		members := make([]string, 1+random.IntN(len(shards)))
		for i := range members {
			members[i] = strconv.Itoa(i)
		}
		for i := range shards {
			shards[i] = slices.Concat(members, []string{"", "gone"})[random.IntN(len(members)+2)]
		}
		to := share(members, shards)
		what := fmt.Sprint(members, shards, to)
		has, moved, over := make(map[string]int), 0, 0
		for i, m := range to {
			require.Contains(t, members, m, what)
			has[m]++
			if shards[i] != m {
				moved++
			}
		}
		had := make(map[string]int)
		for _, m := range shards {
			had[m]++
		}
		odd := len(shards) % len(members)
		for _, m := range members {
			least := len(shards) / len(members)
			require.GreaterOrEqual(t, has[m], least, what)
			require.LessOrEqual(t, has[m], least+1, what)
			over += max(0, had[m]-least)
		}
		// Of the shards above the least share, at most as many stay as there are odd shards.
		require.Equal(t, had[""]+had["gone"]+over-min(over, odd, moreThanLeast(had, members, len(shards)/len(members))), moved, what)
		if slices.Contains(members, shards[0]) {
			require.Equal(t, shards[0], to[0], what)
		}
		slices.Reverse(members)
		require.Equal(t, to, share(members, shards), what)
		require.Equal(t, to, share(members, to), what)
	}
}

// moreThanLeast returns how many members have more than the least share.
func moreThanLeast(had map[string]int, members []string, least int) (n int) {
	for _, m := range members {
		if had[m] > least {
			n++
		}
	}
	return n
}
