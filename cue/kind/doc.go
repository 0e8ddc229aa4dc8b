// Package kind makes kinds of CUE packages: it loads them, checks them against the
// contract, and answers for each kind what an object of it must look like, which
// defaults it gets, and what is to be done for it.
//
// It is the only package that knows CUE: plain Go values go in and out. It does
// not know clocks, clients, caches or HTTP.
package kind
