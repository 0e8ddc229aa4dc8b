// Package engine runs kinds: it watches their objects and the children of these, and
// reconciles an object after each change.
//
// The path of an event: informers → intake.go (whom it queues, and when) → queue.go → controller.go (a worker takes it)
// → reconcile.go (the World of the loop in package reconcile) → writes.go (have the caches seen the last write?) →
// observe.go, childtypes.go and pods.go (what exists) → plan (what the kind wants, and which writes that takes) →
// apply.go (the writes) → plan (the status) → reconcile.go (status and Events) → controller.go (retry, requeue or
// forget).
//
// Events and reconciles share what caches.go and records.go list; only reconciles have the requests of reconcile.go.
//
// It knows kinds only as kind.Kind: nothing of CUE, of single kinds, or of admission. What
// needs no cluster is in its packages reconcile, plan, children and inject.
package engine
