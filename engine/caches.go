package engine

import "github.com/fescue-dev/fescue/internal/informers"

// caches are what the cluster has for the objects of a kind, and whom a change of it concerns.
type caches struct {
	objects *informers.Watch
	types   *childTypes // with the children
	lookups *lookups
	// pods are those that the objects inject into, for all kinds; it is nil for a kind that does not.
	pods       *podWatch
	selections selections // of these Pods
}
