package main

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"

	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// writeSBOMs writes an SBOM in SPDX format for each archive, from what the Go linker wrote into the program. Those of
// the image come from ko, and have the same format.
func (d *dist) writeSBOMs(context.Context) error {
	for _, b := range d.builds {
		info, err := buildinfo.ReadFile(b.program)
		if err != nil {
			return err
		}
		sum, err := sumOf(filepath.Join(d.out, b.archive))
		if err != nil {
			return err
		}
		document := d.sbom(b, info, sum)
		err = d.write(d.base(b.target)+".spdx.json", func(w io.Writer) error {
			encoder := json.NewEncoder(w)
			encoder.SetIndent("", "  ")
			return encoder.Encode(document)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sbom lists the modules of a program. Their hashes are Go's, of all files of a module, which SPDX has no name for.
func (d *dist) sbom(b build, info *debug.BuildInfo, sum string) *spdx.Document {
	root := modulePackage(debug.Module{Path: modulePath, Version: d.version})
	root.PackageFileName, root.PrimaryPackagePurpose = b.archive, "APPLICATION"
	root.PackageLicenseDeclared, root.PackageHomePage = "Apache-2.0", home
	root.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: sum}}
	document := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName: b.archive, DocumentNamespace: home + "/spdx/" + b.archive + "/" + sum,
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "fescue-dist"}},
			Created:  d.time.Format("2006-01-02T15:04:05Z"),
		},
		Packages:      []*spdx.Package{root},
		Relationships: []*spdx.Relationship{relationship("DOCUMENT", "DESCRIBES", root.PackageSPDXIdentifier)},
	}
	for _, m := range append([]*debug.Module{{Path: "std", Version: info.GoVersion}}, info.Deps...) {
		of := modulePackage(*m)
		document.Packages = append(document.Packages, of)
		document.Relationships = append(document.Relationships,
			relationship(root.PackageSPDXIdentifier, "DEPENDS_ON", of.PackageSPDXIdentifier))
	}
	return document
}

// notInID is what an identifier of SPDX cannot have.
var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]`)

func modulePackage(m debug.Module) *spdx.Package {
	const unknown = "NOASSERTION"
	p := &spdx.Package{
		PackageName: m.Path, PackageVersion: m.Version,
		PackageSPDXIdentifier: common.ElementID("Package-" + notInID.ReplaceAllString(m.Path, "-") + "-" +
			notInID.ReplaceAllString(m.Version, "-")),
		PackageDownloadLocation: unknown, PackageLicenseConcluded: unknown, PackageLicenseDeclared: unknown,
		PackageCopyrightText: unknown,
		PackageExternalReferences: []*spdx.PackageExternalReference{{Category: common.CategoryPackageManager,
			RefType: common.TypePackageManagerPURL, Locator: purl(m)}},
	}
	if m.Sum != "" {
		p.PackageComment = "go.sum: " + m.Sum
	}
	return p
}

// purl names a module as vulnerability scanners do.
func purl(m debug.Module) string {
	return fmt.Sprintf("pkg:golang/%s@%s", m.Path, strings.ReplaceAll(strings.TrimPrefix(m.Version, "go"), "+", "%2B"))
}

func relationship(of common.ElementID, is string, to common.ElementID) *spdx.Relationship {
	return &spdx.Relationship{RefA: common.DocElementID{ElementRefID: of}, RefB: common.DocElementID{ElementRefID: to},
		Relationship: is}
}
