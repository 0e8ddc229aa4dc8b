package plan

// Obstacles are what keeps children from becoming as they are wanted.
type Obstacles struct {
	// Rejected is an error that requires user action; retrying may resolve Failed.
	Rejected, Failed error
	// Waiting reports that a child waits for another object to be gone, and Held that a write
	// was left for later.
	Waiting, Held bool
}

// IsObstructed reports whether there are any.
func (o Obstacles) IsObstructed() bool { return o != Obstacles{} }
