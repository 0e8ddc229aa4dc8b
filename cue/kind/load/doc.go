// Package load makes kinds from CUE packages. It builds a package, checks each kind against the contract, compiles its
// schemas and its behaviour, collects the facts about it, and compares the compiled schemas with CUE's evaluator on a
// few objects. Kinds of folders are then checked for mistakes against the types of their children (Kinds.AddFolder).
// One kind's mistake hides no other kind.
//
// It is the only package that knows all of those below it.
package load
