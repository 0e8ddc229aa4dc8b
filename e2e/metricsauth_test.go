package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/cert"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// metricsRules returns the rules of a ClusterRole that `fescue manifests --metrics-auth` prints.
func metricsRules(t *testing.T, name string) []rbacv1.PolicyRule {
	t.Helper()
	parts, err := install.Parts(nil, install.Options{Image: "fescue", MetricsAuth: true})
	require.NoError(t, err)
	for _, object := range install.Objects(parts) {
		if object.GetKind() == "ClusterRole" && object.GetName() == name {
			var role rbacv1.ClusterRole
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role))
			return role.Rules
		}
	}
	require.FailNow(t, "no such ClusterRole", name)
	return nil
}

// getTLS returns the answer of a URL to a bearer token. The server needs a certificate of the
// authority, unless that is nil.
func getTLS(t *testing.T, authority []byte, url, token string) (code int, body string) {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: authority == nil}
	if authority != nil {
		config.RootCAs = x509.NewCertPool()
		require.True(t, config.RootCAs.AppendCertsFromPEM(authority))
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	response, err := client.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

// With the rights of the manifests and no others, the operator serves metrics to authorized clients
// only.
func TestMetricsAuth(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	shipped := kindtest.Shipped(t)
	require.NoError(t, testcluster.InstallCRDs(t.Context(), c.client, shipped, crds.Webhook{}))
	work, own := c.rolesOf(shipped)
	config := c.serviceAccount("fescue", slices.Concat(work, own))
	c.clusterRole("fescue", metricsRules(t, "fescue-metrics-auth"))
	o := c.launchAs(c.proxy.through(config), "--metrics-listen", "127.0.0.1:0", "--metrics-auth", "--profiling")
	reader, stranger, late := c.serviceAccount("reader", nil), c.serviceAccount("stranger", nil), c.serviceAccount("late", nil)
	c.clusterRole("reader", metricsRules(t, "fescue-metrics-reader"))
	url := strings.Replace(o.address("--metrics-listen"), "http:", "https:", 1)

	var code int
	var body string
	require.Eventually(t, func() bool { // the API server updates its caches of roles a little later
		code, body = getTLS(t, nil, url+"/metrics", reader.BearerToken)
		return code == http.StatusOK && strings.Contains(body, "\nfescue_decisions_total{") // of the kinds, which are loaded meanwhile
	}, testcluster.Timeout, testcluster.Poll)
	for name, test := range map[string]struct {
		path, token string
		code        int
		body        string
	}{
		"no token":      {"/metrics", "", http.StatusUnauthorized, "a valid bearer token is required\n"},
		"unknown token": {"/metrics", "x", http.StatusUnauthorized, "a valid bearer token is required\n"},
		"no right":      {"/metrics", stranger.BearerToken, http.StatusForbidden, `user "system:serviceaccount:` + c.namespace + `:stranger" cannot get path "/metrics"` + "\n"},
		"another path":  {"/debug/pprof/", reader.BearerToken, http.StatusForbidden, `user "system:serviceaccount:` + c.namespace + `:reader" cannot get path "/debug/pprof/"` + "\n"},
	} {
		code, body := getTLS(t, nil, url+test.path, test.token)
		require.Equal(t, test.code, code, name)
		require.Equal(t, test.body, body, name)
	}
	code, _ = get(t, o.address("--metrics-listen")+"/metrics")
	require.Equal(t, http.StatusBadRequest, code, "TLS is required")

	// Answers are cached for a minute, so that scrapes cost the API server nothing and work without it.
	reader = c.configOf("reader")
	code, _ = getTLS(t, nil, url+"/metrics", reader.BearerToken)
	require.Equal(t, http.StatusOK, code)
	c.proxy.requests.reset()
	code, _ = getTLS(t, nil, url+"/metrics", reader.BearerToken)
	require.Equal(t, http.StatusOK, code)
	for _, request := range c.proxy.requests.all() {
		require.NotContains(t, request, "/tokenreviews")
		require.NotContains(t, request, "/subjectaccessreviews")
	}
	c.proxy.cut()
	code, _ = getTLS(t, nil, url+"/metrics", reader.BearerToken)
	require.Equal(t, http.StatusOK, code)
	code, body = getTLS(t, nil, url+"/metrics", late.BearerToken)
	require.Equal(t, http.StatusInternalServerError, code)
	require.Equal(t, "the token cannot be reviewed\n", body)
	o.awaitLog(`/tokenreviews\": dial tcp`)
}

// Without its own rights, the operator reports that in the log and serves metrics to no one.
func TestMetricsAuthWithoutRights(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	authority, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.crt"), authority, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600))
	config := c.serviceAccount("fescue", nil)
	o := c.launchAs(config, "--metrics-listen", "127.0.0.1:0", "--metrics-auth", "--metrics-cert-dir", dir)
	url := strings.Replace(o.address("--metrics-listen"), "http:", "https:", 1)
	code, _ := getTLS(t, authority, url+"/metrics", config.BearerToken)
	require.Equal(t, http.StatusInternalServerError, code)
	o.awaitLog(`cannot create resource \"tokenreviews\" in API group \"authentication.k8s.io\" at the cluster scope`)
	c.clusterRole("fescue", metricsRules(t, "fescue-metrics-auth"))
	require.Eventually(t, func() bool {
		code, _ = getTLS(t, authority, url+"/metrics", config.BearerToken)
		return code == http.StatusForbidden
	}, testcluster.Timeout, testcluster.Poll, "the token is reviewed again, and its user may not read metrics")
}
