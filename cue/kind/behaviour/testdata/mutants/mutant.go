package behaviour

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// switchedOn is the number of the mutant that is switched on; 0 is none.
var switchedOn atomic.Int32

func mutated(number int32) bool { return switchedOn.Load() == number }

// Switch switches a mutant on. What is made once of the declarations of functions is made again.
func Switch(number int32) {
	switchedOn.Store(number)
	declare()
}

// TryMutants tries those whose numbers are in $MUTANTS: one is killed by a case that has another result, panics, or does not
// end. Each case has the result that CUE's evaluator has, as long as no mutant is switched on. The process ends with one that
// takes too much memory, and when a case has another result without the mutant, too: this one or one before it has changed what
// is shared. Whoever runs it tries the mutant once more, alone.
func TryMutants(cases []func() string) {
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: mostMemory, Max: mostMemory}); err != nil {
		panic(err)
	}
	kept := make([]string, len(cases))
	for i, result := range cases {
		kept[i] = result()
	}
	for i, result := range cases {
		if result() != kept[i] {
			panic("a case has two results: " + kept[i])
		}
	}
	fmt.Println("kept", len(cases))
	for _, text := range strings.Fields(os.Getenv("MUTANTS")) {
		number, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			panic(err)
		}
		fmt.Println("begins", number)
		ends := make(chan string, 1)
		Switch(int32(number))
		current := 0
		go func() {
			defer func() {
				if p := recover(); p != nil {
					ends <- fmt.Sprint("panics: ", p)
				}
			}()
			for i, result := range cases {
				current = i
				if now := result(); now != kept[i] {
					ends <- fmt.Sprintf("differs %d %q %q", i, kept[i], now)
					return
				}
			}
			ends <- ""
		}()
		end := endOf(ends)
		if end == unending {
			switchedOn.Store(0)
			if endOf(ends) == unending {
				os.Exit(3)
			}
		}
		Switch(0)
		if end == "" {
			fmt.Println("survives", number)
			continue
		}
		if cases[current]() != kept[current] {
			os.Exit(3)
		}
		fmt.Println("killed", number, strings.ReplaceAll(end, "\n", " "))
	}
}

const (
	unending = "does not end"
	// mostMemory is the address space of a process, in bytes. Without a mutant, it takes a third of that.
	mostMemory = 6 << 30
)

// endOf returns how a mutant ends. It may take 20 s of the processor, however busy the machine is; what only waits takes
// five minutes.
func endOf(ends chan string) string {
	for began, start := processorTime(), time.Now(); processorTime()-began < 20*time.Second && time.Since(start) < 5*time.Minute; {
		select {
		case end := <-ends:
			return end
		case <-time.After(time.Second / 10):
		}
	}
	return unending
}

func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano())
}
