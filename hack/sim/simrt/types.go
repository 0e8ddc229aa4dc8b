package simrt

// Options say how a history runs.
type Options struct {
	Seed uint64
	// Yield is in how many points of synchronization a goroutine yields once: locks, channels and select. 0 is never.
	Yield uint32
	// Tick is the virtual time in nanoseconds that passes at most with each switch of goroutines. 0 is none: then time
	// passes only when all wait.
	Tick uint32
	// Demote is in how many switches the most urgent goroutine, which always runs, becomes the least urgent one once. 0
	// means that each goroutine is as likely to run.
	Demote uint32
}

// Stats are those of a history.
type Stats struct {
	// Hash is that of all decisions of the scheduler. Two histories with the same hash ran alike.
	Hash uint64
	// Picks counts the goroutines that were picked, Choices those among others, Points the points of synchronization,
	// Yields those at which a goroutine yielded, and Values the other random numbers.
	Picks, Choices, Points, Yields, Values uint64
}
