package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/fescue-dev/fescue/cue/kind"
)

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
