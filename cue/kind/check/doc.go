// Package check finds the mistakes of kind authors without any object: a field of a child that the API server does not
// know, a comparison of a number with a text, a phase without a way out, a child that waits for itself. It also reads
// the facts about a behaviour that load and explain need: its children, transitions, reads and what it lists.
//
// It goes by the syntax, which unlike values shows what stands within ifs and loops, and where. A Checker infers what
// an expression can be: infer returns a Value, its type as far as that can be told, and Gather collects what the
// conjuncts of a struct have together. Both follow references through lets, fields, definitions and imports. For
//
//	let web = observed.web
//	children: config: template: {
//		apiVersion: "v1", kind: "ConfigMap"
//		data: ready: web.status.readyReplicas
//	}
//
// it infers that ready is an int, because the child web is a Deployment, and reports that data takes strings, with the
// place and what to write instead: check.go goes through the fields of a controller, children.go through its children, and
// templates.go compares a Value with the type of the field in package types. Nearly all that is reported is wrong whatever
// the object is. A division by a field that may be 0, or an element that a list may not have, is reported unless an if
// asks before; what else depends on values is advice, or nothing.
//
// Where to look, and where a new rule goes:
//
//	values.go structs.go calls.go      what an expression can be
//	templates.go                       a value against a type: fields, kinds of values, enums, quantities
//	children.go sets.go places.go      a child as such: its name, namespace, type, what it waits for
//	relations.go pods.go services.go   fields of a child that have to fit each other, or other children
//	phases.go waits.go                 transitions, and what never happens
//	lookups.go grants.go               reads, and rights that children need
//	contract.go                        what the contract has: fields and words, without types
//	conversions.go counterparts.go     versions
//	describe.go reads.go ondelete.go   facts, for load and explain
//
// It knows no clock and no cluster, and evaluates nothing. Why kinds are not checked by running them instead:
// docs/decisions/0070-checks-infer.md.
package check
