// Package children is about single children: how an object is marked as the child of its owner, whose child an object
// is, and whether a child is as its template says. It does not know what an object should have: no plan, no transition
// between phases, no write, no status but the inventory in it. A phase is a name that stands on a child.
//
// A kind.Child is wanted, and a Live child exists. Complete makes an object of the first, with all marks by which the
// second is found.
//
// # Where to find what
//
//	marks.go       labels and annotations of children; metadata.go reads them
//	template.go    a wanted child as an object; templatehash.go the hash of its template
//	members.go     names of members of sets
//	origin.go      what an object was created as, so that a copy of a child is none
//	owner.go       whose child an object is; claim.go objects that people wrote, and who else may have an object
//	live.go        a child that exists; once.go one that is created once in a phase
//	inventory.go   what the status of an owner records of its children
//	drift.go       whether a child is as its template says, and what the API server writes differently
//	ready.go       whether a child is ready
//	line.go        what an object was created by, and what created that
//	read.go        which fields of children are read; same.go whether one of them has changed
package children
