package inject

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
)

// KindsOf are those of the kinds that inject.
func KindsOf(kinds []*kind.Kind) []Kind {
	var injecting []Kind
	for _, k := range kinds {
		if k.Injects() {
			injecting = append(injecting, Kind{GroupKind: k.GroupVersionKind.GroupKind(), Annotation: k.InjectAnnotation})
		}
	}
	return injecting
}

// Of asks a kind that injects what a valid, defaulted object of it adds to Pods, and makes
// that ready. It evaluates CUE, so it is for when the object changes and not for each
// Pod. An error is the object's or the kind's: no wait mends it.
func Of(k *kind.Kind, object map[string]any) (*Injection, error) {
	said, err := k.Injection(object)
	if err != nil {
		return nil, err
	}
	u := unstructured.Unstructured{Object: object}
	injection, err := New(Source{
		Object:    Object{Kind: k.GroupVersionKind.GroupKind(), Name: u.GetName()},
		Namespace: u.GetNamespace(), Generation: u.GetGeneration(),
		Selector: said.Selector, Add: said.Add,
	})
	if err != nil {
		return nil, fmt.Errorf("inject: %w", err)
	}
	return injection, nil
}
