package mutate

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

// always names the mutant that is switched on in all of a process.
const always = "MUTANT"

func init() {
	if text := os.Getenv(always); text != "" {
		number, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			panic(err)
		}
		switchedOn.Store(int32(number))
	}
}

// On reports whether a mutant is switched on.
func On(number int32) bool { return switchedOn.Load() == number }

// switched is called each time after a mutant was switched on or off.
var switched = func() {}

// OnSwitch sets what is to be done after a mutant was switched on or off.
func OnSwitch(do func()) { switched = do }

func turn(number int32) {
	switchedOn.Store(number)
	switched()
}

// variable names the mutants that a test is to try.
const variable = "MUTANTS"

// Chosen reports whether a test is to try mutants.
func Chosen() bool { return os.Getenv(variable) != "" }

// Try tries the mutants that Survivors wants to be tried: one is killed by a case that has another result, panics, or
// does not end. Each case has the same result each time, as long as no mutant is switched on. The process ends with one
// that takes too much memory, and when a case has another result without the mutant, too: this one or one before it has
// changed what is shared. Whoever runs it tries the mutant once more, alone.
func Try(cases []func() string) {
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: mostMemory, Max: mostMemory}); err != nil {
		panic(err)
	}
	kept := make([]string, len(cases))
	for i, result := range cases {
		kept[i] = result()
	}
	began := processorTime()
	for i, result := range cases {
		if result() != kept[i] {
			panic("a case has two results: " + kept[i])
		}
	}
	longest := max(20*time.Second, 2*(processorTime()-began))
	fmt.Println("kept", len(cases))
	for text := range strings.FieldsSeq(os.Getenv(variable)) {
		number, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			panic(err)
		}
		fmt.Println("begins", number)
		ends := make(chan string, 1)
		turn(int32(number))
		current := 0
		go func() {
			result := "ends its goroutine"
			defer func() {
				if p := recover(); p != nil {
					result = fmt.Sprint("panics: ", p)
				}
				ends <- result
			}()
			for i, run := range cases {
				current = i
				if now := run(); now != kept[i] {
					result = fmt.Sprintf("differs %d %q %q", i, kept[i], now)
					return
				}
			}
			result = ""
		}()
		end := endOf(ends, longest)
		if end == unending {
			switchedOn.Store(0)
			if endOf(ends, longest) == unending {
				os.Exit(3)
			}
		}
		turn(0)
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

// endOf returns how a mutant ends. It may take so long of the processor, however busy the machine is; what only waits
// takes five minutes.
func endOf(ends chan string, longest time.Duration) string {
	for began, start := processorTime(), time.Now(); processorTime()-began < longest &&
		time.Since(start) < 5*time.Minute; {
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
