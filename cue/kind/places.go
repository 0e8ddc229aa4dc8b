package kind

import (
	"errors"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Places are the namespaces of children, by their type. A type that is not among them may have children in
// any namespace.
type Places map[apischema.GroupKind][]string

// PlacesOf returns the namespaces in which the behaviour may create children for a valid, defaulted object of a
// cluster-scoped kind, whatever its status, its other children and what it reads are. It has the types whose
// namespaces follow from what the author submits of the object. An error is an *EvaluationError.
func (k *Kind) PlacesOf(object map[string]any) (Places, error) {
	if len(k.placed) == 0 {
		return nil, nil
	}
	v, names, err := k.behaviour(k.readable(object), nil)
	if err != nil {
		return nil, err
	}
	defer v.release()
	r := &placeReader{kind: k, places: make(Places)}
	for _, gvk := range k.placed {
		r.places[gvk.GroupKind()] = nil
	}
	if err := r.read(v); err != nil {
		return nil, names.error(err)
	}
	return r.places, nil
}

// placeReader reads the namespaces of the children of all phases from a behaviour.
type placeReader struct {
	kind   *Kind
	places Places
}

func (r *placeReader) read(v piece) error {
	if err := r.children(v, ""); err != nil {
		return err
	}
	for _, phase := range sortedKeys(r.kind.Phases) {
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
		for field, value := range map[string]piece{
			"apiVersion": template.field("apiVersion"), "kind": template.field("kind"), "namespace": template.field("metadata").field("namespace"),
		} {
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
		known, isPlaced := r.places[gk]
		switch namespace := texts["namespace"]; {
		case gk.Kind == "":
			return &EvaluationError{Path: path, Err: errors.New("its type is not known"), Position: template.position()}
		case isPlaced && namespace != "" && !slices.Contains(known, namespace):
			r.places[gk] = append(known, namespace)
		}
	}
	return nil
}

// places finds the types whose namespaces follow from what the author of an object submits: so it can be
// checked then whether the author has rights there. It is asked for cluster-scoped kinds alone, since the
// children of others are in the namespace of their object, and not for decorators, whose targets have no author
// that admission asks.
func (c *checker) places() {
	if c.kind.Scope != apiextensionsv1.ClusterScoped || c.kind.Target != nil || c.unknownChildren {
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
			c.kind.placed = append(c.kind.placed, gvk)
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
	if !child.known || kind == nil {
		return
	}
	if !child.resource.Namespaced && !slices.Contains(c.kind.OwnsOfCluster, child.gvk) {
		c.kind.OwnsOfCluster = append(c.kind.OwnsOfCluster, child.gvk)
	}
	if !child.resource.Namespaced && !c.isClusterScoped() {
		c.report(kind.node, "%s.template: a %s is cluster-scoped, and the objects of the kind are namespaced: write scope: \"Cluster\", or leave the child out", child.path, child.gvk.Kind)
		return
	}
	namespace, isKnown := c.namespaceOf(child)
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
	case c.isClusterScoped():
		if problems := validation.IsDNS1123Label(text); isText && len(problems) > 0 {
			c.report(namespace.node, "%s: %q is no name of a namespace: %s", path, text, problems[0])
		}
	case isText:
		c.report(namespace.node, "%s: %q: children are in the namespace of their object: remove it", path, text)
	case v.path != "" && v.path != "object.metadata.namespace":
		c.report(namespace.node, "%s: %s may be another than that of the object, in which its children are: remove it", path, v.path)
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
