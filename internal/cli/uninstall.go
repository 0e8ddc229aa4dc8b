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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/internal/operator"
)

// operatorTimeout bounds the wait for the Pods of the operator, which may take half a minute to end.
const operatorTimeout = 2 * time.Minute

// releaseBackoff is how often, and for how long, to try to remove a finalizer: for about six seconds.
var releaseBackoff = wait.Backoff{Steps: 10, Duration: 50 * time.Millisecond, Factor: 1.7, Cap: 2 * time.Second}

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
		Long: `Remove what 'fescue manifests' installed with the same flags. Deleting a CRD deletes its
objects, so uninstall refuses while any exist, unless you pass --delete-objects or --keep-crds.
While the cluster has another installation, the CRDs and the roles for users stay, and
--delete-objects only deletes objects in the namespaces of this installation.

Deleted objects of kinds with onDelete pass their phases while the operator still runs. After
--on-delete-timeout, also if it does not run, uninstall removes their finalizer. It does not wait
for other deletions to end; 'kubectl wait --for=delete' does.

Children of an early version of Fescue may have the finalizer fescue.dev/recorded. Fescue no
longer removes it. To remove it from a Pod:

  kubectl patch pod NAME --type=json -p '[
    {"op": "test", "path": "/metadata/finalizers/0", "value": "fescue.dev/recorded"},
    {"op": "remove", "path": "/metadata/finalizers/0"}]'`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return uninstall(c.Context(), c.OutOrStdout(), &o) },
	}
	o.addFlags(c)
	flags := c.Flags()
	o.AddFlags(flags)
	flags.BoolVar(&o.deleteObjects, "delete-objects", false, "delete the objects of the kinds and their children")
	flags.BoolVar(&o.keepCRDs, "keep-crds", false, "keep the CRDs and the objects of the kinds")
	flags.BoolVar(&o.keepNamespace, "keep-namespace", false, "keep the namespace that Fescue is installed in")
	flags.DurationVar(&o.onDeleteTimeout, "on-delete-timeout", time.Minute,
		"how long deleted objects may take for the onDelete phases of their kinds")
	c.MarkFlagsMutuallyExclusive("delete-objects", "keep-crds")
	completeCluster(c, &o.ClusterOptions)
	return c
}

func uninstall(ctx context.Context, out io.Writer, o *uninstallOptions) error {
	parts, catalog, err := o.parts(ctx)
	if err != nil {
		return err
	}
	clients, _, err := connect(&o.ClusterOptions)
	if err != nil {
		return err
	}
	others, err := otherInstallations(ctx, clients, o.Namespace)
	if err != nil {
		return err
	}
	r := &remover{Clients: clients, o: o, out: out, kinds: catalog.All(), others: others}
	objects := reversed(install.Objects(parts))
	if err := r.requireOwn(ctx, objects); err != nil {
		return err
	}
	found, err := r.objectsToDelete(ctx)
	if err != nil {
		return err
	}
	if err := r.printKept(); err != nil {
		return err
	}
	return r.removeAll(ctx, found, objects)
}

// removeAll deletes objects of kinds, and then those of an installation except what is to be kept.
func (r *remover) removeAll(ctx context.Context, found, objects []*unstructured.Unstructured) error {
	var webhooks, others, deployments []*unstructured.Unstructured
	last := createdByOperator(r.o.Options)
	keepNamespace, err := r.keepsNamespace(ctx)
	if err != nil {
		return err
	}
	for _, object := range objects {
		switch {
		case r.o.keepCRDs && isDefinition(object), keepNamespace && isNamespace(object), len(r.others) > 0 &&
			isShared(object):
		case isWebhookConfiguration(object):
			webhooks = append(webhooks, object)
		case isDefinition(object) || isNamespace(object):
			last = append(last, object)
		case object.GetKind() == "Deployment":
			deployments = append(deployments, object)
		default:
			others = append(others, object)
		}
	}
	// The webhooks are removed first: without an operator that answers them, later writes would
	// fail. A running operator registers them again, so they are removed once more when its Pods
	// are gone.
	if err := r.remove(ctx, metav1.DeletePropagationBackground, webhooks); err != nil {
		return err
	}
	if err := r.removeObjects(ctx, found); err != nil {
		return err
	}
	if err := r.remove(ctx, metav1.DeletePropagationBackground, others); err != nil {
		return err
	}
	if err := r.removeOperator(ctx, deployments); err != nil {
		return err
	}
	if err := r.remove(ctx, metav1.DeletePropagationBackground, webhooks); err != nil {
		return err
	}
	prepare := r.acceptAll
	if len(r.others) > 0 || r.o.keepCRDs {
		prepare = r.leaveConversions
	}
	if err := prepare(ctx); err != nil {
		return err
	}
	if err := r.releaseObjects(ctx); err != nil {
		return err
	}
	return r.remove(ctx, metav1.DeletePropagationBackground, last)
}

// keepsNamespace reports whether the namespace of the installation stays: if the user says so, or if it has no label of
// Fescue, so that somebody else created it.
func (r *remover) keepsNamespace(ctx context.Context) (bool, error) {
	if r.o.keepNamespace {
		return true, nil
	}
	namespace, err := r.Typed.CoreV1().Namespaces().Get(ctx, r.o.Namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read namespace %s: %w", r.o.Namespace, err)
	}
	ours, err := labels.Parse(install.Selector())
	if err != nil || ours.Matches(labels.Set(namespace.Labels)) {
		return false, err
	}
	_, err = fmt.Fprintf(r.out, "kept the namespace %s, which does not have the label %s\n", r.o.Namespace, ours)
	return true, err
}

func isNamespace(object *unstructured.Unstructured) bool { return object.GetKind() == "Namespace" }

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

// remover deletes objects.
type remover struct {
	*operator.Clients
	o      *uninstallOptions
	out    io.Writer
	kinds  []*kind.Kind
	others []installation
}

// objectsToDelete returns the objects of the kinds that are to be deleted. It is an error if there are any,
// their CRDs are to be deleted, and --delete-objects is not set. While other installations keep the CRDs, it
// returns only objects that belong to this installation and no other.
func (r *remover) objectsToDelete(ctx context.Context) ([]*unstructured.Unstructured, error) {
	if r.o.keepCRDs || len(r.others) > 0 && !r.o.deleteObjects {
		return nil, nil
	}
	var errs []error
	var all []*unstructured.Unstructured
	for _, k := range r.kinds {
		found, err := r.list(ctx, k)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 && !r.o.deleteObjects {
			errs = append(
				errs,
				fmt.Errorf("%d objects of %s exist, such as %s/%s: delete them, or set --delete-objects or --keep-crds",
					len(found), k.Name(), found[0].GetNamespace(), found[0].GetName()),
			)
		}
		all = append(all, slices.DeleteFunc(found, r.isOthers)...)
	}
	return all, errors.Join(errs...)
}

// isOthers reports whether the namespace of an object belongs to another installation, or not to this one.
func (r *remover) isOthers(object *unstructured.Unstructured) bool {
	owns := func(i installation) bool { return i.owns(object.GetNamespace()) }
	return len(r.others) > 0 && (!owns(installation{r.o.Namespace, r.o.Namespaces}) ||
		slices.ContainsFunc(r.others, owns))
}

// removeObjects deletes objects of kinds after their children: the garbage collector cannot look up owners
// whose CRD is gone. It waits until they have passed their phases, which only a running operator sees to, or
// until a timeout.
func (r *remover) removeObjects(ctx context.Context, objects []*unstructured.Unstructured) error {
	err := r.remove(ctx, metav1.DeletePropagationForeground, objects)
	if err != nil || len(objects) == 0 {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, time.Second, r.o.onDeleteTimeout, true,
		func(context.Context) (bool, error) {
			held, err := r.heldObjects(ctx)
			return len(held) == 0, err
		})
	if wait.Interrupted(err) {
		return ctx.Err()
	}
	return err
}

// removeOperator deletes the operator's Deployment and waits until its Pods are gone, and with them the
// Deployment.
func (r *remover) removeOperator(ctx context.Context, deployments []*unstructured.Unstructured) error {
	if err := r.remove(ctx, metav1.DeletePropagationForeground, deployments); err != nil {
		return err
	}
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, operatorTimeout, true,
		func(ctx context.Context) (bool, error) {
			list, err := r.Typed.AppsV1().Deployments(r.o.Namespace).List(ctx,
				metav1.ListOptions{LabelSelector: install.OperatorSelector()})
			return err == nil && len(list.Items) == 0, err
		})
	if err != nil {
		return fmt.Errorf("wait until the Deployment in namespace %s is deleted: %w; run the command again",
			r.o.Namespace, err)
	}
	return nil
}

// leaveConversions has the CRDs that stay trust the webhook of the removed installation no more, so that another one
// takes the conversions over.
func (r *remover) leaveConversions(ctx context.Context) error {
	for _, k := range r.kinds {
		if !k.Versions.Converts() {
			continue
		}
		err := r.updateDefinition(ctx, k, func(definition map[string]any) error {
			client, _, _ := unstructured.NestedMap(definition, "spec", "conversion", "webhook", "clientConfig")
			if of, _, _ := unstructured.NestedString(client, "service", "namespace"); of == r.o.Namespace {
				unstructured.RemoveNestedField(definition, "spec", "conversion", "webhook", "clientConfig", "caBundle")
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("leave the conversions of CRD %s: %w", k.Name(), err)
		}
	}
	return nil
}

// updateDefinition changes the CRD of a kind, if there is one.
func (r *remover) updateDefinition(ctx context.Context, k *kind.Kind, change func(map[string]any) error) error {
	definitions := r.Dynamic.Resource(crds.Resource)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		definition, err := definitions.Get(ctx, k.Name(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := change(definition.Object); err != nil {
			return err
		}
		_, err = definitions.Update(ctx, definition, metav1.UpdateOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// acceptAll lets the API server accept and convert any object of the CRDs that are to be deleted, where there still are
// objects: it rejects all writes of some that became invalid, also those that remove finalizers, and nothing would ever
// delete them. Nor would anything if it needed a webhook to read them.
func (r *remover) acceptAll(ctx context.Context) error {
	anything := map[string]any{"openAPIV3Schema": map[string]any{"type": "object",
		"x-kubernetes-preserve-unknown-fields": true}}
	for _, k := range r.kinds {
		if !k.Versions.Converts() { // otherwise, the API server may be unable to list them
			left, err := r.list(ctx, k)
			if err != nil {
				return err
			}
			if len(left) == 0 {
				continue
			}
		}
		err := r.updateDefinition(ctx, k, func(definition map[string]any) error {
			versions, _, _ := unstructured.NestedSlice(definition, "spec", "versions")
			for _, v := range versions {
				version := v.(map[string]any)
				version["schema"] = anything
				delete(version, "selectableFields")                              // they must be in the schema
				unstructured.RemoveNestedField(version, "subresources", "scale") // its number is checked as well
			}
			unstructured.RemoveNestedField(definition, "spec", "conversion")
			return unstructured.SetNestedSlice(definition, versions, "spec", "versions")
		})
		if err != nil {
			return fmt.Errorf("open the schema of CRD %s: %w", k.Name(), err)
		}
	}
	return nil
}

// releaseObjects removes the finalizers of kinds from objects: without an operator, they could not be deleted.
func (r *remover) releaseObjects(ctx context.Context) error {
	objects, err := r.heldObjects(ctx)
	if err != nil {
		return err
	}
	for _, held := range objects {
		if err := r.removeFinalizer(ctx, held.object); err != nil {
			return err
		}
		if held.object.GetDeletionTimestamp() == nil {
			continue
		}
		if _, err := fmt.Fprintf(r.out, "%s %s/%s released: %s\n", held.object.GetKind(), held.object.GetNamespace(),
			held.object.GetName(), held.left()); err != nil {
			return err
		}
	}
	return nil
}

// heldObject is an object with the finalizer of its kind.
type heldObject struct {
	object *unstructured.Unstructured
	by     *kind.Kind
}

// left returns what the finalizer of a deleted object was still there for.
func (h heldObject) left() string {
	switch {
	case h.by.OnDelete != "":
		return "it has not passed the phases that follow its deletion"
	case h.by.IsHeld():
		return "its children in other namespaces may be left"
	}
	return "its kind does not need the finalizer any more"
}

// heldObjects returns the objects with the finalizer of their kind, in the namespaces that belong to the installation.
func (r *remover) heldObjects(ctx context.Context) (held []heldObject, err error) {
	for _, k := range r.kinds {
		found, err := r.list(ctx, k)
		if err != nil {
			return nil, err
		}
		for _, object := range found {
			if !r.isOthers(object) && plan.HasFinalizer(k, object) {
				held = append(held, heldObject{object, k})
			}
		}
	}
	return held, nil
}

// removeFinalizer removes the finalizer of its kind from an object, unless the object is gone by then.
func (r *remover) removeFinalizer(ctx context.Context, object *unstructured.Unstructured) error {
	client, resource, err := r.clientFor(object)
	if err != nil {
		return err
	}
	// The API server may take a moment to accept all objects.
	mayPass := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsInvalid(err) }
	err = retry.OnError(releaseBackoff, mayPass, func() error {
		live, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
		if err != nil || live.GetUID() != object.GetUID() {
			return err
		}
		live.SetFinalizers(plan.WithFinalizer(live, false))
		_, err = client.Update(ctx, live, metav1.UpdateOptions{})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the finalizer of %s %s/%s: %w", resource, object.GetNamespace(), object.GetName(),
			err)
	}
	return nil
}

// printKept prints what is kept for other installations.
func (r *remover) printKept() error {
	if len(r.others) == 0 {
		return nil
	}
	var namespaces []string
	for _, other := range r.others {
		namespaces = append(namespaces, other.namespace)
	}
	_, err := fmt.Fprintf(r.out, "kept the CRDs and the roles for users, which the installation in %s needs\n",
		strings.Join(namespaces, ", "))
	return err
}

// list lists the objects of a kind in all namespaces, in the version in which the API server stores them if it has
// that: others need a webhook that may be gone. There are none of a type that the cluster does not have.
func (r *remover) list(ctx context.Context, k *kind.Kind) ([]*unstructured.Unstructured, error) {
	of := k.GroupVersionKind
	mapping, err := r.Mapper.RESTMapping(of.GroupKind(), of.Version)
	if meta.IsNoMatchError(err) {
		mapping, err = r.Mapper.RESTMapping(of.GroupKind())
	}
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := r.Dynamic.Resource(mapping.Resource).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", mapping.Resource.GroupResource(), err)
	}
	var all []*unstructured.Unstructured
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all, nil
}

// remove deletes the objects that exist.
func (r *remover) remove(
	ctx context.Context, propagation metav1.DeletionPropagation, objects []*unstructured.Unstructured,
) error {
	for _, object := range objects {
		client, resource, err := r.clientFor(object)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return err
		}
		err = client.Delete(ctx, object.GetName(), metav1.DeleteOptions{PropagationPolicy: &propagation})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete %s %s: %w", resource, object.GetName(), err)
		}
	}
	return nil
}

// clientFor returns the client and the resource of an object.
func (r *remover) clientFor(object *unstructured.Unstructured) (dynamic.ResourceInterface, string, error) {
	gvk := object.GroupVersionKind()
	mapping, err := r.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, "", err
	}
	return r.Dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace()),
		mapping.Resource.GroupResource().String(), nil
}
