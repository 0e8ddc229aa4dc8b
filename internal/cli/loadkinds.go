package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/proof"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// The CUE evaluator can be neither stopped nor bounded, and a few lines of CUE take hours or all
// memory. So a folder of kinds is first loaded in a process of its own, which ends when it
// exceeds a limit, and only what was loaded there within the limits is loaded here.

const (
	// defaultLoadTimeout is the CPU time that a kind may take. Large kinds take half a second.
	defaultLoadTimeout = 5 * time.Second
	// minLoadTimeout and maxLoadTimeout bound what a user may choose: a process takes some time to start.
	minLoadTimeout = 10 * time.Millisecond
	maxLoadTimeout = time.Hour
	// loadMemory is the memory that a process may take that loads a kind, in bytes: half of
	// that of an installation. Large kinds take a third of it.
	loadMemory = 256 << 20
	// proofFactor is how many times the CPU time of a kind its proof may take. Most take 0.01 to 0.5 s, and of kinds as
	// large as a Workflow 10 s.
	proofFactor = 4
	// quickly is the part of the time in which a whole folder is tried. Almost all succeed;
	// the kinds of others are tried one by one.
	quickly = 5
	// wallFactor bounds the time for a process that does not get the CPU, or waits.
	wallFactor = 6
	// watchInterval is how often a process checks its limits.
	watchInterval = 5 * time.Millisecond
	// loadKindsCommand is the name of the command that the process runs.
	loadKindsCommand = "load-kinds"
	// maxAnswer bounds what is kept of the output of the process, in bytes.
	maxAnswer = 1 << 20
)

// loadAnswer is what the process prints, and then a load.Proof for each kind of Proves.
type loadAnswer struct {
	// Kinds lists the kinds of the folder, if that was asked for.
	Kinds []load.Listed `json:"kinds,omitempty"`
	// Proves names the kinds that are proved, as in --only.
	Proves []string `json:"proves,omitempty"`
	// Exceeded is the limit that was exceeded.
	Exceeded string `json:"exceeded,omitempty"`
	// Proofs are those of Proves.
	Proofs []load.Proof `json:"-"`
}

// cpuLimit is when a process ends, as CPU time in nanoseconds, and how that limit is called.
type cpuLimit struct {
	deadline time.Duration
	name     string
}

func loadLimit(timeout time.Duration) string {
	return fmt.Sprintf("longer than %s of CPU time (--load-timeout)", timeout)
}

func proofLimit(proofTime time.Duration) string {
	return fmt.Sprintf("longer than %s of CPU time (%d times --load-timeout)", proofTime, proofFactor)
}

func newLoadKindsCommand() *cobra.Command {
	var only []string
	var list bool
	var timeout, proofTime time.Duration
	c := &cobra.Command{
		Use:    loadKindsCommand + " DIR",
		Short:  "Load the kinds of a folder, within limits (for Fescue itself)",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			answer := json.NewEncoder(c.OutOrStdout())
			var limit atomic.Pointer[cpuLimit]
			limit.Store(&cpuLimit{cpuTime() + timeout, loadLimit(timeout)})
			limitCPUTime(cpuTime() + timeout + proofTime)
			go exitBeyond(&limit, loadMemory, func(limit string) { _ = answer.Encode(loadAnswer{Exceeded: limit}) })
			if list {
				// Errors are found, and reported, when the folder is loaded.
				kinds, _ := load.List(args[0])
				return answer.Encode(loadAnswer{Kinds: kinds})
			}
			drafts, _ := load.Drafts(args[0], only...)
			if proofTime == 0 {
				return answer.Encode(loadAnswer{})
			}
			names := make([]string, len(drafts))
			for i, d := range drafts {
				names[i] = d.LoadName()
			}
			if err := answer.Encode(loadAnswer{Proves: names}); err != nil {
				return err
			}
			limit.Store(&cpuLimit{cpuTime() + proofTime, proofLimit(proofTime)})
			known, err := types.New()
			if err != nil {
				return err
			}
			for _, d := range drafts {
				if err := answer.Encode(proof.Prove(d, known)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().StringSliceVar(&only, "only", nil, "the kinds to load")
	c.Flags().BoolVar(&list, "list", false, "list the kinds")
	c.Flags().DurationVar(&timeout, "timeout", defaultLoadTimeout, "the CPU time to take for loading")
	c.Flags().DurationVar(&proofTime, "prove", 0,
		"compare the kinds with CUE's evaluator, and the CPU time to take for that")
	return c
}

// exitBeyond ends the process when its CPU time is beyond the limit, or its memory beyond what it may have, in bytes.
// report gets the name of the limit.
func exitBeyond(cpu *atomic.Pointer[cpuLimit], memory uint64, report func(limit string)) {
	debug.SetGCPercent(50)              // garbage counts as well
	debug.SetMemoryLimit(int64(memory)) // no more of it near the limit
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for range time.Tick(watchInterval) {
		limit := ""
		if l := cpu.Load(); cpuTime() > l.deadline {
			limit = l.name
		}
		if metrics.Read(samples); samples[0].Value.Uint64()-samples[1].Value.Uint64() > memory {
			limit = fmt.Sprintf("more than %d MiB of memory", memory>>20)
		}
		if limit != "" {
			report(limit)
			os.Exit(1)
		}
	}
}

// loader loads folders in processes of their own.
type loader struct {
	executable string
	name       string // of the program: the tests are one program with several names
	timeout    time.Duration
	proves     bool
}

// newLoader returns a loader with a CPU time for each kind. If it proves kinds, it compares each with CUE's evaluator.
func newLoader(timeout time.Duration, proves bool) (*loader, error) {
	executable, err := os.Executable()
	return &loader{executable, os.Args[0], timeout, proves}, err
}

// try loads the kinds of a folder, or those that --only in the flags names, or lists them, and proves what it loads. It
// returns the limit that was exceeded, or what ended the process otherwise; an error means that it could not be run.
func (l *loader) try(
	ctx context.Context, dir string, timeout time.Duration, flags ...string,
) (answer loadAnswer, err error) {
	var proofTime time.Duration
	if l.proves {
		proofTime = proofFactor * l.timeout
	}
	limited, cancel := context.WithTimeout(ctx, wallFactor*(timeout+proofTime))
	defer cancel()
	command := append([]string{loadKindsCommand, "--timeout", timeout.String(), "--prove", proofTime.String()},
		append(flags, "--", dir)...)
	child := exec.CommandContext(limited, l.executable, command...)
	child.Args[0] = l.name
	var out, problem limitedBuffer
	child.Stdout, child.Stderr = &out, &problem
	child.WaitDelay = time.Second
	err = child.Start()
	if err != nil {
		return answer, fmt.Errorf("start %s to load %s: %w", l.executable, dir, err)
	}
	// If memory runs out meanwhile, that process is to end and not this one. (Linux only.)
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", child.Process.Pid), []byte("1000"), 0)
	failed := child.Wait()
	if ctx.Err() != nil {
		return answer, ctx.Err()
	}
	ended := func(cpuTime time.Duration, limit string) string {
		switch reason, _, _ := strings.Cut(strings.TrimSpace(problem.String()), "\n"); {
		case limited.Err() != nil:
			return fmt.Sprintf("longer than %s", wallFactor*(timeout+proofTime))
		case child.ProcessState.UserTime()+child.ProcessState.SystemTime() > cpuTime:
			return limit
		default: // a stack overflow, for example, or no memory in the container
			return "more than the process survives: " + cmp.Or(reason, fmt.Sprint(failed))
		}
	}
	printed := json.NewDecoder(&out.Buffer)
	if printed.Decode(&answer) != nil {
		answer.Exceeded = ended(timeout, loadLimit(timeout))
		return answer, nil
	}
	for range answer.Proves {
		var next struct {
			load.Proof
			Exceeded string `json:"exceeded"`
		}
		if err := printed.Decode(&next); err != nil || next.Exceeded != "" {
			limit := cmp.Or(next.Exceeded, ended(timeout+proofTime, proofLimit(proofTime)))
			answer.Proofs, err = l.proveOthers(ctx, dir, limit, answer)
			return answer, err
		}
		answer.Proofs = append(answer.Proofs, next.Proof)
	}
	return answer, nil
}

// proveOthers adds proofs of the kinds that a process did not prove before it exceeded the limit: each in a process of
// its own, so that no other kind counts. One that exceeds a limit alone is not compared.
func (l *loader) proveOthers(ctx context.Context, dir, limit string, answer loadAnswer) ([]load.Proof, error) {
	proofs := answer.Proofs
	if len(answer.Proves) == 1 {
		return append(proofs, load.Proof{Kind: answer.Proves[0], NotCompared: 1, Limit: limit}), nil
	}
	for _, name := range answer.Proves[len(proofs):] {
		alone, err := l.try(ctx, dir, l.timeout, "--only", name)
		if err != nil {
			return proofs, err
		}
		if alone.Exceeded != "" {
			alone.Proofs = []load.Proof{{Kind: name, NotCompared: 1, Limit: alone.Exceeded}}
		}
		proofs = append(proofs, alone.Proofs...)
	}
	return proofs, nil
}

// probe finds out which kinds of a folder can be loaded within the limits. tried receives them, in up
// to two parts: first the kinds that take a short time, then the others.
func (l *loader) probe(ctx context.Context, dir string, tried func(load.Folder)) error {
	exceeded, err := l.probeWhole(ctx, dir, l.timeout/quickly, tried)
	if err != nil || exceeded == "" {
		return err
	}
	listed, err := l.try(ctx, dir, l.timeout, "--list")
	if err != nil {
		return err
	}
	if len(listed.Kinds) == 0 {
		if listed.Exceeded == "" { // its errors may be all that there is
			if exceeded, err = l.probeWhole(ctx, dir, l.timeout, tried); err != nil || exceeded == "" {
				return err
			}
		}
		tried(load.Folder{Dir: dir, Selected: true, Broken: []*syntax.LoadError{
			{Check: mistake.LoadLimit, File: dir,
				Reason: "reading the package takes " + cmp.Or(listed.Exceeded, exceeded)},
		}})
		return nil
	}
	first := load.Folder{Dir: dir, Selected: true}
	slow, err := l.tryEach(ctx, &first, l.timeout/quickly, listed.Kinds)
	if err != nil {
		return err
	}
	tried(first)
	left := make([]load.Listed, len(slow))
	for i, s := range slow {
		left[i] = s.Listed
	}
	last := load.Folder{Dir: dir, Selected: true}
	slow, err = l.tryEach(ctx, &last, l.timeout, left)
	for _, s := range slow {
		last.Broken = append(last.Broken, &syntax.LoadError{Check: mistake.LoadLimit, Kind: s.Name, File: s.File,
			Line:   s.Line,
			Reason: "loading takes " + s.exceeded + ": make its schema and its behaviour smaller"})
	}
	tried(last)
	return err
}

// probeWhole gives tried a folder if all its kinds can be loaded together within a time, and returns the limit that
// they exceed otherwise.
func (l *loader) probeWhole(
	ctx context.Context, dir string, timeout time.Duration, tried func(load.Folder),
) (exceeded string, err error) {
	whole, err := l.try(ctx, dir, timeout)
	if err == nil && whole.Exceeded == "" {
		tried(load.Folder{Dir: dir, Proofs: whole.Proofs})
	}
	return whole.Exceeded, err
}

// exceeding is a kind with the limit that it exceeds.
type exceeding struct {
	load.Listed
	exceeded string
}

// tryEach tries kinds of a folder one by one. It adds those that can be loaded within the limits to the folder, and
// returns the others.
func (l *loader) tryEach(
	ctx context.Context, folder *load.Folder, timeout time.Duration, kinds []load.Listed,
) (beyond []exceeding, err error) {
	answers := make([]loadAnswer, len(kinds))
	var trying errgroup.Group
	trying.SetLimit(runtime.GOMAXPROCS(0))
	for i, k := range kinds {
		trying.Go(func() (err error) {
			answers[i], err = l.try(ctx, folder.Dir, timeout, "--only", k.Name)
			return err
		})
	}
	err = trying.Wait()
	for i, k := range kinds {
		if exceeded := answers[i].Exceeded; exceeded != "" {
			beyond = append(beyond, exceeding{k, exceeded})
			continue
		}
		folder.Only, folder.Proofs = append(folder.Only, k.Name), append(folder.Proofs, answers[i].Proofs...)
	}
	return beyond, err
}

// limitedBuffer keeps the beginning of what is written to it.
type limitedBuffer struct{ bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), max(0, maxAnswer-b.Len()))])
	return len(p), nil
}

var _ io.Writer = (*limitedBuffer)(nil)
