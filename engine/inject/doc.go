// Package inject adds what objects of injecting kinds contribute to Pods. It works on the text of
// a Pod as the API server sends it, so that unknown fields stay, and it never changes or removes
// anything: the result is a JSON patch (RFC 6902) that only adds.
//
// It knows Pods, how their lists are merged, and how to ask a kind what an object adds. It does
// not know HTTP or clusters and has no state: the result depends on the arguments alone.
//
// # The model
//
// A Source is what an object adds: a part of a Pod, and a selector of Pods. New checks it once, and prepares an
// Injection for many Pods. An Injector takes a Pod and the injections of its namespace. It finds those that the Pod
// names or that select it, and merges them one after the other: each as a whole or not at all, again when a later one
// has made room for it. The Result has the patch, and an Outcome for each object, which the Pod also gets as an
// annotation.
//
// A field that the Pod does not have is added. One that it has stays: with the same value, nothing is to do; with
// another, the injection conflicts. Items of lists are the same if they have the same key (shape.go), such as the name
// of a container.
//
// Take the Watcher logs, of generation 3, and a Pod with a container of its own:
//
//	Add    {"spec": {"containers": [{"name": "logs", "image": "watcher"}]}}
//	Pod    {"spec": {"containers": [{"name": "app", "image": "app", "unknown": 1.0}]}}
//	Patch  [
//	         {"op": "add", "path": "/spec/containers/-", "value": {"name": "logs", "image": "watcher"}},
//	         {"op": "add", "path": "/metadata", "value": {"annotations": {
//	           "fescue.dev/injected": "{\"Watcher.watch.fescue.dev/logs\":{\"generation\":3}}"}}}
//	       ]
//
// app stays as it was sent, with a field that no type has. Had the Pod a container logs with another image, the patch
// would have the annotation alone, with the reason Conflict.
//
// # What it promises
//
//   - A patch only adds, but for the annotation. What the Pod had is there after it, in the same order.
//   - A valid Pod stays valid: needs, checkResources and podrules reject what the API server would reject.
//   - A second call adds nothing, so no webhook is called again for it.
//   - A Pod gets the parts of 64 objects at most, and each of the others gets a reason.
//
// # What it leaves out
//
// Parts that change a Pod, rather than add to it. Rules for affinity, dnsConfig and what else package podrules names:
// an addition that breaks one is rejected by the API server, with the Pod. Rules of admission plugins and of other
// webhooks.
//
// # How it is proved
//
// Each test of this package applies the patch by a library and asks for the first and the third promise (checked, in
// helpers_test.go). Whether Pods stay valid, an API server says, for all generated Watchers:
//
//	make test-pods
package inject
