package kind

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Injection is what an object adds to Pods in its namespace.
type Injection struct {
	// Selector is for the Pods that need no annotation; nil means none.
	Selector *metav1.LabelSelector
	// Add is the part of a Pod to merge in, with integers as int64. It may be empty.
	Add map[string]any
}

// RemovedVolumes are the types of volumes that cannot be injected. The API server accepts them, but
// the nodes of Kubernetes 1.34 to 1.37 leave the first seven to CSI drivers, and do not mount the
// others; of gitRepo, 1.34 and 1.35 do so with a feature gate that is off by default.
var RemovedVolumes = []string{
	"awsElasticBlockStore", "azureDisk", "azureFile", "cinder", "gcePersistentDisk", "portworxVolume", "vsphereVolume",
	"cephfs", "flocker", "gitRepo", "glusterfs", "photonPersistentDisk", "quobyte", "rbd", "scaleIO", "storageos",
}

// WhyRemoved is what an object or a kind that adds one of RemovedVolumes is rejected with.
const WhyRemoved = "cannot be injected: Kubernetes removed this type of volume or moved it to CSI; use persistentVolumeClaim or csi, and image or emptyDir instead of gitRepo"

// Injects reports whether objects of the kind add parts to Pods.
func (k *Kind) Injects() bool { return k.InjectAnnotation != "" }

// Injection returns what a valid, defaulted object adds to Pods, or nil if the kind adds
// nothing. An error is an *EvaluationError. Call it when the object changes, and keep the result.
func (k *Kind) Injection(b *Budget, object map[string]any) (*Injection, error) {
	if !k.Injects() {
		return nil, nil
	}
	injection, err := InjectionOf(k.Run(b, object, nil))
	return injection, exceeded(b, err)
}

// InjectionOf reads what a behaviour injects.
func InjectionOf(v Piece) (*Injection, error) {
	inject := v.Field("inject")
	if _, err := v.Guards("inject"); err != nil {
		return nil, err
	}
	if absent, err := inject.Guards("inject"); err != nil || len(absent) > 0 {
		return nil, cmp.Or(err, absentError("inject", absent))
	}
	if !inject.Exists() {
		return nil, nil
	}
	add, err := required(inject.Field("add"), "inject.add")
	if err != nil {
		return nil, err
	}
	injection := &Injection{Add: add}
	selector, err := required(inject.Field("selector"), "inject.selector")
	if err != nil || selector == nil {
		return injection, err
	}
	injection.Selector = &metav1.LabelSelector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(selector, injection.Selector,
		true); err != nil {
		return nil, &EvaluationError{Path: "inject.selector", Err: err, Value: selector}
	}
	if _, err := SelectorOf(injection.Selector); err != nil {
		return nil, &EvaluationError{Path: "inject.selector", Err: err, Value: selector}
	}
	return injection, nil
}

// required returns a struct that cannot wait for something absent; nil if it does not exist.
func required(value Piece, path string) (map[string]any, error) {
	if !value.Exists() {
		return nil, nil
	}
	data, absent, err := value.Data(path, "")
	if err == nil {
		err = absentError(path, absent)
	}
	object, _ := data.(map[string]any)
	return object, err
}

// absentError is the error of what reads something absent and cannot wait; nil if nothing is.
func absentError(path string, absent []Absence) error {
	if len(absent) == 0 {
		return nil
	}
	return &EvaluationError{Path: path,
		Err:      fmt.Errorf("reads %s, which the object does not have: test it with %[1]s != _|_", absent[0].Path),
		Position: absent[0].Position}
}
