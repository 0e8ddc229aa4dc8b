package kind

import (
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"k8s.io/apimachinery/pkg/util/json"
)

// checkStatusSchema checks that the schema allows the status fields that the controller
// writes: the API server silently drops others.
func checkStatusSchema(k *Kind, v *Version, controller cue.Value) error {
	status := v.Schema.Properties["status"]
	if err := eachField(controller.LookupPath(pathStatus), func(name string, value cue.Value) error {
		if slices.Contains(engineStatus, name) || name == InjectedPods && k.Injects() {
			return errorAt(value, "status", "%q is written by the engine", name)
		}
		if _, ok := status.Properties[name]; !ok && status.XPreserveUnknownFields == nil {
			return errorAt(value, "status", "%q must be a field of #%s.status", name, k.GroupVersionKind.Kind)
		}
		return nil
	}); err != nil {
		return err
	}
	if len(status.Required) > 0 {
		return errorAt(controller, "status", "%s of #%s.status must be optional, as in %s?: an object has no status at first",
			strings.Join(status.Required, ", "), k.GroupVersionKind.Kind, status.Required[0])
	}
	for _, name := range engineStatus {
		if len(k.Phases) == 0 && name != "conditions" && name != "observedGeneration" {
			continue
		}
		if _, ok := status.Properties[name]; !ok && status.XPreserveUnknownFields == nil {
			return errorAt(controller, "status", "#%s.status must have contract.#Status: write status?: {contract.#Status, …}", k.GroupVersionKind.Kind)
		}
	}
	if k.Injects() {
		if counts, ok := status.Properties[InjectedPods]; ok && !slices.Equal(slices.Sorted(maps.Keys(counts.Properties)), injectedCounts) {
			return errorAt(controller, "status", "%q of #%s.status must be that of contract.#InjectionStatus", InjectedPods, k.GroupVersionKind.Kind)
		}
	}
	var phases []string
	for _, value := range status.Properties["phase"].Enum {
		var text string
		if err := json.Unmarshal(value.Raw, &text); err != nil {
			return err
		}
		phases = append(phases, text)
	}
	for name := range k.Phases {
		if !slices.Contains(phases, name) {
			return errorAt(controller.LookupPath(cue.MakePath(cue.Str("phases"), cue.Str(name))),
				"phases", "%q must be one of the values of #%s.status.phase: %s", name, k.GroupVersionKind.Kind, strings.Join(phases, ", "))
		}
	}
	return nil
}

// engineStatus are the fields of the status that the engine writes; the last two are
// for kinds with phases.
var engineStatus = []string{"conditions", "observedGeneration", "lastPhaseTransitionTime", "phase"}

// InjectedPods is the status field in which the engine counts injected Pods; see
// contract.#InjectionStatus.
const InjectedPods = "injectedPods"

var injectedCounts = []string{"current", "missing", "outdated"}

// CountsPods reports whether the status of the kind has room for InjectedPods.
func (k *Kind) CountsPods() bool {
	_, ok := k.Schema.Properties["status"].Properties[InjectedPods]
	return ok && k.Injects()
}
