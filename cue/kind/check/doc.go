// Package check finds the mistakes of kind authors without any object: a field of a child that the API server does not
// know, a phase without a way out, a child that waits for itself.
//
// Package infer tells what an expression can be; check knows what it should be: the types of children, the contract,
// and what the API server asks for beside types. For
//
//	let web = observed.web
//	children: config: template: {
//		apiVersion: "v1", kind: "ConfigMap"
//		data: ready: web.status.readyReplicas
//	}
//
// it gives infer the child web, which is a Deployment, so ready is an int; and reports that data takes strings, with
// the place and what to write instead: check.go goes through the fields of a controller, children.go through its
// children, and templates.go compares a value with the type of the field in package types. Nearly all that is reported
// is wrong whatever the object is. A division by a field that may be 0, or an element that a list may not have, is
// reported unless an if asks before; what else depends on values is advice, or nothing.
//
// Where to look, and where a new rule goes:
//
//	templates.go                       a value against a type: fields, kinds of values, enums, quantities
//	children.go sets.go places.go      a child as such: its name, namespace, type, what it waits for
//	relations.go pods.go services.go   fields of a child that have to fit each other, or other children
//	podvalues.go                       what package podrules knows of Pods
//	phases.go waits.go                 transitions, and what never happens
//	given.go declared.go               what a behaviour reads of object and observed, and declares of it
//	lookups.go grants.go               reads, and rights that children need
//	contract.go                        what the contract has: fields and words, without types
//	conversions.go counterparts.go     versions
//
// The mistakes in testdata/mistakes, each with what is reported, and all valid kinds, about which nothing may be, prove
// it again:
//
//	go test ./internal/cli ./cue/kind/load -run Mistakes
//
// Rules for a single field of a type, such as the range of a number, are in package types.
//
// It knows no clock and no cluster, and evaluates nothing. Why kinds are not checked by running them instead:
// docs/decisions/0070-checks-infer.md.
package check
