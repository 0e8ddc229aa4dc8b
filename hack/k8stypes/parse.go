package main

import (
	"encoding/json"
	"fmt"
	"go/constant"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
	apiext "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-tools/pkg/crd"
	crdmarkers "sigs.k8s.io/controller-tools/pkg/crd/markers"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
)

// typeName names a Go type, and with it the schema of that type.
type typeName struct{ pkg, name string }

// source has the schemas of a Go package's types.
type source struct {
	// module is the package's module with its version.
	module string
	// schemas has the requested types and all types that they refer to. The type of a field stays a
	// reference.
	schemas map[typeName]apiext.JSONSchemaProps
}

// parse reads the named types of the Go package at path.
func parse(path string, names []string) (*source, error) {
	roots, err := loader.LoadRootsWithConfig(&packages.Config{Mode: packages.NeedModule}, path)
	if err != nil {
		return nil, err
	}
	registry := &markers.Registry{}
	if err := crdmarkers.Register(registry); err != nil {
		return nil, err
	}
	// controller-tools knows +k8s:enum, but the core types still have +enum.
	if err := registry.Define("enum", markers.DescribesType, enum{}); err != nil {
		return nil, err
	}
	parser := &crd.Parser{
		Collector: &markers.Collector{Registry: registry},
		Checker:   &loader.TypeChecker{NodeFilters: []loader.NodeFilter{crd.Generator{}.CheckFilter()}},
	}
	crd.AddKnownTypes(parser)
	for _, name := range names {
		parser.NeedSchemaFor(crd.TypeIdent{Package: roots[0], Name: name})
	}
	// Type errors come from what the filter leaves out; controller-gen ignores them too.
	if loader.PrintErrors(roots, packages.TypeError) {
		return nil, fmt.Errorf("%s: errors while reading its types", path)
	}
	src := &source{
		module:  strings.TrimSpace(roots[0].Module.Path + " " + roots[0].Module.Version),
		schemas: make(map[typeName]apiext.JSONSchemaProps, len(parser.Schemata)),
	}
	for ident, schema := range parser.Schemata {
		t := typeName{ident.Package.PkgPath, ident.Name}
		if slices.Contains(unmarked, t) {
			if schema.Enum, err = constants(ident.Package, ident.Name); err != nil {
				return nil, err
			}
		}
		src.schemas[t] = schema
	}
	return src, nil
}

// unmarked are the enums without the marker +enum, although the API server accepts only their
// constants: see pkg/apis/core/validation in k8s.io/kubernetes, and
// ValidateLabelSelectorRequirement in apimachinery.
var unmarked = []typeName{
	{coreV1, "ContainerRestartPolicy"},
	{coreV1, "ContainerRestartRuleAction"},
	{coreV1, "ContainerRestartRuleOnExitCodesOperator"},
	{coreV1, "OSName"},
	{coreV1, "PodSELinuxChangePolicy"},
	{coreV1, "RecursiveReadOnlyMode"},
	{coreV1, "ResourceResizeRestartPolicy"},
	{metaV1, "LabelSelectorOperator"},
}

// enum is the marker +enum of string types whose only values are their constants.
type enum struct{}

// ApplyToSchema implements crd.SchemaMarker.
func (enum) ApplyToSchema(ctx *crdmarkers.SchemaContext, schema *apiext.JSONSchemaProps) (err error) {
	schema.Enum, err = constants(ctx.Package, ctx.TypeInfo.Name)
	return err
}

// constants returns the constants of a string type, in the order of the source.
func constants(pkg *loader.Package, name string) ([]apiext.JSON, error) {
	scope := pkg.Types.Scope()
	typ := scope.Lookup(name).Type()
	var found []*types.Const
	for _, name := range scope.Names() {
		if c, ok := scope.Lookup(name).(*types.Const); ok && types.Identical(c.Type(), typ) {
			found = append(found, c)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("the enum %s has no constants", name)
	}
	slices.SortFunc(found, func(a, b *types.Const) int { return int(a.Pos() - b.Pos()) })
	values := make([]apiext.JSON, len(found))
	for i, c := range found {
		raw, err := json.Marshal(constant.StringVal(c.Val()))
		if err != nil {
			return nil, err
		}
		values[i] = apiext.JSON{Raw: raw}
	}
	return values, nil
}
