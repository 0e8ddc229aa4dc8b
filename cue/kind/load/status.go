package load

import (
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/check"
	"github.com/fescue-dev/fescue/cue/kind/compile"
	"github.com/fescue-dev/fescue/cue/kind/facts"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/place"
	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// completeStatus gives a version the fields of the status that the engine writes and that #X
// does not have, so that authors need not write them, and tools that generate #X need not
// know of them.
func completeStatus(k Draft, v *kind.Version) error {
	contract := k.Source.Rules.Contract
	common, err := compile.Schema("Status", contract)
	if err != nil {
		return err
	}
	engine := schema.EngineStatus(common, slices.Sorted(maps.Keys(k.Phases)))
	if k.RecordsSchedule = k.RecordsSchedule || facts.Of(k.Kind, k.Source).Schedules(v); k.RecordsSchedule {
		scheduled, err := compile.Schema("ScheduleStatus", contract)
		if err != nil {
			return err
		}
		engine.Struct.Fields = append(slices.Clone(engine.Struct.Fields), scheduled.Struct.Fields...)
	}
	if v.Compiled.Struct.Field("status") == nil {
		inferred, err := inferStatus(k)
		if err != nil {
			return err
		}
		engine.Struct.Fields = append(slices.Clone(engine.Struct.Fields), inferred...)
	}
	v.Status = schema.CompleteStatus(v.Compiled, engine, writtenStatus)
	v.Compiled = v.Status.Schema
	return nil
}

// inferStatus returns the fields that the behaviour projects into a status of which #X says nothing.
// Scalars have the type that is known of them; everything else may be anything.
func inferStatus(k Draft) ([]*schema.Field, error) {
	known, err := types.New()
	if err != nil {
		return nil, err
	}
	SetOpenAPI(k.Version, sets.New[string]())
	c := check.New(k.Kind, k.Source, known)
	projection := c.Definition.Fields["status"]
	if projection == nil {
		return nil, nil
	}
	var fields []*schema.Field
	s := c.Gather(projection.Parts)
	for _, name := range s.Order {
		m := s.Fields[name]
		if m.Constraint || slices.Contains(kind.EngineStatus, name) {
			continue
		}
		at := syntax.PositionOf(m.Node)
		inferred := schema.Anything(at)
		kinds := c.Unified(slices.Clone(m.Parts)).Kinds()
		if scalar, ok := scalars[kinds]; ok {
			inferred = &schema.Schema{Position: at, Types: scalar,
				TypeRule: &schema.Rule{Text: kinds.String(), Position: at}}
		}
		fields = append(fields, &schema.Field{Name: name, Presence: schema.Optional, Schema: inferred})
	}
	return fields, nil
}

// scalars are the types of scalars in a schema.
var scalars = map[types.Values]schema.Types{
	types.String: schema.String, types.Boolean: schema.Bool, types.Integer: schema.Int,
	types.Number: schema.Number, types.Integer | types.Number: schema.Number,
}

// writtenStatus are values that the engine may write to its fields of the status. The phases
// are no part of it: a phase that #X does not allow is a mistake of the author.
var writtenStatus = map[string][]any{
	"observedGeneration":      {int64(1)},
	"lastPhaseTransitionTime": {"2000-01-01T00:00:00Z"},
	kind.LastScheduleTime:     {"2000-01-01T00:00:00Z"},
	"conditions": {[]any{
		writtenCondition("Succeeded"), writtenCondition("Ready"), writtenCondition("Stalled"),
		writtenCondition("Reconciling"), writtenCondition("Injected"), writtenCondition("Pruned"),
		writtenCondition(kind.ConditionAltered), writtenCondition("Deleting"),
	}},
	kind.ChildInventory: {map[string]any{
		"types": []any{map[string]any{"apiVersion": "apps/v1", "kind": "Deployment"}},
		"elsewhere": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "a",
			"children": map[string]any{"c": "00000000-0000-0000-0000-000000000000"}}},
		"created":  map[string]any{"pod": "00000000-0000-0000-0000-000000000000"},
		"orphaned": true,
	}},
}

func writtenCondition(name string) map[string]any {
	return map[string]any{
		"type": name, "status": "True", "observedGeneration": int64(1), "lastTransitionTime": "2000-01-01T00:00:00Z",
		"reason": "Reconciled", "message": "",
	}
}

// checkStatusSchema checks that the controller writes no status fields of the engine, and that the
// schema allows these: the API server silently drops others.
func checkStatusSchema(k Draft, v *kind.Version, controller cue.Value) error {
	status := v.Schema.Properties["status"]
	if err := syntax.EachField(controller.LookupPath(pathStatus), func(name string, value cue.Value) error {
		if k.IsEngineStatus(name) {
			return syntax.ErrorAt(mistake.EngineStatus, value, "status", "%q is written by the engine", name)
		}
		return nil
	}); err != nil {
		return err
	}
	for _, name := range kind.EngineStatus {
		if len(k.Phases) == 0 && name != "conditions" && name != "observedGeneration" {
			continue
		}
		if _, ok := status.Properties[name]; !ok && status.XPreserveUnknownFields == nil {
			return syntax.ErrorAt(mistake.StatusSchema, controller, "status",
				"#%s.status must be a struct that has %s: write status?: {contract.#Status, …}",
				k.GroupVersionKind.Kind, name)
		}
	}
	if k.Injects() {
		if counts, ok := status.Properties[kind.InjectedPods]; ok &&
			!slices.Equal(slices.Sorted(maps.Keys(counts.Properties)), kind.InjectedCounts) {
			return syntax.ErrorAt(mistake.StatusSchema, controller, "status",
				"%q of #%s.status must be that of contract.#InjectionStatus", kind.InjectedPods,
				k.GroupVersionKind.Kind)
		}
	}
	var phase *schema.Field
	if fields := v.Compiled.Struct.Field("status").Schema.Struct; fields != nil { // any value has none
		phase = fields.Field("phase")
	}
	if declared, ok := status.Properties["phase"]; ok && declared.Type != "string" {
		return syntax.ErrorAt(mistake.StatusSchema,
			k.Source.ValueAt(v.DefinitionName, ".status.phase"),
			"status",
			"#%s.status.phase must be a string: that is what contract.#Controller says of an object",
			k.GroupVersionKind.Kind,
		)
	}
	for name := range k.Phases {
		if phase != nil && !phase.Schema.Accepts(name) {
			var allowed []string
			for _, value := range status.Properties["phase"].Enum {
				allowed = append(allowed, strings.Trim(string(value.Raw), `"`))
			}
			return syntax.ErrorAt(mistake.StatusSchema,
				controller.LookupPath(cue.MakePath(cue.Str("phases"), cue.Str(name))),
				"phases", "%q must be one of the values of #%s.status.phase: %s", name, k.GroupVersionKind.Kind,
				strings.Join(allowed, ", "))
		}
	}
	return nil
}

// collectProjection prepares the check of the status that a behaviour writes.
func collectProjection(k *kind.Kind, behaviours []*ast.Field) {
	k.StatusFields = make(map[string]place.Position)
	for _, behaviour := range behaviours {
		for _, status := range syntax.ValuesOf(behaviour.Value, "status") {
			for _, field := range syntax.FieldsIn(status) {
				if name, _, err := ast.LabelName(field.Label); err == nil {
					k.StatusFields[name] = syntax.PositionOf(field)
				}
			}
		}
	}
}
