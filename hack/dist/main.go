// Command dist makes what a release of Fescue has into one folder: programs, the image, the Helm chart, SBOMs, the
// provenance and their checksums. It builds what is committed, from the files that the Go module has, and the same
// commit gives the same bytes. It publishes and signs nothing. docs/release.md describes the files.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// modulePath is the module that is built.
const modulePath = "github.com/fescue-dev/fescue"

// home is where the releases lie.
const home = "https://" + modulePath

func main() {
	var d dist
	targets := flag.String("targets", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64",
		"platforms to build for")
	check := flag.Bool("check", false,
		"build again in another folder, with an empty build cache, and compare all files")
	flag.StringVar(&d.repository, "dir", "../..", "folder of the repository")
	flag.StringVar(&d.out, "out", "../../dist", "folder for the files; what it had is removed")
	flag.BoolVar(&d.dirty, "dirty", false, "include changes that are not committed; such files are for trying only")
	flag.BoolVar(&d.image, "image", true, "build the container image for the Linux platforms")
	flag.StringVar(&d.builder, "builder", home+"/tree/main/hack/dist", "who builds, as the provenance names it: a URI")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, &d, strings.Split(*targets, ","), *check); err != nil {
		log.Fatalln("error:", err)
	}
}

func run(ctx context.Context, d *dist, targets []string, check bool) error {
	for _, text := range targets {
		t, err := parseTarget(text)
		if err != nil {
			return fmt.Errorf("-targets: %w", err)
		}
		d.targets = append(d.targets, t)
	}
	if err := d.make(ctx); err != nil {
		return err
	}
	fmt.Println(d.version, "is in", d.out)
	if !check {
		return nil
	}
	return d.checkAgain(ctx)
}

// dist is one release, or what would be one.
type dist struct {
	repository, out, builder string
	targets                  []target
	dirty, image             bool
	env                      []string // of the builds, in addition

	version, commit string
	time            time.Time // of the commit
	goVersion       string
	work            string // a temporary folder
	source          string // there: the files of the module
	sourceSum       string // their hash, as in go.sum
	imageDigest     string
	builds          []build
}

// make writes all files.
func (d *dist) make(ctx context.Context) error {
	for _, folder := range []*string{&d.repository, &d.out} {
		absolute, err := filepath.Abs(*folder)
		if err != nil {
			return err
		}
		*folder = absolute
	}
	work, err := os.MkdirTemp("", "fescue-dist-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	d.work = work
	if err := removeFormer(d.out); err != nil {
		return err
	}
	if err := os.MkdirAll(d.out, 0o755); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"source", d.unpackSource}, {"programs", d.buildAll}, {"archives", d.archiveAll}, {"chart", d.makeChart},
		{"image", d.makeImage},
		{"SBOMs", d.writeSBOMs}, {"krew", d.writeKrew}, {"provenance", d.writeProvenance}, {"checksums", d.writeSums},
	} {
		began := time.Now()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		log.Printf("%s: %s", step.name, time.Since(began).Round(time.Second/10))
	}
	return nil
}

// removeFormer removes what a former run has made, and nothing else.
func removeFormer(out string) error {
	entries, err := os.ReadDir(out)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "SHA256SUMS" }) {
		return fmt.Errorf(
			"-out: %s has files, and no SHA256SUMS as after a former run: remove them, or name another folder", out)
	}
	return os.RemoveAll(out)
}

// command runs a program in a folder, and returns its output.
func command(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Stderr = dir, os.Stderr
	c.Env = append(os.Environ(), env...)
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
