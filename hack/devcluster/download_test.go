package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// script is a program that prints a version.
func script(line string) []byte { return []byte("#!/bin/sh\necho '" + line + "'\n") }

// archive returns a compressed archive with one member.
func archive(t *testing.T, member string, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	files := tar.NewWriter(zipped)
	require.NoError(t, files.WriteHeader(&tar.Header{Name: member, Mode: 0o755, Size: int64(len(content))}))
	_, err := files.Write(content)
	require.NoError(t, err)
	require.NoError(t, files.Close())
	require.NoError(t, zipped.Close())
	return b.Bytes()
}

// Release files are downloaded and compared with their checksums. What cannot be downloaded is left to be built.
func TestDownload(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the projects release servers for Linux only")
	}
	platform := runtime.GOOS + "-" + runtime.GOARCH
	server, etcd, kwok := controlPlaneParts[1], controlPlaneParts[0], kwokParts[len(kwokParts)-1]
	versions := map[part]string{server: "v1.2.3", etcd: "v3.4.5", kwok: "v0.1.0"}
	etcdName := "etcd-v3.4.5-" + platform
	whole := map[string][]byte{
		"/v1.2.3/bin/" + strings.ReplaceAll(platform, "-", "/") + "/kube-apiserver": script("Kubernetes v1.2.3"),
		"/etcd-io/etcd/releases/download/v3.4.5/" + etcdName + ".tar.gz":            archive(t, etcdName+"/etcd", script("etcd Version: 3.4.5")),
	}
	sums := func(wrong string) map[string][]byte {
		all := make(map[string][]byte)
		for name, content := range whole {
			sum := sha256.Sum256(content)
			text := hex.EncodeToString(sum[:])
			if strings.Contains(name, wrong) && wrong != "" {
				text = strings.Repeat("0", len(text))
			}
			all[name] = content
			if strings.HasSuffix(name, ".gz") {
				all[path.Dir(name)+"/SHA256SUMS"] = fmt.Appendf(nil, "%s  other.tar.gz\n%s  %s\n", strings.Repeat("1", 64), text, path.Base(name))
				continue
			}
			all[name+".sha256"] = []byte(text)
		}
		return all
	}
	for name, test := range map[string]struct {
		files map[string][]byte
		left  []part
		log   string
	}{
		"all":              {files: sums(""), left: []part{kwok}, log: "downloaded kube-apiserver v1.2.3"},
		"a wrong checksum": {files: sums("kube-apiserver"), left: []part{kwok, server}, log: "the SHA-256 is "},
		"no files":         {left: []part{kwok, etcd, server}, log: "404 Not Found: building from Go modules instead"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mirror := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				content, ok := test.files[r.URL.Path]
				if !ok {
					http.NotFound(w, r)
					return
				}
				_, _ = w.Write(content)
			}))
			defer mirror.Close()
			d, err := downloaderFor(mirror.URL)
			require.NoError(t, err)
			bin, log := t.TempDir(), new(strings.Builder)
			left := downloadMissing(t.Context(), d, bin, []part{kwok, etcd, server}, versions, progressTo(log))
			require.Equal(t, test.left, left)
			require.Contains(t, log.String(), test.log)
			for _, p := range []part{etcd, server} {
				if isLeft := len(left) > 1 && p == left[len(left)-1] || len(left) > 2; isLeft {
					require.NoFileExists(t, filepath.Join(bin, p.name))
					continue
				}
				require.Equal(t, filepath.Join(bin, p.name), findInstalled(t.Context(), p, versions[p], []string{bin}))
			}
			entries, err := os.ReadDir(bin)
			require.NoError(t, err)
			require.Len(t, entries, 3-len(left), "no other file is left")
		})
	}
	_, err := downloaderFor("here")
	require.EqualError(t, err, `-downloads: invalid value "here": must be a URL, or none`)
}

// Programs that are installed are used in the right version only.
func TestInstalled(t *testing.T) {
	t.Parallel()
	folder, other, bin := t.TempDir(), t.TempDir(), t.TempDir()
	server, etcd := controlPlaneParts[1], controlPlaneParts[0]
	for name, line := range map[string]string{
		filepath.Join(other, "etcd"):            "etcd Version: 3.7.1",
		filepath.Join(folder, "etcd"):           "etcd Version: 3.7.0",
		filepath.Join(folder, "kube-apiserver"): "Kubernetes v1.37.1",
	} {
		require.NoError(t, os.WriteFile(name, script(line), 0o755))
	}
	require.NoError(t, os.Symlink(filepath.Join(folder, "gone"), filepath.Join(bin, "etcd")))
	missing, err := linkInstalled(t.Context(), bin, []part{etcd, server}, map[part]string{etcd: "v3.7.0", server: "v1.37.2"}, []string{other, folder})
	require.NoError(t, err)
	require.Equal(t, []part{server}, missing)
	to, err := os.Readlink(filepath.Join(bin, "etcd"))
	require.NoError(t, err)
	require.Equal(t, filepath.Join(folder, "etcd"), to)
}

// The modules pin a version of each program.
func TestVersionsOfParts(t *testing.T) {
	t.Parallel()
	for _, r := range releases {
		versions, err := r.versions(".", append([]part{kubectl}, kwokParts...))
		require.NoError(t, err)
		for p, version := range versions {
			require.Regexp(t, `^v\d+\.\d+\.\d+$`, version, p.name)
		}
		require.Len(t, versions, len(kwokParts)+1)
	}
}
