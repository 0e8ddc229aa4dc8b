package kind

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/token"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

const (
	// conversionSuffix follows the name of a definition of objects in the name of its conversion.
	conversionSuffix = "Conversion"
	// storedName is the object in the stored version, in a conversion.
	storedName = "stored"
	// toStoredName and fromStoredName are the two directions of a conversion.
	toStoredName   = "toStored"
	fromStoredName = "fromStored"
)

// conversion is how a version differs from the stored one. A nil one states nothing: all fields that
// both have are the same.
type conversion struct {
	name    string // of its definition
	program *behaviour.Program
	// stated are the fields that it states, by direction.
	stated map[string]*stated
	// reads are the paths of the fields that it reads, by what is given.
	reads map[string][]string
	at    schema.Position
}

// stated are the fields below a field that a conversion states, also within an if. whole means that
// it states the value as such. A nil one is a field that it does not state.
type stated struct {
	whole  bool
	fields map[string]*stated
}

// Converts reports whether a version of the kind has a conversion, so that Convert has to be asked.
// Otherwise versions only differ in which fields of an object are known.
func (k *Kind) Converts() bool {
	return slices.ContainsFunc(k.Versions, func(v *Version) bool { return v.conversion != nil })
}

// Convert returns an object in another version of the kind, with that version's defaults. Its metadata
// is the same, but for an annotation with what the version cannot say, from which a conversion back
// restores it: no conversion loses anything. apiVersion is that of the other version. The object is
// not changed; the result shares parts with it.
func (k *Kind) Convert(object map[string]any, apiVersion string) (map[string]any, error) {
	from, err := k.versionNamed(object["apiVersion"])
	if err != nil {
		return nil, err
	}
	to, err := k.versionNamed(apiVersion)
	if err != nil || from == to {
		return object, err
	}
	for _, step := range [][2]*Version{{from, k.Version}, {k.Version, to}} {
		if step[0] == step[1] {
			continue
		}
		if object, err = k.convertStep(object, step[0], step[1]); err != nil {
			return nil, fmt.Errorf("from %s to %s: %w", step[0].GroupVersionKind.Version, step[1].GroupVersionKind.Version, err)
		}
	}
	return object, nil
}

// ToStored returns an object in the version that is stored: Convert.
func (k *Kind) ToStored(object map[string]any) (map[string]any, error) {
	return k.Convert(object, k.GroupVersionKind.GroupVersion().String())
}

// IsStored reports whether an object is in the version that is stored, or needs no conversion to it.
func (k *Kind) IsStored(object map[string]any) bool {
	return !k.Converts() || object["apiVersion"] == k.GroupVersionKind.GroupVersion().String()
}

// AsStored checks an object in any version, and returns it as it will be stored, without its defaults if
// it is in that version. The errors are those of the object, or else of what is stored.
func (k *Kind) AsStored(object map[string]any) (map[string]any, field.ErrorList) {
	if errs := k.Validate(object); len(errs) > 0 || k.IsStored(object) {
		return object, errs
	}
	converted, err := k.ToStored(object)
	if err != nil {
		return object, field.ErrorList{NotConvertible(object, err)}
	}
	return converted, k.ErrorsAsStored(k.Validate(converted))
}

// NotConvertible returns the error of an object that cannot be converted.
func NotConvertible(object map[string]any, err error) *field.Error {
	return field.Invalid(field.NewPath("apiVersion"), object["apiVersion"], "cannot be converted: "+err.Error())
}

// ErrorsAsStored has the errors of an object that was converted say so.
func (k *Kind) ErrorsAsStored(errs field.ErrorList) field.ErrorList {
	for i, err := range errs {
		converted := *err
		converted.Detail = "as " + k.GroupVersionKind.Version + ": " + err.Detail
		errs[i] = &converted
	}
	return errs
}

// versionNamed returns the version of an apiVersion.
func (k *Kind) versionNamed(apiVersion any) (*Version, error) {
	var known []string
	for _, v := range k.Versions {
		name := v.GroupVersionKind.GroupVersion().String()
		if name == apiVersion {
			return v, nil
		}
		known = append(known, name)
	}
	return nil, fmt.Errorf("apiVersion: %v is no version of %s, which has %s", apiVersion, k.GroupVersionKind.Kind, strings.Join(known, ", "))
}

// convertStep converts an object to or from the stored version.
func (k *Kind) convertStep(object map[string]any, from, to *Version) (map[string]any, error) {
	restored, object := keptOf(object, to.GroupVersionKind.Version)
	object = from.withDefaults(object)
	converted, err := k.convertOnce(object, from, to)
	if err != nil {
		return nil, err
	}
	converted = to.withDefaults(converted)
	if len(restored) > 0 {
		converted = to.withDefaults(restored.restore(converted))
	}
	back, err := k.convertOnce(converted, to, from)
	if err != nil {
		return nil, fmt.Errorf("and back: %w", err)
	}
	return differences(object, from.withDefaults(back)).keep(converted, from.GroupVersionKind.Version)
}

// withDefaults sets the defaults of an object, which need not be valid.
func (v *Version) withDefaults(object map[string]any) map[string]any {
	return schema.Default(v.schema, v.withoutNulls(object))
}

// convertOnce is convertStep without what annotations keep.
func (k *Kind) convertOnce(object map[string]any, from, to *Version) (map[string]any, error) {
	direction, other := fromStoredName, to
	if to == k.Version {
		direction, other = toStoredName, from
	}
	m := mapper{}
	var root piece
	if c := other.conversion; c != nil {
		m.stated = c.stated[direction]
		var none map[string]any
		given := []any{object, none}
		if direction == fromStoredName {
			slices.Reverse(given)
		}
		whole := compiledPiece{c.program.RunGiven(given...)}
		root = whole.field(direction)
	}
	fields, err := m.fields(withoutFixed(object), to.Schema, m.stated, root, direction)
	if err != nil {
		return nil, err
	}
	fields["apiVersion"], fields["kind"] = to.GroupVersionKind.ToAPIVersionAndKind()
	fields["metadata"] = object["metadata"]
	return fields, nil
}

// withoutFixed returns the fields of an object that a conversion may change.
func withoutFixed(object map[string]any) map[string]any {
	object = maps.Clone(object)
	for _, name := range fixedFields {
		delete(object, name)
	}
	return object
}

// mapper computes the fields of a converted object.
type mapper struct{ stated *stated }

// fields returns the fields of a struct: those that the conversion states, and otherwise those of
// the source that fit.
func (m *mapper) fields(source map[string]any, to *schemaProps, by *stated, p piece, path string) (map[string]any, error) {
	result := make(map[string]any, len(source))
	for name, value := range source {
		if by != nil && by.fields[name] != nil {
			continue
		}
		if value, ok := carried(value, propertyOf(to, name)); ok {
			result[name] = value
		}
	}
	if by == nil {
		return result, nil
	}
	for name, inner := range by.fields {
		if path == toStoredName || path == fromStoredName {
			if slices.Contains(fixedFields, name) {
				continue
			}
		}
		value, ok, err := m.field(source[name], propertyOf(to, name), inner, p.field(name), path+"."+name)
		if err != nil {
			return nil, err
		}
		if ok {
			result[name] = value
		}
	}
	return result, nil
}

// field returns a field that the conversion states, or something in it.
func (m *mapper) field(source any, to *schemaProps, by *stated, p piece, path string) (value any, ok bool, err error) {
	if by.whole {
		return statedValue(p, path)
	}
	within, exists := source.(map[string]any)
	fields, err := m.fields(within, to, by, p, path)
	return fields, exists || len(fields) > 0, err
}

// statedValue returns a value without the fields that read something absent; ok is false if that is
// all of it.
func statedValue(p piece, path string) (value any, ok bool, err error) {
	if !p.exists() {
		return nil, false, nil
	}
	value, absent, err := p.data(path, "")
	if err != nil || len(absent) == 0 {
		return value, value != nil && err == nil, err
	}
	if p.isStruct() {
		names, err := p.names()
		fields := make(map[string]any, len(names))
		for _, name := range names {
			if err != nil {
				break
			}
			var present bool
			if value, present, err = statedValue(p.field(name), path+"."+name); present {
				fields[name] = value
			}
		}
		return fields, err == nil, err
	}
	var items []any
	for i, element := range p.elements() {
		item, present, err := statedValue(element, fmt.Sprintf("%s[%d]", path, i))
		if err != nil || !present {
			return nil, false, err
		}
		items = append(items, item)
	}
	return items, items != nil, nil
}

// newConversion compiles the conversion of a version, if there is one.
func newConversion(k *Kind, v *Version, definition string, pkg *kindsPackage) error {
	name := definition + conversionSuffix
	v.Served = true
	declared := pkg.definitions[name]
	if len(declared) == 0 {
		return nil
	}
	c := newChecker(k, nil).ofConversion(v, name)
	if c.controller.fields["served"] != nil { // it is a contract.#Conversion
		c.definition(c.controller, "#"+conversionSuffix, name+".")
	}
	if len(c.mistakes) > 0 {
		return c.mistakes[0]
	}
	value := pkg.value.LookupPath(cue.MakePath(cue.Def(name)))
	if err := value.Validate(); err != nil {
		return err
	}
	if !value.LookupPath(cue.ParsePath("served")).Exists() {
		return errorAtNode(declared[0], "%s must be a contract.#Conversion: write %s: contract.#Conversion & {…}", name, name)
	}
	for field, into := range map[string]*bool{"served": &v.Served, "deprecated": &v.Deprecated} {
		at := value.LookupPath(cue.ParsePath(field))
		stated, err := at.Bool()
		if err != nil {
			return errorAt(at, field, "must be true or false for all objects")
		}
		*into = stated
	}
	if warning := value.LookupPath(cue.ParsePath("deprecationWarning")); warning.Exists() {
		text, err := constant(value, cue.ParsePath("deprecationWarning"))
		if err != nil {
			return err
		}
		if !v.Deprecated {
			return errorAt(warning, "deprecationWarning", "needs deprecated: true")
		}
		v.DeprecationWarning = text
	}
	program, err := behaviour.CompileGiven(pkg.instance, name, objectName, storedName)
	if unsupported, ok := errors.AsType[*behaviour.Error](err); ok {
		return errorAtPosition(positionAt(unsupported.At), "%s", unsupported.Message)
	}
	if err != nil {
		return err
	}
	v.conversion = &conversion{name: name, program: program, at: positionOf(declared[0]), stated: make(map[string]*stated), reads: readPaths(declared)}
	for _, direction := range []string{toStoredName, fromStoredName} {
		if m := c.controller.fields[direction]; m != nil {
			v.conversion.stated[direction] = c.statedBy(m.parts)
		}
		if s := v.conversion.stated[direction]; s != nil && s.whole {
			return errorAtNode(declared[0], "%s: %s: must be a struct with fields whose names are known: write %s: spec: …", name, direction, direction)
		}
	}
	return nil
}

// readPaths returns the paths of fields that a conversion selects, by what is given to it.
func readPaths(declared []*ast.Field) map[string][]string {
	paths := make(map[string][]string)
	for _, f := range declared {
		ast.Walk(f.Value, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			for _, name := range []string{objectName, storedName} {
				if names := pathFrom(name, e); names != nil {
					paths[name] = append(paths[name], strings.Join(names, "."))
					return false
				}
			}
			return true
		}, nil)
	}
	return paths
}

// pathFrom returns the names of a selection from something of a name; nil if it is something else.
func pathFrom(rootName string, e ast.Expr) []string {
	var names []string
	for {
		switch x := e.(type) {
		case *ast.ParenExpr:
			e = x.X
			continue
		case *ast.SelectorExpr:
			name, _, err := ast.LabelName(x.Sel)
			if err != nil {
				return nil
			}
			names, e = append(names, name), x.X
			continue
		case *ast.IndexExpr:
			name := "[]"
			if literal, ok := x.Index.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				name, _, _ = ast.LabelName(literal)
			}
			names, e = append(names, name), x.X
			continue
		case *ast.Ident:
			if x.Name != rootName || len(names) == 0 {
				return nil
			}
			slices.Reverse(names)
			return names
		}
		return nil
	}
}

// statedBy returns which fields the parts of a value state.
func (c *checker) statedBy(parts []part) *stated {
	s := c.gather(parts)
	if len(s.literals) == 0 || len(s.others) > 0 || len(s.dynamic) > 0 {
		return &stated{whole: true}
	}
	by := &stated{fields: make(map[string]*stated)}
	for _, name := range s.order {
		if m := s.fields[name]; !m.constraint {
			by.fields[name] = c.statedBy(m.parts)
		}
	}
	return by
}

// ofConversion has the checker look at the conversion of a version.
func (c *checker) ofConversion(v *Version, name string) *checker {
	alone := *c.kind
	alone.Phases = nil // the names of phases may differ between versions
	c.kind = &alone
	c.given = map[string]value{
		objectName: {t: types.Unknown, path: objectName, owner: v.GroupVersionKind.Version},
		storedName: {t: types.Unknown, path: storedName, owner: alone.GroupVersionKind.Version},
	}
	if c.types != nil {
		for name, of := range map[string]*Version{objectName: v, storedName: alone.Version} {
			given := c.given[name]
			given.t = c.types.FromRootSchema(of.Schema)
			c.given[name] = given
		}
	}
	c.controller = nil
	c.controller = c.gather(c.topLevel(part{in: c.pkg.instance}, name))
	c.own = make(map[ast.Node]bool)
	for _, s := range c.controller.literals {
		c.own[s] = true
	}
	c.mistakes, c.found = nil, make(map[string]bool)
	return c
}

// isConversion reports whether an expression begins with contract.#Conversion.
func isConversion(expr ast.Expr) bool { return beginsWith(expr, "#"+conversionSuffix) }

// orphanConversions finds conversions that belong to no version of a kind.
func orphanConversions(definitions map[string][]*ast.Field, instance *build.Instance, kinds []*Kind) (errs []error) {
	used := referredTo(definitions, instance)
	for _, k := range kinds {
		for _, v := range k.Versions {
			if v.conversion != nil {
				used[v.conversion.name] = true
			}
		}
	}
	for _, name := range sortedKeys(definitions) {
		if !used[name] && isConversion(definitions[name][0].Value) {
			errs = append(errs, errorAtNode(definitions[name][0],
				"%s belongs to no further version of a kind: the conversion of #X, which has the group and kind of a kind with another version, must be named #X%s", name, conversionSuffix))
		}
	}
	return errs
}
