// Package check finds the mistakes of kind authors without any object: a field of a child that the API server does not
// know, a comparison of a number with a text, a phase without a way out, a child that waits for itself. It also reads
// the facts about a behaviour that load and explain need: its children, transitions, reads and what it lists.
//
// It goes by the syntax, which unlike values shows what stands within ifs and loops, and where. A Checker infers what
// an expression can be: infer returns a Value, its type as far as that can be told, and gather collects what the
// conjuncts of a struct have together. Both follow references through lets, fields, definitions and imports. For
//
//	let web = observed.web
//	children: config: template: {
//		apiVersion: "v1", kind: "ConfigMap"
//		data: ready: *web.status.readyReplicas | 0
//	}
//
// it infers that ready is an int, because the child web is a Deployment, and reports that data takes strings, with the
// place and what to write instead. It reports only what is wrong whatever the object is; what depends on values is
// advice, or nothing.
//
// It knows no clock and no cluster, and evaluates nothing. Why kinds are not checked by running them instead:
// docs/decisions/0070-checks-infer.md.
package check
