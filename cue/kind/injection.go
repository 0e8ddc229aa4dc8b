package kind

import (
	"cmp"
	"fmt"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Injection is what an object adds to Pods in its namespace.
type Injection struct {
	// Selector is for the Pods that need no annotation; nil means none.
	Selector *metav1.LabelSelector
	// Add is the part of a Pod to merge in, with integers as int64. It may be empty.
	Add map[string]any
}

var (
	pathInject     = cue.ParsePath("inject")
	pathAnnotation = cue.ParsePath("inject.annotation")
	pathSelector   = cue.ParsePath("selector")
	pathAdd        = cue.ParsePath("add")
)

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
	injection, err := injectionOf(k.behaviour(b, object, nil))
	return injection, exceeded(b, err)
}

func injectionOf(v piece) (*Injection, error) {
	inject := v.field("inject")
	if _, err := v.guards("inject"); err != nil {
		return nil, err
	}
	if absent, err := inject.guards("inject"); err != nil || len(absent) > 0 {
		return nil, cmp.Or(err, absentError("inject", absent))
	}
	if !inject.exists() {
		return nil, nil
	}
	add, err := required(inject.field("add"), "inject.add")
	if err != nil {
		return nil, err
	}
	injection := &Injection{Add: add}
	selector, err := required(inject.field("selector"), "inject.selector")
	if err != nil || selector == nil {
		return injection, err
	}
	injection.Selector = &metav1.LabelSelector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(selector, injection.Selector, true); err != nil {
		return nil, &EvaluationError{Path: "inject.selector", Err: err, Value: selector}
	}
	if _, err := selectorOf(injection.Selector); err != nil {
		return nil, &EvaluationError{Path: "inject.selector", Err: err, Value: selector}
	}
	return injection, nil
}

// required returns a struct that cannot wait for something absent; nil if it does not exist.
func required(value piece, path string) (map[string]any, error) {
	if !value.exists() {
		return nil, nil
	}
	data, absent, err := value.data(path, "")
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
	return &EvaluationError{Path: path, Err: fmt.Errorf("reads %s, which the object does not have: test it with %[1]s != _|_", absent[0].Path), Position: absent[0].Position}
}

// collectInjection checks what is known of an injection without looking at any object:
// the annotation, and that what it adds can be part of a Pod.
func collectInjection(k *Kind, controller cue.Value, rules contractRules, definitions []*ast.Field) error {
	inject := controller.LookupPath(pathInject)
	if !inject.Exists() {
		return rejectConditionalInject(definitions)
	}
	if k.Scope != apiextensionsv1.NamespaceScoped {
		return errorAt(inject, "inject", "the kind must be Namespaced: an object injects into Pods of its own namespace")
	}
	annotation, err := constant(controller, pathAnnotation)
	if err != nil {
		return err
	}
	if problems := validation.IsQualifiedName(strings.ToLower(annotation)); len(problems) > 0 {
		return errorAt(controller.LookupPath(pathAnnotation), "inject.annotation", "%q must be the name of an annotation: %s", annotation, problems[0])
	}
	add := inject.LookupPath(pathAdd)
	if !add.Exists() {
		return errorAt(inject, "inject.add", "is missing")
	}
	// Without Concrete, a missing required field is not an error: the Pod has it. UnifyAccept lets the type set its defaults,
	// which an addition, as part of a definition, has no place for.
	if err := add.UnifyAccept(rules.podTemplate, rules.podTemplate).Validate(); err != nil {
		return err
	}
	if selector := inject.LookupPath(pathSelector); selector.Exists() {
		if err := selector.Unify(rules.labelSelector).Validate(); err != nil {
			return err
		}
	}
	k.InjectAnnotation = annotation
	return nil
}

// rejectConditionalInject finds an inject that stands in an if: whether the kind injects
// at all would depend on the object, and nothing would ask it.
func rejectConditionalInject(definitions []*ast.Field) error {
	var found error
	for _, definition := range definitions {
		ast.Walk(definition.Value, func(node ast.Node) bool {
			comprehension, ok := node.(*ast.Comprehension)
			if !ok {
				return found == nil
			}
			body, ok := comprehension.Value.(*ast.StructLit)
			if !ok {
				return true
			}
			for _, decl := range body.Elts {
				f, ok := decl.(*ast.Field)
				if !ok {
					continue
				}
				if name, _, err := ast.LabelName(f.Label); err == nil && name == "inject" {
					found = errorAtNode(f, "inject cannot be in an if: write inject: {annotation: …, add: {if … {…}}}")
				}
			}
			return found == nil
		}, nil)
	}
	return found
}
