package controller

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/fescue-dev/fescue/bench/byhand/api"
)

// AtReconciler reconciles Ats.
type AtReconciler struct {
	client.Client
	Reporting
}

// SetupWithManager watches Ats, and the phases of their Pods.
func (r *AtReconciler) SetupWithManager(mgr ctrl.Manager) error {
	ended := predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.(*corev1.Pod).Status.Phase != e.ObjectNew.(*corev1.Pod).Status.Phase &&
				hasEnded(e.ObjectNew.(*corev1.Pod))
		},
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&api.At{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.Pod{}, builder.WithPredicates(ended)).
		Complete(r)
}

// Reconcile waits for the schedule, ensures the Pod and waits for its end.
func (r *AtReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var at api.At
	if err := r.Get(ctx, request.NamespacedName, &at); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if at.DeletionTimestamp != nil || at.Status.Phase == api.PhaseDone {
		return ctrl.Result{}, nil
	}
	if at.Status.Phase != api.PhaseRunning {
		if time.Now().Before(at.Spec.Schedule.Time) {
			err := r.enter(ctx, &at, api.PhasePending)
			return ctrl.Result{RequeueAfter: max(1, time.Until(at.Spec.Schedule.Time))}, err
		}
		if err := r.enter(ctx, &at, api.PhaseRunning); err != nil {
			return ctrl.Result{}, err
		}
	}
	pod := &corev1.Pod{}
	err := r.Get(ctx, client.ObjectKey{Namespace: at.Namespace, Name: at.Name + "-pod"}, pod)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return ctrl.Result{}, err
	case err != nil:
		return ctrl.Result{}, r.createPod(ctx, &at)
	case hasEnded(pod) && metav1.IsControlledBy(pod, &at):
		return ctrl.Result{}, r.enter(ctx, &at, api.PhaseDone)
	}
	return ctrl.Result{}, nil
}

func (r *AtReconciler) createPod(ctx context.Context, at *api.At) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: at.Namespace, Name: at.Name + "-pod",
			Labels: map[string]string{"app": at.Name, managedByLabel: ManagedBy},
		},
		Spec: corev1.PodSpec{
			RestartPolicy:   corev1.RestartPolicyOnFailure,
			SecurityContext: PodSecurity(),
			Containers: []corev1.Container{{
				Name: "command", Image: at.Spec.Image, Command: strings.Fields(at.Spec.Command),
				SecurityContext: ContainerSecurity(),
			}},
		},
	}
	if err := ctrl.SetControllerReference(at, pod, r.Scheme()); err != nil {
		return err
	}
	return r.Create(ctx, pod)
}

// enter stores a phase, if the At is not in it.
func (r *AtReconciler) enter(ctx context.Context, at *api.At, phase string) error {
	if at.Status.Phase == phase {
		return nil
	}
	stored := at.DeepCopy()
	now := metav1.Now()
	at.Status.Phase, at.Status.LastPhaseTransitionTime = phase, &now
	succeeded := metav1.Condition{Type: "Succeeded", Status: metav1.ConditionUnknown, Reason: phase}
	switch phase {
	case api.PhaseDone:
		succeeded.Status = metav1.ConditionTrue
		meta.RemoveStatusCondition(&at.Status.Conditions, "Reconciling")
	case api.PhasePending:
		succeeded.Message = "waiting until " + at.Spec.Schedule.UTC().Format(time.RFC3339)
	}
	if phase != api.PhaseDone {
		r.condition(&at.Status.Status, at.Generation,
			metav1.Condition{Type: "Reconciling", Status: metav1.ConditionTrue, Reason: phase})
	}
	r.condition(&at.Status.Status, at.Generation, succeeded)
	if err := r.Status().Patch(ctx, at, client.MergeFrom(stored)); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("phase changed", "from", stored.Status.Phase, "to", phase)
	r.event(at, phase, "entered phase %s", phase)
	return nil
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
