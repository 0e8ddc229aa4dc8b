package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// The measures that most rows have, in the order of the table.
const (
	seconds      = "seconds"
	operatorCPU  = "CPU s"
	peakMemory   = "peak MiB"
	ownMemory    = "own MiB"
	requestCount = "requests"
	eventCount   = "Events"
	apiServerCPU = "API server's CPU s"
)

var columns = []string{seconds, operatorCPU, peakMemory, ownMemory, requestCount, eventCount, apiServerCPU}

// row is one row of the table for one operator.
type row struct {
	Name string
	// Values has the measures by name, and Others the names of those that only this row has.
	Values   map[string]float64
	Others   []string
	Requests requests
	// Note is why values have no meaning; it is empty if they have.
	Note string `json:",omitempty"`
}

// add adds a measure that only this row has.
func (r *row) add(what string, value float64) {
	r.Values[what] = value
	r.Others = append(r.Others, what)
}

// medianRow returns a row with the median of each measure of the runs of one row. The requests are
// those of the first run.
func medianRow(runs []*row) *row {
	median := &row{Name: runs[0].Name, Others: runs[0].Others, Requests: runs[0].Requests,
		Values: make(map[string]float64)}
	for what := range runs[0].Values {
		var values []float64
		for _, r := range runs {
			values = append(values, r.Values[what])
		}
		slices.Sort(values)
		median.Values[what] = (values[len(values)/2] + values[(len(values)-1)/2]) / 2
	}
	for _, r := range runs {
		if r.Note != "" {
			median.Note = r.Note
		}
	}
	return median
}

// table collects the rows of all runs.
type table struct {
	names []string                     // of rows, in the order in which they came
	runs  map[string]map[string][]*row // by name of the row, and by operator
}

func (t *table) add(operator string, rows []*row) {
	for _, r := range rows {
		if t.runs[r.Name] == nil {
			t.names = append(t.names, r.Name)
			if t.runs == nil {
				t.runs = make(map[string]map[string][]*row)
			}
			t.runs[r.Name] = make(map[string][]*row)
		}
		t.runs[r.Name][operator] = append(t.runs[r.Name][operator], r)
	}
}

// print writes the table as Markdown, with a cell "Fescue / by hand = ratio" for each measure, and
// then the requests of each row by verb and resource.
func (t *table) print(w io.Writer) {
	_, _ = fmt.Fprintf(w, "Fescue / by hand = ratio\n\n| | %s | other |\n|---|%s\n", strings.Join(columns, " | "),
		strings.Repeat("---|", len(columns)+1))
	for _, name := range t.names {
		medians := make(map[string]*row)
		for operator, runs := range t.runs[name] {
			medians[operator] = medianRow(runs)
		}
		_, _ = fmt.Fprintf(w, "| %s | %s |\n", name, strings.Join(cells(medians), " | "))
	}
	for _, name := range t.names {
		for _, operator := range []string{fescue, byHand, floor} {
			if runs := t.runs[name][operator]; len(runs) > 0 {
				_, _ = fmt.Fprintf(w, "\n%s, %s: %s", name, operator, runs[0].Requests)
			}
		}
	}
	_, _ = fmt.Fprintln(w)
}

// cells returns the cells of the rows of the operators.
func cells(rows map[string]*row) []string {
	var cells, others []string
	for _, what := range columns {
		cells = append(cells, compare(rows, what))
	}
	for _, r := range rows {
		others = slices.Clone(r.Others)
	}
	for i, what := range others {
		others[i] = what + ": " + compare(rows, what)
	}
	for _, operator := range []string{fescue, byHand} {
		if r := rows[operator]; r != nil && r.Note != "" {
			others = append(others, operator+" "+r.Note)
		}
	}
	return append(cells, strings.Join(others, "; "))
}

// compare returns one measure of the operators as text.
func compare(rows map[string]*row, what string) string {
	value := func(operator string) (float64, bool) {
		if rows[operator] == nil {
			return 0, false
		}
		v, ok := rows[operator].Values[what]
		return v, ok
	}
	ours, hasOurs := value(fescue)
	theirs, hasTheirs := value(byHand)
	lowest, hasFloor := value(floor)
	var text string
	switch {
	case hasOurs && hasTheirs && theirs != 0:
		text = fmt.Sprintf("%s / %s = %.2f", short(ours), short(theirs), ours/theirs)
	case hasOurs && hasTheirs:
		text = short(ours) + " / 0"
	case hasOurs:
		text = short(ours)
	case hasTheirs:
		text = "– / " + short(theirs)
	}
	// The memory of the floor is that of this program, which has other parts.
	if hasFloor && what != peakMemory && what != ownMemory {
		text += ", floor " + short(lowest)
	}
	return text
}

// short returns a number with at least two significant digits, and at most three if it has a
// fraction.
func short(v float64) string {
	switch {
	case v >= 100 || v == float64(int(v)):
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.1:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.3f", v)
	}
}

// String lists the requests, the most frequent first.
func (r requests) String() string {
	var texts []string
	for _, what := range slices.SortedFunc(maps.Keys(r), func(a, b string) int {
		if r[a] != r[b] {
			return r[b] - r[a]
		}
		return strings.Compare(a, b)
	}) {
		texts = append(texts, fmt.Sprintf("%d %s", r[what], what))
	}
	return strings.Join(texts, ", ")
}
