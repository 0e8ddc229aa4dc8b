package certificate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// DefaultPollInterval is how often files are read. It is far below the minute or so that a
// kubelet takes to update the files of a Secret. Polling also finds changes that file system
// events miss.
const DefaultPollInterval = 10 * time.Second

// authorityFile is where cert-manager puts the authority's certificate.
const authorityFile = "ca.crt"

// Files is a certificate in a folder with the file names of a mounted Secret of type
// kubernetes.io/tls: tls.crt, tls.key and, if its authority is to be published, ca.crt.
type Files struct {
	*holder
	dir  string
	poll time.Duration
	log  *slog.Logger
}

// NewFiles loads the certificate in a folder; poll is how often it is read again, 0 means
// DefaultPollInterval. It is ready while the certificate is valid for all hosts.
func NewFiles(
	dir string, poll time.Duration, hosts []string, metrics prometheus.Registerer, log *slog.Logger,
) (*Files, error) {
	h, err := newHolder(hosts, metrics)
	if err != nil {
		return nil, err
	}
	if poll == 0 {
		poll = DefaultPollInterval
	}
	f := &Files{h, dir, poll, log}
	return f, f.reload()
}

// reload reads certificate and key, which may not match while they are replaced.
func (f *Files) reload() error {
	cert, err := os.ReadFile(filepath.Join(f.dir, corev1.TLSCertKey))
	if err != nil {
		return err
	}
	key, err := os.ReadFile(filepath.Join(f.dir, corev1.TLSPrivateKeyKey))
	if err != nil {
		return err
	}
	if err := f.load(cert, key); err != nil {
		return fmt.Errorf("certificate in %s: %w", f.dir, err)
	}
	return nil
}

// Run reloads the certificate when its files change, until ctx ends. While certificate and key do
// not match, the last ones that did are served.
func (f *Files) Run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(context.Context) {
		if err := f.reload(); err != nil {
			f.log.Error("reloading the certificate failed; still serving the last one", "error", err)
		}
	}, f.poll)
}

// Lead publishes the authority's certificate, now and when it changes, until ctx ends.
// Without one it publishes nil, which leaves the CA bundle to others.
func (f *Files) Lead(ctx context.Context, publish func(context.Context, []byte) error) {
	var published []byte
	done := false
	wait.UntilWithContext(ctx, func(context.Context) {
		authority, err := os.ReadFile(filepath.Join(f.dir, authorityFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.log.Error("reading the authority's certificate failed; retrying", "error", err)
			return
		}
		if done && bytes.Equal(authority, published) {
			return
		}
		if err := publish(ctx, authority); err != nil {
			f.log.Error("publishing the authority's certificate failed; retrying", "error", err)
			return
		}
		published, done = authority, true
	}, f.poll)
}
