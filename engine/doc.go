// Package engine keeps objects of kinds as their kinds say: it watches them and their
// children, and in one pass per change decides what is to be done, does it, and
// reports it in the object's status.
//
// The way of an event: watches.go (event → handler) → controller.go (handler → queue
// → worker) → reconcile.go (one pass) → plan.go (what to do, a pure function) →
// children.go (do it) → status.go (what to report, a pure function) → reconcile.go
// (write it).
//
// It knows kinds only as kind.Kind: nothing of CUE, of single kinds, or of admission.
package engine
