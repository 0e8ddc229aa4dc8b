// Package infer finds out what a piece of CUE can be, by its syntax: unlike values, it shows what stands within ifs and
// loops, and where. It reports what cannot be right whatever the object is: an operator that its operands do not have,
// a field that does not exist, a comparison with a value that never occurs.
//
// A Reader has one definition, say a controller. Infer returns a Value: its type as far as that can be told, the text
// or number if it is always the same, or the parts that a struct is written in. Gather collects the fields that all
// parts of a struct have together, as a Structure. Both follow references through lets, fields, definitions and
// imports. Of
//
//	let web = observed.web
//	children: config: template: data: ready: web.status.readyReplicas
//
// In("children", "config", "template", "data") is a Structure with the field ready, and Infer of its part is an int, if
// the Reader was given that observed.web is a Deployment.
//
// What is given (object, observed, stored) comes from a Given; a Reader that has none takes object and observed for
// what the definition says of them. It knows no kind, no contract and no child: packages facts and check do.
package infer
