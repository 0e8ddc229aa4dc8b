// Package simulate runs kinds on a cluster that exists in memory, on a clock that jumps.
//
// A Cluster holds objects (store.go). What the kinds do with theirs is what package plan decides, as in the engine, for
// a world (controller.go); the other objects behave as on a healthy cluster (workloads), unless someone says otherwise
// (disturbances.go). Render is one reconcile of one object, in a cluster where nothing else happens.
//
// It knows no client, no file and no real clock, and what it does depends on its arguments alone.
package simulate
