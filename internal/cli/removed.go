package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	noTraces = "Fescue records no traces; use its metrics (--metrics-listen), Events and log, 'fescue explain', or the audit log of the API server"
	noFields = "use 'kubectl explain KIND --recursive', which needs the CRD on the cluster"
	noWatch  = "use 'kubectl get KIND --watch'"
)

// removedFlags have for each flag that a command once had what to do instead.
var removedFlags = map[string]string{
	"run --tracing-endpoint":                  noTraces,
	"run --tracing-sampling-rate-per-million": noTraces,
	"explain --recursive":                     noFields,
	"status --watch":                          noWatch,
	"status -w":                               noWatch,
}

// flagError adds to an error of a command's flags what to do instead.
func flagError(c *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		flag := "--" + unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			flag = "-" + unknown.GetSpecifiedName()
		}
		if instead := removedFlags[c.Name()+" "+flag]; instead != "" {
			return fmt.Errorf("%s was removed: %s", flag, instead)
		}
		if _, arguments, ok := strings.Cut(c.Use, " ["); ok && (flag == "-f" || flag == "--filename") {
			return fmt.Errorf("%w: write arguments without a flag, as in %s [%s", err, c.CommandPath(), arguments)
		}
	}
	return fmt.Errorf("%w; see '%s --help'", err, c.CommandPath())
}
