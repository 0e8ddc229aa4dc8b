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
	"github.com/fescue-dev/fescue/internal/vet"
)

// manifestExtensions are the extensions of the files that are read from a folder, as in kubectl.
var manifestExtensions = []string{".json", ".yaml", ".yml"}

// readManifests reads the manifests that a command-line argument names, one file after the other:
// a file, the manifests in a folder, or - for standard input.
func readManifests(arg string, recursive bool, stdin io.Reader, each func(vet.File)) {
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

// onceFromInput returns an error if arguments name standard input more than once: the second would be empty.
func onceFromInput(args []string) error {
	isInput := func(arg string) bool { return arg == "-" }
	if i := slices.IndexFunc(args, isInput); i >= 0 && slices.ContainsFunc(args[i+1:], isInput) {
		return errors.New("-: standard input can be read only once")
	}
	return nil
}

// readFolder reads the manifests in a folder, and in its subfolders if recursive, in the order of
// their names.
func readFolder(dir string, recursive bool, each func(vet.File)) {
	empty := true
	_ = fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		name := filepath.Join(dir, path)
		switch {
		case err != nil:
			empty = false
			each(unreadable(name, err))
		case entry.IsDir():
			if path != "." && !recursive {
				return fs.SkipDir
			}
		case slices.Contains(manifestExtensions, filepath.Ext(name)):
			empty = false
			each(readFile(name))
		}
		return nil // the other files are still read
	})
	if empty {
		hint := ""
		if hasKinds(dir) {
			hint = "; for the kinds in it, set --kinds " + dir
		}
		each(vet.File{Name: dir, Err: fmt.Errorf("the folder has no files with extension %s%s", strings.Join(manifestExtensions, ", "), hint)})
	}
}

func readFile(name string) vet.File {
	f, err := os.Open(name)
	if err != nil {
		return unreadable(name, err)
	}
	defer func() { _ = f.Close() }()
	if filepath.Ext(name) == ".cue" {
		return vet.File{Name: name, Err: fmt.Errorf("this is CUE, and no manifest: to check its kinds, set --kinds %s",
			filepath.Dir(name))}
	}
	return readLimited(name, f)
}

// readLimited stops reading once the file is known to be too large.
func readLimited(name string, r io.Reader) vet.File {
	text, err := io.ReadAll(io.LimitReader(r, manifest.MaxSize+1))
	if err != nil {
		return unreadable(name, err)
	}
	return vet.File{Name: name, Text: text}
}

// unreadable is a file that cannot be read. Its error does not repeat the name.
func unreadable(name string, err error) vet.File {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err
	}
	return vet.File{Name: name, Err: fmt.Errorf("cannot be read: %w", err)}
}
