package install

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/fescue-dev/fescue/cue/kind"
)

// Types name the resources under which types are served.
type Types map[schema.GroupKind]string

// ParseType reads KIND.GROUP=PLURAL, the form of a flag; the core group is empty.
func ParseType(text string) (schema.GroupKind, string, error) {
	of, plural, ok := strings.Cut(text, "=")
	groupKind := schema.ParseGroupKind(of)
	if !ok || groupKind.Kind == "" || plural == "" {
		return schema.GroupKind{}, "",
			fmt.Errorf("invalid value %q: must be KIND.GROUP=PLURAL, as in Certificate.cert-manager.io=certificates",
				text)
	}
	return groupKind, plural, nil
}

// ResourceOf finds the resource of a type. It returns an error if it is unknown, and an empty
// resource for a type that needs no rights yet.
type ResourceOf func(schema.GroupVersionKind) (schema.GroupResource, error)

// offline finds resources without a cluster: those of named types, of the kinds themselves,
// and of Kubernetes' own types, whose plurals follow a rule.
func offline(named Types, kinds []*kind.Kind) ResourceOf {
	return func(gvk schema.GroupVersionKind) (schema.GroupResource, error) {
		if plural, ok := named[gvk.GroupKind()]; ok {
			return schema.GroupResource{Group: gvk.Group, Resource: plural}, nil
		}
		for _, k := range kind.WithoutDecorators(kinds) {
			if k.GroupVersionKind.GroupKind() == gvk.GroupKind() {
				return k.GroupVersionResource().GroupResource(), nil
			}
		}
		if scheme.Scheme.Recognizes(gvk) {
			plural, _ := meta.UnsafeGuessKindToResource(gvk)
			return plural.GroupResource(), nil
		}
		return schema.GroupResource{},
			fmt.Errorf("the resource of type %s is unknown: name it with --type %s=PLURAL, or give its CRD to --types",
				kind.TypeName(gvk), gvk.GroupKind())
	}
}
