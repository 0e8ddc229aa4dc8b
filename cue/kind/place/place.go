// Package place says where something is written in CUE files, for people: files are named as the cue command names
// them. It knows how the packages of Fescue's own are called, which kinds import.
package place

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"cuelang.org/go/cue/token"
)

// IsLibrary reports whether a file is one of the contract or of the library: not one of a kind author.
func IsLibrary(file string) bool {
	dir := filepath.ToSlash(filepath.Dir(file))
	return strings.HasSuffix(dir, "cue/contract") || strings.HasSuffix(dir, "cue/k8s")
}

// workingDirectory is cached: it is needed for each position of a rule, and a kind has hundreds.
var workingDirectory = sync.OnceValues(os.Getwd)

// Relative shortens a path under the working directory, as the cue command does, and
// that of a file of Fescue's own.
func Relative(file string) string {
	for _, root := range []string{ShippedRoot + "/", "/cue.mod/pkg/" + ModulePath + "/"} {
		if _, shipped, ok := strings.Cut(filepath.ToSlash(file), root); ok {
			return shipped
		}
	}
	wd, err := workingDirectory()
	if err != nil {
		return file
	}
	if rel, err := filepath.Rel(wd, file); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return file
}

const (
	// ModulePath is the CUE module of this repository; it matches cue.mod/module.cue.
	ModulePath = "fescue.dev"
	// ShippedRoot is the folder of the embedded files in error positions.
	ShippedRoot = "/embedded/" + ModulePath
)

// At returns the place of a position of CUE.
func At(pos token.Pos) Position {
	if !pos.IsValid() {
		return Position{}
	}
	return Position{File: Relative(pos.Filename()), Line: pos.Line()}
}

// Position is a place in a CUE file. Both are empty if it is not known.
type Position struct {
	File string
	Line int
}

// String returns FILE:LINE, or nothing if the place is not known.
func (p Position) String() string {
	if p.File == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}
