package types

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

//go:embed kubernetes.json.gz
var kubernetes []byte

const (
	// reference precedes the name of a definition in a reference to it.
	reference    = "#/definitions/"
	metadataName = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
	quantityName = "io.k8s.apimachinery.pkg.api.resource.Quantity"
)

// document is what is read of an OpenAPI document of version 2, as the API server publishes it.
type document struct {
	Swagger     string
	Info        struct{ Version string }
	Definitions map[string]*property
	// Paths are by path and operation.
	Paths map[string]map[string]json.RawMessage
}

// property is a schema in an OpenAPI document.
type property struct {
	Ref                  string `json:"$ref"`
	Type, Format         string
	Properties           map[string]*property
	AdditionalProperties json.RawMessage
	Items                *property
	Required             []string
	Enum                 []any
	Minimum              *float64
	MinItems             int64
	ListMapKeys          []string       `json:"x-kubernetes-list-map-keys"`
	Preserve             bool           `json:"x-kubernetes-preserve-unknown-fields"`
	IntOrString          bool           `json:"x-kubernetes-int-or-string"`
	Kinds                []groupVersion `json:"x-kubernetes-group-version-kind"`
}

type groupVersion struct{ Group, Version, Kind string }

func (g groupVersion) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: g.Group, Version: g.Version, Kind: g.Kind}
}

// builtIn is the catalog that was read last, as long as a copy of it is in use.
var builtIn struct {
	sync.Mutex
	catalog weak.Pointer[Catalog]
}

// New returns a catalog of the types that Kubernetes itself serves, which the caller may add to. Types never change, so
// that catalogs share them.
func New() (*Catalog, error) {
	builtIn.Lock()
	defer builtIn.Unlock()
	known := builtIn.catalog.Value()
	if known == nil {
		var err error
		if known, err = readBuiltIn(); err != nil {
			return nil, err
		}
		builtIn.catalog = weak.Make(known)
	}
	return &Catalog{resources: maps.Clone(known.resources), groups: maps.Clone(known.groups),
		objectMeta: known.objectMeta, copyOf: known}, nil
}

func readBuiltIn() (*Catalog, error) {
	r, err := gzip.NewReader(bytes.NewReader(kubernetes))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	c := &Catalog{resources: make(map[schema.GroupVersionKind]Resource), groups: make(map[string]string)}
	return c, c.addOpenAPI(text)
}

// addOpenAPI adds the types of an OpenAPI document.
func (c *Catalog) addOpenAPI(text []byte) error {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	if d.Swagger != "2.0" {
		return fmt.Errorf("swagger: %q must be 2.0", d.Swagger)
	}
	namespaced := make(map[schema.GroupVersionKind]bool) // of those that can be created
	for path, operations := range d.Paths {
		var post struct {
			Kind *groupVersion `json:"x-kubernetes-group-version-kind"`
		}
		if err := json.Unmarshal(operations["post"], &post); err != nil || post.Kind == nil {
			continue
		}
		gvk := post.Kind.gvk()
		namespaced[gvk] = namespaced[gvk] || strings.Contains(path, "/namespaces/{namespace}/")
	}
	from := &reader{definitions: d.Definitions, done: make(map[string]*Type)}
	for name, definition := range d.Definitions {
		if len(definition.Kinds) != 1 { // what several groups share is no object
			continue
		}
		gvk := definition.Kinds[0].gvk()
		if _, ok := namespaced[gvk]; !ok {
			continue
		}
		c.resources[gvk] = Resource{Type: from.definition(name), Namespaced: namespaced[gvk]}
		c.groups[gvk.Group] = d.Info.Version
	}
	if d.Definitions[metadataName] != nil && c.objectMeta == nil {
		c.objectMeta = from.definition(metadataName)
	}
	return nil
}

// reader turns the definitions of a document into types.
type reader struct {
	definitions map[string]*property
	done        map[string]*Type
}

func (r *reader) definition(name string) *Type {
	if t := r.done[name]; t != nil {
		return t
	}
	d := r.definitions[name]
	if d == nil {
		return Unknown
	}
	t := new(Type)
	r.done[name] = t // it may contain itself
	*t = *r.read(d)
	if name == quantityName {
		t.Values, t.Quantity = String|Integer|Number, true
	}
	r.refine(name, t)
	return t
}

func (r *reader) read(p *property) *Type {
	if name, ok := strings.CutPrefix(p.Ref, reference); ok {
		return r.definition(name)
	}
	t := &Type{Values: valuesOf(p.Type), Required: p.Required, Keys: p.ListMapKeys, Minimum: p.Minimum,
		MinItems: p.MinItems}
	if p.Format == "int-or-string" || p.IntOrString {
		t.Values = Integer | String
	}
	t.Base64 = p.Format == base64Format
	if t.Values == String {
		for _, value := range p.Enum {
			if text, ok := value.(string); ok {
				t.Enum = append(t.Enum, text)
			}
		}
	}
	if len(p.Properties) > 0 {
		t.Fields = make(map[string]*Type, len(p.Properties))
		for name, field := range p.Properties {
			t.Fields[name] = r.read(field)
		}
	}
	if p.Items != nil {
		t.Items = r.read(p.Items)
	}
	var values *property
	switch err := json.Unmarshal(p.AdditionalProperties, &values); {
	case err == nil && values != nil:
		t.Others = r.read(values)
	case len(p.Properties) == 0 || p.Preserve: // the document says nothing of it
		t.Others = Unknown
	}
	return t
}
