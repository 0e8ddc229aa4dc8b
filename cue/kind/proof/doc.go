// Package proof compares what is compiled with what CUE says. Prove does it for the behaviour of a kind that was
// loaded: for objects that its schema makes, in each phase, with children that have in part what the behaviour reads,
// CUE's evaluator computes the same decision. fescue vet and the operator prove the kinds that they load.
//
// Its tests do it for everything that Fescue compiles: schemas against the evaluator and the API server's own library
// for CRDs, with generated objects (TestDifferential), with one thing broken at a time (TestMutations), and with
// generated kinds (TestGeneratedKinds). They say what a new version of CUE changes: go test ./cue/kind/proof.
package proof
