package schema

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/fescue-dev/fescue/cue/kind/place"
)

// ownFields are those for which the API server has its own schema.
var ownFields = map[string]props{
	"apiVersion": {Type: "string", Description: "apiVersion is the group and version of the object's schema."},
	"kind":       {Type: "string", Description: "kind is the name of the object's schema."},
	"metadata":   {Type: "object"},
}

// root replaces the fields for which the API server has its own schema: apiVersion, kind and
// metadata. A CRD can restrict only one thing in metadata, the length of the name.
func (e *emitter) root(s *Schema, isLibrary func(place.Position) bool) {
	emitted := e.Schema.Properties["metadata"].Properties["name"]
	for name, property := range ownFields {
		e.Schema.Properties[name] = property
		e.Enforcers.leave(s.Struct.Field(name),
			func(at place.Position) bool { return name != "metadata" || isLibrary(at) })
	}
	if name := e.nameLength(s.Struct.Field("metadata").Schema, emitted, isLibrary); name.MinLength != nil ||
		name.MaxLength != nil {
		e.Schema.Properties["metadata"] = props{Type: "object", Properties: map[string]props{"name": name}}
	}
}

// ratcheting returns a rule for a whole object that also holds if it did not hold before: an object that was
// stored before the rule can be written, and lose its finalizers. The API server does so itself for what has not
// changed, but every write changes the whole object.
func ratcheting(rule apiextensionsv1.ValidationRule) apiextensionsv1.ValidationRule {
	rule.Rule = rule.Rule + " || oldSelf.optMap(self, !(" + rule.Rule + ")).orValue(false)"
	rule.OptionalOldSelf = new(true)
	return rule
}

// nameLength returns the kind's own limits for the length of names, as far as the emitted
// schema of the name has them.
func (e *emitter) nameLength(metadata *Schema, emitted props, isLibrary func(place.Position) bool) props {
	name := props{Type: "string"}
	if metadata.Struct == nil || metadata.Struct.Field("name") == nil {
		return name
	}
	of := func(limit *Limit, has *int64) *int64 {
		if limit == nil || has == nil || isLibrary(limit.Position) {
			return nil
		}
		e.Enforcers.set(limit.Rule, CRDSchema)
		return has
	}
	length := metadata.Struct.Field("name").Schema.Length
	name.MinLength, name.MaxLength = of(length.Min, emitted.MinLength), of(length.Max, emitted.MaxLength)
	return name
}

// leave records that a CRD cannot carry the rules of a field. The rules at positions for which
// own is true are the API server's own.
func (e Enforcers) leave(f *Field, own func(place.Position) bool) {
	leave := func(_ string, r *Rule, _ string) {
		if e.set(r, Admission); own(r.Position) {
			e.set(r, APIServer)
		}
	}
	leave("", f.Rule, "")
	eachRule("", f.Schema, leave)
}
