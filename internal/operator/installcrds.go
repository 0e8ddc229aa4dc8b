package main

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
)

// crdInstaller installs the CRDs of kinds. One that fails stops no other kind: its own waits,
// and each look at what it lacks tries again.
type crdInstaller struct {
	clients *clients
	failed  map[*kind.Kind]bool
}

// installCRDs returns when all have been tried and discovery shows those that were installed.
func installCRDs(ctx context.Context, clients *clients, kinds []*kind.Kind) *crdInstaller {
	errs := make([]error, len(kinds))
	var installing sync.WaitGroup
	for i, k := range kinds {
		installing.Go(func() { errs[i] = crds.Install(ctx, clients.dynamic, []*kind.Kind{k}) })
	}
	installing.Wait()
	installer := &crdInstaller{clients, make(map[*kind.Kind]bool)}
	for i, k := range kinds {
		if errs[i] != nil {
			installer.failed[k] = true
			continue
		}
		// Discovery follows a little later.
		_ = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, connectTimeout, true, func(context.Context) (bool, error) {
			return checkInstalled(clients, k) == nil, nil
		})
	}
	return installer
}

// missing is an error if the CRD of a kind still cannot be installed. Without --install-crds
// there is no installer, and nothing is tried.
func (i *crdInstaller) missing(ctx context.Context, k *kind.Kind) error {
	if i == nil || !i.failed[k] {
		return nil
	}
	if err := crds.Install(ctx, i.clients.dynamic, []*kind.Kind{k}); err != nil {
		return err
	}
	delete(i.failed, k)
	return nil
}
