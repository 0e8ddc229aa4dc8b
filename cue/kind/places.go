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
// a cluster-scoped one.
func (k *Kind) AnyPlaces(namespace string) Places {
	places := make(Places)
	for _, gvk := range k.Owns {
		place := namespace
		if slices.Contains(k.Elsewhere, gvk) {
			place = ""
		}
		places[gvk.GroupKind()] = []string{place}
	}
	return places
}

// PlacesOf returns the namespaces in which the behaviour may create children for a valid, defaulted object,
// whatever its status, its other children and what it reads are. For types whose namespaces do not follow from
// what the author submits of the object, these are all. An error is an *EvaluationError.
func (k *Kind) PlacesOf(b *Budget, object map[string]any) (Places, error) {
	places, _, err := placesOf(k, b, object)
	return places, err
}

// PlacesToAsk returns those of PlacesOf in which the author of an object needs rights to its children. For a kind that
// is self-service, these are not the namespace of the object, the cluster scope, and namespaces that are children of
// the object: the engine creates nothing in a namespace that belongs to someone else.
func PlacesToAsk(k *Kind, b *Budget, object map[string]any) (Places, error) {
	places, created, err := placesOf(k, b, object)
	if err != nil {
		return nil, err
	}
	return places.toAsk(k, ownNamespace(object), created), nil
}

// AnyPlacesToAsk is PlacesToAsk for an object of which only its namespace is known; it is empty for a cluster-scoped
// one.
func AnyPlacesToAsk(k *Kind, namespace string) Places {
	return k.AnyPlaces(namespace).toAsk(k, namespace, nil)
}

func (p Places) toAsk(k *Kind, own string, created Places) Places {
	if !k.IsSelfService {
		return p
	}
	asked := make(Places)
	for _, gvk := range k.Owns {
		gk := gvk.GroupKind()
		asked[gk] = slices.DeleteFunc(slices.Clone(p[gk]), func(namespace string) bool {
			return slices.Contains(k.OwnsOfCluster, gvk) || namespace != "" && namespace == own ||
				slices.Contains(created[gk], namespace)
		})
	}
	return asked
}

// placesOf returns the namespaces of PlacesOf, and those of them that are children of the object as well whenever
// children of the type are in them.
func placesOf(k *Kind, b *Budget, object map[string]any) (places, created Places, err error) {
	places = k.AnyPlaces(ownNamespace(object))
	if len(k.Placed) == 0 {
		return places, nil, nil
	}
	v := k.Run(b, k.Readable(object), nil)
	r := &placeReader{kind: k, own: ownNamespace(object), places: places, strange: make(Places),
		placed: make(map[apischema.GroupKind]bool)}
	for _, gvk := range k.Placed {
		places[gvk.GroupKind()], r.placed[gvk.GroupKind()] = nil, true
	}
	if err := r.read(v); err != nil {
		return nil, nil, err
	}
	created = make(Places)
	for gk := range r.placed {
		created[gk] = slices.DeleteFunc(slices.Clone(places[gk]), func(namespace string) bool {
			return slices.Contains(r.strange[gk], namespace)
		})
	}
	return places, created, exceeded(b, nil)
}

// ownNamespace returns the namespace of an object; it is empty for a cluster-scoped one.
func ownNamespace(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	own, _ := metadata["namespace"].(string)
	return own
}

// placeReader reads the namespaces of the children of all phases from a behaviour.
type placeReader struct {
	kind   *Kind
	own    string // the namespace of the object
	places Places
	// strange are those of the places that may not be among the children themselves.
	strange Places
	placed  map[apischema.GroupKind]bool
}

func (r *placeReader) read(v Piece) error {
	always, err := r.children(v, "", nil)
	if err != nil {
		return err
	}
	for _, phase := range slices.Sorted(maps.Keys(r.kind.Phases)) {
		if _, err := r.children(v.Field("phases").Field(phase), "phases."+phase+".", always); err != nil {
			return err
		}
	}
	return nil
}

// children reads the children of a controller, or of a phase. What waits for something absent that the author
// submits does not exist, and what depends on anything else is of a type that has no places. It returns the namespaces
// that are children, of which always are so in each phase.
func (r *placeReader) children(owner Piece, prefix string, always []string) (created []string, err error) {
	children := owner.Field("children")
	names, err := children.Names()
	if err != nil {
		return nil, err
	}
	inNamespaces := make(map[apischema.GroupKind][]string)
	created = slices.Clone(always)
	for _, name := range names {
		child, err := r.child(children.Field(name).Field("template"), prefix+"children."+name+".template")
		switch {
		case err != nil:
			return nil, err
		case child.waits:
			continue
		case r.kind.HasSureNamespaces && child.gk == NamespaceType.GroupKind():
			created = append(created, child.name)
		}
		inNamespaces[child.gk] = append(inNamespaces[child.gk], child.namespace)
	}
	for gk, namespaces := range inNamespaces {
		for _, namespace := range namespaces {
			if !slices.Contains(created, namespace) {
				r.strange[gk] = append(r.strange[gk], namespace)
			}
			if r.placed[gk] && !slices.Contains(r.places[gk], namespace) {
				r.places[gk] = append(r.places[gk], namespace)
			}
		}
	}
	return created, nil
}

// placedChild is what is known of a child by its template, unless that waits. The name is that of a Namespace.
type placedChild struct {
	gk              apischema.GroupKind
	namespace, name string
	waits           bool
}

func (r *placeReader) child(template Piece, path string) (child placedChild, err error) {
	text := func(names ...string) (text string) {
		value := template
		for _, name := range names {
			value = value.Field(name)
		}
		if err != nil || !value.Exists() {
			return ""
		}
		data, absent, problem := value.Data(path, names[len(names)-1])
		err, child.waits = problem, child.waits || len(absent) > 0
		text, _ = data.(string)
		return text
	}
	child.gk = apischema.FromAPIVersionAndKind(text("apiVersion"), text("kind")).GroupKind()
	if child.namespace = cmp.Or(text("metadata", "namespace"), r.own); child.gk == NamespaceType.GroupKind() {
		child.name = text("metadata", "name")
	}
	if err == nil && child.gk.Kind == "" {
		err = &EvaluationError{Path: path, Err: errors.New("its type is not known"), Position: template.Position()}
	}
	return child, err
}
