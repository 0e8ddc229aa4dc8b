package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
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
	{minor: "1.36", version: "v1.36.3"},
	{minor: "1.35", version: "v1.35.4"},
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

// versions returns the versions of parts that the modules of a release pin.
func (r release) versions(module string, parts []part) (map[part]string, error) {
	versions := make(map[part]string)
	for _, p := range parts {
		dir, kubernetes := r.source(module, p)
		if strings.HasPrefix(p.pkg, "k8s.io/kubernetes/") {
			versions[p] = kubernetes
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil {
			return nil, err
		}
		f, err := modfile.Parse("go.mod", text, nil)
		if err != nil {
			return nil, err
		}
		for _, required := range f.Require {
			if p.pkg == required.Mod.Path || strings.HasPrefix(p.pkg, required.Mod.Path+"/") {
				versions[p] = required.Mod.Version
			}
		}
	}
	for _, p := range parts {
		if versions[p] == "" {
			return nil, fmt.Errorf("go.mod has no version of %s", p.pkg)
		}
	}
	return versions, nil
}

// source returns the module that pins a part, and its version of Kubernetes. All releases have the
// same etcd, kwok and kubectl.
func (r release) source(module string, p part) (dir, version string) {
	if r.isDefault() || p == kubectl || !strings.HasPrefix(p.pkg, "k8s.io/kubernetes/") {
		return module, kubernetesVersion
	}
	return r.modules(module)[1], r.version
}
