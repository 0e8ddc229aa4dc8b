package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// kubernetesVersion is the version of k8s.io/kubernetes in go.mod, which TestVersion checks. The
// linker writes it into the API server, which reports it.
const kubernetesVersion = "v1.37.2"

// part is a program of the control plane and the package that it is built from.
type part struct{ name, pkg string }

// executable returns the name that go build gives the program.
func (p part) executable() string { return path.Base(strings.TrimSuffix(p.pkg, "/v3")) }

var (
	controlPlaneParts = []part{
		{"etcd", "go.etcd.io/etcd/server/v3"},
		{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
		{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"},
		{"kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"},
	}
	kwokParts = append(slices.Clip(controlPlaneParts), part{"kwok", "sigs.k8s.io/kwok/cmd/kwok"})
	realParts = append(slices.Clip(controlPlaneParts),
		part{"kubelet", "k8s.io/kubernetes/cmd/kubelet"}, part{"kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"})
	kubectl = part{"kubectl", "k8s.io/kubernetes/cmd/kubectl"}
)

// getMissing gets the wanted parts of a release that bin does not have: those that are installed, those that d
// downloads, and builds the others. If the pinned versions or the Go toolchain have changed, it removes all parts
// first. Only one process does so at a time; a second one waits, and then finds the parts.
func getMissing(ctx context.Context, bin, module string, r release, wanted []part, d *downloader) error {
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	unlock, err := lockFile(filepath.Join(bin, ".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if err := removeOutdated(bin, r.modules(module)...); err != nil {
		return err
	}

	if _, err := exec.LookPath("kubectl"); err != nil {
		wanted = append(slices.Clip(wanted), kubectl)
	}
	var missing []part
	for _, p := range wanted {
		// The program that a link leads to may have another version by now.
		if info, err := os.Lstat(filepath.Join(bin, p.name)); err != nil || info.Mode()&os.ModeSymlink != 0 {
			missing = append(missing, p)
		}
	}
	log := progressTo(os.Stderr)
	if len(missing) > 0 {
		versions, err := r.versions(module, missing)
		if err != nil {
			return err
		}
		if missing, err = linkInstalled(ctx, bin, missing, versions, installedFolders(r.version)); err != nil {
			return err
		}
		if d != nil {
			missing = downloadMissing(ctx, d, bin, missing, versions, log)
		}
	}
	if len(missing) > 0 {
		log("building %d programs of Kubernetes %s from Go modules; all of them take about 4 minutes the first time",
			len(missing), r.version)
	}
	began := time.Now()
	progress := func() { log("building: %s so far", time.Since(began).Round(time.Second)) }
	for len(missing) > 0 {
		dir, version := r.source(module, missing[0])
		isOther := func(p part) bool {
			otherDir, otherVersion := r.source(module, p)
			return otherDir != dir || otherVersion != version
		}
		together := slices.DeleteFunc(slices.Clone(missing), isOther)
		if err := build(ctx, bin, dir, version, together, progress); err != nil {
			return err
		}
		missing = slices.DeleteFunc(missing, func(p part) bool { return !isOther(p) })
	}
	return nil
}

// removeOutdated removes the parts of other versions.
func removeOutdated(bin string, modules ...string) error {
	stamp, err := versionsStamp(modules...)
	if err != nil {
		return err
	}
	stampFile := filepath.Join(bin, ".versions")
	built, err := os.ReadFile(stampFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if string(built) == stamp {
		return nil
	}
	for _, p := range slices.Concat(kwokParts, realParts, []part{kubectl}) {
		if err := os.RemoveAll(filepath.Join(bin, p.name)); err != nil {
			return err
		}
	}
	return os.WriteFile(stampFile, []byte(stamp), 0o644)
}

// build compiles parts of a version of Kubernetes, all at once: while one is linked, the next is compiled. It calls
// progress every 10 s and at the end.
func build(ctx context.Context, bin, module, version string, parts []part, progress func()) error {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	const pkg = "k8s.io/component-base/version."
	ldflags := fmt.Sprintf("-s -w -X %sgitVersion=%s -X %sgitMajor=%s -X %sgitMinor=%s", pkg, version, pkg, major, pkg,
		minor)
	out, err := os.MkdirTemp(bin, ".build-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(out) }()
	args := []string{"build", "-C", module, "-ldflags", ldflags, "-o", out}
	for _, p := range parts {
		args = append(args, p.pkg)
	}

	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("build Kubernetes %s: %w", version, err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for isBuilding := true; isBuilding; {
		select {
		case <-tick.C:
		case err = <-done:
			isBuilding = false
		}
		progress()
	}
	if err != nil {
		return fmt.Errorf("build Kubernetes %s: %w\n%s", version, err, output.Bytes())
	}
	for _, p := range parts {
		if err := os.Rename(filepath.Join(out, p.executable()), filepath.Join(bin, p.name)); err != nil {
			return err
		}
	}
	return nil
}

// versionsStamp identifies the pinned modules and the toolchain that the parts are built from.
func versionsStamp(modules ...string) (string, error) {
	h := sha256.New()
	for _, module := range modules {
		for _, name := range []string{"go.mod", "go.sum"} {
			b, err := os.ReadFile(filepath.Join(module, name))
			if err != nil {
				return "", fmt.Errorf("versions of the control plane: %w", err)
			}
			h.Write(b)
		}
	}
	h.Write([]byte(runtime.Version() + runtime.GOOS + runtime.GOARCH))
	return hex.EncodeToString(h.Sum(nil)), nil
}

// lockFile takes an exclusive lock that the kernel releases with the process.
func lockFile(name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// progressTo returns a function that prints one line of progress.
func progressTo(w io.Writer) func(format string, args ...any) {
	return func(format string, args ...any) {
		_, _ = fmt.Fprintf(w, "devcluster: "+format+"\n", args...)
	}
}
