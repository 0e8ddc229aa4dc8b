//go:build sim

package history

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/hack/sim/apiserver"
	"github.com/fescue-dev/fescue/hack/sim/simrt"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

var (
	isChild = flag.Bool("child", false, "the process plays the histories of TestSimulate")
	isShort = flag.Bool("until-violation", false, "it ends with the first one that violates something")
	isSmall = flag.Bool("small", false,
		"play many small histories: of one operator and at most three objects of kinds that somebody wrote")
)

const (
	// played is how many histories a process plays until it collects garbage: that may not happen within one.
	played = 50
	// repeated is how many histories of each process another one plays as well.
	repeated = 3
)

// batch is what a process has played.
type batch struct {
	Histories, Writes int
	Choices           uint64 // of goroutines, of which others could have run
	// of the schedules and the stories of the first histories, which another process plays again
	Hashes     []uint64
	Violations []string
}

// folders are those of a process, which messages name.
var folders = regexp.MustCompile(`/TestSimulate\d+/`)

// TestSimulate plays histories in which the order of everything follows from their seeds, in a process for each core.
func TestSimulate(t *testing.T) {
	if *isChild {
		b := playBatch(t)
		text, err := json.Marshal(b)
		require.NoError(t, err)
		fmt.Printf("\n%s%s\n", batchMark, text)
		return
	}
	start, cores, covered := time.Now(), uint64(runtime.NumCPU()), t.TempDir()
	var flags []string
	if testing.CoverMode() != "" { // other binaries reject the flag
		flags = []string{"-test.gocoverdir", covered}
	}
	batches, again := make([]batch, cores), make([]batch, cores)
	var running sync.WaitGroup
	for i := range cores {
		first, end := *firstHistory+*histories*i/cores, *firstHistory+*histories*(i+1)/cores
		running.Go(func() {
			var errs [2]error
			batches[i], errs[0] = inProcess(t.Context(), os.Args[0], first, end-first, flags...)
			again[i], errs[1] = inProcess(t.Context(), os.Args[0], first, min(end-first, repeated))
			assert.NoError(t, errors.Join(errs[:]...))
		})
	}
	running.Wait()
	var sum batch
	for i := range cores {
		assert.Equal(t, batches[i].Hashes, again[i].Hashes, "the same seeds have the same histories in another process")
		sum.Histories += batches[i].Histories
		sum.Writes += batches[i].Writes
		sum.Choices += batches[i].Choices
		sum.Violations = append(sum.Violations, batches[i].Violations...)
	}
	took := time.Since(start)
	t.Logf("%d histories from seed %d on, %d writes and %d choices of goroutines: %d violations; %.0f histories an hour on each of %d cores",
		sum.Histories, *firstHistory, sum.Writes, sum.Choices, len(sum.Violations),
		float64(sum.Histories)/took.Hours()/float64(cores), cores)
	if len(flags) > 0 {
		out, err := exec.CommandContext(t.Context(), "go", "tool", "covdata", "percent", "-i", covered).CombinedOutput()
		require.NoError(t, err, string(out))
		t.Logf("covered:\n%s", out)
	}
	require.Empty(t, sum.Violations, strings.Join(sum.Violations, "\n"))
}

const batchMark = "batch: "

// inProcess plays histories in a process of its own, with one thread and no garbage collection.
func inProcess(ctx context.Context, binary string, first, count uint64, flags ...string) (b batch, err error) {
	c := exec.CommandContext(ctx, binary,
		slices.Concat([]string{"-test.run", "^TestSimulate$", "-test.timeout", "0", "-child",
			"-first-history", fmt.Sprint(first), "-histories", fmt.Sprint(count), fmt.Sprint("-small=", *isSmall)},
			flags)...)
	c.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=off")
	out, err := c.CombinedOutput()
	_, text, _ := strings.Cut(string(out), batchMark)
	text, _, _ = strings.Cut(text, "\n")
	if err := cmp.Or(err, json.Unmarshal([]byte(text), &b)); err != nil {
		return b, fmt.Errorf("seeds from %d on: %w\n%s", first, err, out)
	}
	return b, nil
}

// playBatch plays the histories of a process. Its first history, and the first after a collection of garbage, differ
// from the same ones later: these are played and thrown away.
func playBatch(t *testing.T) (b batch) {
	of := everyKind(t)
	for seed := *firstHistory; seed < *firstHistory+*histories; seed++ {
		if (seed-*firstHistory)%played == 0 {
			runtime.GC()
			// of what happens in few histories, something is kept for the process
			_, _ = play(t, installing(of(*firstHistory), true))
			_, _ = play(t, of(*firstHistory))
		}
		r, stats := play(t, of(seed))
		b.Histories++
		b.Writes += r.Writes
		b.Choices += stats.Choices
		if b.Histories <= repeated {
			hash := fnv.New64a()
			_, _ = fmt.Fprintln(hash, stats, folders.ReplaceAllString(strings.Join(r.Story, "\n"), ""))
			b.Hashes = append(b.Hashes, hash.Sum64())
		}
		if len(r.Violations) > 0 && *isShort {
			b.Violations = r.Violations
			return b
		}
		if len(r.Violations) > 0 {
			o, shortest := shrunk(t, of(seed), r)
			b.Violations = append(b.Violations,
				fmt.Sprintf(
					"seed %d, in a process that began with seed %d: %s\nthe shortest history that was found has %d objects, %d operators, %d kills and the faults %+v: %s\n%s",
					seed, *firstHistory, strings.Join(r.Violations, "; "), o.Objects, o.Operators, o.Kills, o.Faults,
					strings.Join(shortest.Violations, "; "), strings.Join(shortest.Story, "\n")))
		}
	}
	return b
}

// shrunk returns a history in which less happens, and which violates something as well.
func shrunk(t *testing.T, o Options, r Result) (Options, Result) {
	for _, less := range []func(o *Options){
		func(o *Options) { o.Installs, o.Builds = false, false },
		func(o *Options) { o.Builds = false },
		func(o *Options) { o.Stays = false },
		func(o *Options) {
			if !o.Builds { // those of two builds need an election
				o.Operators = 0
			}
		},
		func(o *Options) { o.Kills = 0 },
		func(o *Options) { o.Faults = apiserver.Faults{} },
		func(o *Options) { o.Faults.Delay = 0 },
		func(o *Options) { o.Faults.Fail = 0 },
		func(o *Options) { o.Faults.Lose = 0 },
		func(o *Options) { o.Faults.Break = 0 },
		func(o *Options) { o.Faults.Double = 0 },
		func(o *Options) { o.Faults.Lag = 0 },
		func(o *Options) { o.Faults.Forget = 0 },
		func(o *Options) { o.Stall = 0 },
		func(o *Options) { o.Skew = 0 },
		func(o *Options) { o.Mishaps = 0 },
		func(o *Options) { o.Objects = 1 },
		func(o *Options) { o.Objects = max(1, o.Objects/2) },
		func(o *Options) { o.Objects = max(1, o.Objects-1) },
	} {
		tried := o
		less(&tried)
		if again, _ := play(t, tried); len(again.Violations) > 0 {
			o, r = tried, again
		}
	}
	return o, r
}

// everyKind returns what the history of a seed is made of: of Ats, of other kinds, or of one that the seed makes.
// Histories of the same kinds share what is served.
func everyKind(t *testing.T) func(seed uint64) Options {
	at, many := kindtest.Named(t, kindtest.Shipped(t), "At"), manyKinds(t)
	servedTo := func(kinds ...*kind.Kind) []apiserver.Resource {
		served, err := Served(kinds, false)
		require.NoError(t, err)
		return served
	}
	servedToMany := make([][]apiserver.Resource, len(many))
	for i, kinds := range many {
		servedToMany[i] = servedTo(kinds...)
	}
	servedToAts := servedTo(at)
	return func(seed uint64) (o Options) {
		delay := []time.Duration{0, 20 * time.Millisecond,
			500 * time.Millisecond}[rand.New(rand.NewPCG(seed, 5)).IntN(3)]
		every := uint64(4) // of so many histories, one is of many kinds
		if *isSmall {
			every = 2
		}
		switch seed % every {
		case 1:
			i := seed / every % uint64(len(many))
			o = others(many[i], seed, delay)
			o.Served = servedToMany[i]
		case 3:
			return made(t, seed, delay)
		default:
			o = ats(at, seed, delay)
			o.Served = servedToAts
		}
		if *isSmall {
			o = small(o)
		}
		if random := rand.New(rand.NewPCG(seed, 9)); random.IntN(8) == 0 {
			return installing(o, random.IntN(2) == 0)
		}
		return o
	}
}

// small returns a history with the same faults, in which less happens.
func small(o Options) Options {
	o.Objects, o.Operators, o.Shards, o.Disturbed = min(o.Objects, 3), 0, 1, 20*time.Second
	return o
}

// play plays a history. Its seed also decides how goroutines take turns.
func play(t *testing.T, o Options) (r Result, stats simrt.Stats) {
	random := rand.New(rand.NewPCG(o.Seed, 4))
	pick := func(from ...uint32) uint32 { return from[random.IntN(len(from))] }
	legacyregistry.Reset() // client-go counts for the process, and locks where it has not counted before
	synctest.Test(t, func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, o.Seed) // identities of operators
		simrt.Start(simrt.Options{Seed: o.Seed, Yield: pick(0, 2, 8, 32), Tick: pick(0, 10_000, 100_000),
			Demote: pick(0, 0, 50)})
		var err error
		r, err = Play(o)
		require.NoError(t, err)
	})
	return r, simrt.Stop()
}
