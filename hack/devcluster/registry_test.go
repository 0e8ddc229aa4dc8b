package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/opencontainers/go-digest"
	imagev1 "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"
)

// A written image can be pulled: the manifest by its name, the rest by the digests in it.
func TestRegistry(t *testing.T) {
	t.Parallel()
	written := layout(t.TempDir())
	require.NoError(t, written.writeImage([]byte("layer"), imagev1.ImageConfig{Entrypoint: []string{"/a"}}))
	server := httptest.NewServer(registry{"example.com/a/b:v1": layout(t.TempDir()), "docker.io/library/b": written})
	t.Cleanup(server.Close)
	get := func(path string) (int, http.Header, []byte) {
		response, err := http.Get(server.URL + path)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode, response.Header, body
	}
	code, header, body := get("/v2/library/b/manifests/latest?ns=docker.io")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, imagev1.MediaTypeImageManifest, header.Get("Content-Type"))
	require.Equal(t, digest.FromBytes(body).String(), header.Get("Docker-Content-Digest"))
	var manifest imagev1.Manifest
	require.NoError(t, json.Unmarshal(body, &manifest))
	code, _, body = get("/v2/library/b/blobs/" + manifest.Layers[0].Digest.String() + "?ns=docker.io")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "layer", string(body))
	code, _, body = get("/v2/library/b/blobs/" + manifest.Config.Digest.String())
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, string(body), `"Entrypoint":["/a"]`)

	for path, want := range map[string]int{
		"/v2/": http.StatusOK,
		"/v2/library/b/manifests/v2?ns=docker.io":                                http.StatusOK,
		"/v2/a/b/manifests/v2?ns=example.com":                                    http.StatusNotFound,
		"/v2/library/b/manifests/latest?ns=example.org":                          http.StatusNotFound,
		"/v2/a/b/manifests/v1?ns=example.com":                                    http.StatusInternalServerError, // its folder is empty
		"/v2/library/b/blobs/" + digest.FromString("other").String():             http.StatusNotFound,
		"/v2/library/b/blobs/sha256:../../../../../../../../../../../etc/passwd": http.StatusBadRequest,
	} {
		code, _, _ := get(path)
		require.Equal(t, want, code, path)
	}
}
