package proof

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime/metrics"
	"strconv"
	"testing"
	"time"
)

const (
	// kindsOfAProcess are the seeds of a process.
	kindsOfAProcess = 100
	// longestKind and largestKind are what a process may take for one kind, in time and bytes. A kind that takes more is counted,
	// and not compared.
	longestKind = 2 * time.Minute
	largestKind = 4 << 30
	// limitsChecked is how often a process checks that.
	limitsChecked = 100 * time.Millisecond
)

// markOfPart precedes what a process found, as JSON.
var markOfPart = []byte("\ntally: ")

var isPart = flag.Bool("is-part", false, "for TestGeneratedKinds, which starts processes with it")

// partOfTally is what a process found.
type partOfTally struct {
	*tally
	// Last is the last seed that it looked at.
	Last uint64
}

// TestPartOfGeneratedKinds is what a process of TestGeneratedKinds runs.
func TestPartOfGeneratedKinds(t *testing.T) {
	if !*isPart {
		t.Skip("TestGeneratedKinds runs it")
	}
	p := partOfTally{newTally(), *firstKind}
	begun := make(chan uint64)
	go p.watch(t, begun)
	for seed := *firstKind; seed < *firstKind+*generatedKinds; seed++ {
		begun <- seed
		p.kind(t, seed)
	}
	p.end(t, *firstKind+*generatedKinds-1)
}

// watch ends the process at a kind that takes too much.
func (p *partOfTally) watch(t *testing.T, begun <-chan uint64) {
	memory := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	ticks := time.Tick(limitsChecked)
	seed := <-begun
	for since := time.Now(); ; {
		select {
		case seed = <-begun:
			since = time.Now()
		case <-ticks:
			metrics.Read(memory)
			if time.Since(since) > longestKind || memory[0].Value.Uint64()-memory[1].Value.Uint64() > largestKind {
				p.Lock()
				p.Verdicts[endless]++
				p.Unlock()
				p.end(t, seed)
			}
		}
	}
}

// end prints what was found, and ends the process.
func (p *partOfTally) end(t *testing.T, last uint64) {
	p.Lock()
	defer p.Unlock()
	p.Last = last
	b, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s%s\n", markOfPart, b)
	if t.Failed() {
		os.Exit(1)
	}
	os.Exit(0)
}

// inProcess compares a range of kinds, in a process that is started again after a kind that takes too much.
func (f *tally) inProcess(t *testing.T, first, end uint64) {
	for first < end {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestPartOfGeneratedKinds$", "-test.v", "-test.timeout", "0", "-is-part",
			"-first-kind", strconv.FormatUint(first, 10), "-generated-kinds", strconv.FormatUint(end-first, 10), "-pairs-of-a-kind", strconv.Itoa(*pairsOfAKind), "-shrinking-tries", strconv.Itoa(*maxTries))
		c.Env = append(os.Environ(), "GOMAXPROCS=1")
		out, failed := c.Output()
		printed, result, _ := bytes.Cut(out, markOfPart)
		found := partOfTally{tally: newTally()}
		if err := json.Unmarshal(result, &found); err != nil {
			t.Errorf("seeds %d to %d: the process ends without a result: %v\n%s", first, end-1, failed, printed)
			return
		}
		if failed != nil {
			t.Errorf("%s", printed)
		}
		f.add(found.tally)
		first = found.Last + 1
	}
}

// add adds what a process found.
func (f *tally) add(other *tally) {
	f.Lock()
	defer f.Unlock()
	f.Loaded += other.Loaded
	f.Objects += other.Objects
	f.Wholes += other.Wholes
	for v, n := range other.Verdicts {
		f.Verdicts[v] += n
	}
	for reason, n := range other.Reasons {
		f.Reasons[reason] += n
	}
	for construct, positions := range other.Table {
		if f.Table[construct] == nil {
			f.Table[construct] = make(map[string]int)
		}
		for position, n := range positions {
			f.Table[construct][position] += n
		}
	}
}
