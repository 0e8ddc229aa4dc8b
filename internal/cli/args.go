package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// rejectUnknown rejects an unknown command, and suggests those with similar names.
func rejectUnknown(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q for %q", args[0], c.CommandPath())
	if similar := c.SuggestionsFor(args[0]); len(similar) > 0 {
		text += "; did you mean " + strings.Join(similar, " or ") + "?"
	}
	return errors.New(text)
}

// noArgs rejects arguments of a command that has flags for what they are likely to be.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	for _, flag := range []string{"filename", "kinds"} {
		if c.Flags().Lookup(flag) != nil {
			return fmt.Errorf("%s takes no arguments: write --%s %s", c.CommandPath(), flag, args[0])
		}
	}
	return fmt.Errorf("%s takes no arguments, such as %q", c.CommandPath(), args[0])
}
