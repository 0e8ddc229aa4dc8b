package engine

import (
	"fmt"
	"log/slog"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/informers"
	"github.com/fescue-dev/fescue/internal/parts"
)

// The objects of a decorator are those of a type of others. All of them are watched, because an
// annotation cannot be selected by, and because one that is no longer selected has to be noticed,
// whenever that happened. Of each, only what is read of it is kept.

// logOf returns a log that names a kind.
func logOf(log *slog.Logger, k *kind.Kind) *slog.Logger {
	if k.Target != nil {
		log = log.With("decorator", k.Title())
	}
	return log.With("kind", k.GroupVersionKind.Kind, "group", k.GroupVersionKind.Group)
}

// watchObjects starts to watch the objects of the kind.
func (c *controller) watchObjects() (*informers.Watch, error) {
	if c.kind.Target == nil {
		c.resource = c.kind.GroupVersionResource()
		return c.config.Informers.Watch(informers.Selection{Resource: c.resource, Share: c.shareOfObjects()})
	}
	gvk := c.kind.GroupVersionKind
	mapping, err := c.config.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return nil, Absent(fmt.Sprintf("the API server does not serve %s, which it decorates", kind.TypeName(gvk)))
	}
	if err != nil {
		return nil, err
	}
	isNamespaced := mapping.Scope.Name() == meta.RESTScopeNameNamespace
	if isNamespaced != (c.kind.Scope == "Namespaced") {
		return nil, fmt.Errorf("objects of type %s do not have the scope %s: correct that of #%sDecorator",
			kind.TypeName(gvk), c.kind.Scope, c.kind.Title())
	}
	c.resource = mapping.Resource
	return c.config.Informers.Watch(informers.Selection{Resource: c.resource, Share: c.shareOfObjects(),
		Keep: keptOfTargets(gvk, c.kinds())})
}

// keptOfTargets returns what decorators read of the objects of a type.
func keptOfTargets(gvk schema.GroupVersionKind, kinds []*kind.Kind) *parts.Set {
	keep := parts.Of([]string{"metadata", "labels"}, []string{"metadata", "annotations"},
		[]string{"metadata", "deletionTimestamp"}, []string{"metadata", "finalizers"},
		[]string{"metadata", "generation"})
	for _, k := range kinds {
		if k.Target != nil && k.GroupVersionKind == gvk {
			keep = keep.Union(k.Reads.Object)
		}
	}
	return keep
}
