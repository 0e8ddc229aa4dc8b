package operator

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// What ran before is proved a minute after the start, once; what differs is reported, and runs on.
func TestKindsThatRanAreProvedLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var mu sync.Mutex // synctest.Wait orders what the others did before it, not what they do afterwards
		asked := make(map[string]int)
		questions := func() map[string]int {
			mu.Lock()
			defer mu.Unlock()
			return maps.Clone(asked)
		}
		logger := slog.New(slog.NewTextHandler(&log, nil))
		p := &operator{log: logger, proofs: newProofs(func(_ context.Context, k *kind.Kind) (load.Proof, error) {
			mu.Lock()
			asked[k.Title()]++
			mu.Unlock()
			switch k.Title() {
			case "Wrong":
				return load.Proof{Difference: &syntax.LoadError{Kind: "Wrong", Reason: "they disagree"}}, nil
			case "Slow":
				return load.Proof{}, errors.New("it takes too long")
			case "Large":
				return load.Proof{Limit: "more than 256 MiB of memory"}, nil
			}
			return load.Proof{Compared: 1}, nil
		}, logger)}
		var kinds []*kind.Kind
		for name, folder := range map[string]string{"Shipped": "", "Right": "x", "Wrong": "x", "Slow": "x", "Large": "x"} {
			k := &kind.Kind{Version: &kind.Version{GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: name}}, Folder: folder}
			k.Names.Plural = name
			kinds = append(kinds, k)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go p.proveOthers(ctx, kinds)
		synctest.Wait()
		require.Empty(t, questions())
		p.proveOthers(ctx, kinds)
		synctest.Wait()
		require.Equal(t, map[string]int{"Right": 1, "Wrong": 1, "Slow": 2, "Large": 1}, questions())
		require.Contains(t, log.String(), `msg="Fescue and CUE disagree about a kind, which runs on because it ran before" kind=Wrong error="kind Wrong: they disagree"`)
		require.Contains(t, log.String(), "kind=Slow")
		require.Contains(t, log.String(), `msg="kind was not compared with CUE" kind=Large reason="more than 256 MiB of memory"`)
		require.InDelta(t, 1, testutil.ToFloat64(p.proofs.disputed.WithLabelValues("Wrong.example.com")), 0)
		require.Zero(t, testutil.ToFloat64(p.proofs.disputed.WithLabelValues("Right.example.com")))
	})
}
