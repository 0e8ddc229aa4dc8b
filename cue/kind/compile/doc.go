// Package compile makes the compiled schema of a definition like #At from its syntax: evaluated values no longer show
// which constraints they came from. It compiles literals, types, bounds, patterns, validators of CUE's packages, lists,
// structs with patterns, embedded definitions, references to other fields of the object, ifs, & and |. What a schema
// cannot express is an error that says what to write instead, so nothing is dropped silently.
//
// For example, in
//
//	spec!: {
//		min: *1 | int32 & >=0
//		max?: int32 & >=min
//	}
//
// min becomes a number with two bounds, a type and a default; max one with a relation to min, which the CRD states as a
// CEL rule on spec. docs/reference/constructs.md lists all constructs; TestDifferential and TestMutations in package
// proof compare the result with CUE's evaluator and with the CRD, and have to pass again with each new version of CUE.
//
// It knows no kind and no behaviour: package behaviour compiles those, and has the table of CUE's own types, like
// int32.
package compile
