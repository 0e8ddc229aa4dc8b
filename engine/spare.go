package engine

import "sync/atomic"

// spare counts the requests that the objects of one kind may have in flight beside one for each
// worker. Only objects with many children use it, and none waits for it: what one set takes, others
// send one after the other. So the kind's requests are bounded however many sets are reconciled, and
// an object with one child is not held up by them.
type spare struct{ left atomic.Int64 }

func newSpare(n int) *spare {
	s := &spare{}
	s.left.Store(int64(n))
	return s
}

// take takes up to most, and returns how many.
func (s *spare) take(most int) int {
	for {
		left := s.left.Load()
		n := min(int64(most), left)
		if n <= 0 {
			return 0
		}
		if s.left.CompareAndSwap(left, left-n) {
			return int(n)
		}
	}
}

// give returns what take has taken.
func (s *spare) give(n int) { s.left.Add(int64(n)) }
