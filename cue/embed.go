// Package cue embeds the contract, the CUE libraries and the kinds that Fescue
// ships, so that the program needs no other files.
package cue

import "embed"

// Files holds the CUE files of this folder under their paths in it.
//
//go:embed *.cue contract/*.cue k8s/*.cue
var Files embed.FS
