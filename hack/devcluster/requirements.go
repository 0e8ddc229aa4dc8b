package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// packages are Debian packages with the programs of a real node that are not built here.
var packages = map[string][]string{
	"containerd": {"containerd", "containerd-shim-runc-v2"},
	"runc":       {"runc"},
	"nftables":   {"nft"},
	"iproute2":   {"ip"},
}

// host has the paths of what a real node uses from the machine.
type host struct {
	busybox, plugins string
}

// findHost finds what a real node needs, and the packages that are missing.
func findHost() (found host, missing []string) {
	for name, programs := range packages {
		if slices.ContainsFunc(programs,
			func(program string) bool { _, err := exec.LookPath(program); return err != nil }) {
			missing = append(missing, name)
		}
	}
	for _, file := range []string{"/bin/busybox", "/usr/bin/busybox"} {
		if isStatic(file) {
			found.busybox = file
		}
	}
	if found.busybox == "" {
		missing = append(missing, "busybox-static")
	}
	for _, dir := range []string{"/opt/cni/bin", "/usr/libexec/cni", "/usr/lib/cni"} {
		if _, err := os.Stat(filepath.Join(dir, "bridge")); err == nil {
			found.plugins = dir
		}
	}
	if found.plugins == "" {
		missing = append(missing, "containernetworking-plugins")
	}
	slices.Sort(missing)
	return found, missing
}

// needHost is findHost with an error if the machine cannot run containers.
func needHost() (host, error) {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return host{}, errors.New("--node=real: requires Linux and root to run containers")
	}
	found, missing := findHost()
	if len(missing) > 0 {
		return host{}, fmt.Errorf("--node=real: packages are missing; on Debian: apt-get install %s",
			strings.Join(missing, " "))
	}
	return found, nil
}

// isStatic reports whether a program runs without other files.
func isStatic(file string) bool {
	f, err := elf.Open(file)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	return !slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}
