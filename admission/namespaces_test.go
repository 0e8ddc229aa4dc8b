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
	go namespaces.Run(ctx)
	require.Eventually(t, func() bool { return namespaces.Labels("a") != nil }, time.Minute, time.Millisecond)
	require.Equal(t, labels, namespaces.Labels("a"))
	require.Nil(t, namespaces.Labels("b"))
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: labels}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return namespaces.Labels("b") != nil }, time.Minute, time.Millisecond)
}
