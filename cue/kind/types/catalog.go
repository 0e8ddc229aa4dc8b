package types

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Resource is what is known of the objects of one kind in one version.
type Resource struct {
	Type       *Type
	Namespaced bool
	// Plural is the name in URLs and roles; it is empty unless a CustomResourceDefinition gave it.
	Plural string
}

// Catalog holds types of objects.
type Catalog struct {
	resources map[schema.GroupVersionKind]Resource
	// groups are those of which all types are known, with the release of Kubernetes.
	groups     map[string]string
	objectMeta *Type
	// copyOf is what New copied, so that the next one need not read it again.
	copyOf *Catalog
}

// Clone returns a catalog that knows the same types, to add others to it.
func (c *Catalog) Clone() *Catalog {
	clone := *c
	clone.resources = maps.Clone(c.resources)
	return &clone
}

// Find returns what is known of objects of a kind. If nothing is, the error explains it, or is nil
// if others may serve the kind.
func (c *Catalog) Find(gvk schema.GroupVersionKind) (Resource, bool, error) {
	if found, ok := c.resources[gvk]; ok {
		return found, true, nil
	}
	release, isWhole := c.groups[gvk.Group]
	if !isWhole && !strings.Contains(gvk.Group, ".") { // the API server accepts no CRD of such a group
		release, isWhole = c.groups[""], true
	}
	var elsewhere, ofGroup []string
	for known := range c.resources {
		if known.Kind == gvk.Kind && (isWhole || known.Group == gvk.Group) {
			elsewhere = append(elsewhere, fmt.Sprintf("%q", known.GroupVersion()))
		}
		if known.GroupVersion() == gvk.GroupVersion() {
			ofGroup = append(ofGroup, known.Kind)
		}
	}
	slices.Sort(elsewhere)
	apiVersion, near := gvk.GroupVersion().String(), Nearest(gvk.Kind, ofGroup)
	switch {
	case len(elsewhere) > 0:
		return Resource{}, false, fmt.Errorf("%q has no kind %s: write %s", apiVersion, gvk.Kind,
			strings.Join(elsewhere, " or "))
	case near != "" && (isWhole || strings.EqualFold(near, gvk.Kind)):
		return Resource{}, false, fmt.Errorf("%q has no kind %s; did you mean %s?", apiVersion, gvk.Kind, near)
	case isWhole:
		return Resource{}, false, fmt.Errorf("%q has no kind %s in Kubernetes %s", apiVersion, gvk.Kind, release)
	}
	return Resource{}, false, nil
}

// Plurals returns the plurals of the types that have one.
func (c *Catalog) Plurals() map[schema.GroupKind]string {
	plurals := make(map[schema.GroupKind]string)
	for gvk, r := range c.resources {
		if r.Plural != "" {
			plurals[gvk.GroupKind()] = r.Plural
		}
	}
	return plurals
}

// Add adds the type of an object.
func (c *Catalog) Add(gvk schema.GroupVersionKind, r Resource) { c.resources[gvk] = r }

// AddPath adds the types of a file or of the files in a folder: CustomResourceDefinitions in YAML,
// or an OpenAPI document of an API server (kubectl get --raw /openapi/v2).
func (c *Catalog) AddPath(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return c.addFile(path)
	}
	return filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
			return err
		}
		return c.addFile(name)
	})
}

func (c *Catalog) addFile(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := c.addText(text); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (c *Catalog) addText(text []byte) error {
	if start := bytes.TrimSpace(text[:min(len(text), 256)]); bytes.HasPrefix(start, []byte("{")) &&
		bytes.Contains(start, []byte(`"swagger"`)) {
		return c.addOpenAPI(text)
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		one, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.addManifest(one); err != nil {
			return err
		}
	}
}

// addManifest adds what a manifest defines, if it is a CustomResourceDefinition or a list of them.
func (c *Catalog) addManifest(text []byte) error {
	var kinds struct{ Kind string }
	if err := yaml.Unmarshal(text, &kinds); err != nil {
		return err
	}
	var list apiextensionsv1.CustomResourceDefinitionList
	switch kinds.Kind {
	case "CustomResourceDefinition":
		list.Items = make([]apiextensionsv1.CustomResourceDefinition, 1)
		if err := yaml.Unmarshal(text, &list.Items[0]); err != nil {
			return err
		}
	case "List", "CustomResourceDefinitionList":
		if err := yaml.Unmarshal(text, &list); err != nil {
			return err
		}
	}
	for _, definition := range list.Items {
		if definition.Kind != "CustomResourceDefinition" && kinds.Kind == "List" {
			continue
		}
		for _, version := range definition.Spec.Versions {
			gvk := schema.GroupVersionKind{Group: definition.Spec.Group, Version: version.Name,
				Kind: definition.Spec.Names.Kind}
			t := Unknown
			if version.Schema != nil && version.Schema.OpenAPIV3Schema != nil {
				t = c.FromRootSchema(version.Schema.OpenAPIV3Schema)
			}
			c.Add(gvk, Resource{Type: t, Namespaced: definition.Spec.Scope != apiextensionsv1.ClusterScoped,
				Plural: definition.Spec.Names.Plural})
		}
	}
	return nil
}
