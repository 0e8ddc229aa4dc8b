// Package cli has the commands of fescue with their flags, arguments and output.
//
// It knows the command line and terminals. What a command does is done by the packages below.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// Main runs the command line and returns the exit code: 0, or 1 after an error. It prints errors
// as kubectl does, unless the output of the command has reported them.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := NewCommand()
	nameAsPlugin(root, os.Args[0])
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	execute := func() error { return root.ExecuteContext(ctx) }
	if c, _, err := root.Find(args); err != nil || c.Name() != runCommand { // which ends by itself
		execute = func() error { return abandon(ctx, root.ExecuteContext) }
	}
	err := execute()
	if err == nil {
		return 0
	}
	if !errors.Is(err, errFindings) {
		printErrors(stderr, err)
	}
	return 1
}

// stopGrace is how long a command may take to end after a signal.
const stopGrace = time.Second

// abandon executes a command, but returns soon after ctx has ended even if the command does not: the
// CUE evaluator cannot be interrupted.
func abandon(ctx context.Context, execute func(context.Context) error) error {
	ended := make(chan error, 1)
	go func() { ended <- execute(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(stopGrace):
		return errors.New("stopped by a signal")
	}
}

// printErrors prints one line for each error that is joined in err.
func printErrors(w io.Writer, err error) {
	for _, e := range syntax.Unjoined(err) {
		_, _ = fmt.Fprintln(escaped{w}, "error:", strings.ReplaceAll(e.Error(), "\n", " "))
	}
}

// escaped writes what users name and type to a terminal, without the control characters that change what it shows.
type escaped struct{ io.Writer }

// Write implements io.Writer.
func (w escaped) Write(text []byte) (int, error) {
	return len(text), printers.WriteEscaped(w.Writer, string(text))
}

// nameAsPlugin makes help show the command that users type when kubectl runs the program as a plugin.
func nameAsPlugin(root *cobra.Command, program string) {
	if strings.HasPrefix(filepath.Base(program), "kubectl-") {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl fescue"}
	}
}

// NewCommand returns the command line, from which its man pages and completions are made, too.
func NewCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "fescue",
		Short: "Run Kubernetes kinds that are written in CUE",
		Long: `Fescue runs Kubernetes kinds that are written in CUE: one CUE package defines what
their objects look like and how they behave.`,
		SilenceUsage:               true,
		SilenceErrors:              true,
		SuggestionsMinimumDistance: 2, // as in cobra's own message, which takes several lines
		Args:                       rejectUnknown,
		RunE:                       func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(newRunCommand(), newCRDCommand(), newVetCommand(), newExplainCommand(), newRenderCommand(),
		newTestCommand(), newInjectCommand(),
		newManifestsCommand(), newMigrateCommand(), newUninstallCommand(), newStatusCommand(), newVersionCommand(),
		newLoadKindsCommand())
	return root
}
