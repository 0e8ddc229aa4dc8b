// Package shapes has each construct that the core types are made of.
package shapes

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Color is marked, and its constants are not in the order of their names.
// +enum
type Color string

const (
	Red  Color = "red"
	Blue Color = "blue"
)

// Other is not of the type Color.
const Other = "other"

// Names is a list with a name of its own, which does not show in CUE.
type Names []string

// Shape has a field for each construct.
//
// A second paragraph, of which one line is so long that it cannot stay a single line in the CUE file.
// - an item
type Shape struct {
	Origin `json:",inline"`

	Meta metav1.ObjectMeta `json:"meta"`
	// +default="blue"
	Color Color `json:"color,omitempty"`
	// +optional
	Colors []Color `json:"colors,omitempty"`
	// +optional
	// +kubebuilder:validation:MinItems=1
	Names Names `json:"names,omitempty"`
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9
	// +default=3
	Sides int32 `json:"sides"`
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:Pattern=`^\d`
	Label string `json:"label"`
	// +listType=map
	// +listMapKey=x
	// +listMapKey=y
	Points []Point `json:"points"`
	// +optional
	// +mapType=atomic
	Tags map[string]string `json:"tags,omitempty"`
	// +optional
	Blobs map[string][]byte `json:"blobs,omitempty"`
	// +optional
	Blob []byte `json:"blob,omitempty"`
	// +optional
	Sizes map[string]resource.Quantity `json:"sizes,omitempty"`
	// +optional
	Port *intstr.IntOrString `json:"port,omitempty"`
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// +optional
	Any runtime.RawExtension `json:"any,omitempty"`
	// +optional
	String *bool `json:"string,omitempty"`
	// +optional
	Empty *Empty `json:"empty,omitempty"`
}

// Origin is inlined, and makes its parent atomic.
// +structType=atomic
type Origin struct {
	// +default=""
	Name string `json:"name,omitempty"`
}

// Point is reached from Shape alone.
type Point struct {
	X int64 `json:"x"`
	Y int   `json:"y"`
}

// Empty has no fields, which is not the same as any field.
type Empty struct{}
