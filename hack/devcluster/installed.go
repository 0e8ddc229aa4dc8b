package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// installedFolders returns where programs of a version of Kubernetes may be installed: the folder of envtest, that of
// setup-envtest, and those of the PATH.
func installedFolders(kubernetes string) []string {
	var folders []string
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		folders = append(folders, assets)
	}
	data := os.Getenv("XDG_DATA_HOME")
	if home, err := os.UserHomeDir(); data == "" && err == nil {
		data = filepath.Join(home, ".local", "share")
		if runtime.GOOS == "darwin" {
			data = filepath.Join(home, "Library", "Application Support")
		}
	}
	platform := strings.TrimPrefix(kubernetes, "v") + "-" + runtime.GOOS + "-" + runtime.GOARCH
	folders = append(folders, filepath.Join(data, "kubebuilder-envtest", "k8s", platform))
	return append(folders, filepath.SplitList(os.Getenv("PATH"))...)
}

// versionIn matches the version in what a program prints for --version, as in "etcd Version: 3.7.0".
var versionIn = regexp.MustCompile(`(?i)(?:kubernetes|version:|version) v?(\d+\.\d+\.\d+\S*)`)

// findInstalled returns the path of a program of a version in one of some folders; empty if none has it.
func findInstalled(ctx context.Context, p part, version string, folders []string) string {
	for _, folder := range folders {
		if !filepath.IsAbs(folder) {
			continue
		}
		path, err := exec.LookPath(filepath.Join(folder, p.name))
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		out, err := exec.CommandContext(ctx, path, versionArgs(p)...).CombinedOutput()
		cancel()
		found := versionIn.FindStringSubmatch(string(out))
		if err != nil || found == nil || found[1] != strings.TrimPrefix(version, "v") {
			continue
		}
		return path
	}
	return ""
}

// versionArgs are the arguments with which a program prints its version.
func versionArgs(p part) []string {
	if p == kubectl {
		return []string{"version", "--client"}
	}
	return []string{"--version"}
}

// linkInstalled links the programs that are installed in the right version, and returns the other ones.
func linkInstalled(
	ctx context.Context, bin string, wanted []part, versions map[part]string, folders []string,
) (missing []part, err error) {
	for _, p := range wanted {
		path := findInstalled(ctx, p, versions[p], folders)
		if path == "" {
			missing = append(missing, p)
			continue
		}
		if err := replaceLink(path, filepath.Join(bin, p.name)); err != nil {
			return nil, err
		}
	}
	return missing, nil
}

// replaceLink links a file, also where a link leads to a file that is gone.
func replaceLink(from, to string) error {
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(from, to)
}
