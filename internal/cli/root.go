// Command fescue runs Kubernetes kinds that are written in CUE.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
)

// version is what `fescue version` prints; the linker sets it in a build by make.
var version = "development"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the default is back: a second one ends the program at once.
	context.AfterFunc(ctx, stop)
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// execute runs the command line and returns the exit code: 0, or 1 after an error,
// which is printed as kubectl does
// unless the output of the command has said it.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
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

// printErrors prints one line for each error in err.
func printErrors(w io.Writer, err error) {
	for _, e := range singleErrors(err) {
		_, _ = fmt.Fprintln(w, "error:", strings.ReplaceAll(e.Error(), "\n", " "))
	}
}

// singleErrors are the errors that are joined in err.
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
		Long: `Fescue runs Kubernetes kinds that are written in CUE: one CUE package says what
their objects look like and how they behave.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w; see '%s --help'", err, c.CommandPath())
	})
	root.AddCommand(newRunCommand(), newCRDCommand(), newVetCommand(), newRenderCommand(), newInjectCommand(),
		newManifestsCommand(), newUninstallCommand(), newStatusCommand(), newVersionCommand())
	return root
}

// kindOptions say which kinds a command works with.
type kindOptions struct {
	dirs    []string
	shipped bool
}

// addFlags adds --kinds and --shipped-kinds.
func (o *kindOptions) addFlags(c *cobra.Command) {
	c.Flags().StringArrayVar(&o.dirs, "kinds", nil, "folder with a CUE package of further kinds (repeatable)")
	c.Flags().BoolVar(&o.shipped, "shipped-kinds", true, "work with the kinds that come with Fescue as well")
	if err := c.MarkFlagDirname("kinds"); err != nil {
		panic(err) // only if there is no such flag
	}
}

// load loads the kinds. An error is about the folders themselves.
func (o kindOptions) load() (*kind.Catalog, error) {
	if !o.shipped && len(o.dirs) == 0 {
		return kind.NewCatalog(), errors.New("--shipped-kinds=false leaves no kinds: name yours with --kinds")
	}
	return kind.Load(o.shipped, o.dirs...)
}

func newCRDCommand() *cobra.Command {
	var selected kindOptions
	var outputDir string
	var bare, explained bool
	c := &cobra.Command{
		Use:   "crd",
		Short: "Print the CustomResourceDefinitions of the kinds",
		Long: `Print the CustomResourceDefinitions of the kinds.

A CRD cannot carry every rule that CUE can state. --explain prints for each rule who
enforces it: the CRD's schema, a CEL rule in it, or only Fescue, when an object is
admitted and in each pass of the controller.`,
		Example: "  fescue crd | kubectl apply -f -\n  fescue crd --kinds ./my-kinds --explain",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			kinds, err := selected.load()
			err = errors.Join(kinds.BrokenError(), err)
			switch {
			case explained:
				return errors.Join(err, explain(c.OutOrStdout(), kinds.All()))
			case outputDir != "":
				return errors.Join(err, writeDefinitions(outputDir, kinds.All(), bare))
			}
			text, yamlErr := crds.YAML(bare, kinds.All()...)
			_, writeErr := c.OutOrStdout().Write(text)
			return errors.Join(err, yamlErr, writeErr)
		},
	}
	selected.addFlags(c)
	c.Flags().BoolVar(&bare, "no-descriptions", false, "leave out the descriptions, which are most of a large CRD")
	c.Flags().BoolVar(&explained, "explain", false, "print who enforces which rule instead")
	c.Flags().StringVar(&outputDir, "output-dir", "", "write one file for each kind into this folder instead")
	return c
}

// writeDefinitions writes GROUP_PLURAL.yaml for each kind, the name that
// controller-gen gives such a file.
func writeDefinitions(dir string, kinds []*kind.Kind, bare bool) error {
	for _, k := range kinds {
		text, err := crds.YAML(bare, k)
		if err != nil {
			return err
		}
		file := filepath.Join(dir, k.GroupVersionKind.Group+"_"+k.Names.Plural+".yaml")
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(c.OutOrStdout(), "fescue %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// newLogger makes the logger that Fescue and client-go write to.
func newLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	var options slog.HandlerOptions
	var minimum slog.Level
	if err := minimum.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level: invalid value %q: must be debug, info, warn or error", level)
	}
	options.Level = minimum
	var logger *slog.Logger
	switch format {
	case "text":
		logger = slog.New(slog.NewTextHandler(w, &options))
	case "json":
		logger = slog.New(slog.NewJSONHandler(w, &options))
	default:
		return nil, fmt.Errorf("--log-format: invalid value %q: must be text or json", format)
	}
	klog.SetSlogLogger(logger)
	return logger, nil
}
