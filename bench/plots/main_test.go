package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const table = `# Page

![memory](plots/memory.svg)

<!-- plot: memory, MiB: Fescue, by hand -->
| objects | Fescue | ratio | by hand |
|---|---|---|---|
| none | 25 | 2.5 | 10 MiB |
| ` + "`a`" + ` & b | 1,250.5 | | |

Text.
`

func TestParse(t *testing.T) {
	t.Parallel()
	plots, err := parse(table)
	require.NoError(t, err)
	require.Equal(t, []plot{{name: "memory", unit: "MiB", series: []string{"Fescue", "by hand"}, rows: []row{
		{label: "none", cells: []string{"25", "10 MiB"}}, {label: "a & b", cells: []string{"1,250.5", ""}},
	}}}, plots)
	text := string(plots[0].svg())
	require.Contains(t, text, "a &amp; b")
	require.Contains(t, text, `width="430.0"`)           // 1,250.5
	require.Equal(t, 2+3, strings.Count(text, "<rect ")) // of the legend, and of the three cells with a number
	require.Contains(t, text, `width="3.4"`)             // 10 MiB
}

func TestScales(t *testing.T) {
	t.Parallel()
	rows := []row{{cells: []string{"1", "10"}}, {cells: []string{"100", "200"}}}
	perRow, log := plot{scale: "row", rows: rows}, plot{scale: "log", rows: rows}
	require.InDelta(t, 0.5, perRow.share(rows[1], 100), 0.001)
	require.InDelta(t, 1, perRow.share(rows[0], 10), 0.001)
	require.InDelta(t, 0.1157, log.share(rows[0], 1), 0.001)
	require.InDelta(t, 1, log.share(rows[1], 200), 0.001)
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for _, mistake := range []struct{ before, after, message string }{
		{"by hand -->", "by foot -->", `line 5: plot memory: no column is called "by foot"`},
		{"plot: memory,", "plot memory,", `line 5: "<!-- plot memory, MiB: Fescue, by hand -->" is not <!-- plot: NAME`},
		{"memory.svg", "other.svg", "line 5: the page does not show plots/memory.svg"},
		{"10 MiB |", "10 MiB | 7 |", "has 5 cells instead of 4"},
	} {
		_, err := parse(strings.Replace(table, mistake.before, mistake.after, 1))
		require.ErrorContains(t, err, mistake.message)
	}
}

// The plots are those of the page. If they are not, run make plots.
func TestPlotsAreUpToDate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, run("../../docs/performance.md", dir))
	drawn, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	require.NoError(t, err)
	require.NotEmpty(t, drawn)
	kept, err := filepath.Glob("../../docs/plots/*.svg")
	require.NoError(t, err)
	require.Len(t, kept, len(drawn))
	for _, file := range drawn {
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join("../../docs/plots", filepath.Base(file)))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s: run make plots", filepath.Base(file))
	}
}
