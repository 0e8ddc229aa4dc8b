// Package simulate runs kinds on a cluster that exists in memory, on a clock that jumps.
//
// A Cluster holds objects. What the kinds do with theirs is what package plan decides, as in the
// engine; the other objects behave as on a healthy cluster (healthy.go), unless someone says
// otherwise. Render is one reconcile of one object, in a cluster where nothing else happens.
//
// It knows no client, no file and no real clock, and what it does depends on its arguments alone.
package simulate
