package quiet

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/internal/testing/logtest"
)

// refused is the error of a request to a server that does not run.
func refused(path string, port int) error {
	return fmt.Errorf("child %q: %w", path, &url.Error{Op: "Patch", URL: "https://a/" + path, Err: &net.OpError{
		Op: "dial", Net: "tcp", Source: &net.TCPAddr{Port: port}, Err: syscall.ECONNREFUSED,
	}})
}

func forbidden(name string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, errors.New(`User "u" cannot create resource "pods" in API group "" in the namespace "n"`))
}

// A problem is logged once a minute, whichever object, connection or logger reports it. Different
// problems, and lines that report none, are all logged.
func TestOneLinePerCauseAndMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out logtest.Buffer
		log := slog.New(NewHandler(slog.NewTextHandler(&out, nil)))
		lines := func() []string {
			synctest.Wait()
			return strings.Split(strings.TrimSpace(out.Take()), "\n")
		}
		for i := range 300 {
			path := fmt.Sprint("pod-", i)
			log.With("object", path).Warn("reconcile failed", "error", refused(path, i))
			log.Error("reconcile failed", "err", forbidden(path))
		}
		got := lines()
		require.Len(t, got, 2)
		require.Contains(t, got[0], "object=pod-0")
		require.Contains(t, got[1], `cannot create resource \"pods\" in API group \"\" in the namespace \"n\"`)

		log.Warn("watch failed", "error", refused("x", 1))
		log.Warn("reconcile failed", "error", errors.New("another"))
		log.Warn("object is stalled", "reason", "a")
		log.Warn("object is stalled", "reason", "a")
		log.Info("retrying", "error", refused("x", 1))
		log.Info("retrying", "error", refused("x", 1))
		require.Len(t, lines(), 6)

		time.Sleep(window)
		got = lines()
		require.Len(t, got, 2)
		require.Contains(t, got[0]+got[1], "object=pod-299")
		require.Contains(t, got[0], "leftOut=298")
		require.Contains(t, got[1], "leftOut=298")
		time.Sleep(window)
		require.Equal(t, []string{""}, lines(), "nothing was left out")
		log.Warn("reconcile failed", "error", refused("again", 1))
		require.Contains(t, lines()[0], "again")
		time.Sleep(window)
	})
}

// The memory for problems is bounded.
func TestManyProblems(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := NewHandler(slog.DiscardHandler)
		h.next = slog.NewTextHandler(&logtest.Buffer{}, nil)
		log := slog.New(h)
		for i := range 2 * maxProblems {
			log.Warn("failed", "error", fmt.Errorf("%d", i))
		}
		remembered := func() int {
			h.seen.mu.Lock()
			defer h.seen.mu.Unlock()
			return len(h.seen.problems)
		}
		require.Equal(t, maxProblems, remembered())
		time.Sleep(window)
		synctest.Wait()
		require.Zero(t, remembered())
	})
}
