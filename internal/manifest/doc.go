// Package manifest reads the objects of manifest files as kubectl does, and knows the
// position of each field in its file.
//
// Two readers work on each document. The values are those that the Kubernetes API
// machinery reads, which follows YAML 1.1; the positions come from a tree of nodes.
// The package knows YAML and positions. It does not know kinds, CUE or the file system.
package manifest
