package behaviour

import "cuelang.org/go/cue/token"

// Ways notes which ways the runs of a behaviour took at the forks in its package: an if held or did not, a loop had
// something to go through or had not, and a disjunction took its default or another alternative. It is for one
// goroutine.
type Ways struct {
	forks []token.Pos
	taken map[way]bool
}

// way is one of the two ways that a fork can go: first is that an if holds, a loop has something to go through, or a
// disjunction takes its default.
type way struct {
	fork  token.Pos
	first bool
}

// NewWays returns the ways of a program, none of which was taken.
func NewWays(p *Program) *Ways { return &Ways{p.forks, make(map[way]bool)} }

// Noting returns a program whose runs note their ways.
func (p *Program) Noting(w *Ways) *Program {
	noting := *p
	noting.ways = w
	return &noting
}

// Count returns how many ways there are, two for each fork, and how many of them were taken.
func (w *Ways) Count() (all, taken int) { return 2 * len(w.forks), len(w.taken) }

// note notes that a fork went a way. Those of other packages do not count.
func (r *run) note(fork at, counts, first bool) {
	if w := r.program.ways; w != nil && counts {
		w.taken[way{fork.pos, first}] = true
	}
}

// took notes the alternative of its first disjunction that a node took, and returns what it chose.
func (r *run) took(n, chosen *node) *node {
	if d := n.open[0].Disjunction; d.counts && len(chosen.choices) > len(n.choices) {
		r.note(d.at, true, d.Alternatives[chosen.choices[len(n.choices)]].Default)
	}
	return chosen
}
