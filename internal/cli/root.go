// Package cli has the commands of fescue with their flags, arguments and output.
//
// It knows the command line and terminals. What a command does is done by the packages below.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Main runs the command line and returns the exit code: 0, or 1 after an error. It prints errors
// as kubectl does, unless the output of the command has reported them.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if !errors.Is(err, errFindings) {
		printErrors(stderr, err)
	}
	return 1
}

// printErrors prints one line for each error that is joined in err.
func printErrors(w io.Writer, err error) {
	for _, e := range singleErrors(err) {
		_, _ = fmt.Fprintln(w, "error:", strings.ReplaceAll(e.Error(), "\n", " "))
	}
}

// singleErrors returns the errors that are joined in err.
func singleErrors(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var errs []error
	for _, e := range joined.Unwrap() {
		errs = append(errs, singleErrors(e)...)
	}
	return errs
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "fescue",
		Short: "Run Kubernetes kinds that are written in CUE",
		Long: `Fescue runs Kubernetes kinds that are written in CUE: one CUE package defines what
their objects look like and how they behave.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w; see '%s --help'", err, c.CommandPath())
	})
	root.AddCommand(newRunCommand(), newCRDCommand(), newVetCommand(), newRenderCommand(), newTestCommand(), newInjectCommand(),
		newManifestsCommand(), newUninstallCommand(), newStatusCommand(), newVersionCommand(), newLoadKindsCommand())
	return root
}
