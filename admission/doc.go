// Package admission answers the API server when an object is submitted: it sets the
// defaults of kinds, rejects what their schemas, or their author's rights, do not allow,
// and injects into Pods.
//
// A request passes through server.go (listener), http.go (the only file that knows HTTP) and
// review.go (bytes to AdmissionRequest). Objects of kinds continue in objects.go, with
// submission.go (what follows from one object, computed once), rights.go and podsecurity.go; Pods
// continue in pods.go, with the objects that injecting.go watches. convert.go converts objects
// between the versions of a kind. configurations.go defines
// which requests the API server sends, and registrar.go registers this.
//
// It knows kinds only as kind.Kind: nothing of CUE, of single kinds, or of the engine. No
// answer depends on another object except the namespace, so a restore works in any
// order, and the only request that an answer waits for is the cached one about rights.
package admission
