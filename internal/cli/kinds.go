package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/fescue-dev/fescue/cue/kind"
)

// kindOptions select the kinds that a command works with.
type kindOptions struct {
	dirs    []string
	shipped bool
	timeout time.Duration // for loading one of dirs
}

// addFlags adds --kinds, --shipped-kinds and --load-timeout.
func (o *kindOptions) addFlags(c *cobra.Command) {
	c.Flags().StringArrayVar(&o.dirs, "kinds", nil, "folder with a CUE package of kinds (repeatable)")
	c.Flags().BoolVar(&o.shipped, "shipped-kinds", true, "include the kinds that Fescue ships")
	c.Flags().DurationVar(&o.timeout, "load-timeout", defaultLoadTimeout, "CPU time that loading a kind of --kinds may take")
	if err := c.MarkFlagDirname("kinds"); err != nil {
		panic(err) // the flag was added above
	}
}

// load loads the kinds. Kinds that fail to load are in the catalog; the error is about whole folders.
func (o kindOptions) load(ctx context.Context) (*kind.Catalog, error) {
	if !o.shipped && len(o.dirs) == 0 {
		return kind.NewCatalog(), errors.New("--shipped-kinds=false leaves no kinds: add a folder with --kinds")
	}
	if o.timeout <= 0 {
		return kind.NewCatalog(), fmt.Errorf("--load-timeout: invalid value %q: must be above 0", o.timeout)
	}
	if len(o.dirs) == 0 {
		return kind.Load(o.shipped)
	}
	executable, err := os.Executable()
	if err != nil {
		return kind.NewCatalog(), err
	}
	folders, err := (&loader{executable, o.timeout}).probeAll(ctx, o.dirs)
	if err != nil {
		return kind.NewCatalog(), err
	}
	return kind.LoadFolders(o.shipped, folders...)
}
