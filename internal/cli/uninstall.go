package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/internal/operator"
)

// uninstallTimeout bounds the wait until everything is deleted, apart from that for --on-delete-timeout. A
// namespace takes longest, about ten seconds.
const uninstallTimeout = 3 * time.Minute

type uninstallOptions struct {
	installOptions
	operator.ClusterOptions
	deleteObjects, keepCRDs, keepNamespace bool
	onDeleteTimeout                        time.Duration
}

func newUninstallCommand() *cobra.Command {
	var o uninstallOptions
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove what 'fescue manifests' installed",
		Long: `Remove what 'fescue manifests' installed with the same flags, and wait until it is
deleted. Deleting a CRD deletes its objects, so uninstall refuses while any exist, unless
--delete-objects or --keep-crds is set. While the cluster has another installation, the CRDs
and the roles for users stay, and --delete-objects only deletes objects in the namespaces of
this installation.

Deleted objects of kinds with onDelete pass their phases while the operator still runs. After
--on-delete-timeout, also if it does not run, their finalizer is removed.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return uninstall(c.Context(), c.OutOrStdout(), &o) },
	}
	o.addFlags(c)
	flags := c.Flags()
	o.AddFlags(flags)
	flags.BoolVar(&o.deleteObjects, "delete-objects", false, "delete the objects of the kinds and their children")
	flags.BoolVar(&o.keepCRDs, "keep-crds", false, "keep the CRDs and the objects of the kinds")
	flags.BoolVar(&o.keepNamespace, "keep-namespace", false, "keep the namespace that Fescue is installed in")
	flags.DurationVar(&o.onDeleteTimeout, "on-delete-timeout", time.Minute, "how long deleted objects may take for the onDelete phases of their kinds")
	c.MarkFlagsMutuallyExclusive("delete-objects", "keep-crds")
	return c
}

func uninstall(ctx context.Context, out io.Writer, o *uninstallOptions) error {
	parts, kinds, err := o.parts(ctx)
	if err != nil {
		return err
	}
	clients, _, err := connect(&o.ClusterOptions)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, uninstallTimeout+o.onDeleteTimeout)
	defer cancel()
	r := &remover{Clients: clients, out: out}
	objects := reversed(install.Objects(parts))
	if o.keepCRDs {
		objects = slices.DeleteFunc(objects, isDefinition)
	}
	others, err := otherInstallations(ctx, clients, o.Namespace)
	if err != nil {
		return err
	}
	found, err := r.objectsOfKinds(ctx, objects, o, others)
	if err != nil {
		return err
	}
	if len(others) > 0 {
		objects = slices.DeleteFunc(objects, isShared)
		if err := r.printKept(others); err != nil {
			return err
		}
	}
	// The webhooks are removed first: without an operator that answers them, later writes would
	// fail. A running operator registers them again, so they are not awaited here, and are
	// removed once more when its Pods are gone.
	for _, configuration := range webhookConfigurations(objects) {
		if err := r.remove(ctx, configuration); err != nil {
			return err
		}
	}
	r.removed = nil
	for _, object := range found {
		if err := r.remove(ctx, object); err != nil {
			return err
		}
	}
	ofThis := func(namespace string) bool { return len(others) == 0 || ownedBy(o, others, namespace) }
	if err := r.releaseChildren(ctx, kinds, ofThis); err != nil {
		return err
	}
	if err := r.awaitLeft(ctx, found, o.onDeleteTimeout); err != nil {
		return err
	}
	if err := r.awaitGone(ctx); err != nil {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(objects), func(object *unstructured.Unstructured) bool {
		return isNamespace(object) || isWebhookConfiguration(object)
	})
	if err := r.removeAll(ctx, append(rest, createdByOperator(o.Options)...)); err != nil {
		return err
	}
	if err := r.removeAll(ctx, webhookConfigurations(objects)); err != nil {
		return err
	}
	// The operator may have created more before it was gone.
	if err := r.releaseChildren(ctx, kinds, ofThis); err != nil {
		return err
	}
	if err := r.releaseObjects(ctx, kinds, ofThis); err != nil {
		return err
	}
	if o.keepNamespace {
		return nil
	}
	return r.removeAll(ctx, slices.DeleteFunc(objects, func(object *unstructured.Unstructured) bool { return !isNamespace(object) }))
}

func isNamespace(object *unstructured.Unstructured) bool { return object.GetKind() == "Namespace" }

func webhookConfigurations(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objects), func(object *unstructured.Unstructured) bool { return !isWebhookConfiguration(object) })
}

func isWebhookConfiguration(object *unstructured.Unstructured) bool {
	return object.GroupVersionKind().Group == admissionregistrationv1.GroupName
}

// createdByOperator returns the objects that Fescue creates where it runs.
func createdByOperator(o install.Options) []*unstructured.Unstructured {
	var created []*unstructured.Unstructured
	add := func(apiVersion, kind, name string) {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
		object.SetName(name)
		object.SetNamespace(o.Namespace)
		created = append(created, object)
	}
	for _, lease := range o.Leases() {
		add("coordination.k8s.io/v1", "Lease", lease)
	}
	add("v1", "Secret", operator.DefaultSecret)
	return created
}

// remover deletes objects and waits until they are deleted.
type remover struct {
	*operator.Clients
	out     io.Writer
	removed []*unstructured.Unstructured
}

// objectsOfKinds returns the objects to delete. It is an error if there are any, their CRDs are
// to be deleted, and --delete-objects is not set. While other installations keep the CRDs, it
// returns only objects that belong to this installation and no other.
func (r *remover) objectsOfKinds(ctx context.Context, objects []*unstructured.Unstructured, o *uninstallOptions, others []installation) ([]*unstructured.Unstructured, error) {
	if len(others) > 0 && !o.deleteObjects {
		return nil, nil
	}
	var errs []error
	var all []*unstructured.Unstructured
	for _, definition := range objects {
		if !isDefinition(definition) {
			continue
		}
		found, err := r.objectsOf(ctx, definition)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 && !o.deleteObjects {
			errs = append(errs, fmt.Errorf("%d objects of %s exist, such as %s/%s: delete them, or set --delete-objects or --keep-crds", len(found), definition.GetName(), found[0].GetNamespace(), found[0].GetName()))
		}
		for i := range found {
			if len(others) == 0 || ownedBy(o, others, found[i].GetNamespace()) {
				all = append(all, &found[i])
			}
		}
	}
	return all, errors.Join(errs...)
}

// ownedBy reports whether a namespace belongs to the installation of o and to no other.
func ownedBy(o *uninstallOptions, others []installation, namespace string) bool {
	return installation{o.Namespace, o.Namespaces}.owns(namespace) &&
		!slices.ContainsFunc(others, func(other installation) bool { return other.owns(namespace) })
}

// awaitLeft waits until objects that are deleted have passed their phases, which only a running operator
// sees to, and removes the finalizer of those that take too long.
func (r *remover) awaitLeft(ctx context.Context, objects []*unstructured.Unstructured, timeout time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, object := range objects {
		client, resource, err := r.clientFor(object)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return err
		}
		left := func(ctx context.Context) (bool, error) {
			live, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
			return apierrors.IsNotFound(err) || err == nil && (live.GetUID() != object.GetUID() || !plan.IsKept(live)), nil
		}
		if wait.PollUntilContextCancel(waiting, 200*time.Millisecond, true, left) == nil {
			continue
		}
		if err := release(ctx, client, object, plan.OwnerFinalizer); err != nil {
			return fmt.Errorf("remove the finalizer of %s %s/%s: %w", resource, object.GetNamespace(), object.GetName(), err)
		}
		if _, err := fmt.Fprintf(r.out, "%s/%s released: it has not passed the phases that follow its deletion\n", resource, object.GetName()); err != nil {
			return err
		}
	}
	return nil
}

// releaseObjects removes the finalizer of the objects that stay, in the namespaces that belong to the
// installation: without an operator, they could not be deleted.
func (r *remover) releaseObjects(ctx context.Context, kinds []*kind.Kind, isOwn func(namespace string) bool) error {
	for _, k := range kinds {
		if !k.IsHeld() {
			continue
		}
		client := r.Dynamic.Resource(k.GroupVersionResource())
		list, err := client.List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue // its CRD is gone
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", k.Name(), err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			if !isOwn(object.GetNamespace()) || !plan.IsKept(object) {
				continue
			}
			if err := release(ctx, client.Namespace(object.GetNamespace()), object, plan.OwnerFinalizer); err != nil {
				return fmt.Errorf("remove the finalizer of %s %s/%s: %w", k.Name(), object.GetNamespace(), object.GetName(), err)
			}
		}
	}
	return nil
}

// releaseChildren removes the finalizer of children, which only a running operator would do, in the
// namespaces that belong to the installation.
func (r *remover) releaseChildren(ctx context.Context, kinds []*kind.Kind, isOwn func(namespace string) bool) error {
	for _, k := range kinds {
		for _, gvk := range k.Owns {
			mapping, err := r.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
			if meta.IsNoMatchError(err) {
				continue
			}
			if err != nil {
				return err
			}
			client := r.Dynamic.Resource(mapping.Resource)
			children, err := client.List(ctx, metav1.ListOptions{LabelSelector: plan.ManagedSelector})
			if err != nil {
				return fmt.Errorf("list %s: %w", mapping.Resource.GroupResource(), err)
			}
			for i := range children.Items {
				child := &children.Items[i]
				if !isOwn(child.GetNamespace()) || !slices.Contains(child.GetFinalizers(), plan.Finalizer) {
					continue
				}
				if err := release(ctx, client.Namespace(child.GetNamespace()), child, plan.Finalizer); err != nil {
					return fmt.Errorf("remove the finalizer of %s %s/%s: %w", mapping.Resource.GroupResource(), child.GetNamespace(), child.GetName(), err)
				}
			}
		}
	}
	return nil
}

// release removes a finalizer from an object, unless the object is gone by then.
func release(ctx context.Context, client dynamic.ResourceInterface, object *unstructured.Unstructured, finalizer string) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		live, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
		if err != nil || live.GetUID() != object.GetUID() {
			return err
		}
		live.SetFinalizers(slices.DeleteFunc(live.GetFinalizers(), func(f string) bool { return f == finalizer }))
		_, err = client.Update(ctx, live, metav1.UpdateOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// printKept prints what is kept for other installations.
func (r *remover) printKept(others []installation) error {
	var namespaces []string
	for _, other := range others {
		namespaces = append(namespaces, other.namespace)
	}
	_, err := fmt.Fprintf(r.out, "kept the CRDs and the roles for users, which the installation in %s needs\n", strings.Join(namespaces, ", "))
	return err
}

// removeAll deletes objects and returns when they are deleted.
func (r *remover) removeAll(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if err := r.remove(ctx, object); err != nil {
			return err
		}
	}
	return r.awaitGone(ctx)
}

// objectsOf lists the objects of a kind in all namespaces.
func (r *remover) objectsOf(ctx context.Context, definition *unstructured.Unstructured) ([]unstructured.Unstructured, error) {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	of, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	mapping, err := r.Mapper.RESTMapping(schema.GroupKind{Group: group, Kind: of})
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := r.Dynamic.Resource(mapping.Resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", definition.GetName(), err)
	}
	return list.Items, nil
}

// remove deletes an object if it exists.
func (r *remover) remove(ctx context.Context, object *unstructured.Unstructured) error {
	client, resource, err := r.clientFor(object)
	if meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return err
	}
	err = client.Delete(ctx, object.GetName(), metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete %s %s: %w", resource, object.GetName(), err)
	}
	r.removed = append(r.removed, object)
	_, err = fmt.Fprintf(r.out, "%s/%s deleted\n", resource, object.GetName())
	return err
}

// clientFor returns the client and the resource of an object.
func (r *remover) clientFor(object *unstructured.Unstructured) (dynamic.ResourceInterface, string, error) {
	gvk := object.GroupVersionKind()
	mapping, err := r.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, "", err
	}
	return r.Dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace()), mapping.Resource.GroupResource().String(), nil
}

// awaitGone returns when everything that was removed is deleted.
func (r *remover) awaitGone(ctx context.Context) error {
	for _, object := range r.removed {
		err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			client, _, err := r.clientFor(object)
			if err != nil {
				return meta.IsNoMatchError(err), nil
			}
			_, err = client.Get(ctx, object.GetName(), metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		})
		if err != nil {
			return fmt.Errorf("%s %s is still being deleted; it may have finalizers: %w", object.GetKind(), object.GetName(), err)
		}
	}
	r.removed = nil
	return nil
}
