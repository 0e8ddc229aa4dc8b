package schema

import (
	"math"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind/budget"
	"github.com/fescue-dev/fescue/cue/kind/place"
)

type (
	props = apiextensionsv1.JSONSchemaProps
	// jsonValue is a value in a CRD.
	jsonValue = apiextensionsv1.JSON
)

// CRD is a schema in the form of a CRD.
type CRD struct {
	// Schema is structural: everything in it has a type.
	Schema *apiextensionsv1.JSONSchemaProps
	// Rules are the CEL rules in it.
	Rules []CELRule
	// Enforcers are who enforces the rules of the original schema.
	Enforcers Enforcers
}

// CELRule is a CEL rule in a CRD's schema.
type CELRule struct {
	// Path is its place within the schema, as errors of the API server name it.
	Path string
	// ID identifies the rule, also in a schema with fewer rules.
	ID string
}

// Options are inputs of OpenAPI in addition to the schema. The zero Options are valid.
type Options struct {
	// Without are the IDs of CEL rules to leave out: the API server rejects a rule that could
	// cost it too much.
	Without sets.Set[string]
	// IsLibrary reports whether a position is in a description of Kubernetes' own types, whose
	// rules the API server enforces by itself.
	IsLibrary func(place.Position) bool
}

// OpenAPI returns the structural schema with which the API server enforces as much as it can
// of the schema of a whole object, and who enforces each rule. It never requires more than the
// schema does.
func OpenAPI(s *Schema, o Options) *CRD {
	crd := &CRD{Enforcers: make(Enforcers)}
	e := emitter{CRD: crd, without: o.Without, slot: slot{correlatable: true}}
	crd.Schema = e.schema(s)
	if o.IsLibrary == nil {
		o.IsLibrary = func(place.Position) bool { return false }
	}
	e.root(s, o.IsLibrary)
	return crd
}

// emitter builds one OpenAPI schema: that of the value in slot, within structs.
type emitter struct {
	*CRD
	without sets.Set[string]
	structs []frame // outermost first
	slot    slot
}

// frame is a struct around the emitted schema, where CEL rules can stand.
type frame struct {
	slot
	schema *StructSchema
	props  *props
	// nullable means that null is allowed, in which CEL finds no fields.
	nullable bool
}

// slot is the place of a value.
type slot struct {
	// path is its place in the OpenAPI schema.
	path *field.Path
	// name is the field of the innermost struct that the value is in. It is empty if the
	// value is in a list, a map or a disjunction, or if CEL cannot write the name.
	name string
	// correlatable reports whether the API server can find its former value.
	correlatable bool
}

// in returns an emitter for another place within the same structs.
func (e *emitter) in(s slot) *emitter {
	return &emitter{CRD: e.CRD, without: e.without, structs: e.structs, slot: s}
}

// innermost returns the struct that fields are emitted for.
func (e *emitter) innermost() frame { return e.structs[len(e.structs)-1] }

// below returns the emitter for the value of a field of the innermost struct.
func (e *emitter) below(name string) *emitter {
	path := e.innermost().path.Child("properties").Key(name)
	if !isIdentifier(name) {
		name = ""
	}
	return e.in(slot{path, name, e.innermost().correlatable})
}

// addRule adds a CEL rule to the schema at a path; it returns false if the rule is to be left
// out.
func (e *emitter) addRule(path *field.Path, p *props, rule, message string) bool {
	return e.add(path, p, apiextensionsv1.ValidationRule{Rule: rule, Message: message})
}

// add is addRule for a rule with more than a message.
func (e *emitter) add(path *field.Path, p *props, rule apiextensionsv1.ValidationRule) bool {
	id := path.String() + " " + rule.Rule
	if e.without.Has(id) {
		return false
	}
	if path == nil && !strings.Contains(rule.Rule, "oldSelf") {
		rule = ratcheting(rule)
	}
	e.Rules = append(e.Rules, CELRule{Path: path.Child("x-kubernetes-validations").Index(len(p.XValidations)).String(),
		ID: id})
	p.XValidations = append(p.XValidations, rule)
	return true
}

// require adds that a field must be present.
func (e *emitter) require(name string, p *props) Enforcer {
	_, isOwn := ownFields[name]
	switch {
	case e.innermost().path != nil || !isIdentifier(name):
		p.Required = append(p.Required, name)
		return CRDSchema
	case isOwn:
		return APIServer
	}
	// For a whole object, "required" would be tried again at every write.
	e.add(nil, p, apiextensionsv1.ValidationRule{
		Rule: "has(self." + name + ")", Message: "the object must have it", FieldPath: "." + name,
		Reason: new(apiextensionsv1.FieldValueRequired),
	})
	return CRDRule
}

// schema returns the OpenAPI schema of one value.
func (e *emitter) schema(s *Schema) *props {
	var p *props
	switch {
	case s.Reference != nil:
		p = &props{XPreserveUnknownFields: new(true)}
		if s.Reference.Types == Struct {
			p.Type = "object"
		}
	case len(s.Alternatives) > 0:
		p = e.alternatives(s)
	default:
		p = e.typed(s)
	}
	p.Description = s.Doc
	if s.Deprecated != "" {
		p.Description = strings.TrimSpace(s.Doc + "\nDeprecated: " + s.Deprecated)
	}
	e.attributes(s, p)
	if p.Format != "" && p.Type == "string" {
		// The API server accepts an empty list as a string that has a format.
		e.Enforcers.setPartly(s.TypeRule)
	}
	return p
}

// typed returns the schema of a value that is not a disjunction.
func (e *emitter) typed(s *Schema) *props {
	p := &props{}
	e.Enforcers.set(s.TypeRule, setType(s, p))
	if s.Format == "byte" {
		e.Enforcers.setPartly(s.TypeRule) // the API server accepts an empty list as a string of this format
	}
	e.Enforcers.values(s, p)
	if s.Types&List != 0 && p.Type == "array" {
		e.list(s, p)
	}
	if s.Types&Struct != 0 && p.Type == "object" {
		e.object(s, p)
	}
	e.matches(s, p)
	e.relations(s)
	return p
}

// setType sets the type of a value, where OpenAPI can express it, and returns who enforces
// it.
func setType(s *Schema, p *props) Enforcer {
	p.Nullable = s.Types&Null != 0
	switch s.Types &^ Null {
	case Bool:
		p.Type = "boolean"
	case Int:
		p.Type = "integer"
	case Number:
		p.Type = "number"
	case Float: // 1 is a number too
		p.Type = "number"
		return CRDPartly
	case String:
		p.Type = "string"
	case List:
		p.Type = "array"
	case Struct:
		p.Type = "object"
	case Int | String:
		p.XIntOrString = true
		p.AnyOf = []props{{Type: "integer"}, {Type: "string"}}
	default:
		p.XPreserveUnknownFields = new(true)
		return Admission
	}
	return CRDSchema
}

// isTyped reports whether the schema has a type: a structural schema allows rules for values
// only with a type.
func isTyped(p *props) bool { return p.Type != "" || p.XIntOrString }

// values adds the rules for scalars and sizes, and records who enforces them.
func (e Enforcers) values(s *Schema, p *props) {
	if !isTyped(p) {
		return
	}
	if s.Enum != nil && coversTypes(s.Enum, s.Types) && s.Types&Null == 0 { // the API server finds no null in an enum
		p.Enum = enumOf(s.Enum.Values)
		if e[s.Enum.Rule] = CRDSchema; s.Types&Float != 0 {
			e[s.Enum.Rule] = CRDPartly // for the API server, 2.5 is the integer 2 in an enum
		}
	}
	e.excluded(s, p)
	if s.Min != nil {
		p.Minimum, p.ExclusiveMinimum = e.bound(s.Min, s.Types, math.Ceil)
	}
	if s.Max != nil {
		p.Maximum, p.ExclusiveMaximum = e.bound(s.Max, s.Types, math.Floor)
	}
	p.MinLength, p.MaxLength = e.limits(s.Length)
	p.MinItems, p.MaxItems = e.limits(s.Size)
	p.MinProperties, p.MaxProperties = e.limits(s.Count)
	for _, pattern := range s.Patterns {
		addPattern(p, pattern.Regexp.String(), pattern.Negated)
		e[pattern.Rule] = CRDSchema
	}
	for _, check := range s.Checks {
		e.check(p, check)
	}
}

// excluded adds the forbidden values.
func (e Enforcers) excluded(s *Schema, p *props) {
	var values []any
	for _, not := range s.Not {
		if f, ok := not.Value.(float64); ok && f != math.Trunc(f) {
			e[not.Rule] = CRDPartly // the API server cuts 0.5 down to 0 to compare it with an integer
			continue
		}
		e[not.Rule] = CRDSchema
		if s.Types&TypeOf(not.Value)&Number != 0 && s.Types&Float != 0 || TypeOf(not.Value) == Float {
			// An enum with 3 would exclude 3.5 as well.
			limit := float(not.Value)
			also(p, props{Not: &props{Minimum: &limit, Maximum: &limit}})
			continue
		}
		values = append(values, not.Value)
	}
	if len(values) > 0 {
		also(p, props{Not: &props{Enum: enumOf(values)}})
	}
}

func enumOf(values []any) []jsonValue {
	var enum []jsonValue
	for _, v := range values {
		enum = append(enum, rawJSON(v))
	}
	return enum
}

// rawJSON encodes a value that came from a literal, which never fails.
func rawJSON(value any) jsonValue {
	raw, err := json.Marshal(value)
	if err != nil {
		panic("literal is not valid JSON: " + err.Error())
	}
	return jsonValue{Raw: raw}
}

func float(value any) float64 {
	if i, ok := value.(int64); ok {
		return float64(i)
	}
	return value.(float64)
}

// bound adds a bound, and records whether it is exact: OpenAPI's bound is a float64, and the
// API server compares integers with it after cutting off its fraction.
func (e Enforcers) bound(b *Bound, types Types, inwards func(float64) float64) (*float64, bool) {
	f := float(b.Value)
	order := compareNumbers(b.Value, f)
	// a bound of a CRD rejects nothing that the schema allows
	if outwards := 1 - 2*int(inwards(0.5)); order == outwards {
		f = math.Nextafter(f, math.Inf(outwards))
	}
	switch {
	case math.Abs(f) >= 1<<63: // with such a bound, the API server rejects all integers
		e[b.Rule] = CRDPartly
		return nil, false
	case order != 0:
		e[b.Rule] = CRDPartly
		return &f, false
	case f == math.Trunc(f):
		e[b.Rule] = CRDSchema
		return &f, b.Exclusive
	case types&Number == Int:
		e[b.Rule] = CRDSchema
		return new(inwards(f)), false
	}
	e[b.Rule] = CRDPartly
	return &f, false
}

func (e Enforcers) limits(r Range) (lower, upper *int64) {
	if r.Min != nil {
		lower = &r.Min.N
		e[r.Min.Rule] = CRDSchema
	}
	if r.Max != nil {
		upper = &r.Max.N
		e[r.Max.Rule] = CRDSchema
	}
	return lower, upper
}

func addPattern(p *props, pattern string, negated bool) {
	switch {
	case negated:
		also(p, props{Not: &props{Pattern: pattern}})
	case p.Pattern == "":
		p.Pattern = pattern
	default:
		p.AllOf = append(p.AllOf, props{Pattern: pattern})
	}
}

// also adds a rule to a schema that may have one of the kind already.
func also(p *props, rule props) {
	if rule.Not != nil && p.Not == nil {
		p.Not = rule.Not
		return
	}
	p.AllOf = append(p.AllOf, rule)
}

// check adds a named check, as a format or a pattern.
func (e Enforcers) check(p *props, c Check) {
	switch {
	case c.Pattern != "":
		addPattern(p, c.Pattern, false)
		e[c.Rule] = CRDSchema
	case c.Format != "" && p.Format == "":
		p.Format = c.Format
		if e[c.Rule] = CRDPartly; c.Exact {
			e[c.Rule] = CRDSchema
		}
	default: // the rule may also require the type, which is then all that the CRD has
		e.setPartly(c.Rule)
	}
}

// attributes adds the arguments of @kube(…).
func (e *emitter) attributes(s *Schema, p *props) {
	if s.Format != "" && isTyped(p) && !p.XIntOrString { // the API server takes no number of a format beside texts
		p.Format = s.Format
	}
	if s.ListType != "" {
		p.XListType, p.XListMapKeys = &s.ListType, s.ListMapKeys
		e.Enforcers.set(s.ListTypeRule, CRDSchema)
	}
	if s.MapType != "" {
		p.XMapType = &s.MapType
	}
	if s.Embedded {
		p.XEmbeddedResource = true
		if _, ok := p.Properties["metadata"]; ok { // the API server accepts no schema for it
			p.Properties["metadata"] = props{Type: "object"}
			e.Enforcers.leave(s.Struct.Field("metadata"), func(place.Position) bool { return false })
		}
	}
	if s.PreserveAll {
		p.XPreserveUnknownFields = new(true)
	}
	if s.Immutable != nil && e.slot.correlatable && isTyped(p) {
		if e.addRule(e.slot.path, p, "self == oldSelf", "field is immutable") {
			e.Enforcers.set(s.Immutable, CRDRule)
		}
	}
}

func (e *emitter) list(s *Schema, p *props) {
	items := Anything(s.Position)
	if s.Items != nil {
		items = s.Items
	}
	inner := e.in(slot{path: e.slot.path.Child("items"), correlatable: e.slot.correlatable && s.ListType == "map"})
	p.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: inner.schema(items)}
	if s.Unique == nil {
		return
	}
	e.Enforcers.setPartly(s.Unique) // it may also require a list
	switch {
	case s.ListType != "":
	case items.isLeaf() && items.Types&(List|Struct|Float|Null) == 0 && items.Types != 0: // 1 and 1.0 are one for a set
		p.XListType = new("set")
		e.Enforcers.set(s.Unique, CRDSchema)
	case s.Size.Max != nil && items.Types&Float == 0: // 1 and 1.0 are two items in CUE, and one in CEL
		if e.addRule(e.slot.path, p, "self.all(x, self.exists_one(y, x == y))", "items must be unique") {
			e.Enforcers.set(s.Unique, CRDRule)
		}
	}
}

// object adds the fields of a struct.
func (e *emitter) object(s *Schema, p *props) {
	fields := s.Struct
	if fields == nil {
		p.XPreserveUnknownFields = new(true)
		return
	}
	inner := e.in(slot{})
	inner.structs = append(slices.Clone(e.structs), frame{e.slot, fields, p, p.Nullable})
	inner.labels(fields, p)
	if len(fields.Fields) > 0 || len(fields.Conditions) > 0 {
		p.Properties = make(map[string]props)
	}
	for _, f := range fields.Fields {
		inner.field(f, p)
	}
	if p.AdditionalProperties == nil {
		for _, label := range fields.Labels { // a named field may share their rules
			e.Enforcers.withdraw(label.Schema)
		}
	}
	inner.conditions(fields, p)
	if p.MinProperties != nil && fields.addsFields(p) {
		p.MinProperties = nil // the API server counts before Fescue's defaults
		e.Enforcers.set(s.Count.Min.Rule, CRDPartly)
	}
	slices.Sort(p.Required)
}

// addsFields reports whether the struct can get fields by a default that the CRD does not
// have.
func (s *StructSchema) addsFields(p *props) bool {
	return len(s.Conditions) > 0 || slices.ContainsFunc(s.Fields, func(f *Field) bool {
		return f.Presence == Regular && p.Properties[f.Name].Default == nil
	})
}

func (e *emitter) field(f *Field, p *props) {
	property := e.below(f.Name).schema(f.Schema)
	switch f.Presence {
	case Required:
		e.Enforcers.set(f.Rule, e.require(f.Name, p))
	case Regular:
		value, ok := staticDefault(f.Schema)
		if !keepsDefault(e.innermost().schema, f.Name, value) {
			break // an if may set another one
		}
		by := CRDSchema // a field with a default is never missing
		switch {
		case !ok:
			by = e.require(f.Name, p)
		case value != nil: // the API server drops a null that is a default
			if hasRules(property) {
				// The rules are tried on the default alone, without those within it.
				value = (&defaulter{budget: budget.New("")}).value(f.Schema, value)
			}
			raw := rawJSON(value)
			property.Default = &raw
		}
		e.Enforcers.set(f.Rule, by)
	case Optional:
		switch {
		case !e.innermost().correlatable || !isIdentifier(f.Name) || !isTyped(property):
			e.immutableWithin(f.Schema, nil, "")
		case f.Schema.Immutable != nil:
			e.addRule(e.innermost().path, p, "has(self."+f.Name+") == has(oldSelf."+f.Name+")", f.Name+" is immutable")
		default:
			if set := e.immutableWithin(f.Schema, property, "oldSelf."+f.Name); set != "" {
				rule := "has(self." + f.Name + ") || !has(oldSelf." + f.Name + ")"
				if set != "true" {
					rule += " || !(" + set + ")"
				}
				if !e.addRule(e.innermost().path, p, rule, f.Name+" has a field that is immutable") {
					e.immutableWithin(f.Schema, nil, "")
				}
			}
		}
	}
	p.Properties[f.Name] = *property
}

// immutableWithin returns a CEL expression that holds if a value at a path, which exists, has an immutable field, or ""
// if none can have one. Where the CRD's schema of the value, which may be nil, does not allow that to be said, the
// rules of these fields are noted as enforced in part.
func (e *emitter) immutableWithin(s *Schema, p *props, path string) string {
	for _, a := range s.Alternatives {
		e.immutableWithin(a.Schema, nil, "")
	}
	if s.Struct == nil {
		return ""
	}
	var either []string
	for _, f := range s.Struct.Fields {
		at := path + "." + f.Name
		var property *props
		if p != nil && isIdentifier(f.Name) {
			if declared, ok := p.Properties[f.Name]; ok && isTyped(&declared) {
				property = &declared
			}
		}
		set := "true"
		if f.Schema.Immutable == nil {
			set = e.immutableWithin(f.Schema, property, at)
		} else if property == nil {
			e.Enforcers.setPartly(f.Schema.Immutable)
		}
		switch {
		case property == nil || set == "":
		case f.Presence == Required && !property.Nullable:
			either = append(either, set)
		case set == "true":
			either = append(either, "has("+at+")")
		default:
			either = append(either, "has("+at+") && ("+set+")")
		}
	}
	if slices.Contains(either, "true") {
		return "true"
	}
	return strings.Join(either, " || ")
}

// hasRules reports whether there are CEL rules for a value or for a field within it.
func hasRules(p *props) bool {
	if len(p.XValidations) > 0 {
		return true
	}
	for _, property := range p.Properties {
		if hasRules(&property) {
			return true
		}
	}
	return false
}

// staticDefault returns the value of an absent field, if it is the same for all objects and
// valid as it is.
func staticDefault(s *Schema) (any, bool) {
	d := defaulter{budget: budget.New("")}
	value, ok := d.absent(s)
	switch {
	case s.dependsOnField():
		return nil, true // there is one, but not the same for all
	case !ok:
		return nil, false
	}
	here := where{budget: d.budget}
	return value, len(here.problems(s, d.value(s, value))) == 0
}

// labels adds the rules for fields whose names match a pattern.
func (e *emitter) labels(s *StructSchema, p *props) {
	switch {
	case len(s.Labels) == 0:
		if s.isOpen() || s.canAllowMore() {
			p.XPreserveUnknownFields = new(true)
		}
	case len(s.Labels) > 1 || len(s.Fields) > 0 || len(s.Conditions) > 0 || s.Labels[0].Regexp != nil && s.isOpen():
		p.XPreserveUnknownFields = new(true)
	default:
		label := s.Labels[0]
		values := e.in(slot{path: e.innermost().path.Child("additionalProperties")}).schema(label.Schema)
		p.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: values}
		if label.Regexp == nil {
			e.Enforcers.set(label.Rule, CRDSchema)
		} else if p.MaxProperties != nil {
			negation := ""
			if label.Negated {
				negation = "!"
			}
			if e.addRule(e.innermost().path, p, "self.all(k, "+negation+"k.matches("+celString(label.Regexp.String())+
				"))", "names must satisfy "+label.Rule.Text) {
				e.Enforcers.set(label.Rule, CRDRule)
			}
		}
	}
}

var identifier = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

// celReserved are the names that CEL does not take for fields, as
// https://github.com/google/cel-spec/blob/master/doc/langdef.md lists them.
var celReserved = []string{"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in",
	"let",
	"loop", "namespace", "null", "package", "return", "true", "var", "void", "while"}

func isIdentifier(name string) bool {
	return identifier.MatchString(name) && !strings.Contains(name, "__") && !slices.Contains(celReserved, name)
}
