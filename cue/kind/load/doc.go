// Package load makes kinds from CUE packages. It builds a package, checks each kind against the contract, compiles its
// schemas and its behaviour, collects the facts about it, compares the compiled schemas with CUE's evaluator on a few
// objects, and has package check look for mistakes. One kind's mistake hides no other kind.
//
// It is the only package that knows all of those below it.
package load
