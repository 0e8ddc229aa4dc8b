//go:build sim

package simrt_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unique"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/hack/sim/simrt"
)

var isChild = flag.Bool("child", false, "the process plays the histories of a test")

// child runs the test in a process of its own, with one thread and no garbage collection, as histories need it.
func child(t *testing.T) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v", "-child")
	c.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=off")
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

// history runs a function in a bubble with the choices of a seed.
func history(t *testing.T, o simrt.Options, run func()) (s simrt.Stats) {
	synctest.Test(t, func(*testing.T) {
		simrt.Start(o)
		run()
	})
	return simrt.Stop()
}

// A seed gives the same history again: in the same process, in another one, and while other processes run.
func TestHistoriesRepeat(t *testing.T) {
	const seeds = 300
	if *isChild {
		// The first history of a process differs: it does what is done once.
		history(t, simrt.Options{Yield: 8}, func() { torture(new(trace), 4, 20) })
		found := make(map[uint64]string)
		for i := range uint64(2 * seeds) {
			seed := i % seeds
			var events trace
			stats := history(t, simrt.Options{Seed: seed, Yield: 8, Tick: 10_000, Demote: uint32(seed % 3 * 20)}, func() { torture(&events, 4, 20) })
			got := fmt.Sprintf("%x %x", events.hash, stats.Hash)
			if i >= seeds {
				require.Equal(t, found[seed], got, "seed %d", seed)
			} else {
				found[seed] = got
			}
		}
		different := make(map[string]bool)
		all := fnv.New64a()
		for seed := range uint64(seeds) {
			different[found[seed]] = true
			_, _ = fmt.Fprintln(all, found[seed])
		}
		require.Len(t, different, seeds, "each seed has another history")
		t.Logf("all: %x", all.Sum64())
		return
	}
	t.Parallel()
	sum := regexp.MustCompile(`all: [0-9a-f]+`)
	var outputs [3]string
	var running sync.WaitGroup
	for i := range outputs {
		running.Go(func() { outputs[i] = sum.FindString(child(t)) })
	}
	running.Wait()
	require.NotEmpty(t, outputs[0])
	require.Equal(t, outputs[0], outputs[1])
	require.Equal(t, outputs[0], outputs[2])
}

// A history is the same whether it fills a cache of the process or finds it filled.
func TestCachesChangeNothing(t *testing.T) {
	if !*isChild {
		t.Parallel()
		child(t)
		return
	}
	history(t, simrt.Options{Yield: 8}, func() { torture(new(trace), 4, 20) })
	for seed := range uint64(100) {
		play := func(first bool) (simrt.Stats, uint64) {
			var once sync.Once
			if !first {
				once.Do(func() {})
			}
			var events trace
			stats := history(t, simrt.Options{Seed: seed, Yield: 8, Tick: 10_000}, func() {
				once.Do(func() { unique.Make(fmt.Sprint("seed ", seed, len(map[int]int{int(seed): 1}))) })
				torture(&events, 4, 20)
			})
			return stats, events.hash
		}
		stats, events := play(true)
		again, eventsAgain := play(false)
		require.Equal(t, stats.Hash, again.Hash, "seed %d", seed)
		require.Equal(t, events, eventsAgain, "seed %d", seed)
	}
}

// Bugs of concurrency show in a part of the seeds, each with the choices that it needs.
func TestBugsShow(t *testing.T) {
	if !*isChild {
		t.Parallel()
		child(t)
		return
	}
	const seeds = 2000
	for name, bug := range map[string]struct {
		run      func() bool
		options  simrt.Options
		min, max float64 // the part of the seeds
	}{
		"a lost update":                 {lostUpdate, simrt.Options{Yield: 2}, 0.2, 0.6},
		"no lost update without yields": {lostUpdate, simrt.Options{}, 0, 0},
		"steps in turns":                {turns, simrt.Options{Yield: 2}, 0.005, 0.2},
		"one order of five":             {order, simrt.Options{}, 0.003, 0.05},
		"a deadline while others run":   {deadline, simrt.Options{Tick: 100_000}, 0.9, 1},
		"no deadline without ticks":     {deadline, simrt.Options{}, 0, 0},
		"starvation":                    {starvation, simrt.Options{Demote: 50}, 0.001, 0.2},
		"no starvation by fair choices": {starvation, simrt.Options{}, 0, 0},
	} {
		shown := 0
		for seed := range uint64(seeds) {
			bug.options.Seed = seed
			history(t, bug.options, func() {
				if bug.run() {
					shown++
				}
			})
		}
		part := float64(shown) / seeds
		t.Logf("%s: %.2f %%", name, 100*part)
		require.True(t, bug.min <= part && part <= bug.max, "%s: %.2f %%", name, 100*part)
	}
}

// A goroutine that waits for a lock does not keep the time from passing.
func TestLocksLetTimePass(t *testing.T) {
	if !*isChild {
		t.Parallel()
		child(t)
		return
	}
	history(t, simrt.Options{Seed: 1, Yield: 2}, func() {
		var mu sync.Mutex
		var running sync.WaitGroup
		for range 2 {
			running.Go(func() {
				mu.Lock()
				defer mu.Unlock()
				time.Sleep(time.Hour)
			})
		}
		running.Wait()
	})
}

// trace is the hash of what happens, in its order.
type trace struct {
	mu   sync.Mutex
	hash uint64
}

func (t *trace) add(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d|"+format, append([]any{t.hash}, args...)...)
	t.hash = h.Sum64()
}

// torture has all that chance decides in an operator: goroutines, maps, select, timers, locks, sync.Cond, sync.Map, contexts and
// math/rand.
func torture(events *trace, workers, items int) {
	queue, other, stop := make(chan int), make(chan string, 4), make(chan struct{})
	var mu sync.Mutex
	ready := sync.NewCond(&mu)
	var taken []int
	isDone := false
	counts := make(map[string]int)
	var shared sync.Map
	var working, producing, consuming sync.WaitGroup
	for w := range workers {
		working.Go(func() {
			timer := time.NewTimer(time.Duration(w+1) * time.Millisecond)
			defer timer.Stop()
			for {
				select {
				case <-stop:
					events.add("worker %d stops", w)
					return
				case i := <-queue:
					events.add("worker %d has %d", w, i)
					mu.Lock()
					counts[fmt.Sprint("k", i%17)]++
					taken = append(taken, i)
					mu.Unlock()
					shared.Store(i, w)
					ready.Signal()
				case text := <-other:
					events.add("worker %d has %s", w, text)
				case <-timer.C:
					events.add("worker %d is woken", w)
					timer.Reset(time.Duration(1+rand.IntN(3)) * time.Millisecond)
				}
			}
		})
	}
	for c := range 3 {
		consuming.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for {
				for len(taken) == 0 && !isDone {
					ready.Wait()
				}
				if len(taken) == 0 {
					return
				}
				events.add("consumer %d takes %d", c, taken[0])
				taken = taken[1:]
			}
		})
	}
	for p := range 4 {
		producing.Go(func() {
			for i := range items {
				select {
				case queue <- p*items + i:
				case other <- fmt.Sprint("o", p*items+i):
				}
				if i%5 == p {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	producing.Wait()
	time.Sleep(2 * time.Millisecond)
	close(stop)
	working.Wait()
	mu.Lock()
	isDone = true
	mu.Unlock()
	ready.Broadcast()
	consuming.Wait()
	for name, n := range counts {
		events.add("%s: %d", name, n)
	}
	shared.Range(func(key, value any) bool {
		events.add("%v: %v", key, value)
		return true
	})
}

// lostUpdate reads under a lock, and writes under it later.
func lostUpdate() bool {
	var mu sync.Mutex
	sum := 0
	var running sync.WaitGroup
	for range 2 {
		running.Go(func() {
			mu.Lock()
			read := sum
			mu.Unlock()
			mu.Lock()
			sum = read + 1
			mu.Unlock()
		})
	}
	running.Wait()
	return sum != 2
}

// turns needs both goroutines to take their steps in turns.
func turns() bool {
	var mu sync.Mutex
	state := 0
	step := func(from int) {
		mu.Lock()
		defer mu.Unlock()
		if state == from {
			state++
		}
	}
	var running sync.WaitGroup
	running.Go(func() { step(0); step(2); step(4) })
	running.Go(func() { step(1); step(3) })
	running.Wait()
	return state == 5
}

// order needs five goroutines to start in one of their 120 orders.
func order() bool {
	var mu sync.Mutex
	var got []int
	var running sync.WaitGroup
	for i := range 5 {
		running.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, i)
		})
	}
	running.Wait()
	return [5]int(got) == [5]int{2, 0, 4, 1, 3}
}

// deadline needs a timer to fire while others can run.
func deadline() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	numbers := make(chan int)
	go func() {
		defer close(numbers)
		for i := range 50 {
			numbers <- i
		}
	}()
	var after error
	for n := range numbers {
		if n < 49 {
			after = cmp.Or(after, ctx.Err())
		}
	}
	return after != nil
}

// starvation needs one goroutine to wait while others make twenty rounds.
func starvation() bool {
	answers, late := make(chan int, 1), make(chan int, 1)
	go func() { late <- 1 }()
	isLate := false
	for range 20 {
		go func() { answers <- 1 }()
		<-answers
		isLate = isLate || len(late) > 0
	}
	<-late
	return !isLate
}
