package inject

import (
	"cmp"
	"slices"
)

// edit is an addition to the text of a Pod.
type edit struct {
	at  int // in the text
	cut int // how much of the text is removed: a null, or the old annotation
	// text is the value to add, and name the quoted name of the member, if it is one.
	text, name []byte
	// before means that an item follows, not the end of a list or an object.
	before bool
	// alone means that the list or object is empty.
	alone bool
}

// apply returns the text with all additions, in the order in which they were recorded. The result
// is that of the patch, as the tests check with a library.
func apply(text []byte, edits []edit) []byte {
	size := len(text)
	for _, e := range edits {
		size += len(e.name) + len(e.text) + len(":,")
	}
	ordered := slices.Clone(edits)
	slices.SortStableFunc(ordered, func(a, b edit) int { return cmp.Compare(a.at, b.at) })
	result, done := make([]byte, 0, size), 0
	for i, e := range ordered {
		result = append(result, text[done:e.at]...)
		done = e.at + e.cut
		first := e.alone && (i == 0 || ordered[i-1].at != e.at)
		if e.cut == 0 && !e.before && !first {
			result = append(result, ',')
		}
		if e.name != nil {
			result = append(append(result, e.name...), ':')
		}
		result = append(result, e.text...)
		if e.before {
			result = append(result, ',')
		}
	}
	return append(result, text[done:]...)
}
