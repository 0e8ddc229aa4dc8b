package main

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Without a base, the image for each platform has a user and no files.
func TestEmptyBase(t *testing.T) {
	_, base, err := baseImage(t.Context(), options{platforms: []string{"linux/amd64", "linux/arm64"}})
	if err != nil {
		t.Fatal(err)
	}
	index, ok := base.(v1.ImageIndex)
	if !ok {
		t.Fatalf("base is a %T", base)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 2 {
		t.Fatalf("base has %d images", len(manifest.Manifests))
	}
	for i, want := range []string{"linux/amd64", "linux/arm64"} {
		image, err := index.Image(manifest.Manifests[i].Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		layers, err := image.Layers()
		if err != nil {
			t.Fatal(err)
		}
		if got := manifest.Manifests[i].Platform.String(); got != want || config.Config.User != nonRoot || len(layers) != 0 {
			t.Errorf("image for %s is for %s, of user %q with %d layers", want, got, config.Config.User, len(layers))
		}
	}
}
