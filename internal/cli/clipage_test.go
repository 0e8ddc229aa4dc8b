package cli

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// kindFlags are those of kindOptions, which most commands have: the page lists them once.
var kindFlags = []string{"kinds", "shipped-kinds", "types", "load-timeout"}

// docs/reference/cli.md has each command with its help and its flags.
func TestCommandsPage(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	fmt.Fprintf(&b, "\n## Flags for kinds\n\n")
	writeFlags(&b, newCRDCommand(), func(name string) bool { return slices.Contains(kindFlags, name) })
	for _, c := range NewCommand().Commands() {
		if c.Hidden {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n    %s\n\n", c.Name(), c.UseLine())
		b.WriteString(markdown(cmp.Or(c.Long, c.Short+".")))
		if c.Example != "" {
			fmt.Fprintf(&b, "\n```\n%s\n```\n", strings.ReplaceAll(c.Example[len("  "):], "\n  ", "\n"))
		}
		if c.Flags().Lookup(kindFlags[0]) != nil {
			fmt.Fprintf(&b, "\nIt also takes the [flags for kinds](#flags-for-kinds).\n")
		}
		if c.Flags().HasFlags() {
			b.WriteString("\n")
		}
		writeFlags(&b, c, func(name string) bool { return !slices.Contains(kindFlags, name) })
	}
	page := filepath.Join(repository, "docs", "reference", "cli.md")
	corpus.GoldenRest(t, page, "<!-- Generated from the commands: go test ./internal/cli -run TestCommandsPage -update -->", b.String())
}

// writeFlags writes the flags of a command as a table.
func writeFlags(b *strings.Builder, c *cobra.Command, isWanted func(name string) bool) {
	cell := strings.NewReplacer("|", `\|`)
	isFirst := true
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !isWanted(f.Name) || f.Hidden {
			return
		}
		if isFirst {
			b.WriteString("| flag | type | default | meaning |\n|---|---|---|---|\n")
			isFirst = false
		}
		name, byDefault := "`--"+f.Name+"`", ""
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		if !slices.Contains([]string{"", "[]", "false", "0s"}, f.DefValue) {
			byDefault = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", name, f.Value.Type(), byDefault, cell.Replace(f.Usage))
	})
}

// markdown returns a help text, whose examples and tables are indented by two spaces.
func markdown(help string) string {
	var b strings.Builder
	isCode := false
	for line := range strings.SplitSeq(help, "\n") {
		indented := strings.HasPrefix(line, "  ")
		if line != "" && indented != isCode {
			b.WriteString("```\n")
			isCode = indented
			if !isCode {
				b.WriteString("\n")
			}
		}
		if !isCode {
			line = strings.NewReplacer("*", `\*`, "<", `\<`).Replace(line)
		}
		b.WriteString(strings.TrimPrefix(line, "  ") + "\n")
	}
	if isCode {
		b.WriteString("```\n")
	}
	return strings.ReplaceAll(b.String(), "\n\n```\n\n", "\n```\n\n")
}
