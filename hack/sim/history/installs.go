package history

import (
	"context"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine"
	"github.com/fescue-dev/fescue/hack/sim/apiserver"
	"github.com/fescue-dev/fescue/internal/informers"
	"github.com/fescue-dev/fescue/internal/operator/definitions"
)

// installation is how an operator installs the CRDs of its kinds, and follows them.
type installation struct {
	definitions.Definitions
	installer *definitions.Installer
}

// newInstallation returns the installation of an operator, which writes once it is elected.
func newInstallation(
	client dynamic.Interface, by string, elected <-chan struct{}, caches *informers.Informers,
) *installation {
	webhook := func() (crds.Webhook, bool) { return crds.Webhook{}, true }
	return &installation{
		Definitions: definitions.Definitions{Informers: caches,
			Discover: func(k *kind.Kind) error { return definitions.NotServed(k) }},
		installer: definitions.NewInstaller(client, by, elected, webhook, func(*kind.Kind, crds.Dropped) {}),
	}
}

// missing returns why a kind cannot run.
func (i *installation) missing(ctx context.Context, k *kind.Kind) error {
	if k.Target != nil {
		return nil
	}
	if err := i.installer.Install(ctx, k); err != nil {
		return err
	}
	return i.Missing(ctx, k)
}

// follow tells an engine of the CRDs of kinds, and when they can be installed.
func (i *installation) follow(ctx context.Context, e *engine.Engine, kinds []*kind.Kind) error {
	i.Changed = func(k *kind.Kind, matters bool) {
		if matters {
			e.Recheck(k.Name())
		}
	}
	for _, k := range kind.WithoutDecorators(kinds) {
		if err := i.Watch(ctx, k); err != nil {
			return err
		}
	}
	go i.installer.RecheckOnceElected(ctx, e)
	return nil
}

// formerOf returns kinds as a former build has them: they do the same, and have other hashes.
func formerOf(kinds []*kind.Kind) (former []*kind.Kind) {
	for _, k := range kinds {
		of := *k
		of.Hash = strings.Repeat("0", len(k.Hash))
		former = append(former, &of)
	}
	return former
}

// define has users install the CRDs again that were deleted.
func (h *history) define(s *apiserver.Store) {
	for _, k := range kind.WithoutDecorators(h.Kinds) {
		if !h.wasServed.Has(k) || s.Get(crds.Resource, types.NamespacedName{Name: k.Name()}) != nil {
			continue
		}
		if crd, err := crds.Object(k, false); err == nil {
			_, _ = s.Create(crds.Resource, "", crd, "user")
		}
	}
}

// isInstallation reports whether a write only says that an operator installs a CRD that somebody else has installed.
func isInstallation(c apiserver.Change) bool {
	return isDefinition(c) && c.Before != nil && c.After != nil &&
		reflect.DeepEqual(c.Before.Object["spec"], c.After.Object["spec"]) &&
		c.Before.GetAnnotations()[crds.HashAnnotation] == c.After.GetAnnotations()[crds.HashAnnotation]
}

// isDefinition reports whether a CRD was written.
func isDefinition(c apiserver.Change) bool { return c.Object().GetKind() == "CustomResourceDefinition" }
