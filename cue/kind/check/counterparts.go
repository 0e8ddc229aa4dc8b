package check

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/place"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/internal/parts"
)

// counterparts finds fields that only one of two versions can hold, by their schemas.
type counterparts struct {
	kind      *kind.Kind
	pkg       *syntax.Package
	version   *kind.Version // which of the two is not stored
	from, to  *kind.Version
	direction string
	mistakes  []*syntax.LoadError
}

// counterpartsOf returns what a version and the stored one cannot hold of each other.
func counterpartsOf(k *kind.Kind, pkg *syntax.Package, v *kind.Version) []*syntax.LoadError {
	there := counterparts{kind: k, pkg: pkg, version: v, from: v, to: k.Version, direction: kind.ToStoredName}
	back := counterparts{kind: k, pkg: pkg, version: v, from: k.Version, to: v, direction: kind.FromStoredName}
	for _, c := range []*counterparts{&there, &back} {
		var by *kind.Stated
		read := &parts.Set{}
		if v.Conversion != nil {
			by, read = v.Conversion.Stated[c.direction], v.Conversion.Reads
		}
		c.value(c.from.Schema, c.to.Schema, by, read, "")
	}
	if v.Served {
		back.status()
	}
	return append(there.mistakes, back.mistakes...)
}

// value compares the schemas of a value, parts of which the conversion may state. read is what it reads of the version
// that is not stored.
func (c *counterparts) value(
	had, wants *apiextensionsv1.JSONSchemaProps, by *kind.Stated, read *parts.Set, path string,
) {
	if by == nil {
		isUsed := c.to == c.kind.Version || c.version.Served
		switch {
		case isUsed && had.Type != wants.Type && had.Type != "" && wants.Type != "":
			c.mustState(path, had.Type, wants.Type)
			return
		case c.version.Served && isOpen(wants) && !isOpen(had):
			c.lost(path)
			return
		}
		if had.Items != nil && wants.Items != nil {
			c.value(had.Items.Schema, wants.Items.Schema, nil, read.AtElement(), path+"[]")
		}
		if a, b := had.AdditionalProperties, wants.AdditionalProperties; a != nil && b != nil && a.Schema != nil &&
			b.Schema != nil {
			c.value(a.Schema, b.Schema, nil, read.AtElement(), path+".*")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wants.Properties)) {
		at := strings.TrimPrefix(path+"."+name, ".")
		below, exists := had.Properties[name]
		want, inner := wants.Properties[name], statedOf(by, name)
		switch {
		case slices.Contains(kind.FixedFields, at):
		case !exists && (inner == nil && c.version.Served || c.to == c.version && read.At(name) == nil):
			c.lost(at)
		case inner == nil && exists, inner != nil && !inner.Whole:
			c.value(&below, &want, inner, read.AtField(name), at)
		}
	}
}

// isOpen reports whether a struct may have fields that its schema does not name.
func isOpen(s *apiextensionsv1.JSONSchemaProps) bool {
	return s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields || s.AdditionalProperties != nil
}

// statedOf returns what is stated of a field.
func statedOf(s *kind.Stated, name string) *kind.Stated {
	if s == nil {
		return nil
	}
	return s.Fields[name]
}

// lost reports a field that only one version has.
func (c *counterparts) lost(path string) {
	at := position(c.version)
	named, _, _ := strings.Cut(strings.ReplaceAll(path, ".*", "[]"), "[]") // of a list or a map, as far as it has names
	if declared := c.pkg.ValueAt(c.to.DefinitionName, "."+named); declared.Exists() {
		at = syntax.PositionOfValue(declared)
	}
	ways := fmt.Sprintf("declare it in #%s as in #%s, or have toStored and fromStored convert it",
		c.from.DefinitionName, c.to.DefinitionName)
	if c.to == c.kind.Version {
		ways += fmt.Sprintf("; a version that is not served need not have it: write served: false in #%s%s",
			c.from.DefinitionName, syntax.ConversionSuffix)
	}
	c.report(mistake.LostField, at, "%s of %s would be lost: %s", path, c.to.GroupVersionKind.Version, ways)
}

// mustState reports a field whose type differs.
func (c *counterparts) mustState(path, had, wants string) {
	at, direction := position(c.version), c.direction
	switch v := c.version.Conversion; {
	case v == nil:
		direction = "#" + c.version.DefinitionName + syntax.ConversionSuffix + "." + direction
	case v.Stated[direction] != nil:
		at = v.Stated[direction].At
	}
	c.report(mistake.TypeDiffers, at, "%s.%s: must be stated: it is of type %s in %s, and of type %s in %s", direction,
		path, had, c.from.GroupVersionKind.Version, wants, c.to.GroupVersionKind.Version)
}

// status reports two schemas of the status, which conversions copy.
func (c *counterparts) status() {
	a, b := c.from.Schema.Properties["status"], c.to.Schema.Properties["status"]
	a.Description, b.Description = "", ""
	if !reflect.DeepEqual(a, b) {
		c.report(mistake.StatusDiffers, c.to.Compiled.Position,
			"the status differs from that of #%s, but conversions copy it: give both versions the status of one definition, as in status?: #%sStatus",
			c.from.DefinitionName, c.kind.GroupVersionKind.Kind)
	}
}

func (c *counterparts) report(check mistake.Check, at place.Position, format string, args ...any) {
	c.mistakes = append(c.mistakes, &syntax.LoadError{Check: check, Kind: c.kind.LoadName(), File: at.File,
		Line: at.Line, Reason: fmt.Sprintf(format, args...)})
}
