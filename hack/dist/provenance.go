package main

import (
	"bytes"
	"cmp"
	"context"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

// The names of the files about all others.
const (
	provenanceFile = "provenance.intoto.json"
	sumsFile       = "SHA256SUMS"
)

// writeProvenance writes what was built from what, as an in-toto statement with SLSA's predicate. It is not signed, and
// has no times, so that it repeats as well.
func (d *dist) writeProvenance(context.Context) error {
	predicate, err := d.predicate()
	if err != nil {
		return err
	}
	statement := &intoto.Statement{Type: intoto.StatementTypeUri, PredicateType: "https://slsa.dev/provenance/v1",
		Predicate: predicate}
	names, err := d.files()
	if err != nil {
		return err
	}
	for _, name := range names {
		sum, err := sumOf(filepath.Join(d.out, name))
		if err != nil {
			return err
		}
		statement.Subject = append(statement.Subject,
			&intoto.ResourceDescriptor{Name: name, Digest: map[string]string{"sha256": sum}})
	}
	if hash, ok := strings.CutPrefix(d.imageDigest, "sha256:"); ok {
		statement.Subject = append(statement.Subject,
			&intoto.ResourceDescriptor{Name: "image", Digest: map[string]string{"sha256": hash}})
	}
	if err := statement.Validate(); err != nil {
		return err
	}
	text, err := protojson.Marshal(statement)
	if err != nil {
		return err
	}
	// protojson adds spaces at random.
	var compact, indented bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return err
	}
	if err := json.Indent(&indented, compact.Bytes(), "", "  "); err != nil {
		return err
	}
	indented.WriteByte('\n')
	return d.write(provenanceFile, func(w io.Writer) error {
		_, err := indented.WriteTo(w)
		return err
	})
}

// predicate describes the build.
func (d *dist) predicate() (*structpb.Struct, error) {
	var targets []any
	for _, t := range d.targets {
		targets = append(targets, t.String())
	}
	external, err := structpb.NewStruct(map[string]any{"command": "make dist", "version": d.version, "targets": targets,
		"image": d.image})
	if err != nil {
		return nil, err
	}
	internal, err := structpb.NewStruct(map[string]any{"flags": strings.Join(buildFlags, " "), "ldflags": d.ldflags(),
		"cgo": false})
	if err != nil {
		return nil, err
	}
	materials, err := d.materials()
	if err != nil {
		return nil, err
	}
	of := &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{
			BuildType: home + "/tree/main/docs/release.md", ExternalParameters: external, InternalParameters: internal,
			ResolvedDependencies: materials,
		},
		RunDetails: &provenance.RunDetails{Builder: &provenance.Builder{Id: d.builder,
			Version: map[string]string{"go": d.goVersion}}},
	}
	if err := of.Validate(); err != nil {
		return nil, err
	}
	text, err := protojson.Marshal(of)
	if err != nil {
		return nil, err
	}
	predicate := new(structpb.Struct)
	return predicate, protojson.Unmarshal(text, predicate)
}

// materials are the commit, and the modules of all programs with their hashes.
func (d *dist) materials() ([]*intoto.ResourceDescriptor, error) {
	sum, err := moduleDigest(d.sourceSum)
	if err != nil {
		return nil, err
	}
	materials := []*intoto.ResourceDescriptor{
		{Name: "source", Uri: "git+" + home + "@" + d.commit, Digest: map[string]string{"gitCommit": d.commit}},
		{Name: "module zip of the source", Uri: "pkg:golang/" + modulePath + "@" + d.version, Digest: sum},
		{Name: "Go", Uri: "pkg:golang/std@" + strings.TrimPrefix(d.goVersion, "go")},
	}
	modules := make(map[string]*intoto.ResourceDescriptor)
	for _, b := range d.builds {
		info, err := buildinfo.ReadFile(b.program)
		if err != nil {
			return nil, err
		}
		for _, m := range info.Deps {
			digest, err := moduleDigest(m.Sum)
			if err != nil {
				return nil, err
			}
			modules[m.Path] = &intoto.ResourceDescriptor{Uri: purl(*m), Digest: digest}
		}
	}
	byURI := func(a, b *intoto.ResourceDescriptor) int { return cmp.Compare(a.Uri, b.Uri) }
	return append(materials, slices.SortedFunc(maps.Values(modules), byURI)...), nil
}

// moduleDigest is a hash of go.sum in the form of in-toto. A module that is replaced by a folder has none.
func moduleDigest(sum string) (map[string]string, error) {
	if sum == "" {
		return nil, nil
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:"))
	return map[string]string{"dirHash": hex.EncodeToString(raw)}, err
}
