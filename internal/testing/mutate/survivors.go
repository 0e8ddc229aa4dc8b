package mutate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// Overlay replaces files for the go command.
type Overlay struct {
	dir      string
	replaced map[string]string
}

// NewOverlay returns an overlay that replaces nothing. It lasts as long as the test.
func NewOverlay(tb testing.TB) *Overlay {
	tb.Helper()
	return &Overlay{tb.TempDir(), make(map[string]string)}
}

// Add replaces a file, which need not exist, by a text.
func (o *Overlay) Add(tb testing.TB, file, text string) {
	tb.Helper()
	absolute, err := filepath.Abs(file)
	require.NoError(tb, err)
	o.replaced[absolute] = filepath.Join(o.dir, strconv.Itoa(len(o.replaced))+".go")
	require.NoError(tb, os.WriteFile(o.replaced[absolute], []byte(text), 0o600))
}

// AddMutants replaces the Go files of a folder, apart from tests, by those that a Source makes of them and that rewrite
// changes; nil changes nothing.
func (o *Overlay) AddMutants(tb testing.TB, dir string, of *Source, rewrite func(text string) string) {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(tb, err)
	name := ""
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		copied, err := of.File(file)
		require.NoError(tb, err)
		text := string(copied)
		if rewrite != nil {
			text = rewrite(text)
		}
		o.Add(tb, file, text)
		_, after, _ := strings.Cut("\n"+text, "\npackage ")
		name, _, _ = strings.Cut(after, "\n")
	}
	o.Add(tb, filepath.Join(dir, "mutated.go"), "package "+name+"\n\n"+
		"import \"github.com/fescue-dev/fescue/internal/testing/mutate\"\n\nfunc mutated(number int32) bool { return mutate.On(number) }\n")
}

// Survivors returns the mutants that a test of the package in a folder does not notice, which calls Try. Each processor
// tries a part of them. A process that a mutant ends is followed by another, for the rest. That one is killed if it was
// the first of its process; else one before it may be why, and it is the first of the next. The flags are given to the
// test.
func (o *Overlay) Survivors(
	t *testing.T, dir, test string, mutants []Mutant, flags ...string,
) (survivors []Mutant) {
	t.Helper()
	binary := o.binaryOf(t, dir)
	left := make([][]Mutant, runtime.NumCPU())
	var running errgroup.Group
	for i := range left {
		var part []Mutant
		for n := i; n < len(mutants); n += len(left) {
			part = append(part, mutants[n])
		}
		running.Go(func() (err error) {
			left[i], err = survivorsOf(t, binary, dir, test, part, flags)
			return err
		})
	}
	require.NoError(t, running.Wait())
	return slices.Concat(left...)
}

// Unnoticed returns the mutants with which the tests of the package in a folder pass.
func (o *Overlay) Unnoticed(t *testing.T, dir string, mutants []Mutant) (unnoticed []Mutant) {
	t.Helper()
	binary := o.binaryOf(t, dir)
	isNoticed := make([]bool, len(mutants))
	var running errgroup.Group
	running.SetLimit(runtime.NumCPU())
	for i, m := range mutants {
		running.Go(func() error {
			command := exec.Command(binary, "-test.failfast", "-test.short", "-test.timeout", "5m")
			command.Dir = dir
			command.Env = append(os.Environ(), always+"="+strconv.Itoa(m.Number))
			isNoticed[i] = command.Run() != nil
			return nil
		})
	}
	require.NoError(t, running.Wait())
	for i, m := range mutants {
		if !isNoticed[i] {
			unnoticed = append(unnoticed, m)
		}
	}
	return unnoticed
}

// binaryOf builds the tests of the package in a folder.
func (o *Overlay) binaryOf(t *testing.T, dir string) string {
	t.Helper()
	data, err := json.Marshal(map[string]any{"Replace": o.replaced})
	require.NoError(t, err)
	overlay := filepath.Join(o.dir, "overlay.json")
	require.NoError(t, os.WriteFile(overlay, data, 0o600))
	binary := filepath.Join(t.TempDir(), "test")
	output, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary,
		"./"+dir).CombinedOutput()
	require.NoError(t, err, string(output))
	return binary
}

// survivorsOf tries some mutants, in one process after the other.
func survivorsOf(
	t *testing.T, binary, dir, test string, mutants []Mutant, flags []string,
) (survivors []Mutant, err error) {
	for len(mutants) > 0 {
		var numbers []string
		for _, m := range mutants {
			numbers = append(numbers, strconv.Itoa(m.Number))
		}
		command := exec.Command(binary,
			slices.Concat(flags, []string{"-test.run", "^" + test + "$", "-test.timeout", "0"})...)
		command.Dir = dir
		command.Env = append(os.Environ(), variable+"="+strings.Join(numbers, " "))
		var failure bytes.Buffer
		command.Stderr = &failure
		lines, err := command.StdoutPipe()
		if err == nil {
			err = command.Start()
		}
		if err != nil {
			return nil, err
		}
		begun := false
		first := mutants[0]
		start := time.Now()
		var other []string
		scanner := bufio.NewScanner(lines)
		scanner.Buffer(nil, 1<<30) // a mutant may write long lines; whoever stops reading would block it
		for scanner.Scan() {
			word, rest, _ := strings.Cut(scanner.Text(), " ")
			switch word {
			case "kept":
				t.Logf("%s: %d mutants, %s cases, which take %v to prepare", dir, len(mutants), rest, time.Since(start))
			case "begins":
				begun = true
			case "survives", "killed":
				if word == "survives" {
					survivors = append(survivors, mutants[0])
				}
				mutants, begun = mutants[1:], false
			default:
				other = append(other, scanner.Text())
			}
		}
		err = command.Wait()
		if begun { // it ended the process
			if mutants[0] == first {
				mutants = mutants[1:]
			}
			continue
		}
		if err == nil && len(mutants) > 0 && mutants[0] == first {
			err = fmt.Errorf("%s of %s has tried no mutant", test, dir)
		}
		if err != nil {
			return nil, fmt.Errorf("%w\n%s%s", err, strings.Join(other, "\n"), &failure)
		}
		t.Logf("%s: %v", dir, time.Since(start))
	}
	return survivors, nil
}
