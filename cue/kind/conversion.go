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
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// conversionSuffix follows the name of a definition of objects in the name of its conversion.
const conversionSuffix = "Conversion"

const (
	// storedName is the object in the stored version, in a conversion.
	storedName = "stored"
	// toStoredName and fromStoredName are the two directions of a conversion.
	toStoredName   = "toStored"
	fromStoredName = "fromStored"
)

// Conversion is how a version differs from the stored one. A nil one states nothing: all fields that
// both have are the same.
type Conversion struct {
	// Name is that of its definition.
	Name    string
	Program *behaviour.Program
	// Stated are the fields that it states, by direction.
	Stated map[string]*Stated
	// Reads are the paths of the fields of the object that it reads.
	Reads []string
	At    schema.Position
}

// Stated are the fields below a field that a conversion states, also within an if. Whole means that
// it states the value as such. A nil one is a field that it does not state.
type Stated struct {
	Whole  bool
	Fields map[string]*Stated
	At     schema.Position // of a direction
}

// Converts reports whether a version of the kind has a conversion, so that Convert has to be asked.
// Otherwise versions only differ in which fields of an object are known.
func (k *Kind) Converts() bool {
	return slices.ContainsFunc(k.Versions, func(v *Version) bool { return v.Conversion != nil })
}

// Convert returns an object in another version of the kind, with that version's defaults. Its metadata and
// status are the same. lost are the fields that do not survive: those that cannot be computed are left out,
// because an error would have all reads of the object fail, and lists with it. Only a version that is not
// served must hold the whole object: the API server does not read objects in it, but prunes them by what its
// managed fields list.
func (k *Kind) Convert(b *Budget, object map[string]any, apiVersion string) (converted map[string]any, lost field.ErrorList, err error) {
	from, err := k.versionNamed(object["apiVersion"])
	if err != nil {
		return nil, nil, err
	}
	to, err := k.versionNamed(apiVersion)
	if err != nil || from == to {
		return object, nil, err
	}
	object, lost = k.ToStored(b, object)
	if to != k.Version {
		var more field.ErrorList
		object, more = k.fromStored(b, object, to)
		lost = append(lost, more...)
	}
	if len(lost) > 0 && !to.Served {
		return nil, nil, fmt.Errorf("%s is not served, and cannot hold %s: remove what metadata.managedFields lists of %s", apiVersion, FieldsOf(lost), apiVersion)
	}
	return object, lost, nil
}

// IsStored reports whether an object is in the version that is stored, or needs no conversion to it.
func (k *Kind) IsStored(object map[string]any) bool {
	return !k.Converts() || object["apiVersion"] == k.GroupVersionKind.GroupVersion().String()
}

// AsStored checks an object in any version, and returns it as it will be stored, without its defaults if
// it is in that version. The errors are those of the object, or else of what is stored.
func (k *Kind) AsStored(object map[string]any) (map[string]any, field.ErrorList) {
	if errs := k.Validate(object); len(errs) > 0 {
		return object, errs
	}
	if k.IsStored(object) {
		return object, k.Losses(k.NewBudget(), object)
	}
	b := k.NewBudget()
	converted, errs := k.ToStored(b, object)
	if len(errs) == 0 {
		errs = k.ErrorsAsStored(k.Validate(converted))
	}
	if len(errs) == 0 {
		errs = k.Losses(b, converted)
	}
	return converted, errs
}

// ToStored returns an object as it is stored, with the errors of the fields that cannot be computed, which
// are left out. What would be different on the way back is only spelled otherwise.
func (k *Kind) ToStored(b *Budget, object map[string]any) (map[string]any, field.ErrorList) {
	from := k.versionOf(object)
	if from == k.Version || !k.Converts() {
		return object, nil
	}
	converted, failures := k.convertOnce(b, from.withDefaults(b, object), from, k.Version)
	return converted, errorsOf(failures, k.Version)
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

// withDefaults sets the defaults of an object, which need not be valid.
func (v *Version) withDefaults(b *Budget, object map[string]any) map[string]any {
	return schema.Default(b, v.Compiled, v.withoutNulls(object))
}

// convertOnce converts an object with its defaults to or from the stored version. What cannot be computed is
// left out, and listed.
func (k *Kind) convertOnce(b *Budget, object map[string]any, from, to *Version) (map[string]any, []failure) {
	direction, other := fromStoredName, to
	if to == k.Version {
		direction, other = toStoredName, from
	}
	m := mapper{}
	var by *Stated
	var root piece
	if c := other.Conversion; c != nil {
		by = c.Stated[direction]
		var none map[string]any
		given := []any{object, none}
		if direction == fromStoredName {
			slices.Reverse(given)
		}
		whole := compiledPiece{c.Program.RunGiven(b, given...)}
		root = whole.field(direction)
	}
	converted := runtime.DeepCopyJSON(m.fields(withoutFixed(object), by, root, direction))
	pruning.Prune(converted, to.Structural, true)
	text, err := json.Marshal(converted)
	if err == nil && len(text) > maxConvertedBytes {
		err = fmt.Errorf("it would have %d bytes: must have at most %d", len(text), maxConvertedBytes)
	}
	if err != nil {
		converted, m.failures = make(map[string]any), append(m.failures, failure{direction + ".spec", err})
	}
	for _, name := range []string{"metadata", "status"} {
		if value, ok := object[name]; ok {
			converted[name] = value
		}
	}
	converted["apiVersion"], converted["kind"] = to.GroupVersionKind.ToAPIVersionAndKind()
	converted = to.withDefaults(b, converted)
	if err := exceeded(b, nil); err != nil {
		m.failures = append(m.failures, failure{direction + ".apiVersion", err})[:1] // all others follow from it
	}
	return converted, m.failures
}

// fixedFields are the fields that conversions copy as they are, but for the version itself.
var fixedFields = []string{"apiVersion", "kind", "metadata", "status"}

// withoutFixed returns the fields of an object that a conversion may change.
func withoutFixed(object map[string]any) map[string]any {
	object = maps.Clone(object)
	for _, name := range fixedFields {
		delete(object, name)
	}
	return object
}

// mapper computes the fields of a converted object, and collects what it cannot compute.
type mapper struct{ failures []failure }

// failure is why a field of a conversion cannot be computed.
type failure struct {
	path string // with the direction, as in toStored.spec.keep
	err  error
}

// fields returns the fields of a struct: those that the conversion states, and otherwise those of the source.
func (m *mapper) fields(source map[string]any, by *Stated, p piece, path string) map[string]any {
	if by == nil {
		return source
	}
	result := maps.Clone(source)
	for _, name := range slices.Sorted(maps.Keys(by.Fields)) {
		if value, ok := m.field(source[name], by.Fields[name], p.field(name), path+"."+name); ok {
			result[name] = value
		} else {
			delete(result, name)
		}
	}
	return result
}

// field returns a field that the conversion states, or something in it.
func (m *mapper) field(source any, by *Stated, p piece, path string) (value any, ok bool) {
	if by.Whole {
		value, ok, err := statedValue(p, path)
		if err != nil {
			m.failures = append(m.failures, failure{path, err})
		}
		return value, ok && err == nil
	}
	within, exists := source.(map[string]any)
	if !exists {
		within = make(map[string]any)
	}
	fields := m.fields(within, by, p, path)
	return fields, exists || len(fields) > 0
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
	c := newChecker(k, pkg, nil).ofConversion(v, name)
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
	v.Conversion = &Conversion{Name: name, Program: program, At: positionOf(declared[0]), Stated: make(map[string]*Stated), Reads: pathsRead(declared)}
	for _, direction := range []string{toStoredName, fromStoredName} {
		if m := c.controller.fields[direction]; m != nil {
			v.Conversion.Stated[direction] = c.statedBy(m.parts)
			v.Conversion.Stated[direction].At = positionOf(m.node)
		}
		if s := v.Conversion.Stated[direction]; s != nil && s.Whole {
			return errorAtNode(declared[0], "%s: %s: must be a struct with fields whose names are known: write %s: spec: …", name, direction, direction)
		}
	}
	return nil
}

// pathsRead returns the paths of the fields of the object that a conversion reads; that of the whole object
// is empty.
func pathsRead(declared []*ast.Field) (paths []string) {
	for _, f := range declared {
		ast.Walk(f.Value, func(n ast.Node) bool {
			if ident, ok := n.(*ast.Ident); ok && ident.Name == objectName && ident.Scope != nil {
				paths = append(paths, "")
			}
			e, _ := n.(ast.Expr)
			names := pathFrom(objectName, e)
			if names != nil {
				paths = append(paths, strings.Join(names, "."))
			}
			return names == nil
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
func (c *checker) statedBy(parts []part) *Stated {
	s := c.gather(parts)
	if len(s.literals) == 0 || len(s.others) > 0 || len(s.dynamic) > 0 {
		return &Stated{Whole: true}
	}
	by := &Stated{Fields: make(map[string]*Stated)}
	for _, name := range s.order {
		if m := s.fields[name]; !m.constraint {
			by.Fields[name] = c.statedBy(m.parts)
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
			if v.Conversion != nil {
				used[v.Conversion.Name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(definitions)) {
		if !used[name] && isConversion(definitions[name][0].Value) {
			errs = append(errs, errorAtNode(definitions[name][0],
				"%s belongs to no further version of a kind: the conversion of #X, which has the group and kind of a kind with another version, must be named #X%s", name, conversionSuffix))
		}
	}
	return errs
}
