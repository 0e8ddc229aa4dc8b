package projection

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/internal/parts"
)

// Answers returns the serializer of a dynamic client that decodes objects as Projection does, in less
// than half of the time: everything of them but metadata.managedFields, which is a third of the answer
// to a write. Lists, watches and errors are left to the serializer that is given.
func Answers(of runtime.NegotiatedSerializer) runtime.NegotiatedSerializer {
	types := slices.Clone(of.SupportedMediaTypes())
	for i := range types {
		if types[i].MediaType == runtime.ContentTypeJSON {
			types[i].Serializer = answer{types[i].Serializer}
		}
	}
	return answers{of, types}
}

type answers struct {
	runtime.NegotiatedSerializer
	types []runtime.SerializerInfo
}

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (a answers) SupportedMediaTypes() []runtime.SerializerInfo { return a.types }

// answer reads and writes single objects as JSON.
type answer struct{ runtime.Serializer }

var answered = To(parts.Everything())

// Decode implements runtime.Decoder.
func (a answer) Decode(
	text []byte, implied *schema.GroupVersionKind, into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	object, ok := into.(*unstructured.Unstructured)
	if !ok {
		return a.Serializer.Decode(text, implied, into)
	}
	read, err := answered.Parse(text)
	if err != nil {
		return nil, nil, fmt.Errorf("answer: %w", err)
	}
	gvk := read.Unstructured().GroupVersionKind()
	if gvk.Kind == "" || gvk == statusKind {
		return a.Serializer.Decode(text, implied, into)
	}
	object.Object = read.Unstructured().Object
	return object, &gvk, nil
}

var statusKind = schema.GroupVersionKind{Version: "v1", Kind: "Status"}

// Encode implements runtime.Encoder. An Unstructured would encode itself, and encoding/json then reads
// and copies the result once more.
func (a answer) Encode(object runtime.Object, w io.Writer) error {
	if u, ok := object.(*unstructured.Unstructured); ok {
		return json.NewEncoder(w).Encode(u.Object)
	}
	return a.Serializer.Encode(object, w)
}
