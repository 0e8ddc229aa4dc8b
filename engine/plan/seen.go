package plan

// Seen is what earlier reconciles have seen of the children of an object, and what neither the cluster nor the status
// may show any more.
type Seen struct {
	// numbers are the highest numbers that were in use for the members of sets. They are not used again: what was to
	// delete a member by its name would hit its successor. Most kinds have one set, for which a map would take five
	// times the memory.
	numbers    []setNumber
	unrecorded *Unrecorded
}

type setNumber struct {
	set     string
	highest int
}

// number returns the highest number that was in use for members of a set.
func (s *Seen) number(set string) (highest int, isKnown bool) {
	if s == nil {
		return 0, false
	}
	for _, n := range s.numbers {
		if n.set == set {
			return n.highest, true
		}
	}
	return 0, false
}
