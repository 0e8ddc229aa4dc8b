// Package install makes the objects that install Fescue on a cluster: CRDs, rights,
// the Deployment and what belongs to it. It is pure: kinds and options go in, objects
// come out. It knows the API machinery's types, and nothing of CUE, of the engine or of
// a running cluster.
package install
