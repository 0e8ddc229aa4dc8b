package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/operator"
)

type migrateOptions struct {
	kindOptions
	operator.ClusterOptions
	dryRun bool
}

func newMigrateCommand() *cobra.Command {
	var o migrateOptions
	c := &cobra.Command{
		Use:   "migrate [KIND...]",
		Short: "Store all objects in the present version of their kinds",
		Long: `Store all objects in the present version of their kinds.

After the version that a kind stores has changed, the API server still has objects in the
former one, and converts them when they are read. This command has it store all objects of
the kinds anew, and then removes the former versions from the CRD's status.storedVersions,
so that they can be removed from the kind. Nothing is changed in the objects. It may be
interrupted and run again at any time, and Fescue and other clients may work meanwhile.

It needs the rights to get customresourcedefinitions, to update their status, and to list
and update the objects of the kinds in all namespaces.`,
		Example: "  fescue migrate --kinds ./my-kinds\n  fescue migrate --kinds ./my-kinds backups --dry-run",
		RunE:    func(c *cobra.Command, args []string) error { return migrate(c.Context(), c.OutOrStdout(), &o, args) },
	}
	o.addFlags(c)
	o.AddFlags(c.Flags())
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "only count the objects")
	return c
}

func migrate(ctx context.Context, out io.Writer, o *migrateOptions, names []string) error {
	catalog, err := o.load(ctx)
	if err := errors.Join(catalog.BrokenError(), err); err != nil {
		return err
	}
	kinds := catalog.All()
	if len(names) > 0 {
		kinds = nil
		for _, name := range names {
			k, path, err := findKind(catalog.All(), name)
			if err != nil {
				return err
			}
			if len(path) > 0 {
				return fmt.Errorf("%q: must be the name of a kind", name)
			}
			kinds = append(kinds, k)
		}
	}
	clients, _, err := connect(&o.ClusterOptions)
	if err != nil {
		return err
	}
	var errs []error
	for _, k := range kinds {
		errs = append(errs, migrateKind(ctx, out, clients, k, o.dryRun))
	}
	return errors.Join(errs...)
}

func migrateKind(ctx context.Context, out io.Writer, clients *operator.Clients, k *kind.Kind, dryRun bool) error {
	var failed error
	printf := func(format string, args ...any) {
		if _, err := fmt.Fprintf(out, "%s: "+format+"\n", slices.Concat([]any{k.Name()}, args)...); err != nil && failed == nil {
			failed = err
		}
	}
	m := crds.Migration{Client: clients.Dynamic, DryRun: dryRun, Progress: func(done, total int) { printf("%d of %d objects", done, total) }}
	migrated, err := m.Run(ctx, k)
	former := strings.Join(migrated.Former, " and ")
	switch {
	case err != nil:
		return err
	case len(migrated.Former) == 0:
		printf("all objects are stored as %s", migrated.Version)
	case dryRun:
		printf("%d objects, some of which may be stored as %s, would be stored as %s", migrated.Objects, former, migrated.Version)
	default:
		printf("%d objects are stored as %s, of which %d were stored as %s; that is no longer in use", migrated.Objects, migrated.Version, migrated.Rewritten, former)
	}
	return failed
}
