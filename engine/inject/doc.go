// Package inject adds what objects of injecting kinds contribute to Pods. It works on the text of
// a Pod as the API server sends it, so that unknown fields stay, and it never changes or removes
// anything: the result is a JSON patch (RFC 6902) that only adds.
//
// It knows Pods, how their lists are merged, and how to ask a kind what an object adds. It does
// not know HTTP or clusters and has no state: the result depends on the arguments alone.
package inject
