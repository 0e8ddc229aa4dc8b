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

// DefaultPollInterval is how often files are looked at. It is far below the minute or so that a
// kubelet takes to bring a changed Secret to them, and notices what file system events miss.
const DefaultPollInterval = 10 * time.Second

// authorityFile is where cert-manager puts the authority's certificate.
const authorityFile = "ca.crt"

// Files is a certificate in a folder with the names that a mounted Secret of type
// kubernetes.io/tls has: tls.crt, tls.key and, if the API server shall be told whom to
// trust, ca.crt.
type Files struct {
	*holder
	dir  string
	poll time.Duration
	log  *slog.Logger
}

// NewFiles loads the certificate in a folder; poll is how often it is looked at again, 0
// means DefaultPollInterval. It is ready while the certificate is valid, and for all hosts.
func NewFiles(dir string, poll time.Duration, hosts []string, metrics prometheus.Registerer, log *slog.Logger) (*Files, error) {
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

// reload reads certificate and key, which may be of different ages while they are replaced.
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

// Run reloads the certificate when its files change, until ctx ends. While they are being
// replaced, certificate and key may not fit; the last that did are served.
func (f *Files) Run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(context.Context) {
		if err := f.reload(); err != nil {
			f.log.Error("certificate is not reloaded; the last one stays", "error", err)
		}
	}, f.poll)
}

// Lead publishes the authority's certificate, now and when it changes, until ctx ends.
// Without one nothing is published but that it is left to others.
func (f *Files) Lead(ctx context.Context, publish func(context.Context, []byte) error) {
	var published []byte
	done := false
	wait.UntilWithContext(ctx, func(context.Context) {
		authority, err := os.ReadFile(filepath.Join(f.dir, authorityFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.log.Error("authority's certificate cannot be read", "error", err)
			return
		}
		if done && bytes.Equal(authority, published) {
			return
		}
		if err := publish(ctx, authority); err != nil {
			f.log.Error("authority's certificate is not published; trying again", "error", err)
			return
		}
		published, done = authority, true
	}, f.poll)
}
