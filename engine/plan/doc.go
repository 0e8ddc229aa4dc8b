// Package plan decides what one object of a kind needs, and reports the outcome.
//
// Decide follows the phases of the kind and returns a Plan, which nothing changes
// afterwards. Compare returns the writes that bring the children closer to it. Converge
// repeats both, and has the writes carried out, until nothing is left to write; what
// happened is an Outcome. Report returns the status for a Plan and its Outcome, and
// News the Event. Package simulate does all that for a cluster that exists in memory.
//
// It knows kinds only as kind.Kind. It knows no client, no clock and no log: what the
// cluster holds is a View, and the time is an argument.
package plan
