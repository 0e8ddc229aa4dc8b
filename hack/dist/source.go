package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// unpackSource finds the version, and unpacks the zip of the module: what `go install` would build.
func (d *dist) unpackSource(ctx context.Context) error {
	if d.commit == "" {
		if err := d.readCommit(ctx); err != nil {
			return err
		}
	}
	version, _, _ := strings.Cut(d.version, "+")
	of := module.Version{Path: modulePath, Version: version}
	file := filepath.Join(d.work, "source.zip")
	if err := zipModule(file, of, d.repository, d.commit); err != nil {
		return err
	}
	d.source = filepath.Join(d.work, "source")
	if err := zip.Unzip(d.source, of, file); err != nil {
		return err
	}
	var err error
	if d.sourceSum, err = dirhash.HashZip(file, dirhash.Hash1); err != nil {
		return err
	}
	if err := checkInstallable(filepath.Join(d.source, "go.mod")); err != nil {
		return err
	}
	d.goVersion, err = command(ctx, d.source, d.env, "go", "env", "GOVERSION")
	return err
}

// zipModule writes the zip of the module as the go command does.
func zipModule(file string, of module.Version, repository, commit string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(zip.CreateFromVCS(f, of, repository, commit, ""), f.Close())
}

// checkInstallable returns an error for what `go install PATH@VERSION` rejects.
func checkInstallable(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	mod, err := modfile.Parse(file, content, nil)
	if err != nil {
		return err
	}
	if len(mod.Replace)+len(mod.Exclude) > 0 {
		return errors.New("go.mod: replace, exclude: must be absent, or `go install` does not work")
	}
	return nil
}

// readCommit finds what is built: HEAD or, with -dirty, a commit that Git makes of the tracked files.
func (d *dist) readCommit(ctx context.Context) error {
	git := func(args ...string) (string, error) { return command(ctx, d.repository, nil, "git", args...) }
	head, err := git("rev-parse", "HEAD")
	if err != nil {
		return err
	}
	seconds, err := git("log", "-1", "--format=%ct", "HEAD")
	if err != nil {
		return err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return err
	}
	tags, err := git("tag", "--points-at", "HEAD")
	if err != nil {
		return err
	}
	d.commit, d.time = head, time.Unix(unix, 0).UTC()
	d.version = versionOf(strings.Fields(tags), d.time, head)
	changed, err := git("status", "--porcelain")
	if err != nil || changed == "" {
		return err
	}
	if !d.dirty {
		return fmt.Errorf("the repository has changes that are not committed; commit them, or pass -dirty:\n%s",
			changed)
	}
	d.version += "+dirty"
	if stash, err := git("stash", "create"); err != nil || stash != "" { // empty if there are only untracked files
		d.commit = stash
		return err
	}
	return nil
}

// versionOf returns the highest tag that is a version, or the version that the go command gives a commit without one.
func versionOf(tags []string, at time.Time, commit string) string {
	best := ""
	for _, tag := range tags {
		if semver.IsValid(tag) && semver.Canonical(tag) == tag && semver.Compare(tag, best) > 0 {
			best = tag
		}
	}
	if best != "" {
		return best
	}
	return module.PseudoVersion("v0", "", at, commit[:12])
}
