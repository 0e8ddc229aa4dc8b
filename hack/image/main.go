// Command image builds Fescue's container image with ko, as an OCI layout with an SBOM, and pushes
// it if -push is set. It needs no container engine, and a registry only for -base: by default the
// image has only the program.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/ko/pkg/build"
	"github.com/google/ko/pkg/publish"
)

// nonRoot is the user of the image, called nonroot in distroless images.
const nonRoot = "65532:65532"

type options struct {
	dir, importPath, base, layout, sboms, push, version string
	platforms                                           []string
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "../..", "folder of the module to build")
	flag.StringVar(&o.importPath, "package", "github.com/fescue-dev/fescue", "import path of the program")
	flag.StringVar(&o.base, "base", "", "base image; by default the image has only the program")
	flag.StringVar(&o.layout, "layout", "", "folder for the OCI layout")
	flag.StringVar(&o.sboms, "sboms", "", "folder for the SBOMs in SPDX format, which ko also attaches")
	flag.StringVar(&o.push, "push", "", "image to push, like registry.example.com/fescue:v1")
	flag.StringVar(&o.version, "version", "development", "output of `fescue version`")
	platforms := flag.String("platform", "linux/amd64,linux/arm64", "platforms to build for")
	flag.Parse()
	o.platforms = strings.Split(*platforms, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		log.Fatalln("error:", err)
	}
}

func run(ctx context.Context, o options) error {
	builder, err := build.NewGo(ctx, o.dir,
		build.WithBaseImages(
			func(ctx context.Context, _ string) (name.Reference, build.Result, error) { return baseImage(ctx, o) }),
		build.WithPlatforms(o.platforms...),
		build.WithSPDX(o.version),
		build.WithSBOMDir(o.sboms),
		build.WithTrimpath(true),
		// As in hack/dist, so that the image has the program of the archives.
		build.WithConfig(map[string]build.Config{o.importPath: {
			ID: "fescue",
			Ldflags: build.StringArray{"-s -w -buildid= -X github.com/fescue-dev/fescue/internal/cli.linkedVersion=" +
				o.version},
			Flags: build.FlagArray{"-buildvcs=false"}, Env: []string{"CGO_ENABLED=0"},
		}}),
	)
	if err != nil {
		return err
	}
	result, err := builder.Build(ctx, build.StrictScheme+o.importPath)
	if err != nil {
		return fmt.Errorf("build %s: %w", o.importPath, err)
	}
	if o.layout != "" {
		if _, err := publish.NewLayout(o.layout).Publish(ctx, result, build.StrictScheme+o.importPath); err != nil {
			return fmt.Errorf("write %s: %w", o.layout, err)
		}
	}
	digest, err := result.Digest()
	if err != nil {
		return err
	}
	if o.push != "" {
		if err := push(ctx, result, o.push); err != nil {
			return err
		}
	}
	fmt.Println(digest)
	return nil
}

// baseImage returns the named image, or for each platform one without files.
func baseImage(ctx context.Context, o options) (name.Reference, build.Result, error) {
	if o.base != "" {
		reference, err := name.ParseReference(o.base)
		if err != nil {
			return nil, nil, fmt.Errorf("-base: %w", err)
		}
		index, err := remote.Index(reference, remote.WithContext(ctx),
			remote.WithAuthFromKeychain(authn.DefaultKeychain))
		return reference, index, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, text := range o.platforms {
		platform, err := v1.ParsePlatform(text)
		if err != nil {
			return nil, nil, fmt.Errorf("-platform: %w", err)
		}
		image, err := mutate.ConfigFile(mutate.MediaType(empty.Image, types.OCIManifestSchema1), &v1.ConfigFile{
			OS: platform.OS, Architecture: platform.Architecture, Variant: platform.Variant,
			RootFS: v1.RootFS{Type: "layers"}, Config: v1.Config{User: nonRoot},
		})
		if err != nil {
			return nil, nil, err
		}
		index = mutate.AppendManifests(index,
			mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	// ko needs a name for its records about the base.
	reference, err := name.ParseReference("localhost/empty")
	return reference, index, err
}

func push(ctx context.Context, result build.Result, to string) error {
	reference, err := name.ParseReference(to)
	if err != nil {
		return fmt.Errorf("-push: %w", err)
	}
	with := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if index, ok := result.(v1.ImageIndex); ok {
		return remote.WriteIndex(reference, index, with...)
	}
	if image, ok := result.(v1.Image); ok {
		return remote.Write(reference, image, with...)
	}
	return fmt.Errorf("ko built a %T", result)
}
