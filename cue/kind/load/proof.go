package load

import (
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// Proof says how far the compiled behaviour of a kind was compared with CUE's evaluator.
type Proof struct {
	// Kind is the name of the kind, as in #Kind, or that of a decorator, as in #XDecorator.
	Kind string `json:"kind"`
	// Compared is the number of pairs of an object and its children. NotCompared is that of pairs that exceed the
	// budget of one object, or for which CUE's evaluator fails, or that could not be made.
	Compared    int `json:"compared"`
	NotCompared int `json:"notCompared,omitempty"`
	// Limit is what the whole comparison needs more of than it may have, for which nothing was compared: "more than 256
	// MiB of memory", for example.
	Limit string `json:"limit,omitempty"`
	// Ways is how many ways the ifs, the loops and the disjunctions with a default of the behaviour can go, two for
	// each, and Taken is how many of them were taken.
	Ways  int `json:"ways"`
	Taken int `json:"taken"`
	// Stalls is why the last object would be stalled, if each would be; empty if one would not.
	Stalls string `json:"stalls,omitempty"`
	// Difference is what the two differ in; nil if they agree.
	Difference *syntax.LoadError `json:"difference,omitempty"`
}
