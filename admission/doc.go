// Package admission answers the API server when an object is submitted: it sets the
// defaults of kinds, refuses what their schemas, or their author's rights, do not allow,
// and has Pods injected.
//
// The way of a request: server.go (listener) → http.go (the only file that knows HTTP) →
// review.go (bytes → AdmissionRequest) → objects.go (defaults, validation) with
// rights.go and podsecurity.go → refusal.go (what the user reads). Which requests come at
// all is said by configurations.go, and registrar.go tells the API server.
//
// It knows kinds only as kind.Kind: nothing of CUE, of single kinds, or of the engine. No
// answer depends on another object but the namespace, so that a restore works in any
// order, and the only request that an answer waits for is the cached one about rights.
package admission
