// Package syntax reads what CUE's parser returns: what stands at the top of a package, what an import or a reference
// stands for, what a literal is, and where all that is written. A LoadError is a mistake at such a place, in words for
// kind authors: CUE's own messages are explained, with what to write instead.
//
// It knows the names that the contract gives to definitions and fields, and no kind.
package syntax
