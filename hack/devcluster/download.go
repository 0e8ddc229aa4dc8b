package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// connectTimeout bounds how long a machine without internet waits before it builds.
const connectTimeout = 5 * time.Second

// file is a release file of a program.
type file struct {
	url string
	// sums is the URL of its SHA-256: alone, or in a list with the names of files. It comes from the same place, so it
	// shows a file that was cut off or stored wrongly, and not one that somebody replaced together with its sum.
	sums string
	// member is the path of the program in an archive; empty if the file is the program.
	member string
}

// releaseFile returns the release file of a program; ok is false if there is none with a checksum for this platform.
// The releases of kwok have programs and no checksums, so kwok is always built: go.sum has the checksum of its module.
func releaseFile(p part, version string) (f file, ok bool) {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	switch {
	case p.name == "etcd" && runtime.GOOS == "linux":
		folder := "https://github.com/etcd-io/etcd/releases/download/" + version
		name := "etcd-" + version + "-" + strings.ReplaceAll(platform, "/", "-")
		return file{url: folder + "/" + name + ".tar.gz", sums: folder + "/SHA256SUMS", member: name + "/etcd"}, true
	case strings.HasPrefix(p.pkg, "k8s.io/kubernetes/") && (runtime.GOOS == "linux" || p == kubectl):
		address := "https://dl.k8s.io/" + version + "/bin/" + platform + "/" + p.name
		return file{url: address, sums: address + ".sha256"}, true
	}
	return file{}, false
}

// downloader gets release files.
type downloader struct {
	client *http.Client
	// mirror replaces the scheme and the host of all URLs, if it is not nil; its path comes before theirs.
	mirror *url.URL
}

// newDownloader returns a downloader that gives up at once on a machine without internet.
func newDownloader(mirror *url.URL) *downloader {
	transport := http.DefaultTransport.(*http.Transport).Clone() // the type is documented
	transport.DialContext = (&net.Dialer{Timeout: connectTimeout}).DialContext
	transport.ResponseHeaderTimeout = 6 * connectTimeout
	const maxRedirects = 10 // as in net/http
	client := &http.Client{Transport: transport, CheckRedirect: func(to *http.Request, via []*http.Request) error {
		switch {
		case len(via) >= maxRedirects:
			return errors.New("too many redirects")
		case via[0].URL.Scheme == "https" && to.URL.Scheme != "https":
			return fmt.Errorf("a redirect to %s, which is not encrypted", to.URL.Redacted())
		}
		return nil
	}}
	return &downloader{client, mirror}
}

// downloaderFor returns the downloader that the flag asks for; nil for none.
func downloaderFor(flag string) (*downloader, error) {
	switch flag {
	case "":
		return newDownloader(nil), nil
	case "none":
		return nil, nil
	}
	mirror, err := url.Parse(flag)
	if err != nil || mirror.Host == "" {
		return nil, fmt.Errorf("-downloads: invalid value %q: must be a URL, or none", flag)
	}
	return newDownloader(mirror), nil
}

// program writes a program of a release to a file, after its checksum was compared.
func (d *downloader) program(ctx context.Context, f file, to string) (err error) {
	sum, err := d.sum(ctx, f)
	if err != nil {
		return err
	}
	body, err := d.get(ctx, f.url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	stored, err := os.CreateTemp(filepath.Dir(to), ".download-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stored.Close(), os.RemoveAll(stored.Name())) }()
	hash := sha256.New()
	if _, err := io.Copy(io.MultiWriter(stored, hash), body); err != nil {
		return fmt.Errorf("download %s: %w", f.url, err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != sum {
		return fmt.Errorf("download %s: the SHA-256 is %s, and must be %s", f.url, got, sum)
	}
	if f.member == "" {
		if err := stored.Chmod(0o755); err != nil {
			return err
		}
		return os.Rename(stored.Name(), to)
	}
	if _, err := stored.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return extract(stored, f.member, to)
}

// sum returns the SHA-256 of a file.
func (d *downloader) sum(ctx context.Context, f file) (sum string, err error) {
	body, err := d.get(ctx, f.sums)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	const most = 1 << 20
	text, err := io.ReadAll(io.LimitReader(body, most))
	if err != nil {
		return "", fmt.Errorf("download %s: %w", f.sums, err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		isOfFile := len(fields) == 1 || len(fields) == 2 && strings.TrimPrefix(fields[1], "*") == path.Base(f.url)
		if isOfFile && len(fields[0]) == hex.EncodedLen(sha256.Size) {
			return strings.ToLower(fields[0]), nil
		}
	}
	return "", fmt.Errorf("download %s: it has no checksum of %s", f.sums, path.Base(f.url))
}

func (d *downloader) get(ctx context.Context, address string) (io.ReadCloser, error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	if d.mirror != nil {
		parsed = d.mirror.JoinPath(parsed.Path)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, parsed.String(), nil)
	if err != nil {
		return nil, err
	}
	response, err := d.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("download: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("download %s: %s", parsed, response.Status), response.Body.Close())
	}
	return response.Body, nil
}

// extract writes a member of a compressed archive to a file.
func extract(archive io.Reader, member, to string) (err error) {
	unzipped, err := gzip.NewReader(archive)
	if err != nil {
		return err
	}
	files := tar.NewReader(unzipped)
	for {
		header, err := files.Next()
		if err != nil {
			return fmt.Errorf("find %s in the archive: %w", member, err)
		}
		if header.Name == member && header.Typeflag == tar.TypeReg {
			break
		}
	}
	program, err := os.OpenFile(to+".part", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(program, files); err != nil { // its checksum was compared
		return errors.Join(err, program.Close())
	}
	return errors.Join(program.Close(), os.Rename(to+".part", to))
}

// downloadMissing downloads programs, and returns those that have to be built. On a machine without internet, that is
// all of them.
func downloadMissing(
	ctx context.Context, d *downloader, bin string, missing []part, versions map[part]string, log func(string, ...any),
) (left []part) {
	for i, p := range missing {
		f, ok := releaseFile(p, versions[p])
		if !ok {
			left = append(left, p)
			continue
		}
		began := time.Now()
		if err := d.program(ctx, f, filepath.Join(bin, p.name)); err != nil {
			if ctx.Err() != nil {
				return append(left, missing[i:]...)
			}
			log("%v: building from Go modules instead", err)
			return append(left, missing[i:]...)
		}
		log("downloaded %s %s in %s", p.name, versions[p], time.Since(began).Round(time.Second))
	}
	return left
}
