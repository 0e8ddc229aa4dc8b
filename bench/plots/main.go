// Command plots draws the tables of docs/performance.md as bars, so that the page is the only place for a figure.
//
//	go run -C bench ./plots
//
// A table with a comment above it is drawn:
//
//	<!-- plot: memory, MiB, scale log: Fescue, by hand -->
//
// The parts are the name of the file in docs/plots, the unit, the scale if it is not linear (log; or row, where each
// row has a unit of its own), and the columns. The first column names the rows. A cell without a number has no bar.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	page := flag.String("page", "../docs/performance.md", "the page with the tables")
	dir := flag.String("dir", "../docs/plots", "the folder that the plots are written to")
	flag.Parse()
	if err := run(*page, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "plots:", err)
		os.Exit(1)
	}
}

// run draws all plots of a page, and removes those in the folder that the page no longer has.
func run(page, dir string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	plots, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	if err != nil {
		return err
	}
	for _, file := range old {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, p := range plots {
		if err := os.WriteFile(filepath.Join(dir, p.name+".svg"), p.svg(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// plot is a table that is drawn.
type plot struct {
	name, unit, scale string
	series            []string
	rows              []row
}

type row struct {
	label string
	cells []string // one for each series
}

var (
	marker = regexp.MustCompile(`^<!-- plot: (\w+), ([^,:]+)(?:, scale (log|row))?: (.+) -->$`)
	number = regexp.MustCompile(`^[0-9][0-9,]*(?:\.[0-9]+)?`)
)

// parse returns the plots of a page. Each needs its table, and an image that shows it.
func parse(page string) (plots []plot, err error) {
	lines := strings.Split(page, "\n")
	for i, line := range lines {
		m := marker.FindStringSubmatch(line)
		if m == nil {
			if strings.HasPrefix(line, "<!-- plot") {
				return nil, fmt.Errorf("line %d: %q is not <!-- plot: NAME, UNIT, scale SCALE: COLUMN, COLUMN -->", i+1,
					line)
			}
			continue
		}
		p := plot{name: m[1], unit: m[2], scale: m[3], series: strings.Split(m[4], ", ")}
		if !strings.Contains(page, "](plots/"+p.name+".svg)") {
			return nil, fmt.Errorf("line %d: the page does not show plots/%s.svg", i+1, p.name)
		}
		if err := p.read(lines[i+1:]); err != nil {
			return nil, fmt.Errorf("line %d: plot %s: %w", i+1, p.name, err)
		}
		plots = append(plots, p)
	}
	return plots, nil
}

// read reads the table that the lines begin with.
func (p *plot) read(lines []string) error {
	header := cells(lines[0])
	var columns []int
	for _, name := range p.series {
		i := slices.Index(header, name)
		if i < 0 {
			return fmt.Errorf("no column is called %q: there are %q", name, header)
		}
		columns = append(columns, i)
	}
	for _, line := range lines[min(2, len(lines)):] {
		all := cells(line)
		if all == nil {
			break
		}
		if len(all) != len(header) {
			return fmt.Errorf("%q has %d cells instead of %d", line, len(all), len(header))
		}
		r := row{label: all[0]}
		for _, i := range columns {
			r.cells = append(r.cells, all[i])
		}
		p.rows = append(p.rows, r)
	}
	if len(p.rows) == 0 {
		return fmt.Errorf("no table stands below the comment")
	}
	return nil
}

// cells returns the cells of a line of a table, as plain text; nil if the line is of no table.
func cells(line string) (cells []string) {
	if !strings.HasPrefix(line, "|") {
		return nil
	}
	for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
		cells = append(cells, strings.ReplaceAll(strings.TrimSpace(cell), "`", ""))
	}
	return cells
}

// value returns the number that a cell begins with; 0 if there is none.
func value(cell string) float64 {
	v, err := strconv.ParseFloat(strings.ReplaceAll(number.FindString(cell), ",", ""), 64)
	if err != nil {
		return 0
	}
	return v
}

// colors can be told apart on a light and on a dark page, and by people who do not see all colors.
var colors = []string{"#3b82c4", "#d9822b", "#8a63c9", "#5b9a5b"}

const (
	gray   = "#6e7781" // readable on white and on black
	left   = 250       // where bars begin
	widest = 430
	bar    = 15
	gap    = 12
)

// bars returns how many cells have a number.
func (r row) bars() (n int) {
	for _, cell := range r.cells {
		if value(cell) > 0 {
			n++
		}
	}
	return n
}

// svg draws the plot: a group of bars for each row, with the cells beside them.
func (p *plot) svg() []byte {
	var b bytes.Buffer
	height := 34
	for _, r := range p.rows {
		height += r.bars()*bar + gap
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" fill="%s">`+"\n", left+widest+90, height, gray)
	fmt.Fprintf(&b, "<title>%s</title>\n", html.EscapeString(p.unit))
	x := left
	for i, name := range p.series {
		fmt.Fprintf(&b, `<rect x="%d" y="6" width="10" height="10" fill="%s"/><text x="%d" y="15">%s</text>`+"\n", x,
			colors[i], x+14, html.EscapeString(name))
		x += 34 + 7*len(name)
	}
	unit := p.unit
	if p.scale == "log" {
		unit += ", logarithmic"
	}
	fmt.Fprintf(&b, `<text x="%d" y="15" text-anchor="end">%s</text>`+"\n", left-10, html.EscapeString(unit))
	y := 30
	for _, r := range p.rows {
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", left-10, y+r.bars()*bar/2+4,
			html.EscapeString(r.label))
		for i, cell := range r.cells {
			if v := value(cell); v > 0 {
				width := widest * p.share(r, v)
				fmt.Fprintf(&b,
					`<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/><text x="%.1f" y="%d">%s</text>`+"\n",
					left, y, width, bar-2, colors[i], left+width+5, y+bar-4, html.EscapeString(cell))
				y += bar
			}
		}
		y += gap
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// share returns how long the bar of a value is: 1 is the longest of the plot, or of the row.
func (p *plot) share(r row, v float64) float64 {
	rows := p.rows
	if p.scale == "row" {
		rows = []row{r}
	}
	low, high := math.Inf(1), 0.0
	for _, r := range rows {
		for _, cell := range r.cells {
			if v := value(cell); v > 0 {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	if p.scale == "log" {
		low /= 2 // so that the shortest bar can be seen
		return math.Log(v/low) / math.Log(high/low)
	}
	return v / high
}
