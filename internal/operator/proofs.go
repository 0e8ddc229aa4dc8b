package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/cue/kind/proof"
	"github.com/fescue-dev/fescue/engine"
)

// Prove compares a kind of a folder with CUE's evaluator (kind.Kind.Prove), within limits.
type Prove func(ctx context.Context, k *kind.Kind) (load.Proof, error)

// proofs are of the kinds that this process runs. A kind that the cluster has not run yet is proved before it runs. One
// whose hash its CRD has starts at once, so that an upgrade of Fescue stops nothing that ran before, and is proved a
// minute later.
type proofs struct {
	prove    Prove
	log      *slog.Logger
	disputed *prometheus.GaugeVec

	proving sync.Mutex // one at a time: each takes a process with up to 256 MiB
	mu      sync.Mutex
	of      map[*kind.Kind]load.Proof
}

// settled is how long a process runs until it proves what the cluster ran before.
const settled = time.Minute

func newProofs(prove Prove, log *slog.Logger) *proofs {
	return &proofs{prove: prove, log: log, of: make(map[*kind.Kind]load.Proof),
		disputed: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fescue_kinds_disputed",
			Help: "1 for a kind about which Fescue and CUE disagree, 0 for one that was compared.",
		}, []string{"controller"})}
}

// known returns the proof of a kind, if it was proved.
func (p *proofs) known(k *kind.Kind) (proof load.Proof, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	proof, ok = p.of[k]
	return proof, ok
}

// proof returns that of a kind, which is made once.
func (p *proofs) proof(ctx context.Context, k *kind.Kind) (load.Proof, error) {
	p.proving.Lock()
	defer p.proving.Unlock()
	if known, ok := p.known(k); ok {
		return known, nil
	}
	proved, err := p.prove(ctx, k)
	if err == nil {
		err = ctx.Err() // what was cut off is no proof
	}
	if err != nil {
		return proved, fmt.Errorf("compare it with CUE's evaluator: %w", err)
	}
	if proved.Compared == 0 && proved.Difference == nil {
		p.log.Warn("kind was not compared with CUE", "kind", k.Title(), "reason", cmp.Or(proved.Limit, proof.Obstacle))
	}
	disputed := 0.0
	if proved.Difference != nil {
		disputed = 1
	}
	p.disputed.WithLabelValues(k.Name()).Set(disputed)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[k] = proved
	return proved, nil
}

// unproved returns why a kind must not run yet: Fescue and CUE disagree about it, and the cluster has not run it
// before. Shipped kinds are proved by the tests.
func (p *operator) unproved(ctx context.Context, k *kind.Kind) error {
	if k.Folder == "" || p.hasRun(ctx, k) {
		return nil
	}
	proof, err := p.proofs.proof(ctx, k)
	if err == nil && proof.Difference != nil {
		err = engine.Absent(proof.Difference.Error())
	}
	return err
}

// hasRun reports whether the CRD of a kind says that the cluster has run it. A decorator has none.
func (p *operator) hasRun(ctx context.Context, k *kind.Kind) bool {
	if k.Target != nil || p.definitions.Await(ctx, k) != nil {
		return false
	}
	crd := p.definitions.CRD(k)
	return crd != nil && crd.GetAnnotations()[crds.HashAnnotation] == k.Hash
}

// proveOthers proves the kinds that started without a proof, once the process has settled, and reports what Fescue and
// CUE disagree about.
func (p *operator) proveOthers(ctx context.Context, kinds []*kind.Kind) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(settled):
	}
	for _, k := range kinds {
		if _, ok := p.proofs.known(k); ok || k.Folder == "" {
			continue
		}
		proof, err := p.proofs.proof(ctx, k)
		switch {
		case errors.Is(err, context.Canceled):
			return
		case err != nil:
			p.log.Warn("kind was not compared with CUE", "kind", k.Title(), "error", err)
		case proof.Difference != nil:
			p.log.Warn("Fescue and CUE disagree about a kind, which runs on because it ran before", "kind", k.Title(),
				"error", proof.Difference)
		}
	}
}
