package kind

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"
)

// checkStatus returns an error for a field of the status that the behaviour writes and the API
// server would drop, or that the engine writes.
func (r *decisionReader) checkStatus() error {
	k, status := r.kind, r.decision.Status
	if len(status) == 0 {
		return nil
	}
	failure := func(path, reason string) error {
		name, _, _ := strings.Cut(strings.TrimPrefix(path, "status."), ".")
		return &EvaluationError{Path: path, Err: errors.New(reason), Position: k.StatusFields[name]}
	}
	for _, name := range slices.Sorted(maps.Keys(status)) {
		if k.IsEngineStatus(name) {
			return failure("status."+name, "is written by the engine")
		}
	}
	copied := runtime.DeepCopyJSON(map[string]any{"status": status})
	unknown := pruning.PruneWithOptions(copied, k.Structural, false,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	if len(unknown) > 0 {
		return failure(unknown[0], fmt.Sprintf("is not a field of #%s.status: the API server would drop it",
			k.GroupVersionKind.Kind))
	}
	return nil
}

// EngineStatus are the fields of the status that the engine writes. Kinds without phases need only
// the first two.
var EngineStatus = []string{"conditions", "observedGeneration", "lastPhaseTransitionTime", "phase", ChildInventory}

// IsEngineStatus reports whether the engine writes a field of the status of the kind.
func (k *Kind) IsEngineStatus(name string) bool {
	return slices.Contains(EngineStatus, name) || name == InjectedPods && k.Injects() || name == LastScheduleTime &&
		k.RecordsSchedule
}

// LastScheduleTime is the status field in which the engine records the last time of a schedule that
// it has met; see contract.#ScheduleStatus.
const LastScheduleTime = "lastScheduleTime"

// ChildInventory is the status field in which the engine records what it has created; see
// contract.#Status.
const ChildInventory = "childInventory"

// RecordsChildren reports whether the status has room for ChildInventory.
func (v *Version) RecordsChildren() bool {
	status := v.Schema.Properties["status"]
	_, ok := status.Properties[ChildInventory]
	return ok || status.XPreserveUnknownFields != nil
}

// InjectedPods is the status field in which the engine counts injected Pods; see
// contract.#InjectionStatus.
const InjectedPods = "injectedPods"

// InjectedCounts are the fields of InjectedPods.
var InjectedCounts = []string{"current", "missing", "outdated"}

// CountsPods reports whether the status of the kind has room for InjectedPods.
func (k *Kind) CountsPods() bool {
	_, ok := k.Schema.Properties["status"].Properties[InjectedPods]
	return ok && k.Injects()
}
