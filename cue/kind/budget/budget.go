// Package budget bounds what is computed for one object in one reconcile or review.
//
// It does not know what is computed: evaluation, validation, defaults and conversion count their steps here.
package budget

import "fmt"

const (
	// Steps is how many steps may be taken for one object. A step takes about 100 ns, and all of them
	// about 0.05 s. A set of 10,000 Pods, the most that the contract allows, may take 50 for each.
	Steps = 500_000
	// BytesPerStep is how much text a step may read or produce.
	BytesPerStep = 64
	// BytesPerMatch is how much text a step may match with a regular expression.
	BytesPerMatch = 4
)

// Budget is what is left of the steps for one object. It belongs to one goroutine.
type Budget struct {
	kind string
	left int // -1 if more was to be taken
}

// New returns the budget for an object of a kind.
func New(kind string) *Budget { return &Budget{kind, Steps} }

// Take takes n steps, and reports whether there were as many. If not, there are none any more. A number
// below 0 is one that was too large to compute.
func (b *Budget) Take(n int) bool {
	if n < 0 || n > b.left {
		b.left = -1
	} else {
		b.left -= n
	}
	return b.left >= 0
}

// IsExceeded reports whether more steps were to be taken than there were.
func (b *Budget) IsExceeded() bool { return b.left < 0 }

// IsLow reports whether more than half of the steps was taken.
func (b *Budget) IsLow() bool { return b.left < Steps/2 }

// Taken returns how many steps were taken; more than there were if they are exceeded.
func (b *Budget) Taken() int { return Steps - b.left }

// Excess describes for users that the budget is exceeded.
func (b *Budget) Excess() string {
	return fmt.Sprintf("%s takes more than %d steps: make the object smaller, or have its kind compute less", b.kind,
		Steps)
}
