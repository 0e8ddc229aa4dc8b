package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

// release is a version of Kubernetes whose control plane can be started.
type release struct {
	minor, version string
	// gates are the feature gates that its API server turns on.
	gates string
}

// releases has the version that go.mod pins, which is the default, and older ones, each pinned by a
// module of its own. TestVersion checks that these and the modules agree.
var releases = []release{
	// With it, operators with --shards are sent their share of the objects.
	{minor: "1.37", version: kubernetesVersion, gates: "ShardedListAndWatch=true"},
	{minor: "1.34", version: "v1.34.4"},
}

// releaseOf returns the release of a minor version.
func releaseOf(minor string) (release, error) {
	var known []string
	for _, r := range releases {
		if r.minor == minor {
			return r, nil
		}
		known = append(known, r.minor)
	}
	return release{}, fmt.Errorf("-kubernetes: invalid value %q: must be one of %s", minor, strings.Join(known, ", "))
}

func (r release) isDefault() bool { return r == releases[0] }

// bin returns the folder with the programs of a release.
func (r release) bin(home string) string {
	if r.isDefault() {
		return filepath.Join(home, "bin")
	}
	return filepath.Join(home, "bin-"+r.minor)
}

// modules returns the modules that pin the versions of a release, the one of this program first.
func (r release) modules(module string) []string {
	if r.isDefault() {
		return []string{module}
	}
	return []string{module, filepath.Join(module, "kubernetes-"+r.minor)}
}

// source returns the module that pins a part, and its version of Kubernetes. All releases have the
// same etcd, kwok and kubectl.
func (r release) source(module string, p part) (dir, version string) {
	if r.isDefault() || p == kubectl || !strings.HasPrefix(p.pkg, "k8s.io/kubernetes/") {
		return module, kubernetesVersion
	}
	return r.modules(module)[1], r.version
}
