package kind

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// completeStatus gives a version the fields of the status that the engine writes and that #X
// does not have, so that authors need not write them, and tools that generate #X need not
// know of them.
func completeStatus(k *Kind, pkg *kindsPackage, v *Version) error {
	contract := pkg.rules.contract
	common, err := compileSchema("Status", contract)
	if err != nil {
		return err
	}
	engine := schema.EngineStatus(common, slices.Sorted(maps.Keys(k.Phases)))
	if k.RecordsSchedule = k.RecordsSchedule || newChecker(k, pkg, nil).schedules(v); k.RecordsSchedule {
		scheduled, err := compileSchema("ScheduleStatus", contract)
		if err != nil {
			return err
		}
		engine.Struct.Fields = append(slices.Clone(engine.Struct.Fields), scheduled.Struct.Fields...)
	}
	if v.Compiled.Struct.Field("status") == nil {
		inferred, err := inferStatus(k, pkg)
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
func inferStatus(k *Kind, pkg *kindsPackage) ([]*schema.Field, error) {
	known, err := types.New()
	if err != nil {
		return nil, err
	}
	setOpenAPI(k.Version, sets.New[string]())
	c := newChecker(k, pkg, known)
	projection := c.controller.fields["status"]
	if projection == nil {
		return nil, nil
	}
	var fields []*schema.Field
	s := c.gather(projection.parts)
	for _, name := range s.order {
		m := s.fields[name]
		if m.constraint || slices.Contains(engineStatus, name) {
			continue
		}
		at := positionOf(m.node)
		inferred := schema.Anything(at)
		kinds := c.unified(slices.Clone(m.parts)).kinds()
		if scalar, ok := scalars[kinds]; ok {
			inferred = &schema.Schema{Position: at, Types: scalar, TypeRule: &schema.Rule{Text: kinds.String(), Position: at}}
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
	LastScheduleTime:          {"2000-01-01T00:00:00Z"},
	"conditions": {[]any{
		writtenCondition("Succeeded"), writtenCondition("Ready"), writtenCondition("Stalled"), writtenCondition("Reconciling"), writtenCondition("Injected"), writtenCondition("Pruned"),
		writtenCondition(ConditionAltered), writtenCondition("Deleting"),
	}},
	ChildInventory: {map[string]any{
		"types":     []any{map[string]any{"apiVersion": "apps/v1", "kind": "Deployment"}},
		"elsewhere": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "a", "children": map[string]any{"c": "00000000-0000-0000-0000-000000000000"}}},
		"created":   map[string]any{"pod": "00000000-0000-0000-0000-000000000000"},
		"orphaned":  true,
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
func checkStatusSchema(k *Kind, pkg *kindsPackage, v *Version, controller cue.Value) error {
	status := v.Schema.Properties["status"]
	if err := eachField(controller.LookupPath(pathStatus), func(name string, value cue.Value) error {
		if k.isEngineStatus(name) {
			return errorAt(value, "status", "%q is written by the engine", name)
		}
		return nil
	}); err != nil {
		return err
	}
	for _, name := range engineStatus {
		if len(k.Phases) == 0 && name != "conditions" && name != "observedGeneration" {
			continue
		}
		if _, ok := status.Properties[name]; !ok && status.XPreserveUnknownFields == nil {
			return errorAt(controller, "status", "#%s.status must be a struct that has %s: write status?: {contract.#Status, …}", k.GroupVersionKind.Kind, name)
		}
	}
	if k.Injects() {
		if counts, ok := status.Properties[InjectedPods]; ok && !slices.Equal(slices.Sorted(maps.Keys(counts.Properties)), injectedCounts) {
			return errorAt(controller, "status", "%q of #%s.status must be that of contract.#InjectionStatus", InjectedPods, k.GroupVersionKind.Kind)
		}
	}
	var phase *schema.Field
	if fields := v.Compiled.Struct.Field("status").Schema.Struct; fields != nil { // any value has none
		phase = fields.Field("phase")
	}
	if declared, ok := status.Properties["phase"]; ok && declared.Type != "string" {
		return errorAt(pkg.valueAt(v.DefinitionName, ".status.phase"), "status", "#%s.status.phase must be a string: that is what contract.#Controller says of an object", k.GroupVersionKind.Kind)
	}
	for name := range k.Phases {
		if phase != nil && !phase.Schema.Accepts(name) {
			var allowed []string
			for _, value := range status.Properties["phase"].Enum {
				allowed = append(allowed, strings.Trim(string(value.Raw), `"`))
			}
			return errorAt(controller.LookupPath(cue.MakePath(cue.Str("phases"), cue.Str(name))),
				"phases", "%q must be one of the values of #%s.status.phase: %s", name, k.GroupVersionKind.Kind, strings.Join(allowed, ", "))
		}
	}
	return nil
}

// checkProjection returns an error for a field of the status that a behaviour writes and the API
// server would drop, or that the engine writes.
func (k *Kind) checkProjection(status map[string]any) error {
	if len(status) == 0 {
		return nil
	}
	failure := func(path, reason string) error {
		name, _, _ := strings.Cut(strings.TrimPrefix(path, "status."), ".")
		return &EvaluationError{Path: path, Err: errors.New(reason), Position: k.StatusFields[name]}
	}
	for _, name := range slices.Sorted(maps.Keys(status)) {
		if k.isEngineStatus(name) {
			return failure("status."+name, "is written by the engine")
		}
	}
	copied := runtime.DeepCopyJSON(map[string]any{"status": status})
	unknown := pruning.PruneWithOptions(copied, k.Structural, false, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	if len(unknown) > 0 {
		return failure(unknown[0], fmt.Sprintf("is not a field of #%s.status: the API server would drop it", k.GroupVersionKind.Kind))
	}
	return nil
}

func setStructural(v *Version) error {
	var internal apiextensions.JSONSchemaProps
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema, &internal, nil)
	if err == nil {
		v.Structural, err = structuralschema.NewStructural(&internal)
	}
	return err
}

// collectProjection prepares checkProjection.
func collectProjection(k *Kind, behaviours []*ast.Field) {
	k.StatusFields = make(map[string]schema.Position)
	for _, behaviour := range behaviours {
		for _, status := range valuesOf(behaviour.Value, "status") {
			for _, field := range fieldsIn(status) {
				if name, _, err := ast.LabelName(field.Label); err == nil {
					k.StatusFields[name] = positionOf(field)
				}
			}
		}
	}
}

// engineStatus are the fields of the status that the engine writes. Kinds without phases need only
// the first two.
var engineStatus = []string{"conditions", "observedGeneration", "lastPhaseTransitionTime", "phase", ChildInventory}

// isEngineStatus reports whether the engine writes a field of the status of the kind.
func (k *Kind) isEngineStatus(name string) bool {
	return slices.Contains(engineStatus, name) || name == InjectedPods && k.Injects() || name == LastScheduleTime && k.RecordsSchedule
}

// LastScheduleTime is the status field in which the engine records the last time of a schedule that
// it has met; see contract.#ScheduleStatus.
const LastScheduleTime = "lastScheduleTime"

// ChildInventory is the status field in which the engine records what it has created; see
// contract.#Status.
const ChildInventory = "childInventory"

// RecordsChildren reports whether the status of the kind has room for ChildInventory.
func (k *Kind) RecordsChildren() bool {
	status := k.Schema.Properties["status"]
	_, ok := status.Properties[ChildInventory]
	return ok || status.XPreserveUnknownFields != nil
}

// InjectedPods is the status field in which the engine counts injected Pods; see
// contract.#InjectionStatus.
const InjectedPods = "injectedPods"

var injectedCounts = []string{"current", "missing", "outdated"}

// CountsPods reports whether the status of the kind has room for InjectedPods.
func (k *Kind) CountsPods() bool {
	_, ok := k.Schema.Properties["status"].Properties[InjectedPods]
	return ok && k.Injects()
}
