// Command types writes the types of the API that Kubernetes itself serves, for Fescue to check the
// templates of kinds without a cluster. They are those of the release that the embedded control
// plane is built from: its OpenAPI document of version 2, as the API server publishes it, with the
// enums of its Go sources, which that document leaves out. Docs and operations are dropped, except
// which kinds can be created, and whether in a namespace.
//
//	go run -C hack/devcluster ./types -o ../../cue/kind/types/kubernetes.json.gz
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

func main() {
	output := flag.String("o", "../../cue/kind/types/kubernetes.json.gz", "file to write")
	flag.Parse()
	if err := run(*output); err != nil {
		fmt.Fprintln(os.Stderr, "types:", err)
		os.Exit(1)
	}
}

func run(output string) error {
	text, err := document()
	if err != nil {
		return err
	}
	compressed, err := compress(text)
	if err != nil {
		return err
	}
	return os.WriteFile(output, compressed, 0o644)
}

func compress(text []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

// document returns the OpenAPI document, reduced to what types consist of.
func document() ([]byte, error) {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}\n{{.Version}}", "k8s.io/kubernetes").Output()
	if err != nil {
		return nil, fmt.Errorf("find the module k8s.io/kubernetes: %w", err)
	}
	dir, version, _ := strings.Cut(strings.TrimSpace(string(module)), "\n")
	text, err := os.ReadFile(filepath.Join(dir, "api", "openapi-spec", "swagger.json"))
	if err != nil {
		return nil, err
	}
	var swagger struct {
		Definitions map[string]map[string]any
		Paths       map[string]map[string]any
	}
	if err := json.Unmarshal(text, &swagger); err != nil {
		return nil, err
	}
	enums := openapi.GetOpenAPIDefinitions(func(path string) spec.Ref { return spec.MustCreateRef(path) })
	for name, definition := range swagger.Definitions {
		addEnums(definition, enums, name)
		reduce(definition)
	}
	paths := make(map[string]any)
	for path, operations := range swagger.Paths {
		post, ok := operations["post"].(map[string]any)
		if !ok || post["x-kubernetes-action"] != "post" || strings.Contains(path, "{name}") {
			continue
		}
		const gvk = "x-kubernetes-group-version-kind"
		paths[path] = map[string]any{"post": map[string]any{gvk: post[gvk]}}
	}
	return json.Marshal(map[string]any{
		"swagger": "2.0", "info": map[string]any{"title": "Kubernetes", "version": version},
		"definitions": swagger.Definitions, "paths": paths,
	})
}

// addEnums adds the enums of the fields of a definition.
func addEnums(definition map[string]any, all map[string]common.OpenAPIDefinition, name string) {
	properties, _ := definition["properties"].(map[string]any)
	for field, property := range all[name].Schema.Properties {
		published, ok := properties[field].(map[string]any)
		if !ok {
			continue
		}
		if len(property.Enum) > 0 {
			published["enum"] = property.Enum
		}
		items, ok := published["items"].(map[string]any)
		if ok && property.Items != nil && property.Items.Schema != nil && len(property.Items.Schema.Enum) > 0 {
			items["enum"] = property.Items.Schema.Enum
		}
	}
}

// reduce removes from a schema what is not about types.
func reduce(schema map[string]any) {
	maps.DeleteFunc(schema, func(key string, _ any) bool {
		switch key {
		case "type", "format", "properties", "items", "additionalProperties", "required", "enum", "$ref",
			"x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-group-version-kind":
			return false
		}
		return true
	})
	properties, _ := schema["properties"].(map[string]any)
	for _, property := range properties {
		reduce(property.(map[string]any))
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if inner, ok := schema[key].(map[string]any); ok {
			reduce(inner)
		}
	}
}
