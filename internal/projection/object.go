package projection

import (
	"fmt"
	"strings"
	"sync"
	"unique"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/internal/jsontext"
	"github.com/fescue-dev/fescue/internal/parts"
)

// Object is an object as text, which takes a quarter of the memory of maps. What reads it gets maps, which
// the garbage collector takes when nobody holds them. Nothing changes an Object.
type Object struct {
	text string
	// identifiers are parts of text.
	identifiers identifiers

	mu      sync.Mutex
	decoded weak.Pointer[unstructured.Unstructured]
}

// buffers are those that the texts of objects are put together in.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxBuffer bounds the buffers that are kept for reuse.
const maxBuffer = 64 << 10

// Projection keeps parts of objects.
type Projection struct {
	keep *parts.Set
	// implied is the type of objects that do not state it.
	implied metav1.TypeMeta
}

// To returns the projection that keeps some fields and what every cache needs to know: type, name,
// namespace, UID and resource version. It never keeps metadata.managedFields.
func To(keep *parts.Set) Projection { return Projection{keep: keep.Union(identity)} }

// In returns a projection for the items of a list, which need not state their type.
func (p Projection) In(list metav1.TypeMeta) Projection {
	p.implied = metav1.TypeMeta{APIVersion: list.APIVersion, Kind: strings.TrimSuffix(list.Kind, "List")}
	return p
}

// Of returns what is kept of an object.
func (p Projection) Of(object jsontext.Value) (*Object, error) {
	if !object.Is('{') {
		return nil, fmt.Errorf("%.20q is not an object", object.Raw())
	}
	buffer := buffers.Get().(*[]byte)
	text := p.append((*buffer)[:0], object)
	o, err := parse(string(text))
	if cap(text) <= maxBuffer {
		*buffer = text
		buffers.Put(buffer)
	}
	return o, err
}

// Parse returns what is kept of an object, which must be the whole text.
func (p Projection) Parse(text []byte) (*Object, error) {
	parsed, err := jsontext.Parse(text)
	defer parsed.Release()
	if err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	return p.Of(parsed)
}

var identity = parts.Of([]string{"apiVersion"}, []string{"kind"},
	[]string{"metadata", "name"}, []string{"metadata", "namespace"}, []string{"metadata", "uid"},
	[]string{"metadata", "resourceVersion"},
	[]string{"metadata", "annotations", metav1.InitialEventsAnnotationKey}) // of a bookmark

// parse reads a text that nothing is left out of.
func parse(text string) (*Object, error) {
	u, err := decodeObject(text)
	if err != nil {
		return nil, err
	}
	o := &Object{
		text: text, decoded: weak.Make(u), // whatever stores the object reads it at once
		identifiers: identifiers{u.GetNamespace(), u.GetName(), string(u.GetUID()), u.GetResourceVersion()},
	}
	detachIdentity(u)
	return o, nil
}

func decodeObject(text string) (*unstructured.Unstructured, error) {
	value, err := Decode(text)
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: value.(map[string]any)}, nil
}

// detachIdentity makes the type of an object and what identifies it no part of its text: who remembers objects, as
// those of Events, would otherwise keep the text of a former state of each in memory.
func detachIdentity(u *unstructured.Unstructured) {
	for _, name := range [...]string{"apiVersion", "kind"} {
		if value, ok := u.Object[name].(string); ok {
			u.Object[name] = unique.Make(value).Value()
		}
	}
	metadata, _ := u.Object["metadata"].(map[string]any)
	var values identifiers
	for i, name := range identifierNames {
		values[i], _ = metadata[name].(string)
	}
	for i, value := range values.detached() {
		if value != "" {
			metadata[identifierNames[i]] = value
		}
	}
}

// identifiers are the values of identifierNames.
type identifiers [len(identifierNames)]string

var identifierNames = [...]string{"namespace", "name", "uid", "resourceVersion"}

// detached returns the identifiers in memory of their own.
func (i identifiers) detached() identifiers {
	all := strings.Join(i[:], "")
	for at, value := range i {
		i[at], all = all[:len(value)], all[len(value):]
	}
	return i
}

// Text returns what is kept, as JSON.
func (o *Object) Text() string { return o.text }

// Unstructured returns what is kept. It must not be changed: others may get the same.
func (o *Object) Unstructured() *unstructured.Unstructured {
	o.mu.Lock()
	defer o.mu.Unlock()
	if u := o.decoded.Value(); u != nil {
		return u
	}
	u, err := decodeObject(o.text)
	if err != nil {
		panic(fmt.Sprintf("an object that was decoded before: %v", err)) // cannot happen
	}
	detachIdentity(u)
	o.decoded = weak.Make(u)
	return u
}

// GetObjectMeta implements metav1.ObjectMetaAccessor with what caches need to know. Who remembers it does not keep the
// text in memory.
func (o *Object) GetObjectMeta() metav1.Object {
	of := o.identifiers.detached()
	m := &metav1.ObjectMeta{Namespace: of[0], Name: of[1], UID: types.UID(of[2]), ResourceVersion: of[3]}
	if m.Name == "" { // it is a bookmark
		m.Annotations = o.Unstructured().GetAnnotations()
	}
	return m
}

// GetObjectKind implements runtime.Object.
func (o *Object) GetObjectKind() schema.ObjectKind { return o.Unstructured().GetObjectKind() }

// DeepCopyObject implements runtime.Object.
func (o *Object) DeepCopyObject() runtime.Object {
	return &Object{text: o.text, identifiers: o.identifiers}
}

// List is a list of objects.
type List struct {
	metav1.ListMeta
	Items []*Object
}

// GetObjectKind implements runtime.Object. A List has no type.
func (l *List) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object.
func (l *List) DeepCopyObject() runtime.Object {
	return &List{ListMeta: *l.DeepCopy(), Items: append([]*Object(nil), l.Items...)}
}
