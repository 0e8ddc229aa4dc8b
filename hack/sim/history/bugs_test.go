//go:build sim

package history

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	someBugs = flag.String("bugs", "",
		"put bugs into the engine, and ask whether histories show them: all, or a part of the name of one")
	overlays = flag.String("overlays", "", "the file that go test was given as its overlay")
)

// TestBugs puts each bug into the engine and plays histories until one shows it.
func TestBugs(t *testing.T) {
	if *someBugs == "" {
		t.Skip("it takes half an hour: make test-bugs")
	}
	text, err := os.ReadFile(*overlays)
	require.NoError(t, err)
	found, tried := 0, 0
	for _, b := range bugs {
		if *someBugs != "all" && !strings.Contains(b.name, *someBugs) {
			continue
		}
		tried++
		start := time.Now()
		shown := b.shown(t, text)
		if shown == "" {
			t.Logf("NOT FOUND: %s (%v)", b.name, time.Since(start).Round(time.Second))
			continue
		}
		found++
		t.Logf("found: %s (%v): %.200s", b.name, time.Since(start).Round(time.Second), shown)
	}
	require.Positive(t, tried)
	t.Logf("histories show %d of %d bugs", found, tried)
}

// shown returns what shows a bug in some histories; it is empty if none does.
func (b bug) shown(t *testing.T, overlay []byte) string {
	t.Helper()
	var files struct{ Replace map[string]string }
	require.NoError(t, json.Unmarshal(overlay, &files))
	path, err := filepath.Abs(filepath.Join("../../../engine", b.file))
	require.NoError(t, err)
	source, err := os.ReadFile(path)
	require.NoError(t, err)
	dir := t.TempDir()
	files.Replace[path] = filepath.Join(dir, "replaced.go")
	require.NoError(t, os.WriteFile(files.Replace[path], []byte(strings.Replace(string(source), b.is, b.becomes, 1)),
		0o600))
	encoded, err := json.Marshal(files)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), encoded, 0o600))
	binary := filepath.Join(dir, "test")
	output, err := exec.Command("go", "test", "-c", "-vet=off", "-tags", "sim", "-overlay",
		filepath.Join(dir, "overlay.json"), "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, "%s: %s", b.name, output)
	return playUntilViolation(t, binary)
}

// playUntilViolation plays histories in a process for each core, and returns what one of them shows within ten minutes.
// A process that fails shows something as well, unless it was stopped.
func playUntilViolation(t *testing.T, binary string) (shown string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
	defer stop()
	cores := uint64(runtime.NumCPU())
	results := make(chan string, cores)
	for i := range cores {
		go func() {
			b, err := inProcess(ctx, binary, *firstHistory+*histories*i/cores, *histories/cores, "-until-violation")
			switch {
			case ctx.Err() != nil:
				results <- ""
			case err != nil:
				results <- err.Error()
			case len(b.Violations) > 0:
				results <- b.Violations[0]
			default:
				results <- ""
			}
		}()
	}
	for range cores {
		if shown = cmp.Or(shown, <-results); shown != "" {
			stop()
		}
	}
	return shown
}
