package operator

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMemoryIsGivenBackWhenIdle(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for name, tc := range map[string]struct {
		live, resident, allocated, kept uint64 // allocated in the window
		want                            bool
	}{
		"after work":                   {live: 150 * mib, resident: 320 * mib, allocated: mib, want: true},
		"at work":                      {live: 150 * mib, resident: 320 * mib, allocated: 11 * mib},
		"a small heap":                 {live: 8 * mib, resident: 20 * mib},
		"little unused":                {live: 150 * mib, resident: 220 * mib},
		"nothing more can be given":    {live: 150 * mib, resident: 320 * mib, kept: 100 * mib},
		"more than could not be given": {live: 150 * mib, resident: 330 * mib, kept: 100 * mib, want: true},
		"less than is live":            {live: 150 * mib, resident: 140 * mib},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := heapUse{allocated: 1000 * mib}
			now := heapUse{allocated: before.allocated + tc.allocated, live: tc.live, resident: tc.resident}
			require.Equal(t, tc.want, now.isWasteful(before, tc.kept))
		})
	}
}

// The names of the runtime's metrics are right.
func TestHeapIsRead(t *testing.T) {
	t.Parallel()
	h := readHeap()
	require.Positive(t, h.allocated)
	require.Positive(t, h.resident)
	require.Less(t, h.live, h.resident)
}
