package kind

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"cuelang.org/go/cue/ast"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Places are the namespaces in which an object may have children, by their type. Those of an empty name are
// all namespaces, or the cluster scope for a type that has none.
type Places map[apischema.GroupKind][]string

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
	return len(k.Elsewhere) > 0 || k.Scope == apiextensionsv1.ClusterScoped && slices.ContainsFunc(k.Owns, isInNamespace)
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
	metadata, _ := object["metadata"].(map[string]any)
	own, _ := metadata["namespace"].(string)
	places := k.AnyPlaces(own)
	if len(k.Placed) == 0 {
		return places, nil
	}
	v := k.behaviour(b, k.readable(object), nil)
	r := &placeReader{kind: k, own: own, places: places, placed: make(map[apischema.GroupKind]bool)}
	for _, gvk := range k.Placed {
		places[gvk.GroupKind()], r.placed[gvk.GroupKind()] = nil, true
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

func (r *placeReader) read(v piece) error {
	if err := r.children(v, ""); err != nil {
		return err
	}
	for _, phase := range slices.Sorted(maps.Keys(r.kind.Phases)) {
		if err := r.children(v.field("phases").field(phase), "phases."+phase+"."); err != nil {
			return err
		}
	}
	return nil
}

// children reads the children of a controller, or of a phase. What waits for something absent that the author
// submits does not exist, and what depends on anything else is of a type that has no places.
func (r *placeReader) children(owner piece, prefix string) error {
	children := owner.field("children")
	names, err := children.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		template, path := children.field(name).field("template"), prefix+"children."+name+".template"
		texts := make(map[string]string)
		for _, names := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "namespace"}} {
			value, field := template, names[len(names)-1]
			for _, name := range names {
				value = value.field(name)
			}
			if !value.exists() {
				continue
			}
			data, _, err := value.data(path, field)
			if err != nil {
				return err
			}
			texts[field], _ = data.(string)
		}
		gk := apischema.FromAPIVersionAndKind(texts["apiVersion"], texts["kind"]).GroupKind()
		switch namespace := cmp.Or(texts["namespace"], r.own); {
		case gk.Kind == "":
			return &EvaluationError{Path: path, Err: errors.New("its type is not known"), Position: template.position()}
		case r.placed[gk] && namespace != "" && !slices.Contains(r.places[gk], namespace):
			r.places[gk] = append(r.places[gk], namespace)
		}
	}
	return nil
}

// places finds the types whose namespaces follow from what the author of an object submits: so it can be
// checked then whether the author has rights there. It is not asked where all children are in the namespace of
// their object, and not for decorators, whose targets have no author that admission asks.
func (c *checker) places() {
	if !c.isClusterScoped() && len(c.kind.Elsewhere) == 0 || c.kind.Target != nil || c.unknownChildren {
		return
	}
	elsewhere := make(map[apischema.GroupVersionKind]bool)
	for _, child := range c.kept {
		if !c.isPlaced(child) {
			elsewhere[child.gvk] = true
		}
	}
	if c.gaveUp || elsewhere[apischema.GroupVersionKind{}] {
		return
	}
	for _, gvk := range c.kind.Owns {
		if !elsewhere[gvk] && !slices.Contains(c.kind.OwnsOfCluster, gvk) {
			c.kind.Placed = append(c.kind.Placed, gvk)
		}
	}
}

// isPlaced reports whether the existence of a child and its namespace follow from what the author of an object
// submits.
func (c *checker) isPlaced(child *checkedChild) bool {
	namespace, isKnown := c.namespaceOf(child)
	if child.beyond || !isKnown || child.body.mayHaveMore() {
		return false
	}
	if namespace == nil {
		return true
	}
	before := c.beyond
	for _, p := range namespace.parts {
		c.infer(p)
	}
	return c.beyond == before && !slices.ContainsFunc(namespace.parts, func(p part) bool { return p.beyond })
}

// namespace checks the scope of a child, and the namespace of its template.
func (c *checker) namespace(child *checkedChild) {
	kind := child.template.fields["kind"]
	if kind == nil {
		return
	}
	namespace, isKnown := c.namespaceOf(child)
	isOwn := namespace == nil || c.isOwnNamespace(namespace)
	if !c.isClusterScoped() && (child.known && !child.resource.Namespaced || !isOwn) {
		c.elsewhere(child, kind.node)
	}
	if (!isOwn || child.known && child.resource.Namespaced == c.isClusterScoped()) && c.kind.Target == nil && !c.kind.RecordsChildren() {
		c.report(kind.node, "%s.template: the status has no %s, in which the namespaces of children are recorded: embed contract.#Status in it", child.path, ChildInventory)
	}
	if !child.known {
		return
	}
	if !child.resource.Namespaced && !slices.Contains(c.kind.OwnsOfCluster, child.gvk) {
		c.kind.OwnsOfCluster = append(c.kind.OwnsOfCluster, child.gvk)
	}
	if namespace == nil {
		if isKnown && child.resource.Namespaced && c.isClusterScoped() {
			c.report(kind.node, "%s.template.metadata.namespace: is missing: a %s is namespaced, and the objects of the kind are cluster-scoped: write the namespace to create it in", child.path, child.gvk.Kind)
		}
		return
	}
	path := child.path + ".template.metadata.namespace"
	v := c.unified(slices.Clone(namespace.parts))
	text, isText := v.literal.(string)
	switch {
	case !child.resource.Namespaced:
		c.report(namespace.node, "%s: a %s has no namespace: remove it", path, child.gvk.Kind)
	case isText:
		if problems := validation.IsDNS1123Label(text); len(problems) > 0 {
			c.report(namespace.node, "%s: %q is not a valid namespace name: %s", path, text, problems[0])
		}
	}
}

// isOwnNamespace reports whether a namespace is that of the object for certain.
func (c *checker) isOwnNamespace(namespace *member) bool {
	return c.unified(slices.Clone(namespace.parts)).path == objectName+".metadata.namespace"
}

// elsewhere notes a type of which objects may have children outside of their namespace.
func (c *checker) elsewhere(child *checkedChild, at ast.Node) {
	if !slices.Contains(c.kind.Elsewhere, child.gvk) {
		c.kind.Elsewhere = append(c.kind.Elsewhere, child.gvk)
	}
	if c.kind.Target != nil {
		c.report(at, "%s.template: a decorator of objects with a namespace has children in that namespace only", child.path)
	}
}

// namespaceOf returns the namespace in the template of a child; nil if there is none, as far as that is known.
func (c *checker) namespaceOf(child *checkedChild) (namespace *member, isKnown bool) {
	metadata := child.template.fields["metadata"]
	if metadata == nil {
		return nil, !child.template.mayHaveMore()
	}
	s := c.gather(metadata.parts)
	return s.fields["namespace"], !s.mayHaveMore() && !child.template.mayHaveMore()
}
