package inject

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/podrules"
	"github.com/fescue-dev/fescue/internal/jsontext"
)

// Object names an object that injects, apart from its namespace, which is the Pod's.
type Object struct {
	Kind schema.GroupKind
	Name string
}

// String returns the object's name in the annotation of a Pod: Kind.group/name.
func (o Object) String() string { return o.Kind.String() + "/" + o.Name }

// Source holds what an object contributes to Pods.
type Source struct {
	Object
	Namespace  string
	Generation int64
	// Selector selects the Pods that need no annotation; nil selects none, and an empty one
	// all of the namespace.
	Selector *metav1.LabelSelector
	// Add is the part of a Pod to merge: metadata with labels and annotations, and spec.
	Add map[string]any
}

// Injection is a Source prepared for injecting it many times. It is immutable and safe for
// concurrent use.
type Injection struct {
	object     Object
	id         string
	namespace  string
	generation int64
	selector   labels.Selector // nil for none
	add        value
	metadata   bool // whether labels or annotations are added, which selectors may match

	needs     needs
	rules     rules
	forbidden *rejection // nil if it may be injected
	broken    string     // why nothing can be injected; empty if something can
}

// Object returns the object that injects.
func (i *Injection) Object() Object { return i.object }

// New prepares a Source. An error names the field below add or selector that cannot be part of a
// Pod.
func New(source Source) (*Injection, error) {
	i := &Injection{object: source.Object, id: source.String(), namespace: source.Namespace,
		generation: source.Generation}
	var err error
	if source.Selector != nil {
		if i.selector, err = metav1.LabelSelectorAsSelector(source.Selector); err != nil {
			return nil, fmt.Errorf("selector: %w", err)
		}
	}
	if errs := checkPart(source.Add); len(errs) > 0 {
		return nil, partError(errs)
	}
	text, err := json.Marshal(pruned(source.Add, pod))
	if err != nil {
		return nil, fmt.Errorf("add: %w", err)
	}
	if i.add, err = jsontext.Parse(text); err != nil {
		return nil, fmt.Errorf("add: %w", err)
	}
	root := field.NewPath("add")
	if errs := checkLists(i.add, pod, root); len(errs) > 0 {
		return nil, partError(errs)
	}
	part, err := i.Part()
	if err != nil {
		return nil, err
	}
	if errs := podrules.ValidatePart(part, root); len(errs) > 0 {
		return nil, partError(errs)
	}
	i.metadata = i.add.Member("metadata").IsSet()
	i.needs = needsOf(i.add.Member("spec"))
	i.rules = rulesOf(part)
	return i, nil
}

// partError lists what is wrong with the part that an object adds.
type partError field.ErrorList

func (e partError) Error() string { return field.ErrorList(e).ToAggregate().Error() }

// Selector selects the Pods that need no annotation; nil selects none.
func (i *Injection) Selector() labels.Selector { return i.selector }

// Part returns what is added as a part of a Pod.
func (i *Injection) Part() (*corev1.Pod, error) {
	var part corev1.Pod
	if err := json.Unmarshal(i.add.Raw(), &part); err != nil {
		return nil, fmt.Errorf("what %s injects: %w", i.id, err)
	}
	return &part, nil
}

// Forbidden returns the same injection for a namespace whose Pod Security level forbids it: for a
// Pod that does not have all of it yet, the outcome reports why.
func (i *Injection) Forbidden(why string) *Injection {
	forbidden := *i
	forbidden.forbidden = &rejection{reason: PodSecurity, detail: why}
	return &forbidden
}

// checkPart checks what cannot be added to any Pod, and the types of all fields that this version
// of Kubernetes knows: the API server would reject the whole Pod for a wrong one.
func checkPart(add map[string]any) (errs field.ErrorList) {
	root := field.NewPath("add")
	for name := range add {
		if name != "metadata" && name != "spec" {
			errs = append(errs, field.Forbidden(root.Child(name), "only metadata and spec can be added to"))
		}
	}
	metadata, _ := add["metadata"].(map[string]any)
	for name := range metadata {
		if name != "labels" && name != "annotations" {
			errs = append(errs,
				field.Forbidden(root.Child("metadata", name), "only labels and annotations can be added to"))
		}
	}
	if annotations, _ := metadata["annotations"].(map[string]any); annotations[StatusAnnotation] != nil {
		errs = append(errs, field.Forbidden(root.Child("metadata", "annotations").Key(StatusAnnotation),
			"is reserved: it reports what was injected"))
	}
	spec, _ := add["spec"].(map[string]any)
	if spec["ephemeralContainers"] != nil {
		errs = append(errs,
			field.Forbidden(root.Child("spec", "ephemeralContainers"),
				"a Pod cannot be created with ephemeral containers"))
	}
	if spec["os"] != nil {
		errs = append(errs,
			field.Forbidden(root.Child("spec", "os"), "only the Pod itself can set its operating system"))
	}
	volumes, _ := spec["volumes"].([]any)
	for i, volume := range volumes {
		for _, name := range kind.RemovedVolumes {
			if child(volume, name) != nil {
				errs = append(errs, field.Forbidden(root.Child("spec", "volumes").Index(i).Child(name),
					kind.WhyRemoved))
			}
		}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(add, &corev1.Pod{}); err != nil {
		errs = append(errs, field.Invalid(root, field.OmitValueType{}, err.Error()))
	}
	return errs
}

// pruned leaves out nulls, and lists and structs that add nothing: a condition in a kind may
// leave them behind.
func pruned(add map[string]any, s *shape) map[string]any {
	kept := make(map[string]any, len(add))
	for name, value := range add {
		field := s.field(name)
		switch v := value.(type) {
		case nil:
			continue
		case map[string]any:
			if field.isStruct() {
				if v = pruned(v, field); len(v) == 0 {
					continue
				}
				value = v
			}
		case []any:
			if field.isList() && len(v) == 0 {
				continue
			}
			if field.containers {
				value = prunedItems(v, field.item)
			}
		}
		kept[name] = value
	}
	return kept
}

func prunedItems(items []any, s *shape) []any {
	kept := make([]any, len(items))
	for i, item := range items {
		m, _ := item.(map[string]any) // checkPart has checked the type
		kept[i] = pruned(m, s)
	}
	return kept
}

// checkLists checks that the items of lists have distinct keys.
func checkLists(v value, s *shape, path *field.Path) (errs field.ErrorList) {
	for name, member := range v.Members {
		if s.isStruct() && member.IsSet() {
			errs = append(errs, checkLists(member, s.field(name.String()), path.Child(name.String()))...)
		}
	}
	if s.keys == nil {
		return errs
	}
	for i, item := range v.Items {
		for _, key := range s.keys {
			if !item.Member(key).IsSet() && defaultOf(key) == "" {
				errs = append(errs, field.Required(path.Index(i).Child(key), "identifies the items of the list"))
			}
		}
		if first, _ := find(v, item, s); first != i {
			errs = append(errs, field.Duplicate(path.Index(i), keyOf(item, s)))
		}
		errs = append(errs, checkLists(item, s.item, path.Index(i))...)
	}
	return errs
}
