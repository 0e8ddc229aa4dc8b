package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is the output of `fescue version`. The linker sets it in builds by make; go install writes it
// into the program.
var version = cmp.Or(linkedVersion, installedVersion(debug.ReadBuildInfo()), "development")

// linkedVersion is set by the linker, and by nothing else.
var linkedVersion string

// installedVersion returns the version of the module that the program was built from, if Go knew it.
func installedVersion(info *debug.BuildInfo, ok bool) string {
	if !ok || info.Main.Path != module || info.Main.Version == "(devel)" {
		return ""
	}
	return info.Main.Version
}

// module is the path by which `go install` finds the program.
const module = "github.com/fescue-dev/fescue"

// userAgent names the program to the API server.
func userAgent() string { return "fescue/" + version }

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(c.OutOrStdout(), "fescue %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS,
				runtime.GOARCH)
			return err
		},
	}
}
