// Package behaviour compiles the behaviour of a kind from its syntax, and evaluates it over plain
// Go values. Only what is asked for is computed. CUE's evaluator defines what each expression
// means; the tests compare the two.
package behaviour
