package operator

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
)

// crdInstaller installs the CRDs of kinds. A CRD that cannot be installed holds up no other
// kind: only its own kind waits, and each check for what is missing retries.
type crdInstaller struct {
	client dynamic.Interface
	failed map[*kind.Kind]bool
}

// installCRDs returns when every CRD was tried and discovery serves those that were installed.
func (p *operator) installCRDs(ctx context.Context) *crdInstaller {
	errs := make([]error, len(p.kinds))
	var installing sync.WaitGroup
	for i, k := range p.kinds {
		installing.Go(func() { errs[i] = crds.Install(ctx, p.Dynamic, []*kind.Kind{k}) })
	}
	installing.Wait()
	installer := &crdInstaller{p.Dynamic, make(map[*kind.Kind]bool)}
	for i, k := range p.kinds {
		if errs[i] != nil {
			installer.failed[k] = true
			continue
		}
		// Discovery lags behind.
		_ = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, connectTimeout, true, func(context.Context) (bool, error) {
			return p.checkInstalled(k) == nil, nil
		})
	}
	return installer
}

// missing returns an error if the CRD of a kind still cannot be installed. A nil installer does
// nothing.
func (i *crdInstaller) missing(ctx context.Context, k *kind.Kind) error {
	if i == nil || !i.failed[k] {
		return nil
	}
	if err := crds.Install(ctx, i.client, []*kind.Kind{k}); err != nil {
		return err
	}
	delete(i.failed, k)
	return nil
}
