package serving

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apiserver/pkg/server/healthz"
)

// A failed check is named, gives its reason at its own path, and does not hide the others.
func TestFailedChecksAreNamed(t *testing.T) {
	t.Parallel()
	handler := healthHandler([]healthz.HealthChecker{
		healthz.NamedCheck("caches", func(*http.Request) error {
			return errors.Join(errors.New("a is not synced"), errors.New("b is not synced"))
		}),
		healthz.NamedCheck("certificate", func(*http.Request) error { return nil }),
	}, nil, func() []string { return []string{"a waits: no CRD", "b waits: no rights"} })
	get := func(path string) (code int, body string) {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return recorder.Code, recorder.Body.String()
	}
	code, body := get("/readyz")
	require.Equal(t, http.StatusInternalServerError, code)
	require.Equal(t, "[+]ping ok\n[-]caches failed: reason withheld\n[+]certificate ok\nreadyz check failed\n", body)
	code, body = get("/readyz?verbose&exclude=caches")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "[+]ping ok\n[+]caches excluded: ok\n[+]certificate ok\nreadyz check passed\na waits: no CRD\nb waits: no rights\n", body)
	code, body = get("/readyz/caches")
	require.Equal(t, http.StatusInternalServerError, code)
	require.Equal(t, "internal server error: a is not synced\nb is not synced\n", body)
	for _, path := range []string{"/healthz", "/livez", "/readyz/certificate"} {
		code, body = get(path)
		require.Equal(t, http.StatusOK, code, path)
		require.Equal(t, "ok", body, path)
	}
}
