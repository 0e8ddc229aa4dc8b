package types

import (
	"slices"
	"strings"
)

// DidYouMean suggests the name that another may be a misspelling of, to end a message with; "" if
// there is none.
func DidYouMean(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// Suggest is DidYouMean, but lists the known names if none of them is near and there are at most a number of them.
func Suggest(name string, known []string, most int) string {
	if near := DidYouMean(name, known); near != "" || len(known) == 0 || len(known) > most {
		return near
	}
	return ": its fields are " + strings.Join(slices.Sorted(slices.Values(known)), ", ")
}

// Nearest returns the name that another may be a misspelling of: the one with the smallest
// distance, if it is small, or the only one that begins like it; "" if there is none.
func Nearest(name string, known []string) string {
	known = slices.Sorted(slices.Values(known))
	best, least := "", 1+min(2, len(name)/3)
	for _, candidate := range known {
		d := distance(strings.ToLower(name), strings.ToLower(candidate), least)
		if candidate != name && d < least {
			best, least = candidate, d
		}
	}
	if best != "" || slices.Contains(known, name) {
		return best
	}
	for _, candidate := range known { // templ, childs
		if common := commonPrefix(name, candidate); common >= 4 && common >= len(name)-1 {
			if best != "" {
				return ""
			}
			best = candidate
		}
	}
	return best
}

// commonPrefix returns how many letters two texts begin with.
func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// distance returns how many letters have to be added, removed, replaced or swapped with the next
// to turn one text into another, or limit if these are as many.
func distance(a, b string, limit int) int {
	if max(len(a), len(b))-min(len(a), len(b)) >= limit {
		return limit
	}
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	before, last, row := rows[0], rows[1], rows[2]
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], limit)
}
