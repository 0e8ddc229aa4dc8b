// Command overlay writes the files by which the go command builds a test binary whose runtime makes each of its choices
// by a seed: those of the scheduler, of select, of maps, of timers and of math/rand. It prints the path of the file for
// -overlay.
//
//	go test -overlay "$(go run ./hack/sim/overlay .sim)" -tags sim ./hack/sim/...
package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// added is the file that package runtime has in addition.
//
//go:embed runtime.go.txt
var added string

func main() {
	if len(os.Args) != 2 {
		fail(errors.New("usage: overlay DIR"))
	}
	root, version, err := goRoot()
	if err != nil {
		fail(err)
	}
	path, err := write(root, os.Args[1])
	if err != nil {
		fail(fmt.Errorf("%w\nThe simulation does not know the standard library of %s: adapt hack/sim/overlay/patches.go to it, and run make test-sim", err, version))
	}
	fmt.Println(path)
}

// goRoot returns where Go is installed, and its version.
func goRoot() (root, version string, err error) {
	out, err := exec.Command("go", "env", "GOROOT", "GOVERSION").Output()
	root, version, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
	return root, version, err
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "overlay:", err)
	os.Exit(1)
}

// write writes the changed files of a Go installation to a folder, and returns the path of the file for -overlay.
func write(root, dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	replaced := make(map[string]string)
	add := func(file, text string) error {
		path := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		replaced[filepath.Join(root, "src", file)] = path
		return os.WriteFile(path, []byte(text), 0o644)
	}
	for _, p := range patches {
		text, err := os.ReadFile(filepath.Join(root, "src", p.file))
		if err != nil {
			return "", err
		}
		patched, err := p.apply(string(text))
		if err != nil {
			return "", err
		}
		if err := add(p.file, patched); err != nil {
			return "", err
		}
	}
	if err := add("runtime/sim.go", added); err != nil {
		return "", err
	}
	data, err := json.MarshalIndent(map[string]any{"Replace": replaced}, "", "\t")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, data, 0o644)
}

// apply returns the text of a file with all replacements.
func (p patch) apply(text string) (string, error) {
	for _, r := range p.replaces {
		if n := strings.Count(text, r.old); n != 1 {
			return "", fmt.Errorf("%s: %q stands there %d times, and not once", p.file, r.old, n)
		}
		text = strings.Replace(text, r.old, r.new, 1)
	}
	return text, nil
}
