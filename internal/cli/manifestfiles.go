package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fescue-dev/fescue/internal/manifest"
)

// manifestFile is a file with its text, or why it cannot be read.
type manifestFile struct {
	name string
	text []byte
	err  error
}

// manifestExtensions are those of the files that are taken from a folder, as by kubectl.
var manifestExtensions = []string{".json", ".yaml", ".yml"}

// readManifests reads what an argument of fescue vet names, one file after the other: a
// file, the manifests of a folder, or - for the standard input.
func readManifests(arg string, recursive bool, stdin io.Reader, each func(manifestFile)) {
	if arg == "-" {
		each(readLimited("<stdin>", stdin))
		return
	}
	info, err := os.Stat(arg)
	switch {
	case err != nil:
		each(unreadable(arg, err))
	case info.IsDir():
		readFolder(arg, recursive, each)
	default:
		each(readFile(arg))
	}
}

// readFolder reads the manifests in a folder in the order of their names, and if
// recursive those in folders below it.
func readFolder(dir string, recursive bool, each func(manifestFile)) {
	empty := true
	_ = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			empty = false
			each(unreadable(name, err))
		case entry.IsDir():
			if name != dir && !recursive {
				return fs.SkipDir
			}
		case slices.Contains(manifestExtensions, filepath.Ext(name)):
			empty = false
			each(readFile(name))
		}
		return nil // an error stops no other file
	})
	if empty {
		each(manifestFile{name: dir, err: fmt.Errorf("this folder has no file with one of the extensions %s", strings.Join(manifestExtensions, ", "))})
	}
}

func readFile(name string) manifestFile {
	f, err := os.Open(name)
	if err != nil {
		return unreadable(name, err)
	}
	defer func() { _ = f.Close() }()
	return readLimited(name, f)
}

// readLimited reads no more than what shows that a file is too large.
func readLimited(name string, r io.Reader) manifestFile {
	text, err := io.ReadAll(io.LimitReader(r, manifest.MaxSize+1))
	if err != nil {
		return unreadable(name, err)
	}
	return manifestFile{name: name, text: text}
}

// unreadable is a file with the reason why it cannot be read, which does not name it.
func unreadable(name string, err error) manifestFile {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err
	}
	return manifestFile{name: name, err: fmt.Errorf("cannot be read: %w", err)}
}
