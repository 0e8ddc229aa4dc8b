package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/fescue-dev/fescue/bench/byhand/api"
)

// WatcherReconciler reconciles Watchers. Injector adds their sidecars to Pods.
type WatcherReconciler struct {
	client.Client
	Reporting
}

// SetupWithManager watches Watchers and their ConfigMaps.
func (r *WatcherReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&api.Watcher{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.ConfigMap{}).
		Complete(r)
}

// Reconcile keeps the ConfigMap of a Watcher.
func (r *WatcherReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var watcher api.Watcher
	if err := r.Get(ctx, request.NamespacedName, &watcher); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if watcher.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: watcher.Namespace,
		Name: configMapName(&watcher)}}
	result, err := controllerutil.CreateOrUpdate(ctx, r.Client, config, func() error {
		metav1.SetMetaDataLabel(&config.ObjectMeta, managedByLabel, ManagedBy)
		config.Data, config.BinaryData = watcher.Spec.ConfigData, watcher.Spec.ConfigBinaryData
		return ctrl.SetControllerReference(&watcher, config, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if result != controllerutil.OperationResultNone {
		ctrl.LoggerFrom(ctx).Info("ConfigMap "+string(result), "name", config.Name)
	}
	stored := watcher.DeepCopy()
	watcher.Status.ConfigMapName = config.Name
	r.condition(&watcher.Status.Status, watcher.Generation, readyCondition(true, "config: ready"))
	if equality.Semantic.DeepEqual(stored.Status, watcher.Status) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.Status().Patch(ctx, &watcher, client.MergeFrom(stored))
}

func configMapName(w *api.Watcher) string { return w.Name + "-config" }
