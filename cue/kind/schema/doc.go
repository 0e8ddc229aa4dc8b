// Package schema is the intermediate form of a kind's schema: what CUE requires of an object, as data. It knows JSON
// values, the API machinery's types, and places in CUE files. It knows no CUE: package compile reads CUE into it.
//
// # The model
//
// A Schema has the types that a value may have and the rules for each of them: an enum, bounds, patterns, the fields of
// a struct. Each Rule has its text and its place in CUE. Two forms replace all of that: Alternatives, one of which the
// value has to satisfy, and a Reference, where the schema contains itself. And and Or combine schemas as CUE's & and |
// do, in the simplest form. After Prepare, a schema never changes.
//
// Take this spec:
//
//	name!: =~"^[a-z]+$"
//	size: *1 | 2 | 3
//	if size == 3 {zone!: string}
//
// Package compile reads it as a struct with two fields and a Condition. name has a Pattern. Or made one Enum of the
// three alternatives of size, and 1 its Default. Four things come from this schema:
//
//  1. Default gives {name: "a"} the size 1, in a copy.
//  2. Validate takes {name: "A", size: 3, color: "red"}. The condition holds, so the struct is the variant with zone
//     (variants.go). There are three problems: name must satisfy =~"^[a-z]+$", zone is required since size == 3, and
//     color is an unknown field.
//  3. OpenAPI gives the CRD a pattern for name, an enum and a default for size, and CEL rules for the condition. One of
//     them is !(self.size == 3) || has(self.zone).
//  4. Enforcements lists who enforces what: the CRD's schema the pattern, a CEL rule that zone is required.
//
// TestWorkedExample runs this example.
//
// A value with Alternatives is visited more than once. First, fits asks for each alternative whether the value does not
// contradict it; choose picks the one that is left, or the only default one. Then problems lists what is wrong with the
// value there, or with the closest alternative if none fits. Each is a walk of its own, and a memo keeps their answers
// where the schema contains itself: without it, the work would double at each level.
//
// # What it promises
//
//   - An object is valid if CUE says so, and gets the defaults that CUE gives it. The exceptions are below.
//   - The CRD rejects no object that is valid, and its rules stay within the cost that the API server allows.
//   - Each step is taken from the budget. An object that exceeds it has one problem, which says so.
//   - Validation and defaults change no object. Many goroutines may use one prepared schema.
//
// # What it leaves out
//
// The CRD leaves out rules that it cannot express, or that would cost too much: Enforcements says Admission for them,
// and admission and the engine check them. What a Schema cannot hold, such as arithmetic or a loop, is an error of
// package compile.
//
// In a few places this package is stricter than CUE, with a Rule that is NotInCUE: what @kube attributes require, a
// struct with an if has to be a struct, and unknown fields where CUE v0.17.1 does not close a struct (Schema.Unclosed).
// Null fields are not its matter: package kind drops them before. Validate ends after 200 problems, and returns them in
// no order.
//
// # How it is proved
//
// CUE's evaluator defines what is valid, and the API server's own library what a CRD does. The tests of cue/kind/proof
// compare both with this package for generated objects of every kind of the repository (TestDifferential), and break
// schemas on purpose to see whether that is noticed (TestMutations). On an API server, go test ./e2e -run
// TestAPIServerAgrees does the same for CRDs. With another version of CUE:
//
//	make cue-upgrade VERSION=v0.18.0
//
// # Where to find what
//
//	schema.go        the form; describe.go in words, deprecated.go and unbounded.go what kind authors are told
//	and.go, or.go    & and |; close.go closes structs; prepare.go before a schema is used
//	default.go       defaults; variants.go structs with an if, expr.go what an if or a bound reads
//	validate.go      the walk, problems and fits; choose.go alternatives, match.go matchN
//	memo.go          what is known already
//	update.go        immutable fields
//	openapi*.go      the CRD's schema; cel.go its rules; enforcement.go who enforces what
//	status.go        the status that the engine writes
//	sample.go        objects at the edge of what is valid, for the check of each kind that is loaded, and for tests
package schema
