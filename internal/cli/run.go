package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/operator"
	"github.com/fescue-dev/fescue/internal/quiet"
)

// runCommand is the name of the command that runs kinds.
const runCommand = "run"

func newRunCommand() *cobra.Command {
	var o operator.Options
	var selected kindOptions
	var logFormat, logLevel string
	c := &cobra.Command{
		Use:   runCommand,
		Short: "Run the kinds on a cluster",
		Long: `Run the kinds on a cluster until SIGTERM or an interrupt.

Fescue takes the first cluster it finds a configuration for: --kubeconfig, $KUBECONFIG,
~/.kube/config, the cluster it runs in.

A kind that fails to load is reported with file, line and reason; the others run. --load-timeout
applies to each kind. A kind waits while its CRD or a right is missing, or for a decorator the
type of its targets, and then starts.`,
		Example: "  fescue run --install-crds --kinds ./my-kinds",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Version, o.UserAgent = version, userAgent()
			if err := o.Complete(); err != nil {
				return err
			}
			log, err := newLogger(c.ErrOrStderr(), logFormat, logLevel)
			if err != nil {
				return err
			}
			if err := selected.check(); err != nil {
				return err
			}
			load := func(ctx context.Context, loaded func([]*kind.Kind)) (broken int, err error) {
				kinds, err := selected.loadEach(ctx, loaded)
				if err != nil {
					return 0, err
				}
				if err := kinds.BrokenError(); err != nil { // the other kinds run
					printErrors(c.ErrOrStderr(), err)
				}
				if len(kinds.Behaviours()) == 0 {
					return 0, errors.New("no kind could be loaded")
				}
				return len(kinds.BrokenNames()), nil
			}
			return operator.Run(c.Context(), &o, load, selected.prove, log)
		},
	}
	selected.addFlags(c)
	o.AddFlags(c.Flags())
	c.Flags().StringVar(&logFormat, "log-format", "text", "text or json")
	c.Flags().StringVar(&logLevel, "log-level", "info", "debug, info, warn or error")
	completeCluster(c, &o.ClusterOptions)
	return c
}

// newLogger returns the logger that Fescue and client-go write to.
func newLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	var options slog.HandlerOptions
	var minimum slog.Level
	if err := minimum.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level: invalid value %q: must be debug, info, warn or error", level)
	}
	options.Level = minimum
	var handler slog.Handler
	switch format {
	case "text":
		handler = slog.NewTextHandler(w, &options)
	case "json":
		handler = slog.NewJSONHandler(w, &options)
	default:
		return nil, fmt.Errorf("--log-format: invalid value %q: must be text or json", format)
	}
	logger := slog.New(quiet.NewHandler(handler))
	klog.SetSlogLogger(logger)
	return logger, nil
}
