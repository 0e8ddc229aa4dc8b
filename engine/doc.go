// Package engine keeps objects of kinds as their kinds say: it watches them and their
// children, and in one pass per change decides what is to be done, does it, and
// reports it in the object's status.
//
// The way of an event: watches.go (event → handler) → controller.go (handler → queue
// → worker) → reconcile.go (one pass) → view.go (what there is) → plan.go (what the kind
// wants) → compare.go and set.go (what to write) → apply.go (write it) → status.go (what
// to report) → reconcile.go (report it). Plan, comparison and report are pure functions;
// render.go calls them without a cluster.
//
// It knows kinds only as kind.Kind: nothing of CUE, of single kinds, or of admission.
package engine
