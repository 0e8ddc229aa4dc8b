package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// limits are the highest ratios, Fescue to the operator by hand, by measure. A run on a busy machine is slower as a
// whole, so ratios of one run can be judged where seconds cannot.
type limits map[string]float64

// add reads a limit as it stands in a flag.
func (l *limits) add(text string) error {
	measure, ratio, _ := strings.Cut(text, "=")
	if !slices.Contains(columns, measure) {
		return fmt.Errorf("%q is not one of %s", measure, strings.Join(columns, ", "))
	}
	limit, err := strconv.ParseFloat(ratio, 64)
	if err != nil {
		return fmt.Errorf("the ratio of %s: %w", measure, err)
	}
	if *l == nil {
		*l = make(limits)
	}
	(*l)[measure] = limit
	return nil
}

// check returns an error for each row whose ratio is above its limit, and for a limit that judges no row.
func (l limits) check(t *table) error {
	var errs []error
	for _, measure := range slices.Sorted(maps.Keys(l)) {
		judged := false
		for _, name := range t.names {
			ours, theirs := t.runs[name][fescue], t.runs[name][byHand]
			if len(ours) == 0 || len(theirs) == 0 {
				continue
			}
			a, b := medianRow(ours).Values[measure], medianRow(theirs).Values[measure]
			if b == 0 {
				continue
			}
			judged = true
			if a/b > l[measure] {
				errs = append(errs, fmt.Errorf("%s: %s: %s / %s = %.2f, above %.2f", name, measure, short(a), short(b),
					a/b, l[measure]))
			}
		}
		if !judged {
			errs = append(errs, fmt.Errorf("no row compares %s", measure))
		}
	}
	return errors.Join(errs...)
}
