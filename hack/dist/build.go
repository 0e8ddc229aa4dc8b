package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// target is a platform.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "/" + t.arch }

func parseTarget(text string) (target, error) {
	system, arch, ok := strings.Cut(text, "/")
	if !ok || system == "" || arch == "" {
		return target{}, fmt.Errorf("invalid value %q: must be OS/ARCH, as in linux/amd64", text)
	}
	return target{system, arch}, nil
}

// build is the program for a platform.
type build struct {
	target
	program string // its file
	archive string // the name of its archive in the folder
}

// name is that of the program in its archive.
func (b build) name() string {
	if b.os == "windows" {
		return "fescue.exe"
	}
	return "fescue"
}

// base is the beginning of the names of its files.
func (d *dist) base(t target) string { return fmt.Sprintf("fescue_%s_%s_%s", d.version, t.os, t.arch) }

// ldflags are those of the linker, which are also the image's.
func (d *dist) ldflags() string {
	return "-s -w -buildid= -X " + modulePath + "/internal/cli.linkedVersion=" + d.version
}

// buildEnv is the environment of builds for a platform: nothing of the caller's changes the program.
func (d *dist) buildEnv(t target) []string {
	return append([]string{
		"CGO_ENABLED=0", "GOOS=" + t.os, "GOARCH=" + t.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=",
		"GOWORK=off", "GOFIPS140=off",
	}, d.env...)
}

// buildFlags make the program independent of the folder and of the version control in which it is built.
var buildFlags = []string{"-trimpath", "-buildvcs=false"}

// buildAll builds the programs.
func (d *dist) buildAll(ctx context.Context) error {
	d.builds = nil
	for _, t := range d.targets {
		b := build{target: t, program: filepath.Join(d.work, "programs", d.base(t)), archive: d.base(t) + ".tar.gz"}
		if t.os == "windows" {
			b.archive = d.base(t) + ".zip"
		}
		if err := d.compile(ctx, t, b.program); err != nil {
			return err
		}
		d.builds = append(d.builds, b)
	}
	return nil
}

func (d *dist) compile(ctx context.Context, t target, program string) error {
	args := slices.Concat([]string{"build"}, buildFlags, []string{"-ldflags", d.ldflags(), "-o", program, "."})
	_, err := command(ctx, d.source, d.buildEnv(t), "go", args...)
	return err
}

// ownProgram returns the program for this machine.
func (d *dist) ownProgram(ctx context.Context) (string, error) {
	own := target{runtime.GOOS, runtime.GOARCH}
	if i := slices.IndexFunc(d.builds, func(b build) bool { return b.target == own }); i >= 0 {
		return d.builds[i].program, nil
	}
	program := filepath.Join(d.work, "own")
	return program, d.compile(ctx, own, program)
}

// makeChart writes the Helm chart of the shipped kinds.
func (d *dist) makeChart(ctx context.Context) error {
	program, err := d.ownProgram(ctx)
	if err != nil {
		return err
	}
	folder := filepath.Join(d.work, "chart")
	if _, err := command(ctx, d.work, nil, program, "manifests", "--chart", folder); err != nil {
		return err
	}
	files, err := readFolder(folder, "fescue")
	if err != nil {
		return err
	}
	return d.write(d.chartName(), func(w io.Writer) error { return writeTar(w, d.time, files, true) })
}

// chartName is what helm package would name the chart.
func (d *dist) chartName() string { return "fescue-" + strings.TrimPrefix(d.version, "v") + ".tgz" }

// makeImage builds the image for the Linux platforms with hack/image, and its SBOMs.
func (d *dist) makeImage(ctx context.Context) error {
	var platforms []string
	for _, t := range d.targets {
		if t.os == "linux" {
			platforms = append(platforms, t.String())
		}
	}
	if !d.image || len(platforms) == 0 {
		return nil
	}
	tool := filepath.Join(d.work, "image-tool")
	if _, err := command(ctx, filepath.Join(d.repository, "hack", "image"), nil, "go", "build", "-o", tool,
		"."); err != nil {
		return err
	}
	layout, sboms := filepath.Join(d.work, "layout"), filepath.Join(d.work, "sboms")
	if err := os.MkdirAll(sboms, 0o755); err != nil {
		return err
	}
	env := append([]string{"GOFLAGS=", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "GOWORK=off", "GOFIPS140=off"},
		d.env...)
	digest, err := command(ctx, d.work, env, tool, "-dir", d.source, "-layout", layout, "-sboms", sboms, "-version",
		d.version, "-platform", strings.Join(platforms, ","))
	if err != nil {
		return err
	}
	d.imageDigest = digest
	files, err := readFolder(layout, "")
	if err != nil {
		return err
	}
	name := fmt.Sprintf("fescue_%s_image", d.version)
	if err := d.write(name+".tar", func(w io.Writer) error { return writeTar(w, d.time, files, false) }); err != nil {
		return err
	}
	of, err := readFolder(sboms, "")
	if err != nil {
		return err
	}
	for _, f := range of {
		if err := os.WriteFile(filepath.Join(d.out, name+"_"+filepath.Base(f.name)), f.content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// write writes a file of the release.
func (d *dist) write(name string, content func(io.Writer) error) error {
	f, err := os.Create(filepath.Join(d.out, name))
	if err != nil {
		return err
	}
	if err := content(f); err != nil {
		_ = f.Close()
		return fmt.Errorf("%s: %w", name, err)
	}
	return f.Close()
}
