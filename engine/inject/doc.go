// Package inject adds to Pods what objects of injecting kinds say. It works on the text
// of a Pod as the API server sends it, so that a field that it does not know stays, and
// it never changes or removes anything: what it returns is a JSON patch (RFC 6902) of
// nothing but additions.
//
// It knows Pods, how their lists are merged, and how to ask a kind what an object adds.
// It does not know HTTP or clusters and has no state: everything it decides follows from
// its arguments.
package inject
