package main

// patch changes one file of the standard library: each old text has to occur once.
type patch struct {
	file     string
	replaces []replacement
}

type replacement struct{ old, new string }

// patches make every choice that the runtime leaves open follow from the seed of a history (docs/decisions/0068-simulated-runtime.md).
var patches = []patch{
	{"runtime/rand.go", []replacement{
		{ // the streams of the process are the same in each process
			"\tseed := &globalRand.seed\n\tif len(startupRand) >= 16 &&",
			"\tseed := &globalRand.seed\n\tif true {\n\t\tfor i := range seed {\n\t\t\tseed[i] = byte(i + 1)\n\t\t}\n\t} else if len(startupRand) >= 16 &&",
		},
		{ // a new thread takes nothing from the stream of a history
			"\tmp.chacha8.Init64(seed)\n\tmp.cheaprand = rand()\n",
			"\tmp.chacha8.Init64(seed)\n\ton := sim.on\n\tsim.on = false\n\tmp.cheaprand = rand()\n\tsim.on = on\n",
		},
		{ // not the streams of threads: chance decides which of them runs main
			"\tmp := getg().m\n\tc := &mp.chacha8\n",
			"\tif simIn() {\n\t\treturn simSteady()\n\t}\n\tif simReady {\n\t\treturn simNext(&simOutside)\n\t}\n\tmp := getg().m\n\tc := &mp.chacha8\n",
		},
	}},
	{"runtime/select.go", []replacement{
		{"\treturn uintptr(unsafe.Pointer(c))\n", "\treturn c.simID\n"}, // not the order of addresses
		{"j := cheaprandn(uint32(norder + 1))", "j := simRandn(uint32(norder + 1))"},
		{"\tncases := nsends + nrecvs\n", "\tsimYield()\n\tncases := nsends + nrecvs\n"},
	}},
	{"runtime/chan.go", []replacement{
		{"\tc.dataqsiz = uint(size)\n", "\tc.dataqsiz = uint(size)\n\tsimChans++\n\tc.simID = simChans\n"},
		{"\tbubble   *synctestBubble\n", "\tbubble   *synctestBubble\n\tsimID    uintptr\n"},
		{"\tif c.bubble != nil && getg().bubble != c.bubble {\n\t\tfatal(\"send on synctest channel from outside bubble\")\n\t}\n", "\tif c.bubble != nil && getg().bubble != c.bubble {\n\t\tfatal(\"send on synctest channel from outside bubble\")\n\t}\n\tsimYield()\n"},
		{"\tif c.bubble != nil && getg().bubble != c.bubble {\n\t\tfatal(\"receive on synctest channel from outside bubble\")\n\t}\n", "\tif c.bubble != nil && getg().bubble != c.bubble {\n\t\tfatal(\"receive on synctest channel from outside bubble\")\n\t}\n\tsimYield()\n"},
		{"\tif c.bubble != nil && getg().bubble != c.bubble {\n\t\tfatal(\"close of synctest channel from outside bubble\")\n\t}\n", "\tif c.bubble != nil && getg().bubble != c.bubble {\n\t\tfatal(\"close of synctest channel from outside bubble\")\n\t}\n\tsimYield()\n"},
	}},
	{"runtime/proc.go", []replacement{
		{"\tnewg.trackingSeq = uint8(cheaprand())\n", "\tnewg.trackingSeq = uint8(cheaprand())\n\tsimBorn(newg)\n"},
		{ // the seed picks the goroutine that runs next
			"\t// If there's a runnext, it's the next G to run.\n\tnext := pp.runnext\n",
			"\tif sim.on {\n\t\tsimPick(pp)\n\t}\n\t// If there's a runnext, it's the next G to run.\n\tnext := pp.runnext\n",
		},
		{ // one that yields stays where the seed picks from
			"\tif preempted && sched.gcwaiting.Load() {\n\t\t// If preempted for STW",
			"\tif sim.on && gp.bubble != nil {\n\t\trunqput(pp, gp, false)\n\t} else if preempted && sched.gcwaiting.Load() {\n\t\t// If preempted for STW",
		},
		{ // real time preempts nothing
			"\tgp.preempt = true\n\n\t// Every call in a goroutine checks for stack overflow by",
			"\tif simReady {\n\t\treturn false\n\t}\n\tgp.preempt = true\n\n\t// Every call in a goroutine checks for stack overflow by",
		},
	}},
	{"runtime/runtime2.go", []replacement{
		{ // who waits for a lock whose owner waits for time does not keep the time from passing
			"\twaitReasonSyncCondWait:          true,\n",
			"\twaitReasonSyncCondWait:          true,\n\twaitReasonSyncMutexLock:         true,\n\twaitReasonSyncRWMutexRLock:      true,\n\twaitReasonSyncRWMutexLock:       true,\n",
		},
		{"\tbubble  *synctestBubble\n", "\tbubble  *synctestBubble\n\tsimUrgency uint32\n"},
	}},
	{"runtime/time.go", []replacement{
		{"\t\t\tt.rand = cheaprand()\n", "\t\t\tt.rand = simRandn(1<<32 - 1)\n"},
	}},
	{"runtime/sema.go", []replacement{
		{
			"func internal_sync_nanotime() int64 {\n\treturn nanotime()\n",
			"func internal_sync_nanotime() int64 {\n\tif gp := getg(); sim.on && gp.bubble != nil {\n\t\treturn gp.bubble.now\n\t}\n\treturn nanotime()\n",
		},
	}},
	// math/rand keeps a stream: a program may draw until it gets another number.
	{"math/rand/rand.go", []replacement{
		{"//go:linkname runtime_rand runtime.rand\n", "//go:linkname runtime_rand runtime.simRand\n"},
	}},
	{"math/rand/v2/rand.go", []replacement{
		{"//go:linkname runtime_rand runtime.rand\n", "//go:linkname runtime_rand runtime.simRand\n"},
	}},
	{"sync/mutex.go", []replacement{
		{"\tm.mu.Lock()\n", "\truntime_simYield()\n\tm.mu.Lock()\n"},
		{"\tm.mu.Unlock()\n", "\tm.mu.Unlock()\n\truntime_simYield()\n"},
	}},
	{"sync/rwmutex.go", []replacement{
		{"func (rw *RWMutex) RLock() {\n", "func (rw *RWMutex) RLock() {\n\truntime_simYield()\n"},
		{"func (rw *RWMutex) Lock() {\n", "func (rw *RWMutex) Lock() {\n\truntime_simYield()\n"},
		{"func (rw *RWMutex) RUnlock() {\n", "func (rw *RWMutex) RUnlock() {\n\tdefer runtime_simYield()\n"},
		{"func (rw *RWMutex) Unlock() {\n", "func (rw *RWMutex) Unlock() {\n\tdefer runtime_simYield()\n"},
	}},
	// The locks of what happens once in a process, of what is unique in it, and of the pools themselves, are no points at which to yield.
	{"unique/canonmap.go", []replacement{
		{"\t\"sync\"\n", "\tsync \"internal/sync\" // whose locks the simulation leaves alone\n"},
	}},
	{"sync/once.go", []replacement{
		{"\to.m.Lock()\n\tdefer o.m.Unlock()\n", "\to.m.mu.Lock()\n\tdefer o.m.mu.Unlock()\n"},
	}},
	{"sync/pool.go", []replacement{
		{"\tallPoolsMu.Lock()\n\tdefer allPoolsMu.Unlock()\n", "\tallPoolsMu.mu.Lock()\n\tdefer allPoolsMu.mu.Unlock()\n"},
	}},
	{"sync/runtime.go", []replacement{
		{"func throw(string)\n", "func throw(string)\n\nfunc runtime_simYield()\n"},
	}},
	{"context/context.go", []replacement{ // children are cancelled in the order in which they were made, and not in that of their addresses
		{"\tchildren map[canceler]struct{} // set to nil by the first cancel call\n", "\tchildren map[canceler]int // set to nil by the first cancel call\n\tborn     int\n"},
		{"\t\t\t\tp.children = make(map[canceler]struct{})\n", "\t\t\t\tp.children = make(map[canceler]int)\n"},
		{"\t\t\tp.children[child] = struct{}{}\n", "\t\t\tp.children[child] = p.born\n\t\t\tp.born++\n"},
		{"\tfor child := range c.children {\n", "\tfor _, child := range simOrdered(c.children) {\n"},
		{
			"// removeChild removes a context from its parent.\n",
			"func simOrdered(all map[canceler]int) (ordered []canceler) {\n\tfor child, at := range all {\n\t\ti := len(ordered)\n\t\tfor ordered = append(ordered, child); i > 0 && all[ordered[i-1]] > at; i-- {\n" +
				"\t\t\tordered[i] = ordered[i-1]\n\t\t}\n\t\tordered[i] = child\n\t}\n\treturn ordered\n}\n\n// removeChild removes a context from its parent.\n",
		},
	}},
}
