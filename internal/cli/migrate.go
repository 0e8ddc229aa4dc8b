package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/pager"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/plan"
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
		Short: "Rewrite all objects in the stored version of their kinds",
		Long: `Rewrite all objects in the stored version of their kinds.

After a change of the stored version, the API server still has objects in the former one, and
converts them on each read. This command makes it store all objects
of the kinds again, and then removes the former versions from the CRD's status.storedVersions.
After that you can remove them from the kind. Nothing else changes in the objects. You may
interrupt it and run it again at any time, and Fescue and other clients may work meanwhile.
Without KIND, it migrates all kinds with a CRD on the cluster.

If a kind has lost its onDelete, its objects lose the finalizer for it; the operator no longer
has the right to remove it.

It needs the rights to get customresourcedefinitions, to update their status, and to list
and update the objects of the kinds in all namespaces.`,
		Example: "  fescue migrate --kinds ./my-kinds\n  fescue migrate --kinds ./my-kinds backups --dry-run",
		RunE:    func(c *cobra.Command, args []string) error { return migrate(c.Context(), c.OutOrStdout(), &o, args) },
	}
	o.addFlags(c)
	o.AddFlags(c.Flags())
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "only count the objects")
	completeCluster(c, &o.ClusterOptions)
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
			k, path, err := findKind(catalog, name)
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
		err := migrateKind(ctx, out, clients, k, o.dryRun)
		if errors.Is(err, crds.ErrNotInstalled) && len(names) == 0 {
			continue // there is no object
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func migrateKind(ctx context.Context, out io.Writer, clients *operator.Clients, k *kind.Kind, dryRun bool) error {
	var failed error
	printf := func(format string, args ...any) {
		if _, err := fmt.Fprintf(out, "%s: "+format+"\n", slices.Concat([]any{k.Name()}, args)...); err != nil &&
			failed == nil {
			failed = err
		}
	}
	m := crds.Migration{Client: clients.Dynamic, DryRun: dryRun,
		Progress: func(done, total int) { printf("%d of %d objects", done, total) }}
	migrated, err := m.Run(ctx, k)
	former := strings.Join(migrated.Former, " and ")
	switch {
	case err != nil:
		return err
	case len(migrated.Former) == 0:
		printf("all objects are stored as %s", migrated.Version)
	case dryRun:
		printf("%d objects, some of which may be stored as %s, would be stored as %s", migrated.Objects, former,
			migrated.Version)
	default:
		printf("%d objects are stored as %s, of which %d were stored as %s; that is no longer in use", migrated.Objects,
			migrated.Version, migrated.Rewritten, former)
	}
	released, err := releaseUnused(ctx, clients.Dynamic, k, dryRun)
	switch {
	case released > 0 && dryRun:
		printf("%d objects would lose the finalizer %s: the kind has neither onDelete nor children in other namespaces any more", released, plan.Finalizer)
	case released > 0:
		printf("%d objects lost the finalizer %s: the kind has neither onDelete nor children in other namespaces any more", released, plan.Finalizer)
	}
	return errors.Join(err, failed)
}

// releaseUnused removes the finalizer for onDelete from the objects of a kind that has none, and returns how
// many had it. It returns an error if the installed CRD belongs to another version of the kind, which may need the
// finalizer.
func releaseUnused(ctx context.Context, client dynamic.Interface, k *kind.Kind, dryRun bool) (released int, err error) {
	if k.IsHeld() {
		return 0, nil
	}
	resource := client.Resource(k.GroupVersionResource())
	isInstalled := sync.OnceValue(func() error { return requireInstalled(ctx, client, k) })
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return crds.ListPage(ctx, resource, options)
	})
	for again := true; again; {
		again = false
		err = pages.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
			object, ok := item.(*unstructured.Unstructured)
			if !ok || !plan.HasFinalizer(k, object) || children.Reaches(k, object) {
				return nil
			}
			if err := isInstalled(); err != nil {
				return fmt.Errorf("finalizers of %s stay: %w", k.Name(), err)
			}
			if !dryRun {
				object.SetFinalizers(plan.WithFinalizer(object, false))
				_, err := resource.Namespace(object.GetNamespace()).Update(ctx, object, metav1.UpdateOptions{})
				switch {
				case apierrors.IsConflict(err):
					again = true // it has changed since it was listed
					return nil
				case apierrors.IsNotFound(err):
					return nil
				case err != nil:
					return fmt.Errorf("remove the finalizer of %s %s/%s: %w", k.Name(), object.GetNamespace(),
						object.GetName(), err)
				}
			}
			released++
			return nil
		})
		if err != nil {
			return released, err
		}
	}
	return released, nil
}

// requireInstalled returns an error if the CRD of a kind belongs to another version of the kind.
func requireInstalled(ctx context.Context, client dynamic.Interface, k *kind.Kind) error {
	crd, err := client.Resource(crds.Resource).Get(ctx, k.Name(), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the CRD: %w", err)
	}
	if installed := crds.OtherVersion(k, crd); installed != "" {
		return fmt.Errorf("the CRD belongs to another version of the kind: its annotation %s is %s, and the kind has %s: "+
			"apply the CRD of the kind first", crds.HashAnnotation, installed, k.Hash)
	}
	return nil
}
