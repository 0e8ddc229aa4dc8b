package history

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/hack/sim/apiserver"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
	"github.com/fescue-dev/fescue/internal/testing/kindmaker"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

var (
	histories    = flag.Uint64("histories", 10, "how many histories are played")
	firstHistory = flag.Uint64("first-history", 0, "seed of the first of them")
	workers      = flag.Int("workers", 0, "how many workers an operator has, instead of 1, 4 or 32")
)

// The handlers of errors slow those down that come often, by a clock of the process: that of another bubble.
func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	utilruntime.ErrorHandlers = nil
	os.Exit(m.Run())
}

// starts are just before midnight of a day and of a leap day, and before the clocks change in Europe and in America, in
// 2000.
var starts = []time.Duration{
	0, time.Date(2000, 2, 28, 23, 59, 30, 0, time.UTC).Sub(year),
	time.Date(2000, 3, 26, 0, 59, 30, 0, time.UTC).Sub(year), time.Date(2000, 4, 2, 6, 59, 30, 0, time.UTC).Sub(year),
	time.Date(2000, 10, 29, 0, 59, 30, 0, time.UTC).Sub(year),
	time.Date(2000, 12, 31, 23, 59, 30, 0, time.UTC).Sub(year),
}

// year is when bubbles begin.
var year = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// ats are histories of Ats. Each seed has others, in which much goes wrong or nothing. Requests take up to a delay.
func ats(k *kind.Kind, seed uint64, delay time.Duration) Options {
	random := rand.New(rand.NewPCG(seed, 3))
	often := func() int { return []int{0, 3, 10, 30}[random.IntN(4)] }
	o := Options{
		Seed: seed, Kinds: []*kind.Kind{k}, Once: true, Ends: true, Objects: 1 + random.IntN(6), Disturbed: time.Minute,
		Calm: 10 * time.Minute, Kills: random.IntN(4),
		Operators: []int{0, 0, 0, 2, 3}[random.IntN(5)], Workers: cmp.Or(*workers, []int{1, 4, 32}[random.IntN(3)]),
		Shards:  1 + random.IntN(3),
		Mishaps: []int{0, 0, 1, 5}[random.IntN(4)], Start: starts[random.IntN(len(starts))],
		Faults: apiserver.Faults{
			Delay: delay, Fail: often(), Lose: often(), Break: often(),
			Double: often(), Lag: 3 * often(), Forget: []int{0, 2}[random.IntN(2)],
		},
		Stall: 2 * often(), Skew: []time.Duration{0, -time.Hour, time.Minute}[random.IntN(3)],
		Make: func(random *rand.Rand, k *kind.Kind, now time.Time) map[string]any {
			object := sampled(random, k, now)
			object["spec"].(map[string]any)["schedule"] = now.Add(
				time.Duration(random.IntN(20)) * time.Second).UTC().Format(time.RFC3339)
			return object
		},
	}
	if o.Stays = random.IntN(3) == 0; o.Stays {
		o.Operators, o.Kills = 0, 0
	}
	return o
}

// others are histories of other kinds, with objects that their schemas make.
func others(kinds []*kind.Kind, seed uint64, delay time.Duration) Options {
	o := ats(nil, seed, delay)
	o.Kinds, o.Make, o.Once, o.Ends = kinds, nil, false, false
	// An operator that lives on may not notice a restore after which many writes follow: decision 59.
	o.Restores = rand.New(rand.NewPCG(seed, 7)).IntN(4) == 0 && !o.Stays
	return o
}

// installing returns a history in which operators install CRDs, of one build or of two.
func installing(o Options, builds bool) Options {
	o.Installs, o.Builds = true, builds
	if builds && o.Stays {
		o.Operators, o.Kills = 1, 2
	}
	return o
}

// What must hold in every history does so, whatever fails.
func TestHistories(t *testing.T) {
	at := kindtest.Named(t, kindtest.Shipped(t), "At")
	playAll(t, *histories, func(seed uint64) Options { return ats(at, seed, 0) },
		func(t *testing.T, r Result) { require.Positive(t, r.Objects, strings.Join(r.Story, "\n")) })
}

// hostile are histories of objects that nothing has validated, some of which are edited to be valid later.
func hostile(kinds []*kind.Kind, seed uint64) Options {
	return Options{
		Seed: seed, Kinds: kinds, Unchecked: true, Objects: 50, Disturbed: time.Minute, Calm: 10 * time.Minute,
		Workers: 4,
		Make: func(random *rand.Rand, k *kind.Kind, now time.Time) map[string]any {
			object := sampled(random, k, now)
			if k.Target != nil {
				return object // others decide what that may be
			}
			for range random.IntN(4) {
				object["spec"] = spoil(random, object["spec"])
			}
			return object
		},
	}
}

// odd are values that few schemas accept.
var odd = []any{
	nil, "", " ", "a/b", "-", "..", "\x00", "\u2028", "ä", "$(A)", strings.Repeat("x", 300),
	strings.Repeat("y", 70_000), int64(-1), int64(1) << 62, 1e300, 0.5, true,
	[]any{}, []any{nil}, []any{map[string]any{}}, map[string]any{}, map[string]any{"": nil},
	map[string]any{"a": strings.Repeat("z", 300)}, nested(100),
}

// nested returns a struct within as many others.
func nested(depth int) any {
	if depth == 0 {
		return "a"
	}
	return map[string]any{"a": nested(depth - 1)}
}

// spoil puts an odd value in the place of one within a value, or beside it.
func spoil(random *rand.Rand, value any) any {
	other := runtime.DeepCopyJSONValue(odd[random.IntN(len(odd))])
	switch value := value.(type) {
	case map[string]any:
		names := slices.Sorted(maps.Keys(value))
		if len(names) == 0 || random.IntN(10) == 0 {
			value["odd"] = other
			return value
		}
		name := names[random.IntN(len(names))]
		value[name] = spoil(random, value[name])
		return value
	case []any:
		if len(value) == 0 || random.IntN(10) == 0 {
			return append(value, other)
		}
		i := random.IntN(len(value))
		value[i] = spoil(random, value[i])
		return value
	}
	return other
}

// Objects that are stored while nothing validates them harm nothing: they stall, and others go on.
func TestHostileObjects(t *testing.T) {
	all := append(manyKinds(t), []*kind.Kind{kindtest.Named(t, kindtest.Shipped(t), "At")},
		[]*kind.Kind{kindtest.Named(t, kindtest.Shipped(t), "Watcher")})
	objects := 0
	playAll(t, *histories, func(seed uint64) Options { return hostile(all[seed%uint64(len(all))], seed) },
		func(_ *testing.T, r Result) { objects += r.Objects })
	t.Logf("%d objects", objects)
}

// playAll plays histories, without delays: here, who waits for a lock keeps the time from passing.
func playAll(t *testing.T, count uint64, of func(seed uint64) Options, check func(*testing.T, Result)) {
	t.Helper()
	writes := 0
	for seed := *firstHistory; seed < *firstHistory+count; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, err := Play(of(seed))
				require.NoError(t, err)
				require.Empty(t, r.Violations, strings.Join(r.Story, "\n"))
				check(t, r)
				writes += r.Writes
			})
		})
	}
	require.Positive(t, writes)
	t.Logf("%d histories, %d writes", count, writes)
}

// examples are those whose objects come to rest by themselves in a few minutes.
var examples = []string{
	"announcement", "app", "archive", "backup", "bluegreen", "catset", "clusteredparent", "configmappropagation",
	"database", "externalref", "indexedjob",
	"memcached", "rollout", "serviceperpod", "tenant", "webapp", "webservice", "workerpool",
}

// manyKinds returns Customclusters, the kinds of each example, and each kind of the corpus.
func manyKinds(t *testing.T) (all [][]*kind.Kind) {
	t.Helper()
	all = append(all, []*kind.Kind{kindtest.Named(t, kindtest.Shipped(t), "Customcluster")})
	for _, name := range examples {
		catalog, err := load.All(false, "../../../examples/"+name)
		require.NoError(t, err)
		require.Empty(t, catalog.Broken())
		all = append(all, catalog.Behaviours())
	}
	for _, file := range corpus.Archives(t, kindtest.Corpus) {
		catalog, _ := load.All(false, corpus.Unpack(t, corpus.Read(t, file))) // many are about what does not load
		for _, k := range catalog.All() {
			all = append(all, []*kind.Kind{k})
		}
	}
	return all
}

// made are histories of the kind that a seed makes. Some change their phase all the time, so they are short, and what
// must hold at rest is not asked of those that have phases.
func made(t *testing.T, seed uint64, delay time.Duration) Options {
	t.Helper()
	for part := seed; ; part += 1 << 32 { // not every kind loads
		kinds, err := load.FromDir(corpus.Folder(t, kindmaker.File(kindmaker.Make(part).Source)))
		if err != nil {
			continue
		}
		o := others(kinds, seed, delay)
		o.Moves = slices.ContainsFunc(kinds, func(k *kind.Kind) bool { return len(k.Phases) > 0 })
		o.Cycles = true
		o.Served, err = Served(kinds, false)
		require.NoError(t, err)
		o.Objects, o.Disturbed = min(o.Objects, 2), 10*time.Second
		// longer than deadlines, and than an operator waits for the Lease of one that was killed
		if o.Calm = 7 * time.Minute; o.Moves {
			o.Calm = 10 * time.Second
		}
		return o
	}
}

// What must hold always does so for kinds that nobody has written.
func TestHistoriesOfMadeKinds(t *testing.T) {
	playAll(t, *histories, func(seed uint64) Options { return made(t, seed, 0) }, func(*testing.T, Result) {})
}

// Other kinds come to rest as well, with objects that their schemas make.
func TestHistoriesOfManyKinds(t *testing.T) {
	for _, kinds := range manyKinds(t) {
		t.Run(kinds[0].GroupVersionKind.Kind, func(t *testing.T) {
			playAll(t, (*histories+4)/5, func(seed uint64) Options {
				o := others(kinds, seed, 0)
				o.Operators = 0 // make simulate has several: it takes longer
				return o
			}, func(*testing.T, Result) {})
		})
	}
}

// Operators install the CRDs of their kinds, and those of two builds do not undo each other's work.
func TestHistoriesThatInstall(t *testing.T) {
	at := kindtest.Named(t, kindtest.Shipped(t), "At")
	playAll(t, *histories, func(seed uint64) Options { return installing(ats(at, seed, 0), seed%2 == 0) },
		func(*testing.T, Result) {})
}
