// Package kind is a loaded kind: what an object must look like, which defaults it gets, how it is converted between
// versions, and what the controller does for it. Plain Go values go in and out:
//
//	kinds, _ := load.All(true)
//	at := kinds.ByName("ats.cnat.fescue.dev")
//	checked := at.Check(at.NewBudget(), object)               // its errors, or the object with its defaults
//	decision, err := at.Decide(at.NewBudget(), object, nil)   // children, transitions, status
//
// It holds what package load has made of a CUE package: compiled schemas (package schema), compiled behaviours
// (package behaviour), and facts that depend on no object. What needs only a part of a kind is a method of that part:
// Versions convert objects, Lookups are what a behaviour reads apart from its children, Reads are the fields that it
// reads. A kind never changes once it is loaded, so any number of
// goroutines may use it.
//
// It knows no syntax of CUE and no place where kinds come from; and like all below it, no clocks, clients, caches or
// HTTP.
package kind
