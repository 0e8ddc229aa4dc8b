package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/fescue-dev/fescue/bench/byhand/api"
)

const (
	// controllerLabel is the label by which the Pods of a Customcluster are found.
	controllerLabel = "controller"
	// collectFor is how long changes of Pods are collected, so that a status is written for
	// many of them.
	collectFor = time.Second
)

// CustomclusterReconciler reconciles Customclusters.
type CustomclusterReconciler struct {
	client.Client
	Reporting
}

// SetupWithManager watches Customclusters and the Pods with the label, also those made by hand.
func (r *CustomclusterReconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, controllerLabel, func(o client.Object) []string {
		if value := o.GetLabels()[controllerLabel]; value != "" {
			return []string{value}
		}
		return nil
	})
	if err != nil {
		return err
	}
	changed := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
		return before.Status.Phase != after.Status.Phase || isReady(before) != isReady(after) ||
			(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
			!equality.Semantic.DeepEqual(before.Labels, after.Labels) ||
			!equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences)
	}}
	return ctrl.NewControllerManagedBy(mgr).
		For(&api.Customcluster{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Pod{}, collected(), builder.WithPredicates(changed)).
		Complete(r)
}

// collected queues the Customcluster of a Pod a moment later.
func collected() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]
	add := func(pod client.Object, q queue) {
		if name := pod.GetLabels()[controllerLabel]; name != "" {
			q.AddAfter(ctrl.Request{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: name}},
				collectFor)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { add(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			add(e.ObjectNew, q)
			if e.ObjectOld.GetLabels()[controllerLabel] != e.ObjectNew.GetLabels()[controllerLabel] {
				add(e.ObjectOld, q)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { add(e.Object, q) },
	}
}

// Reconcile creates and deletes Pods until there are as many as wanted, with the message.
func (r *CustomclusterReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var cluster api.Customcluster
	if err := r.Get(ctx, request.NamespacedName, &cluster); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if cluster.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	var list corev1.PodList
	if err := r.List(ctx, &list, client.InNamespace(cluster.Namespace),
		client.MatchingFields{controllerLabel: cluster.Name}); err != nil {
		return ctrl.Result{}, err
	}
	s := sort(&cluster, list.Items)
	err := errors.Join(r.delete(ctx, s.unwanted(&cluster)), r.create(ctx, &cluster, s))
	return ctrl.Result{}, errors.Join(err, r.report(ctx, &cluster, s))
}

// sorted are the Pods with the label of a Customcluster.
type sorted struct {
	// current and outdated are members that are not being deleted.
	current, outdated []*corev1.Pod
	// ended are members that have ended, and made by hand those without a controller.
	ended, madeByHand []*corev1.Pod
	names             sets.Set[string]
}

func sort(cluster *api.Customcluster, pods []corev1.Pod) *sorted {
	s := &sorted{names: sets.New[string]()}
	for i := range pods {
		pod := &pods[i]
		s.names.Insert(pod.Name)
		switch {
		case pod.DeletionTimestamp != nil:
		case metav1.GetControllerOf(pod) == nil:
			s.madeByHand = append(s.madeByHand, pod)
		case !metav1.IsControlledBy(pod, cluster):
		case hasEnded(pod):
			s.ended = append(s.ended, pod)
		case pod.Spec.Containers[0].Env[0].Value == cluster.Spec.Message:
			s.current = append(s.current, pod)
		default:
			s.outdated = append(s.outdated, pod)
		}
	}
	// The youngest that are not ready are deleted first.
	slices.SortFunc(s.current, func(a, b *corev1.Pod) int {
		if ready := isReady(b); ready != isReady(a) {
			if ready {
				return 1
			}
			return -1
		}
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return s
}

// unwanted returns the Pods to delete now. Of the outdated ones, a quarter of the members may be
// unavailable.
func (s *sorted) unwanted(cluster *api.Customcluster) []*corev1.Pod {
	pods := slices.Concat(s.madeByHand, s.ended)
	count := int(cluster.Spec.Count)
	if len(s.current) > count {
		pods = append(pods, s.current[count:]...)
		s.current = s.current[:count]
	}
	available := 0
	for _, pod := range slices.Concat(s.current, s.outdated) {
		if isReady(pod) {
			available++
		}
	}
	spare := available - (count - max(1, count/4))
	s.outdated = slices.DeleteFunc(s.outdated, func(pod *corev1.Pod) bool {
		if isReady(pod) {
			if spare <= 0 {
				return false
			}
			spare--
		}
		pods = append(pods, pod)
		return true
	})
	return pods
}

func (r *CustomclusterReconciler) delete(ctx context.Context, pods []*corev1.Pod) error {
	var errs []error
	for _, pod := range pods {
		errs = append(errs, client.IgnoreNotFound(r.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})))
	}
	if len(pods) > 0 {
		ctrl.LoggerFrom(ctx).Info("deleted Pods", "number", len(pods))
	}
	return errors.Join(errs...)
}

// create creates the missing Pods. Their names have a hash of the message, so that a Pod that is
// deleted twice by name is not its successor.
func (r *CustomclusterReconciler) create(ctx context.Context, cluster *api.Customcluster, s *sorted) error {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(cluster.Spec.Message)) // it returns no error
	missing := int(cluster.Spec.Count) - len(s.current) - len(s.outdated)
	for i, created := 0, 0; created < missing; i++ {
		name := fmt.Sprintf("%s-%08x-%d", cluster.Name, hash.Sum32(), i)
		if s.names.Has(name) {
			continue
		}
		pod := podOf(cluster, name)
		if err := ctrl.SetControllerReference(cluster, pod, r.Scheme()); err != nil {
			return err
		}
		if err := r.Create(ctx, pod); err != nil {
			return err
		}
		created++
	}
	if missing > 0 {
		ctrl.LoggerFrom(ctx).Info("created Pods", "number", missing)
	}
	return nil
}

func podOf(cluster *api.Customcluster, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster.Namespace, Name: name,
			Labels: map[string]string{controllerLabel: cluster.Name, managedByLabel: ManagedBy},
		},
		Spec: corev1.PodSpec{
			SecurityContext: PodSecurity(),
			Containers: []corev1.Container{{
				Name: "my-nginx", Image: "nginx:latest",
				Env:             []corev1.EnvVar{{Name: "MESSAGE", Value: cluster.Spec.Message}},
				Command:         []string{"/bin/sh", "-c", "while true; do echo '$(MESSAGE)'; sleep 100; done"},
				SecurityContext: ContainerSecurity(),
			}},
		},
	}
}

// report patches the status if it differs.
func (r *CustomclusterReconciler) report(ctx context.Context, cluster *api.Customcluster, s *sorted) error {
	running, ready := int32(0), int32(0)
	for _, pod := range slices.Concat(s.current, s.outdated) {
		if pod.Status.Phase == corev1.PodRunning {
			running++
		}
		if isReady(pod) {
			ready++
		}
	}
	stored := cluster.DeepCopy()
	status := &cluster.Status
	status.Count, status.Message, status.Selector = running, cluster.Spec.Message, controllerLabel+"="+cluster.Name
	isDone := ready == cluster.Spec.Count && len(s.outdated) == 0
	r.condition(&status.Status, cluster.Generation,
		readyCondition(isDone, fmt.Sprintf("pods: %d of %d ready", ready, cluster.Spec.Count)))
	if equality.Semantic.DeepEqual(stored.Status, cluster.Status) {
		return nil
	}
	return r.Status().Patch(ctx, cluster, client.MergeFrom(stored))
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
