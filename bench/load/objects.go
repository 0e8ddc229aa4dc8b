package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fescue-dev/fescue/bench/byhand/api"
)

// valueKey is the key of Watchers' configData.
const valueKey = "value"

func newAt(namespace, name string, schedule time.Time) *api.At {
	return &api.At{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       api.AtSpec{Schedule: metav1.NewTime(schedule.UTC()), Command: "echo hello"},
	}
}

func newWatcher(namespace, name, value string) *api.Watcher {
	return &api.Watcher{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: api.WatcherSpec{
			Container:  corev1.Container{Name: "watch", Image: "busybox:1.37", Args: []string{"watch"}},
			ConfigData: map[string]string{valueKey: value},
		},
	}
}

func newCustomcluster(namespace, name string, count int32, message string) *api.Customcluster {
	return &api.Customcluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       api.CustomclusterSpec{Count: count, Message: message},
	}
}

// createAts creates n Ats that are due.
func (e *environment) createAts(ctx context.Context, n int) error {
	return each(ctx, n, func(ctx context.Context, i int) error {
		return e.client.Create(ctx, newAt(e.namespace, fmt.Sprintf("at-%d", i), time.Now().Add(-time.Hour)))
	})
}

func watcherName(i int) string { return fmt.Sprintf("watcher-%d", i) }

// createWatchers creates the Watchers of the numbers from first to n-1.
func (e *environment) createWatchers(ctx context.Context, first, n int, value string) error {
	return each(ctx, n-first, func(ctx context.Context, i int) error {
		return e.client.Create(ctx, newWatcher(e.namespace, watcherName(first+i), value))
	})
}

// changeWatcher patches the value of a Watcher.
func (e *environment) changeWatcher(ctx context.Context, name, value string) error {
	patch := fmt.Appendf(nil, `{"spec":{"configData":{%q:%q}}}`, valueKey, value)
	return e.client.Patch(ctx, newWatcher(e.namespace, name, ""),
		client.RawPatch("application/merge-patch+json", patch))
}

// createCustomclusters creates n Customclusters.
func (e *environment) createCustomclusters(ctx context.Context, n int, count int32, message string) error {
	return each(ctx, n, func(ctx context.Context, i int) error {
		return e.client.Create(ctx, newCustomcluster(e.namespace, fmt.Sprintf("cluster-%d", i), count, message))
	})
}

// doneAts counts the Ats that are DONE.
func (e *environment) doneAts(ctx context.Context) (*tally, error) {
	return watch(ctx, e, &api.At{}, func(at *api.At) bool { return at.Status.Phase == api.PhaseDone })
}

// configured counts the ConfigMaps with a value.
func (e *environment) configured(ctx context.Context, value string) (*tally, error) {
	return watch(ctx, e, &corev1.ConfigMap{}, func(c *corev1.ConfigMap) bool {
		got, has := c.Data[valueKey]
		return has && got == value
	})
}

// complete counts the Customclusters whose status shows as many Pods as wanted, with the message.
func (e *environment) complete(ctx context.Context, count int32, message string) (*tally, error) {
	return watch(ctx, e, &api.Customcluster{}, func(c *api.Customcluster) bool {
		return c.Status.Count == count && c.Status.Message == message
	})
}

// running counts the Pods that run with a message and are not being deleted.
func (e *environment) running(ctx context.Context, message string) (*tally, error) {
	return watch(ctx, e, &corev1.Pod{}, func(p *corev1.Pod) bool {
		env := p.Spec.Containers[0].Env
		return len(env) == 1 && env[0].Value == message && p.Status.Phase == corev1.PodRunning &&
			p.DeletionTimestamp == nil
	})
}
