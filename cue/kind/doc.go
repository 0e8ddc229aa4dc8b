// Package kind loads kinds from CUE packages and checks them against the contract. For each
// kind it knows what an object must look like, which defaults it gets, and what the
// controller does for it.
//
// It is the only package that knows CUE: plain Go values go in and out. It does
// not know clocks, clients, caches or HTTP.
package kind
