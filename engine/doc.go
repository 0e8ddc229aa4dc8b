// Package engine runs kinds: it watches their objects and the children of these, and
// reconciles an object after each change.
//
// The path of an event: informers (event → handler) → controller.go (handler → queue →
// worker) → reconcile.go (one reconcile) → writes.go (have the caches seen the last write?)
// → observe.go, childtypes.go and pods.go (what exists) → plan (what the kind wants, and
// which writes that takes) → apply.go (the writes) → plan (the status) → reconcile.go
// (status and Events) → controller.go (retry, requeue or forget).
//
// It knows kinds only as kind.Kind: nothing of CUE, of single kinds, or of admission. What
// needs no cluster is in its packages plan and inject.
package engine
