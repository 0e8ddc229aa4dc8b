package kind

import (
	"errors"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/place"
	"github.com/fescue-dev/fescue/internal/parts"
)

// OwnStatus is what a child uses that reads the status.
const OwnStatus = behaviour.ObjectName + ".status"

// LookupFacts are what is known of an entry of reads without looking at any object.
type LookupFacts struct {
	// Name is its name in observed; it is empty if it is computed.
	Name string
	// Type is the type of the objects that are read.
	Type apischema.GroupVersionKind
	// IsSelection means that a selector finds a list of them. The others are read by name.
	IsSelection bool
	// ObjectName is the name of the object that is read, if it is the same for all objects of the
	// kind; it is empty if it is computed.
	ObjectName string
	// ObjectNamespace is the namespace if it is the same for all objects of the kind; it is empty if there
	// is none, or if it is computed.
	ObjectNamespace string
	// Namespace and Which are the sources of the namespace, which is empty if there is none, and of
	// the name or the selector.
	Namespace, Which string
	// IsClusterScoped means that the type is known to have no namespaces.
	IsClusterScoped bool
	// Conditional means that an if can drop it.
	Conditional bool
	// Sensitive means that it is marked: no message shows a value of an object of its type.
	Sensitive bool
	Position  place.Position
}

// Lookups are the entries of reads of a kind.
type Lookups []LookupFacts

// Lookup is an object, or a selection of objects, that a behaviour reads for one object.
type Lookup struct {
	// Name is its name in observed.
	Name string
	Type apischema.GroupVersionKind
	// Namespace is the one that the behaviour states; nil is the default.
	Namespace *string
	// ObjectName is the name of the object to read. It is empty if Selector selects a list.
	ObjectName string
	Selector   labels.Selector
	// Absent is what the entry reads of the object that is absent; nothing is looked up then.
	Absent []Absence
}

// In returns the namespace to look in, given that of the object, and whether the type is namespaced.
// It is empty for all namespaces, and for a type that has none.
func (l *Lookup) In(own string, isNamespaced bool) string {
	switch {
	case !isNamespaced:
		return ""
	case l.Namespace != nil:
		return *l.Namespace
	}
	return own
}

const (
	// ReadsName is the field of a behaviour for the objects that it reads.
	ReadsName = "reads"
	// SensitiveName is the field of an entry of reads that marks its type: values of such objects are not shown.
	SensitiveName = "sensitive"
)

// IsSecret reports whether a type is that of Secrets, of which no message shows a value, whoever reads them.
func IsSecret(gvk apischema.GroupVersionKind) bool {
	return gvk.Group == corev1.GroupName && gvk.Kind == "Secret"
}

// AreSensitive reports whether no message about the kind shows a value of objects of a type: of Secrets, and of a type
// of which one entry of reads is marked. The same object may be read by several entries, in several versions, and as a
// child.
func (ls Lookups) AreSensitive(gvk apischema.GroupVersionKind) bool {
	return IsSecret(gvk) ||
		slices.ContainsFunc(ls,
			func(l LookupFacts) bool { return l.Sensitive && l.Type.GroupKind() == gvk.GroupKind() })
}

// DecoratesSensitive reports whether the object itself is of a sensitive type. That of any other kind than a decorator
// is what its author writes.
func (k *Kind) DecoratesSensitive() bool {
	return k.Target != nil && k.Lookups.AreSensitive(k.GroupVersionKind)
}

// SeesSensitive reports whether the behaviour may see values that no message shows: in what it reads, also of its
// children, or in the object that it decorates.
func (k *Kind) SeesSensitive() bool {
	return k.DecoratesSensitive() || k.readsSensitiveChildren() ||
		slices.ContainsFunc(k.Lookups, func(l LookupFacts) bool { return k.Lookups.AreSensitive(l.Type) })
}

// readsSensitiveChildren reports whether the behaviour may read more of a child of a sensitive type than what
// identifies it.
func (k *Kind) readsSensitiveChildren() bool {
	if !slices.ContainsFunc(k.Owns, k.Lookups.AreSensitive) {
		return false
	}
	if k.Reads.Observed.Whole || k.Reads.Observed.Elements != nil {
		return true
	}
	for name, read := range k.Reads.Observed.Fields {
		if read.Elements != nil { // of a set
			read = read.Union(read.Elements)
		}
		if k.mayBeSensitive(name) && !isIdentity(read) {
			return true
		}
	}
	return false
}

// mayBeSensitive reports whether what has a name in observed may be a child of a sensitive type.
func (k *Kind) mayBeSensitive(name string) bool {
	isKnown := slices.ContainsFunc(k.Lookups, func(l LookupFacts) bool { return l.Name == name })
	for _, c := range k.Behaviour.Children {
		if c.Name == name {
			isKnown = true
			if c.Kind == "" || k.Lookups.AreSensitive(apischema.FromAPIVersionAndKind(c.APIVersion, c.Kind)) {
				return true
			}
		}
	}
	return !isKnown
}

// isIdentity reports whether what is read of an object is no more than what identifies it.
func isIdentity(read *parts.Set) bool {
	metadata := read.AtField("metadata")
	if read.Whole || metadata.Whole || metadata.Elements != nil || metadata.Fields["annotations"] != nil {
		return false
	}
	for name := range read.Fields {
		if name != "apiVersion" && name != "kind" && name != "metadata" {
			return false
		}
	}
	return true
}

// LookupsOf returns what the behaviour reads for a valid, defaulted object, apart from its
// children, sorted by name. It follows from what the author submits of the object. An error is an
// *EvaluationError.
func (k *Kind) LookupsOf(b *Budget, object map[string]any) ([]Lookup, error) {
	if len(k.Lookups) == 0 {
		return nil, nil
	}
	lookups, err := LookupsOf(k.Run(b, k.Readable(object), nil))
	return lookups, exceeded(b, err)
}

// readableMetadata are the fields of metadata that an author submits.
var readableMetadata = []string{"name", "namespace", "labels", "annotations"}

// Readable returns the part of an object that reads may depend on: what an author submits, so that the
// rights to read can be checked then. The status, the rest of the metadata and the number of the scale
// subresource are also changed by others. The object is not changed.
func (k *Kind) Readable(object map[string]any) map[string]any {
	rest := without(object, "status")
	if k.Scale != nil {
		rest = without(rest, strings.Split(strings.TrimPrefix(k.Scale.SpecReplicasPath, "."), ".")...)
	}
	metadata, _ := rest["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	maps.DeleteFunc(metadata, func(name string, _ any) bool { return !slices.Contains(readableMetadata, name) })
	rest["metadata"] = metadata
	return without(rest, "metadata", "annotations", corev1.LastAppliedConfigAnnotation) // as in Reads.Metadata
}

// IsReadable reports whether reads may depend on a field at a path like object.status.
func (k *Kind) IsReadable(path string) bool {
	if name, ok := strings.CutPrefix(path, behaviour.ObjectName+".metadata."); ok &&
		!slices.Contains(readableMetadata, name) {
		return strings.Contains(name, ".")
	}
	return path != behaviour.ObjectName+".status" &&
		(k.Scale == nil || path != behaviour.ObjectName+k.Scale.SpecReplicasPath)
}

// without returns an object without the field at a path. It shares memory with the object.
func without(object map[string]any, path ...string) map[string]any {
	below, isObject := object[path[0]].(map[string]any)
	rest := maps.Clone(object)
	switch {
	case len(path) == 1:
		delete(rest, path[0])
	case isObject:
		rest[path[0]] = without(below, path[1:]...)
	}
	return rest
}

// LookupsOf reads the entries of reads of a behaviour.
func LookupsOf(v Piece) (lookups []Lookup, err error) {
	if _, err := v.Guards(ReadsName); err != nil {
		return nil, err
	}
	reads := v.Field(ReadsName)
	if _, err := reads.Guards(ReadsName); err != nil {
		return nil, err
	}
	names, err := reads.Names()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		lookup, err := lookupOf(name, reads.Field(name))
		if err != nil {
			return nil, err
		}
		lookups = append(lookups, lookup)
	}
	slices.SortFunc(lookups, func(a, b Lookup) int { return strings.Compare(a.Name, b.Name) })
	return lookups, nil
}

func lookupOf(name string, value Piece) (Lookup, error) {
	path, l := ReadsName+"."+name, Lookup{Name: name}
	data, absent, err := value.Data(path, "")
	if err != nil {
		return l, err
	}
	fields, _ := data.(map[string]any)
	text := func(field string) string {
		text, _ := fields[field].(string)
		return text
	}
	if l.Absent = absent; len(absent) > 0 {
		return l, nil
	}
	l.Type = apischema.FromAPIVersionAndKind(text("apiVersion"), text("kind"))
	if namespace, ok := fields["namespace"].(string); ok {
		l.Namespace = &namespace
	}
	wrong := func(field string, err error) error {
		at := value.Field(field)
		return &EvaluationError{Path: path + "." + field, Err: err, Position: at.Position(), Value: fields[field]}
	}
	selector, isSelection := fields["selector"].(map[string]any)
	_, isNamed := fields["name"]
	switch {
	case isSelection == isNamed:
		return l, &EvaluationError{Path: path, Err: errors.New("must have either a name or a selector"),
			Position: value.Position()}
	case isNamed && text("name") == "":
		return l, wrong("name", errors.New("must not be empty"))
	case isNamed && l.Namespace != nil && *l.Namespace == "":
		return l, wrong("namespace", errors.New("must not be empty: an object that is read by name is in one namespace"))
	case isNamed:
		l.ObjectName = text("name")
		return l, nil
	}
	var parsed metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(selector, &parsed, true); err != nil {
		return l, wrong("selector", err)
	}
	if l.Selector, err = SelectorOf(&parsed); err != nil {
		return l, wrong("selector", err)
	}
	return l, nil
}

// SelectorOf is metav1.LabelSelectorAsSelector, but of several labels that are not valid it always
// reports the same: the message of a condition must not change from one reconcile to the next.
func SelectorOf(selector *metav1.LabelSelector) (labels.Selector, error) {
	for _, name := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		if _, err := metav1.LabelSelectorAsSelector(metav1.AddLabelToSelector(&metav1.LabelSelector{}, name,
			selector.MatchLabels[name])); err != nil {
			return nil, err
		}
	}
	return metav1.LabelSelectorAsSelector(selector)
}

// DependsOnSensitive reports whether a child may have a sensitive value, for some object: from what its template or its
// when reads, from another child, which may have one, or from the status.
func (k *Kind) DependsOnSensitive(child string) bool {
	if !k.SeesSensitive() {
		return false
	}
	isWritten := slices.ContainsFunc(k.Behaviour.Children, func(c ChildFacts) bool { return c.Name == child })
	if !isWritten || k.DecoratesSensitive() || k.Reads.Object.Whole || k.Reads.Observed.Whole {
		return true
	}
	return slices.ContainsFunc(k.Uses[child], func(name string) bool {
		if name == OwnStatus {
			return k.ReadsSensitiveStatus()
		}
		return !slices.ContainsFunc(k.Lookups,
			func(l LookupFacts) bool { return l.Name == name && !k.Lookups.AreSensitive(l.Type) })
	})
}

// ReadsSensitiveStatus reports whether the behaviour may read in its own status what it has computed from sensitive
// values.
func (k *Kind) ReadsSensitiveStatus() bool { return k.SeesSensitive() && k.ReadsOwnStatus() }

// IsList reports whether a name in observed stands for a list.
func (k *Kind) IsList(name string) bool {
	_, isSet := k.Sets[name]
	return isSet || slices.ContainsFunc(k.Lookups, func(l LookupFacts) bool { return l.Name == name && l.IsSelection })
}

// LookupTarget is what has to be watched for reads: the objects of a type or, if ObjectName is not empty,
// those with that name.
type LookupTarget struct {
	Type       apischema.GroupVersionKind
	ObjectName string
}

// Targets returns what has to be watched. A type of which something is
// read by a name or a selector that follows from the object is watched as a whole.
func (ls Lookups) Targets() []LookupTarget {
	whole := make(map[apischema.GroupVersionKind]bool)
	for _, l := range ls {
		whole[l.Type] = whole[l.Type] || l.ObjectName == ""
	}
	var targets []LookupTarget
	for _, l := range ls {
		target := LookupTarget{Type: l.Type}
		if !whole[l.Type] {
			target.ObjectName = l.ObjectName
		}
		if !slices.Contains(targets, target) {
			targets = append(targets, target)
		}
	}
	return targets
}

// Has reports whether the behaviour reads objects of a type that are not its children.
func (ls Lookups) Has(gvk apischema.GroupVersionKind) bool {
	return slices.ContainsFunc(ls, func(l LookupFacts) bool { return l.Type == gvk })
}

// OfCluster returns the first type that is looked up and is known to be cluster-scoped; it
// is empty if there is none.
func (ls Lookups) OfCluster() string {
	for _, l := range ls {
		if l.IsClusterScoped {
			return l.Type.Kind
		}
	}
	return ""
}

// Read returns what a controller may read of the objects of a type that it looks up, given what it reads of observed;
// nil is nothing.
func (ls Lookups) Read(gvk apischema.GroupVersionKind, observed *parts.Set) (read *parts.Set) {
	for _, l := range ls {
		if l.Type != gvk {
			continue
		}
		named := []*parts.Set{observed.AtField(l.Name)}
		if l.Name == "" { // it may have any name
			if observed.Whole {
				return observed
			}
			named = append(slices.Collect(maps.Values(observed.Fields)), observed.AtElement())
		}
		for _, of := range named {
			if l.Name == "" || l.IsSelection {
				read = read.Union(of.Elements)
			}
			if l.Name == "" || !l.IsSelection || of.Whole {
				read = read.Union(of)
			}
		}
	}
	return read
}
