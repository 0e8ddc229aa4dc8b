package inject

import "github.com/fescue-dev/fescue/internal/jsontext"

// value is a part of the text of a Pod or of an injection.
type value = jsontext.Value

// shape defines how an addition is merged with what a Pod has.
type shape struct {
	// fields are those of a struct that is merged field by field; fields that are not listed
	// are merged as a whole.
	fields map[string]*shape
	// open means that all fields of a struct are merged, as in a map of labels.
	open bool
	// keys are the fields that identify the items of a list.
	keys []string
	// set means that the items of a list are identified by their whole content.
	set bool
	// item is the shape of the items of a list.
	item *shape
	// containers means that the items are containers. Those without an image are merged field
	// by field.
	containers bool
	// sidecarsFirst means that native sidecars are added before ordinary init containers.
	sidecarsFirst bool
}

// whole is the shape of a value that a Pod has with the same content, or does not have;
// otherwise it conflicts.
var whole = &shape{}

func (s *shape) field(name string) *shape {
	if f, ok := s.fields[name]; ok {
		return f
	}
	return whole
}

// A shape is that of a struct, of a list, or of a value that is merged as a whole.
func (s *shape) isStruct() bool { return s.open || s.fields != nil }
func (s *shape) isList() bool   { return s.set || s.keys != nil }

// The keys are those of server-side apply and strategic merge: the tags patchMergeKey
// and listMapKey of k8s.io/api/core/v1. Lists without such a tag whose items are independent
// are sets.
var (
	openStruct = &shape{open: true}
	set        = &shape{set: true, item: whole}
	resources  = &shape{fields: map[string]*shape{
		"limits": openStruct, "requests": openStruct, "claims": keyed("name"),
	}}
	container = &shape{fields: map[string]*shape{
		"env":             keyed("name"),
		"envFrom":         set,
		"ports":           keyed("containerPort", "protocol"),
		"volumeMounts":    keyed("mountPath"),
		"volumeDevices":   keyed("devicePath"),
		"resources":       resources,
		"securityContext": openStruct,
	}}
	containers = &shape{keys: []string{"name"}, item: container, containers: true}
	podSpec    = &shape{fields: map[string]*shape{
		"containers":                containers,
		"initContainers":            {keys: []string{"name"}, item: container, containers: true, sidecarsFirst: true},
		"volumes":                   keyed("name"),
		"imagePullSecrets":          keyed("name"),
		"hostAliases":               keyed("ip"),
		"topologySpreadConstraints": keyed("topologyKey", "whenUnsatisfiable"),
		"resourceClaims":            keyed("name"),
		"schedulingGates":           keyed("name"),
		"readinessGates":            keyed("conditionType"),
		"evictionResponders":        keyed("name"),
		"tolerations":               set,
		"nodeSelector":              openStruct,
		"securityContext":           openStruct,
		"resources":                 resources,
	}}
	pod = &shape{fields: map[string]*shape{
		"metadata": {fields: map[string]*shape{"labels": openStruct, "annotations": openStruct}},
		"spec":     podSpec,
	}}
)

func keyed(keys ...string) *shape { return &shape{keys: keys, item: whole} }

// defaultOf returns the value of a key that an item need not have.
func defaultOf(key string) string {
	if key == "protocol" {
		return "TCP"
	}
	return ""
}
