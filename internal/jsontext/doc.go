// Package jsontext finds the values of a JSON text without decoding them: one reading records
// where each value stands. A full decoding takes ten times as long, and loses the places, which are
// needed to add to a text without changing the rest.
//
// It knows JSON and that Kubernetes treats null as absent. It does not know reviews, Pods or kinds.
package jsontext
