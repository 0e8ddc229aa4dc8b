package main

import (
	"context"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// writeKrew writes the manifest by which krew, the plugin manager of kubectl, installs the program.
func (d *dist) writeKrew(context.Context) error {
	var platforms []any
	for _, b := range d.builds {
		sum, err := sumOf(filepath.Join(d.out, b.archive))
		if err != nil {
			return err
		}
		platforms = append(platforms, map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"os": b.os, "arch": b.arch}},
			"uri":      home + "/releases/download/" + d.version + "/" + b.archive,
			"sha256":   sum,
			"bin":      b.name(),
		})
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
		"kind":       "Plugin",
		"metadata":   map[string]any{"name": "fescue"},
		"spec": map[string]any{
			"version":          d.version,
			"homepage":         home,
			"shortDescription": "Run Kubernetes kinds that are written in CUE",
			"description":      "Checks, tests and explains Kubernetes kinds that are written in CUE, installs the operator\nthat runs them, and shows the health of their objects.\n",
			"platforms":        platforms,
		},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(d.out, "fescue.krew.yaml"), text, 0o644)
}
