package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	imagev1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// The images that each real node has: pause, for the sandboxes of Pods, and busybox.
const (
	pauseImage   = "devcluster.invalid/pause:1"
	busyboxImage = "docker.io/library/busybox"
)

// writeImages writes both images to a folder.
func writeImages(dir, busybox string) (registry, error) {
	layer, err := busyboxLayer(busybox)
	if err != nil {
		return nil, fmt.Errorf("image of busybox: %w", err)
	}
	images := registry{pauseImage: layout(filepath.Join(dir, "pause")),
		busyboxImage: layout(filepath.Join(dir, "busybox"))}
	if err := images[pauseImage].writeImage(layer,
		imagev1.ImageConfig{Entrypoint: []string{"/bin/sleep", "infinity"}}); err != nil {
		return nil, err
	}
	config := imagev1.ImageConfig{Cmd: []string{"sh"}, Env: []string{"PATH=/bin"}}
	return images, images[busyboxImage].writeImage(layer, config)
}

// busyboxLayer returns a tar with the program, links to it for its commands, and /tmp.
func busyboxLayer(busybox string) ([]byte, error) {
	program, err := os.ReadFile(busybox)
	if err != nil {
		return nil, err
	}
	commands, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	headers := []*tar.Header{
		{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777},
		{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o755},
		{Typeflag: tar.TypeReg, Name: "bin/busybox", Mode: 0o755, Size: int64(len(program))},
	}
	for name := range strings.FieldsSeq(string(commands)) {
		if name != "busybox" {
			headers = append(headers, &tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + name, Linkname: "busybox",
				Mode: 0o777})
		}
	}
	for _, header := range headers {
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if header.Typeflag == tar.TypeReg {
			if _, err := w.Write(program); err != nil {
				return nil, err
			}
		}
	}
	return layer.Bytes(), w.Close()
}

// layout is the folder of an OCI layout.
type layout string

// blob returns the file of the blob with a digest.
func (l layout) blob(d digest.Digest) string {
	return filepath.Join(string(l), imagev1.ImageBlobsDir, d.Algorithm().String(), d.Encoded())
}

// writeImage writes an image with one layer.
func (l layout) writeImage(layer []byte, config imagev1.ImageConfig) error {
	layerAt, err := l.write(imagev1.MediaTypeImageLayer, layer)
	if err != nil {
		return err
	}
	image := imagev1.Image{
		Platform: imagev1.Platform{OS: "linux", Architecture: runtime.GOARCH},
		Config:   config,
		RootFS:   imagev1.RootFS{Type: "layers", DiffIDs: []digest.Digest{layerAt.Digest}},
	}
	configAt, err := l.writeJSON(imagev1.MediaTypeImageConfig, image)
	if err != nil {
		return err
	}
	manifestAt, err := l.writeJSON(imagev1.MediaTypeImageManifest, imagev1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: imagev1.MediaTypeImageManifest,
		Config: configAt, Layers: []imagev1.Descriptor{layerAt},
	})
	if err != nil {
		return err
	}
	index, err := json.Marshal(imagev1.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: imagev1.MediaTypeImageIndex,
		Manifests: []imagev1.Descriptor{manifestAt},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(string(l), imagev1.ImageIndexFile), index, 0o644)
}

func (l layout) writeJSON(mediaType string, value any) (imagev1.Descriptor, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return imagev1.Descriptor{}, err
	}
	return l.write(mediaType, content)
}

func (l layout) write(mediaType string, content []byte) (imagev1.Descriptor, error) {
	written := imagev1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))}
	file := l.blob(written.Digest)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return imagev1.Descriptor{}, err
	}
	return written, os.WriteFile(file, content, 0o644)
}

// image returns the descriptor of the manifest or index in an OCI layout of one image.
func (l layout) image() (imagev1.Descriptor, error) {
	var index imagev1.Index
	content, err := os.ReadFile(filepath.Join(string(l), imagev1.ImageIndexFile))
	if err == nil {
		err = json.Unmarshal(content, &index)
	}
	if err != nil {
		return imagev1.Descriptor{}, fmt.Errorf("OCI layout: %w", err)
	}
	if len(index.Manifests) != 1 {
		return imagev1.Descriptor{}, fmt.Errorf("OCI layout %s: has %d images: must be one", l, len(index.Manifests))
	}
	return index.Manifests[0], nil
}
