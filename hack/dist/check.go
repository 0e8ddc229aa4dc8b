package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
)

// sumOf returns the SHA-256 of a file.
func sumOf(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// files returns the names in the folder, sorted.
func (d *dist) files() ([]string, error) {
	entries, err := os.ReadDir(d.out)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, err
}

// writeSums writes the checksums of all other files, as sha256sum reads them.
func (d *dist) writeSums(context.Context) error {
	names, err := d.files()
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for _, name := range names {
		sum, err := sumOf(filepath.Join(d.out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, name)
	}
	return os.WriteFile(filepath.Join(d.out, sumsFile), text.Bytes(), 0o644)
}

// checkAgain makes everything once more, with folders and a build cache of its own, and returns an error for each file
// that differs.
func (d *dist) checkAgain(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "fescue-dist-again-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	again := &dist{
		repository: d.repository, out: filepath.Join(dir, "dist"), builder: d.builder, targets: d.targets,
		image:   d.image,
		version: d.version, commit: d.commit, time: d.time, env: []string{"GOCACHE=" + filepath.Join(dir, "cache")},
	}
	if err := again.make(ctx); err != nil {
		return err
	}
	return compare(d, again)
}

// compare returns an error for each file in which two releases differ.
func compare(d, again *dist) error {
	names, err := d.files()
	if err != nil {
		return err
	}
	others, err := again.files()
	if err != nil {
		return err
	}
	if !slices.Equal(names, others) {
		return fmt.Errorf("the second build has other files: %q, not %q", others, names)
	}
	var errs []error
	for _, name := range names {
		first, err := sumOf(filepath.Join(d.out, name))
		if err != nil {
			return err
		}
		second, err := sumOf(filepath.Join(again.out, name))
		if err != nil {
			return err
		}
		if first != second {
			errs = append(errs, fmt.Errorf("%s: the second build has another digest, %s, not %s", name, second, first))
		}
	}
	if len(errs) == 0 {
		log.Printf("%d files are the same in both builds", len(names))
	}
	return errors.Join(errs...)
}
