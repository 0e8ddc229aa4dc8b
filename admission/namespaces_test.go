package admission

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestNamespaces(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"pod-security.kubernetes.io/enforce": "baseline"}
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: labels}})
	namespaces := NewNamespaces(client)
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
