// Package projection reads parts of Kubernetes objects from JSON: what nobody reads is skipped
// while the text is read, and costs neither time nor memory after that.
//
// It knows JSON and the shape that unstructured objects have. It does not know API servers, kinds,
// or why anyone reads a field.
package projection
