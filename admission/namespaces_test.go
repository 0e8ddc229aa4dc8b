package admission

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestNamespaces(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"pod-security.kubernetes.io/enforce": "baseline"}
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: labels}})
	namespaces := NewNamespaces(client, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	canceled, cancelNow := context.WithCancel(ctx)
	cancelNow()
	require.ErrorContains(t, namespaces.Ready(), "are still being read")
	_, err := namespaces.Labels(canceled, "a")
	require.Equal(t, namespaces.Ready(), err)
	go namespaces.Run(ctx)
	require.Eventually(t, func() bool { return namespaces.Ready() == nil }, time.Minute, time.Millisecond)
	found, err := namespaces.Labels(ctx, "a")
	require.NoError(t, err)
	require.Equal(t, labels, found)
	_, err = namespaces.Labels(canceled, "b")
	require.EqualError(t, err, `the namespace "b" is not known yet`)
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: labels}}, metav1.CreateOptions{})
	require.NoError(t, err)
	namespaces.wait = time.Minute
	found, err = namespaces.Labels(ctx, "b")
	require.NoError(t, err, "Labels waits for a new one")
	require.Equal(t, labels, found)
}

// After the right was missing, or the API server down, for ten minutes, the labels are known within
// seconds. Each failure is reported.
func TestNamespacesRecoverWithinSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
		var isMissing atomic.Bool
		isMissing.Store(true)
		client.PrependReactor("list", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
			return isMissing.Load(), nil, apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "", errors.New("no"))
		})
		var failures atomic.Int32
		namespaces := NewNamespaces(client, func(resource schema.GroupResource, err error) {
			require.Equal(t, "namespaces", resource.String())
			require.True(t, apierrors.IsForbidden(err))
			failures.Add(1)
		})
		go namespaces.Run(t.Context())
		time.Sleep(10 * time.Minute)
		require.Greater(t, failures.Load(), int32(60))
		require.Error(t, namespaces.Ready())
		isMissing.Store(false)
		time.Sleep(10 * time.Second)
		require.NoError(t, namespaces.Ready())
	})
}
