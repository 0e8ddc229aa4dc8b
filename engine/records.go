package engine

import (
	"sync"

	"github.com/fescue-dev/fescue/engine/children"
)

// records are what is known of the objects of a kind and their children beyond the caches, from events and from
// reconciles.
type records struct {
	writes     *writes
	memories   *memories
	normalized *children.Normalized
	running    sync.Map // cache.ObjectName → time.Time: the running reconciles, and when they began
	// cache.ObjectName → leavingObject: what events have shown of the objects that are being deleted
	leaving sync.Map
}
