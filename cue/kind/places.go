package kind

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
)

// Places are the namespaces in which an object may have children, by their type. Those of an empty name are
// all namespaces, or the cluster scope for a type that has none.
type Places map[apischema.GroupKind][]string

// NamespaceType is the type of Namespaces.
var NamespaceType = corev1.SchemeGroupVersion.WithKind("Namespace")

// Has reports whether children of a type may be in a namespace.
func (p Places) Has(gk apischema.GroupKind, namespace string) bool {
	return slices.Contains(p[gk], namespace) || slices.Contains(p[gk], "")
}

// IsHeld reports whether objects of the kind have a finalizer until nothing is left to do for them when they are
// deleted: phases to pass, or children that the garbage collector does not delete.
func (k *Kind) IsHeld() bool { return k.OnDelete != "" || len(k.Elsewhere) > 0 }

// RecordsPlaces reports whether the status of an object lists namespaces in which it has children: elsewhere than
// in its own, or in any if it is cluster-scoped. What is not listed is none of its children.
func (k *Kind) RecordsPlaces() bool {
	isInNamespace := func(owned apischema.GroupVersionKind) bool { return !slices.Contains(k.OwnsOfCluster, owned) }
	return len(k.Elsewhere) > 0 || k.Scope == apiextensionsv1.ClusterScoped &&
		slices.ContainsFunc(k.Owns, isInNamespace)
}

// AnyPlaces returns the namespaces of the children of an object of which only its own is known; it is empty for
// a cluster-scoped one. A type may be owned in several versions.
func (k *Kind) AnyPlaces(namespace string) Places {
	places := make(Places)
	for _, gvk := range k.Owns {
		place := namespace
		if slices.Contains(k.Elsewhere, gvk) {
			place = ""
		}
		if gk := gvk.GroupKind(); !slices.Contains(places[gk], place) {
			places[gk] = append(places[gk], place)
		}
	}
	return places
}

// PlacesOf returns the namespaces in which the behaviour may create children for a valid, defaulted object,
// whatever its status, its other children and what it reads are. For types whose namespaces do not follow from
// what the author submits of the object, these are all. An error is an *EvaluationError.
func (k *Kind) PlacesOf(b *Budget, object map[string]any) (Places, error) {
	metadata, _ := object["metadata"].(map[string]any)
	own, _ := metadata["namespace"].(string)
	places := k.AnyPlaces(own)
	if len(k.Placed) == 0 {
		return places, nil
	}
	v := k.Run(b, k.Readable(object), nil)
	r := &placeReader{kind: k, own: own, places: places, placed: make(map[apischema.GroupKind]bool)}
	for _, gvk := range k.Placed {
		isUnplaced := func(other apischema.GroupVersionKind) bool {
			return other.GroupKind() == gvk.GroupKind() && !slices.Contains(k.Placed, other)
		}
		if !slices.ContainsFunc(k.Owns, isUnplaced) { // in any version
			places[gvk.GroupKind()], r.placed[gvk.GroupKind()] = nil, true
		}
	}
	if err := r.read(v); err != nil {
		return nil, err
	}
	return places, exceeded(b, nil)
}

// placeReader reads the namespaces of the children of all phases from a behaviour.
type placeReader struct {
	kind   *Kind
	own    string // the namespace of the object
	places Places
	placed map[apischema.GroupKind]bool
}

func (r *placeReader) read(v Piece) error {
	if err := r.children(v, ""); err != nil {
		return err
	}
	for _, phase := range slices.Sorted(maps.Keys(r.kind.Phases)) {
		if err := r.children(v.Field("phases").Field(phase), "phases."+phase+"."); err != nil {
			return err
		}
	}
	return nil
}

// children reads the children of a controller, or of a phase. What waits for something absent that the author
// submits does not exist, and what depends on anything else is of a type that has no places.
func (r *placeReader) children(owner Piece, prefix string) error {
	children := owner.Field("children")
	names, err := children.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		template, path := children.Field(name).Field("template"), prefix+"children."+name+".template"
		texts, waits := make(map[string]string), false
		for _, names := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "namespace"}} {
			value, field := template, names[len(names)-1]
			for _, name := range names {
				value = value.Field(name)
			}
			if !value.Exists() {
				continue
			}
			data, absent, err := value.Data(path, field)
			if err != nil {
				return err
			}
			texts[field], _ = data.(string)
			waits = waits || len(absent) > 0
		}
		gk := apischema.FromAPIVersionAndKind(texts["apiVersion"], texts["kind"]).GroupKind()
		switch namespace := cmp.Or(texts["namespace"], r.own); {
		case gk.Kind == "":
			return &EvaluationError{Path: path, Err: errors.New("its type is not known"), Position: template.Position()}
		case r.placed[gk] && !waits && !slices.Contains(r.places[gk], namespace):
			r.places[gk] = append(r.places[gk], namespace)
		}
	}
	return nil
}
