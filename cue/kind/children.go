package kind

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cuelang.org/go/cue"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// collectOwned finds the types of the children, and which of them are sets. The types are
// those of templates that do not depend on the object, and those that the kind declares in
// owns.
func collectOwned(k *Kind, _ *kindsPackage, controller cue.Value) error {
	owned := make(map[apischema.GroupVersionKind]bool)
	k.Sets = make(map[string]SetFacts)
	singles := make(map[string]bool)
	addChildren := func(children cue.Value) error {
		return eachField(children, func(name string, child cue.Value) error {
			if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
				return errorAt(child, "children", "the name %q of a child must be a DNS label: %s", name, problems[0])
			}
			gvk, err := ownedType(child.LookupPath(pathTemplate))
			if err != nil {
				return err
			}
			owned[gvk] = true
			if err := collectSet(k, name, gvk, child); err != nil {
				return err
			}
			if !child.LookupPath(pathReplicas).Exists() {
				singles[name] = true
			}
			if _, isSet := k.Sets[name]; isSet && singles[name] {
				return errorAt(child, "children", "%q must be a set in all phases or in none", name)
			}
			return nil
		})
	}
	if err := addChildren(controller.LookupPath(pathChildren)); err != nil {
		return err
	}
	if err := eachField(controller.LookupPath(cue.ParsePath("phases")), func(_ string, phase cue.Value) error {
		return addChildren(phase.LookupPath(pathChildren))
	}); err != nil {
		return err
	}
	if err := eachElement(controller.LookupPath(cue.ParsePath("owns")), func(value cue.Value) error {
		gvk, err := ownedType(value)
		owned[gvk] = true
		return err
	}); err != nil {
		return err
	}
	k.Owns = slices.SortedFunc(maps.Keys(owned), func(a, b apischema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return nil
}

// ownedType returns the type of a template.
func ownedType(template cue.Value) (apischema.GroupVersionKind, error) {
	apiVersion, err := constant(template, cue.ParsePath("apiVersion"))
	if err != nil {
		return apischema.GroupVersionKind{}, err
	}
	kind, err := constant(template, cue.ParsePath("kind"))
	if err != nil {
		return apischema.GroupVersionKind{}, err
	}
	if _, err := apischema.ParseGroupVersion(apiVersion); err != nil || apiVersion == "" {
		return apischema.GroupVersionKind{}, errorAt(template, "apiVersion", "%q must be a version, or a group and a version, like \"apps/v1\"", apiVersion)
	}
	if kind == "" {
		return apischema.GroupVersionKind{}, errorAt(template, "kind", "must not be empty")
	}
	return apischema.FromAPIVersionAndKind(apiVersion, kind), nil
}

// collectSet records a child that is a set.
func collectSet(k *Kind, name string, members apischema.GroupVersionKind, child cue.Value) error {
	ignored := child.LookupPath(pathStrays)
	strays, err := ignored.String()
	deletes := err != nil || strays == "Delete" // err: it depends on the object
	ordered := child.LookupPath(pathOrdered)
	isOrdered, err := ordered.Bool()
	switch {
	case err != nil:
		return errorAt(ordered, "ordered", "must be the same for all objects of the kind")
	case child.LookupPath(pathReplicas).Exists():
	case deletes:
		return errorAt(ignored, "strays", "is for sets: %q has no replicas", name)
	case isOrdered:
		return errorAt(ordered, "ordered", "is for sets: %q has no replicas", name)
	default:
		return nil
	}
	set := SetFacts{Type: members, Ordered: isOrdered}
	if deletes {
		if err := eachField(child.LookupPath(cue.ParsePath("template.metadata.labels")), func(label string, _ cue.Value) error {
			set.StrayLabels = append(set.StrayLabels, label)
			return nil
		}); err != nil {
			return err
		}
		if len(set.StrayLabels) == 0 {
			return errorAt(ignored, "strays", "cannot be distinguished from other objects: give the template of %q a label that names its object", name)
		}
		slices.Sort(set.StrayLabels)
	}
	if other, ok := k.Sets[name]; ok && (other.Type != set.Type || other.Ordered != set.Ordered || !slices.Equal(other.StrayLabels, set.StrayLabels)) {
		return errorAt(child, "children", "the set %q must be of one type, have the same labels, and be ordered or not in all phases", name)
	}
	k.Sets[name] = set
	return nil
}

// checkDeadline rejects a deadline that cannot be met.
func checkDeadline(k *Kind, _ *kindsPackage, controller cue.Value) error {
	deadline := controller.LookupPath(pathDeadline)
	if !deadline.Exists() {
		return nil
	}
	if k.Initial != "" {
		return errorAt(deadline, "deadline", "is for kinds without phases: give a phase a transition with after instead")
	}
	if !deadline.IsConcrete() {
		return nil // it depends on the object
	}
	text, err := deadline.String()
	if err == nil {
		_, err = parseDeadline(text)
	}
	if err != nil {
		return errorAt(deadline, "deadline", "%v", err)
	}
	return nil
}

// parseDeadline reads how long an object may take to become ready.
func parseDeadline(text string) (time.Duration, error) {
	deadline, err := time.ParseDuration(text)
	if err != nil || deadline <= 0 {
		return 0, fmt.Errorf("%q must be a duration like \"5m\"", text)
	}
	return deadline, nil
}
