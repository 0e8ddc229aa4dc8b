package operator

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/metadata"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine"
	"github.com/fescue-dev/fescue/engine/inject"
)

// knownInjections lets the engine read what was injected into Pods.
func knownInjections(pods metadata.Interface) *engine.Injections {
	return &engine.Injections{
		Pods:       pods,
		Annotation: inject.StatusAnnotation,
		Injected: func(annotations map[string]string) map[engine.InjectedObject]int64 {
			injected := make(map[engine.InjectedObject]int64)
			for object, generation := range inject.InjectedInto(annotations) {
				injected[engine.InjectedObject(object)] = generation
			}
			return injected
		},
		Names: func(annotation string) []string { return slices.Collect(inject.Names(annotation)) },
		Selector: func(k *kind.Kind, object map[string]any) (labels.Selector, error) {
			injection, err := inject.Of(k, object)
			if err != nil {
				return nil, err
			}
			return injection.Selector(), nil
		},
	}
}
