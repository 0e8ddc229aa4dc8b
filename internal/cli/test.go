package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/internal/scenario"
)

const testHelp = `Test runs scenarios: what happens to objects step by step, and the expected result of each
step. It needs no cluster and no time: the controllers run in memory, with the operator's
own code, on a clock that jumps. A week takes milliseconds.

The scenarios of a folder with kinds are the files *.txtar in it and in its subfolder
testdata. They run with the kinds of the folder, those of --kinds and the shipped ones; a shipped
kind is left out if the folder has a kind of the same name, such as a copy of it. The output
is like that of 'go test', and the exit code is 1 if something differs.

A scenario has its steps first, one command on a line, and then the files they name:

  # An At starts at its time.
  apply at.yaml
  wait 168h
  fail pod/hello-pod
  -- at.yaml --
  apiVersion: cnat.fescue.dev/v1alpha1
  ...

--update writes the result of each step into the file, as '-- after wait 168h --'.
Read it once; from then on, every difference is a failure.

  now TIME                      the first command: when it begins, 2030-01-01T00:00:00Z if absent
  apply FILE...                 create or update the objects of files, like kubectl
  patch TYPE/NAME PATCH         change an object: {spec: {count: 3}}, or a file; the status as well
  delete TYPE/NAME              delete an object
  wait DURATION                 let time pass, like 10m or 168h
  succeed TYPE/NAME             a Pod or a Job ends
  fail TYPE/NAME                a Pod or a Job fails
  hold TYPE[/NAME]              new objects stay as they are created: Pods do not start
  release TYPE[/NAME]           ends hold
  reject VERBS TYPE[/NAME] MESSAGE  the API server rejects writes of the controller, which are
                                create, patch, delete, or several with commas
  allow VERBS TYPE[/NAME]       ends reject
  restart                       the operator restarts
  get TYPE/NAME                 expect an object as it is; ! get: that it does not exist

NAME can be NAMESPACE/NAME, for objects of the same name in several namespaces: pod/team-a/hello.

A ! before apply or patch expects a rejection by the API server. Other objects behave as on a
healthy cluster, all at once: Pods run and are ready, rollouts of Deployments, StatefulSets,
ReplicaSets and DaemonSets end, Jobs start, PersistentVolumeClaims are bound, and a LoadBalancer
gets an address. If the scenario patches the status of an object, it keeps that status.`

type testOptions struct {
	kinds           kindOptions
	run             string
	update, verbose bool

	standardOutput io.Writer
}

func newTestCommand() *cobra.Command {
	var o testOptions
	c := &cobra.Command{
		Use:   "test [DIR]...",
		Short: "Run the scenarios of kinds, without a cluster",
		Long:  testHelp,
		Example: `  fescue test ./my-kinds
  fescue test ./my-kinds --run 'at-.*' -v
  fescue test ./my-kinds --update`,
		RunE: func(c *cobra.Command, args []string) error {
			o.standardOutput = c.OutOrStdout()
			return o.test(c.Context(), args)
		},
	}
	c.ValidArgsFunction = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
	o.kinds.addFlags(c)
	c.Flags().StringVar(&o.run, "run", "", "run only the scenarios whose names match this regular expression")
	c.Flags().BoolVar(&o.update, "update", false, "write what is expected after each step, instead of comparing")
	c.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "print the name of each scenario")
	return c
}

// test runs the scenarios of folders.
func (o testOptions) test(ctx context.Context, dirs []string) error {
	selected, err := regexp.Compile(o.run)
	if err != nil {
		return fmt.Errorf("--run: invalid value %q: must be a regular expression: %w", o.run, err)
	}
	if len(dirs) == 0 {
		dirs = []string{"."}
	}
	failed := false
	var errs []error // of one folder, which hides no other
	for _, dir := range dirs {
		ok, err := o.testFolder(ctx, dir, selected)
		failed, errs = failed || !ok, append(errs, err)
	}
	if err := errors.Join(errs...); err != nil || !failed {
		return err
	}
	return errFindings
}

// testFolder runs the scenarios of one folder, and reports whether all are as expected.
func (o testOptions) testFolder(ctx context.Context, dir string, selected *regexp.Regexp) (ok bool, err error) {
	files, err := scenarioFiles(dir)
	if err != nil {
		return false, err
	}
	files = slices.DeleteFunc(files, func(file string) bool { return !selected.MatchString(scenarioName(file)) })
	if len(files) == 0 {
		o.printf("?   \t%s\t[no scenarios]\n", dir)
		return true, nil
	}
	began := time.Now()
	if hasKinds(dir) {
		o.kinds.dirs = append(slices.Clone(o.kinds.dirs), dir)
	}
	kinds, err := o.kinds.load(ctx)
	if _, isShipped := errors.AsType[*load.ShippedError](err); isShipped { // they are another state of the shipped ones
		o.kinds.shipped = false
		kinds, err = o.kinds.load(ctx)
	}
	if err = errors.Join(kinds.BrokenError(), err, kinds.AddTypes()); err != nil {
		return false, err
	}
	ok = true
	for _, file := range files {
		passed, err := o.testFile(dir, file, kinds)
		if err != nil {
			return false, err
		}
		ok = ok && passed
	}
	result := "ok  "
	if !ok {
		result = "FAIL"
		o.printf("FAIL\n")
	}
	o.printf("%s\t%s\t%.3fs\n", result, dir, time.Since(began).Seconds())
	return ok, nil
}

// hasKinds reports whether a folder has files in CUE.
func hasKinds(dir string) bool {
	files, err := fs.Glob(os.DirFS(dir), "*.cue")
	return err == nil && len(files) > 0
}

// scenarioFiles lists the scenarios of a folder.
func scenarioFiles(dir string) (files []string, err error) {
	if _, err := os.ReadDir(dir); err != nil {
		return nil, err
	}
	for _, pattern := range []string{"*.txtar", "testdata/*.txtar"} {
		found, err := fs.Glob(os.DirFS(dir), pattern)
		if err != nil {
			return nil, err
		}
		for _, file := range found {
			files = append(files, filepath.Join(dir, file))
		}
	}
	return files, nil
}

func scenarioName(file string) string { return strings.TrimSuffix(filepath.Base(file), ".txtar") }

// testFile runs one scenario, or updates it, and reports whether it is as expected.
func (o testOptions) testFile(dir, file string, kinds *load.Kinds) (passed bool, err error) {
	name, began := scenarioName(file), time.Now()
	if o.verbose {
		o.printf("=== RUN   %s\n", name)
	}
	var report []string
	text, err := os.ReadFile(file)
	if err != nil {
		return false, err
	}
	s, err := scenario.Parse(file, text)
	var outputs []string
	if err == nil {
		outputs, err = s.Run(kinds)
	}
	for i := range outputs {
		outputs[i] = withinFolder(outputs[i], dir)
	}
	for _, e := range syntax.Unjoined(err) {
		report = append(report, e.Error()+"\n")
	}
	switch {
	case err == nil && o.update:
		if updated := s.Updated(outputs); string(updated) != string(text) {
			if err := os.WriteFile(file, updated, 0o644); err != nil {
				return false, err
			}
			o.printf("updated %s\n", file)
		}
	case s != nil && !o.update:
		for _, f := range s.Compare(outputs) {
			report = append(report, fmt.Sprintf("%s:%d: %s\n%s", file, f.Line, f.Text, indented(f.Difference)))
		}
	}
	result := "PASS"
	if len(report) > 0 {
		result = "FAIL"
	}
	if o.verbose || len(report) > 0 {
		o.printf("--- %s: %s (%.2fs)\n%s", result, name, time.Since(began).Seconds(),
			indented(strings.Join(report, "")))
	}
	return len(report) == 0, nil
}

// withinFolder returns a text in which places in the files of a folder are named as in the folder: what
// is expected must not depend on where the command runs.
func withinFolder(text, dir string) string {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return text
	}
	for _, name := range []string{absolute, filepath.Clean(dir)} {
		text = strings.ReplaceAll(text, "("+name+string(filepath.Separator), "(")
	}
	return text
}

// indented returns a text with each line indented as `go test` does.
func indented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("    " + line)
	}
	return b.String()
}

func (o testOptions) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(o.standardOutput, format, args...)
}
