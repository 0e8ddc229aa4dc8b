// Package behaviour compiles the behaviour of a kind from its syntax, and evaluates it over plain
// Go values. Only what is asked for is computed. CUE's evaluator defines what each expression
// means; the tests compare the two.
//
// A Program is the compiled syntax. It never changes, so any number of goroutines can run it at
// once. A run owns everything that it computes: no node, scope, map or slice that a run writes can be
// reached from a program, or from another run.
package behaviour
