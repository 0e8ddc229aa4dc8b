package main

import (
	"net/http"
	"os"
	"strings"

	"github.com/opencontainers/go-digest"
)

// registry serves all images of a real node. It implements the part of the OCI distribution
// specification for pulling. The values are folders of OCI layouts. The keys are names:
// "docker.io/library/busybox" is for all tags, "example.com/example:v1" for one.
type registry map[string]layout

func (images registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/v2/")
	if path == "" {
		return // the check whether a registry exists
	}
	// containerd sends the name of the registry in ns.
	if name, tag, ok := strings.Cut(path, "/manifests/"); ok && !strings.Contains(tag, ":") {
		images.serveTag(w, r, r.URL.Query().Get("ns")+"/"+name, tag)
		return
	}
	wanted, err := digest.Parse(path[strings.LastIndex(path, "/")+1:])
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	images.serveBlob(w, r, wanted)
}

// serveTag serves the manifest or the index of an image by its name.
func (images registry) serveTag(w http.ResponseWriter, r *http.Request, name, tag string) {
	found, ok := images[name+":"+tag]
	if !ok {
		found, ok = images[name]
	}
	if !ok {
		http.Error(w, "the node has no image "+name+":"+tag, http.StatusNotFound)
		return
	}
	at, err := found.image()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", at.MediaType)
	w.Header().Set("Docker-Content-Digest", at.Digest.String())
	http.ServeFile(w, r, found.blob(at.Digest))
}

// serveBlob serves the blob with a digest, of any image.
func (images registry) serveBlob(w http.ResponseWriter, r *http.Request, wanted digest.Digest) {
	for _, candidate := range images {
		if _, err := os.Stat(candidate.blob(wanted)); err == nil {
			w.Header().Set("Content-Type", "application/octet-stream")
			http.ServeFile(w, r, candidate.blob(wanted))
			return
		}
	}
	http.NotFound(w, r)
}
