package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// version is the output of `fescue version`; the linker sets it in builds by make.
var version = "development"

// userAgent names the program to the API server.
func userAgent() string { return "fescue/" + version }

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
