package proof

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind"
)

var (
	metadataPath = field.NewPath("metadata")
	specPath     = field.NewPath("spec")
	statusPath   = field.NewPath("status")
)

// defaultAt returns the object with its defaults; it is not changed itself.
func defaultAt(object map[string]any) map[string]any {
	spec, ok := object["spec"].(map[string]any)
	if !ok || spec["image"] != nil {
		return object
	}
	spec = maps.Clone(spec)
	spec["image"] = "busybox:1.37"
	object = maps.Clone(object)
	object["spec"] = spec
	return object
}

// validateAt validates an At with or without its defaults.
func validateAt(object map[string]any) field.ErrorList {
	var errs field.ErrorList
	for name, value := range object {
		switch name {
		case "apiVersion":
			errs = append(errs, validateEnum(nil, name, value, "cnat.fescue.dev/v1alpha1")...)
		case "kind":
			errs = append(errs, validateEnum(nil, name, value, "At")...)
		case "metadata":
			errs = append(errs, validateStruct(nil, name, value, validateMetadata, "name")...)
		case "spec":
			errs = append(errs, validateStruct(nil, name, value, validateSpec, "schedule", "command")...)
		case "status":
			errs = append(errs, validateStruct(nil, name, value, validateStatus)...)
		default:
			errs = append(errs, field.Forbidden(field.NewPath(name), "unknown field"))
		}
	}
	return append(errs, requireFields(nil, object, "apiVersion", "kind", "metadata", "spec")...)
}

func validateMetadata(metadata map[string]any) field.ErrorList {
	var errs field.ErrorList
	for name, value := range metadata {
		switch name {
		case "name":
			errs = append(errs, validateText(metadataPath, name, value, isAtName)...)
		case "namespace":
			errs = append(errs, validateText(metadataPath, name, value, validation.IsDNS1123Label)...)
		case "generateName":
			errs = append(errs, validateText(metadataPath, name, value, anyText)...)
		case "labels":
			errs = append(errs, validateTexts(metadataPath, name, value, validation.IsValidLabelValue)...)
		case "annotations":
			errs = append(errs, validateTexts(metadataPath, name, value, anyText)...)
		case "finalizers":
			errs = append(errs, validateFinalizers(value)...)
		case "deletionTimestamp":
			errs = append(errs, validateText(metadataPath, name, value, isTime)...)
		}
	}
	return errs
}

func validateFinalizers(value any) field.ErrorList {
	list, ok := value.([]any)
	if !ok {
		return field.ErrorList{field.TypeInvalid(metadataPath.Child("finalizers"), value, "must be a list")}
	}
	var errs field.ErrorList
	for i, item := range list {
		if _, ok := item.(string); !ok {
			errs = append(errs, field.TypeInvalid(metadataPath.Child("finalizers").Index(i), item, "must be a string"))
		}
	}
	return errs
}

func validateSpec(spec map[string]any) field.ErrorList {
	var errs field.ErrorList
	for name, value := range spec {
		switch name {
		case "schedule":
			errs = append(errs, validateText(specPath, name, value, isSchedule)...)
		case "command":
			errs = append(errs, validateText(specPath, name, value, isCommand)...)
		case "image":
			errs = append(errs, validateText(specPath, name, value, isImage)...)
		default:
			errs = append(errs, field.Forbidden(specPath.Child(name), "unknown field"))
		}
	}
	return errs
}

func validateStatus(status map[string]any) field.ErrorList {
	var errs field.ErrorList
	for name, value := range status {
		switch name {
		case "phase":
			errs = append(errs, validateEnum(statusPath, name, value, "PENDING", "RUNNING", "DONE")...)
		case "observedGeneration":
			errs = append(errs, validateGeneration(statusPath, name, value, -1)...)
		case "lastPhaseTransitionTime":
			errs = append(errs, validateText(statusPath, name, value, isTime)...)
		case "conditions":
			errs = append(errs, validateConditions(value)...)
		case "childInventory":
			errs = append(errs, validateInventory(value)...)
		default:
			errs = append(errs, field.Forbidden(statusPath.Child(name), "unknown field"))
		}
	}
	return errs
}

func validateInventory(value any) field.ErrorList {
	path := statusPath.Child("childInventory")
	fields, ok := value.(map[string]any)
	if !ok {
		return field.ErrorList{field.TypeInvalid(path, value, "must be an object")}
	}
	var errs field.ErrorList
	for name, value := range fields {
		switch name {
		case "types":
			errs = append(errs, validateTypes(path.Child(name), value, "apiVersion", "kind")...)
		case "elsewhere":
			errs = append(errs, validatePlaces(path.Child(name), value)...)
		case "created":
			errs = append(errs, validateStrings(path.Child(name), value)...)
		case "orphaned":
			if _, isBool := value.(bool); !isBool {
				errs = append(errs, field.TypeInvalid(path.Child(name), value, "must be a boolean"))
			}
		default:
			errs = append(errs, field.Forbidden(path.Child(name), "unknown field"))
		}
	}
	return errs
}

// validatePlaces validates a list of places, with the UIDs of the children there.
func validatePlaces(path *field.Path, value any) (errs field.ErrorList) {
	list, ok := value.([]any)
	if !ok {
		return field.ErrorList{field.TypeInvalid(path, value, "must be a list")}
	}
	places := make([]any, len(list))
	for i, item := range list {
		fields, ok := item.(map[string]any)
		if !ok {
			places[i] = item
			continue
		}
		fields = maps.Clone(fields)
		if children, ok := fields["children"]; ok {
			errs = append(errs, validateStrings(path.Index(i).Child("children"), children)...)
			delete(fields, "children")
		}
		places[i] = fields
	}
	return append(errs, validateTypes(path, places, "apiVersion", "kind", "namespace")...)
}

// validateTypes validates a list of types or of their places, whose fields are all required.
func validateTypes(path *field.Path, value any, names ...string) field.ErrorList {
	list, ok := value.([]any)
	if !ok {
		return field.ErrorList{field.TypeInvalid(path, value, "must be a list")}
	}
	var errs field.ErrorList
	for i, item := range list {
		fields, ok := item.(map[string]any)
		if !ok {
			errs = append(errs, field.TypeInvalid(path.Index(i), item, "must be an object"))
			continue
		}
		for _, name := range names {
			if _, ok := fields[name]; !ok {
				errs = append(errs, field.Required(path.Index(i).Child(name), ""))
			}
		}
		errs = append(errs, validateStrings(path.Index(i), item)...)
		for name := range fields {
			if !slices.Contains(names, name) {
				errs = append(errs, field.Forbidden(path.Index(i).Child(name), "unknown field"))
			}
		}
	}
	return errs
}

func validateStrings(path *field.Path, value any) field.ErrorList {
	fields, ok := value.(map[string]any)
	if !ok {
		return field.ErrorList{field.TypeInvalid(path, value, "must be an object")}
	}
	var errs field.ErrorList
	for name, value := range fields {
		if _, ok := value.(string); !ok {
			errs = append(errs, field.TypeInvalid(path.Child(name), value, "must be a string"))
		}
	}
	return errs
}

func validateConditions(value any) field.ErrorList {
	path := statusPath.Child("conditions")
	list, ok := value.([]any)
	if !ok {
		return field.ErrorList{field.TypeInvalid(path, value, "must be a list")}
	}
	var errs field.ErrorList
	types := make(map[any]bool, len(list))
	for i, item := range list {
		condition, ok := item.(map[string]any)
		if !ok {
			errs = append(errs, field.TypeInvalid(path.Index(i), item, "must be a struct"))
			continue
		}
		errs = append(errs, validateCondition(path.Index(i), condition)...)
		name, _ := condition["type"].(string)
		if types[name] {
			errs = append(errs, field.Duplicate(path.Index(i), item))
		}
		types[name] = true
	}
	return errs
}

func validateCondition(path *field.Path, condition map[string]any) field.ErrorList {
	errs := requireFields(path, condition, "type", "status", "lastTransitionTime", "reason", "message")
	for name, value := range condition {
		switch name {
		case "type", "reason", "message":
			errs = append(errs, validateText(path, name, value, anyText)...)
		case "status":
			errs = append(errs, validateEnum(path, name, value, "True", "False", "Unknown")...)
		case "lastTransitionTime":
			errs = append(errs, validateText(path, name, value, isTime)...)
		case "observedGeneration":
			errs = append(errs, validateGeneration(path, name, value, 0)...)
		default:
			errs = append(errs, field.Forbidden(path.Child(name), "unknown field"))
		}
	}
	return errs
}

func validateStruct(outer *field.Path, name string, value any, validate func(map[string]any) field.ErrorList, required ...string) field.ErrorList {
	fields, ok := value.(map[string]any)
	if !ok {
		return field.ErrorList{field.TypeInvalid(outer.Child(name), value, "must be a struct")}
	}
	errs := validate(fields)
	for _, inner := range required {
		if _, ok := fields[inner]; !ok {
			errs = append(errs, field.Required(outer.Child(name, inner), ""))
		}
	}
	return errs
}

func requireFields(path *field.Path, fields map[string]any, names ...string) field.ErrorList {
	var errs field.ErrorList
	for _, name := range names {
		if _, ok := fields[name]; !ok {
			errs = append(errs, field.Required(path.Child(name), ""))
		}
	}
	return errs
}

func validateEnum(outer *field.Path, name string, value any, allowed ...string) field.ErrorList {
	text, ok := value.(string)
	switch {
	case !ok:
		return field.ErrorList{field.TypeInvalid(outer.Child(name), value, "must be a string")}
	case !slices.Contains(allowed, text):
		return field.ErrorList{field.NotSupported(outer.Child(name), text, allowed)}
	}
	return nil
}

func validateGeneration(outer *field.Path, name string, value any, least int64) field.ErrorList {
	n, ok := value.(int64)
	switch {
	case !ok:
		return field.ErrorList{field.TypeInvalid(outer.Child(name), value, "must be an integer")}
	case n < least:
		return field.ErrorList{field.Invalid(outer.Child(name), n, fmt.Sprintf("must be at least %d", least))}
	}
	return nil
}

func validateText(outer *field.Path, name string, value any, check func(string) []string) field.ErrorList {
	text, ok := value.(string)
	if !ok {
		return field.ErrorList{field.TypeInvalid(outer.Child(name), value, "must be a string")}
	}
	var errs field.ErrorList
	for _, message := range check(text) {
		errs = append(errs, field.Invalid(outer.Child(name), text, message))
	}
	return errs
}

func validateTexts(outer *field.Path, name string, value any, check func(string) []string) field.ErrorList {
	texts, ok := value.(map[string]any)
	if !ok {
		return field.ErrorList{field.TypeInvalid(outer.Child(name), value, "must be a struct")}
	}
	var errs field.ErrorList
	for key, text := range texts {
		if problems := validateText(nil, key, text, check); len(problems) > 0 {
			errs = append(errs, field.Invalid(outer.Child(name).Key(key), text, problems[0].Detail))
		}
	}
	return errs
}

func anyText(string) []string { return nil }

func isTime(text string) []string {
	if _, err := time.Parse(time.RFC3339Nano, text); err != nil {
		return []string{"must be a time in RFC 3339"}
	}
	return nil
}

var utcTime = regexp.MustCompile(`^\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\dZ$`)

func isSchedule(text string) []string {
	if !utcTime.MatchString(text) {
		return []string{"must be a time in UTC, in RFC 3339"}
	}
	return isTime(text)
}

func isCommand(text string) []string {
	switch n := utf8.RuneCountInString(text); {
	case n < 1 || n > 4096:
		return []string{"must have 1 to 4096 characters"}
	case strings.Trim(text, " \t\n\f\r") == "":
		return []string{"must not be blank"}
	}
	return nil
}

func isImage(text string) []string {
	switch n := utf8.RuneCountInString(text); {
	case n < 1 || n > 1024:
		return []string{"must have 1 to 1024 characters"}
	case strings.ContainsAny(text, " \t\n\f\r"):
		return []string{"must not contain spaces"}
	}
	return nil
}

// isAtName is for names that are also the value of a label.
func isAtName(text string) []string {
	return append(validation.IsDNS1123Subdomain(text), validation.IsValidLabelValue(text)...)
}

// The code written by hand checks what the kind checks; otherwise it would not be comparable.
func TestHandWrittenIsTheSame(t *testing.T) {
	t.Parallel()
	k := shippedKind(t, "At")
	valid, sample := 0, k.Sampler()
	for seed := range uint64(2000) {
		object := sample(rand.New(rand.NewPCG(seed, 2)))
		if kind.HasNull(object) {
			continue // the API server drops them before any code written by hand sees the object
		}
		ours, theirs := k.Validate(object), validateAt(object)
		message := fmt.Sprintf("seed %d: %s\ncompiled: %v\nby hand: %v", seed, text(object), ours, theirs)
		require.Equal(t, len(ours) == 0, len(theirs) == 0, message)
		if len(ours) > 0 {
			continue
		}
		valid++
		require.Equal(t, k.Default(object), defaultAt(object), message)
	}
	require.Positive(t, valid)
}
