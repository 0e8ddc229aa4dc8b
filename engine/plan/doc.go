// Package plan decides what one object of a kind needs, and reports what came of it. It knows kinds only as kind.Kind.
// It knows no client, no clock and no log: what the cluster holds is a View, and the time is an argument. Whose child
// an object is, package children says.
//
// # The model
//
// Decide evaluates the kind for an object, follows the transitions that hold, and returns a Plan, which nothing changes
// afterwards. Compare says how the children differ from it: a Comparison of steps. An Attempt repeats both: Todo is
// what to carry out, Done takes in what came of it. When nothing is left to write, the Outcome has the state of the
// children. Report is the status that follows from both, News the Event, and Outcome.Next what to do then. Package
// reconcile asks for these in turn.
//
// Take an At whose time has come, in the phase PENDING, with no Pod:
//
//	Decide    PENDING → RUNNING, because its time is over. RUNNING wants a Pod and is not stored, so nothing is
//	          wanted yet: store.
//	Compare   nothing to write
//	Report    status.phase: RUNNING
//	Next      Look: the status was written, and there is something to do in RUNNING
//	Decide    RUNNING is stored, and wants a Pod: act
//	Compare   create the Pod
//	Done      it exists; Decide, Compare: nothing to write
//	Report    the same status
//	Next      Rest: an event of the Pod will say more
//
// Why a phase is stored first: what is done in it belongs to a phase, and to a time, that outlive this process
// (turnIn). A Memory has what is remembered beyond one reconcile, and a new process does without it.
//
// # What it promises
//
//   - A crash after any write loses nothing and repeats nothing: what to do in a phase follows from what is stored.
//   - Writes end: what others change back again and again, and a kind that never settles, are delayed, and the status
//     says so.
//   - While something that is wanted is obstructed, or it is not known what is wanted, nothing is deleted for not being
//     wanted.
//   - Each step has the object as it was seen, so that a World can reject a step that is based on an older state.
//
// # What it leaves out
//
// What the cluster does meanwhile, what exists, and whether a cache is behind: the World says. When to try again after
// a failure: the queue does.
//
// # How it is proved
//
// The tests of this package cut reconciles of sets short in all orders (TestInvariantsOfSets), and have a case for each
// rule. Operators that are killed while requests fail show the rest, in histories that repeat bit by bit:
//
//	make simulate HISTORIES=1000
//
// # Where to find what
//
//	view.go        what one reconcile knows of the cluster; memory.go what is remembered from one to the next
//	plan.go        Decide: phases and transitions; leaving.go for an object that is being deleted
//	compare.go     the steps for single children; set.go, ordered.go for sets, strays.go for what these may take
//	deletion.go    the steps for an object that is being deleted
//	attempt.go     rounds of writes; progress.go and corrections.go delay those that never end
//	outcome.go     what came of it; next.go what comes next
//	status.go      the status; events.go the Event; retry.go what passes by itself
//	inventory.go   what the status records of children; once.go of those that are created once
//	sensitive.go   messages without values that must not be shown
package plan
