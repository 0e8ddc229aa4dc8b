// Package install creates the objects that install Fescue on a cluster: CRDs, rights, the
// Deployment and all that it needs. It is pure: kinds and options go in, objects come out. It
// knows the API machinery's types. It does not know CUE, the engine or a running cluster.
package install
