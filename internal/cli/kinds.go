package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/fescue-dev/fescue/cue/kind"
)

// kindOptions select the kinds that a command works with.
type kindOptions struct {
	dirs    []string
	shipped bool
}

// addFlags adds --kinds and --shipped-kinds.
func (o *kindOptions) addFlags(c *cobra.Command) {
	c.Flags().StringArrayVar(&o.dirs, "kinds", nil, "folder with a CUE package of kinds (repeatable)")
	c.Flags().BoolVar(&o.shipped, "shipped-kinds", true, "include the kinds that Fescue ships")
	if err := c.MarkFlagDirname("kinds"); err != nil {
		panic(err) // the flag was added above
	}
}

// load loads the kinds. Kinds that fail to load are in the catalog; the error is about whole folders.
func (o kindOptions) load() (*kind.Catalog, error) {
	if !o.shipped && len(o.dirs) == 0 {
		return kind.NewCatalog(), errors.New("--shipped-kinds=false leaves no kinds: add a folder with --kinds")
	}
	return kind.Load(o.shipped, o.dirs...)
}
