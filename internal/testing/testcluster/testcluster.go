// Package testcluster gives tests access to the control plane that `make test` starts for
// them: .devcluster/bin/devcluster sets DEVCLUSTER_DIR for the command that it runs.
package testcluster

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	// Timeout bounds every wait for a condition. It is generous because the machine may be
	// busy, and no test passes by reaching it.
	Timeout = 90 * time.Second
	// Poll is the interval at which conditions are checked: tests that run at the same time ask the API server
	// more often than operators do.
	Poll = 50 * time.Millisecond
)

// Dir returns the folder of the running control plane, and skips the test if there is none.
func Dir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("DEVCLUSTER_DIR")
	if dir == "" {
		t.Skip("no control plane is running: make test starts one")
	}
	return dir
}

// Config returns the administrator's configuration of the control plane.
func Config(t testing.TB) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(Dir(t), "admin.kubeconfig"))
	require.NoError(t, err)
	config.QPS = -1
	return config
}

// Namespace creates a namespace for one test, in which Pods can be created, and deletes it after
// the test.
func Namespace(t testing.TB) string {
	t.Helper()
	client, err := kubernetes.NewForConfig(Config(t))
	require.NoError(t, err)
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := client.CoreV1().Namespaces().Delete(context.Background(), namespace.Name,
			metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			require.NoError(t, err)
		}
	})
	require.Eventually(t, func() bool {
		_, err := client.CoreV1().ServiceAccounts(namespace.Name).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	}, Timeout, Poll, "the namespace has no service account, without which no Pod is admitted")
	return namespace.Name
}

// WriteKubeconfig writes a kubeconfig with the server and token of config and a default
// namespace.
func WriteKubeconfig(t testing.TB, file string, config *rest.Config, namespace string) {
	t.Helper()
	written := clientcmdapi.NewConfig()
	written.Clusters["test"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	written.AuthInfos["test"] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
	written.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test", Namespace: namespace}
	written.CurrentContext = "test"
	require.NoError(t, clientcmd.WriteToFile(*written, file))
}

// WaitUntil polls a condition. It returns true once the condition holds, and false after Timeout.
func WaitUntil(holds func() bool) bool { return holdsWithin(Timeout, holds) }

// HoldsFor polls a condition. It returns false once the condition does not hold, and true after the duration. Unlike
// testify's Never it leaves no check behind that still runs when the test ends.
func HoldsFor(duration time.Duration, holds func() bool) bool {
	return !holdsWithin(duration, func() bool { return !holds() })
}

func holdsWithin(duration time.Duration, holds func() bool) bool {
	deadline := time.NewTimer(duration)
	defer deadline.Stop()
	tick := time.NewTicker(Poll)
	defer tick.Stop()
	for {
		if holds() {
			return true
		}
		select {
		case <-deadline.C:
			return false
		case <-tick.C:
		}
	}
}

// Ports that FreePort returns. Linux gives connections a port from 32768 on, and Services have NodePorts from 30000
// on, so nobody takes one of these between the test and the process that will listen on it.
const firstPort, lastPort = 20000, 29999

var triedPorts atomic.Int64

// FreePort returns an address of host with a port that no process listens on. Another call returns another port.
func FreePort(t testing.TB, host string) string {
	t.Helper()
	first := int64(os.Getpid()) * 100 // processes that run at the same time begin at different ports
	for range lastPort - firstPort {
		port := firstPort + (first+triedPorts.Add(1))%(lastPort-firstPort+1)
		address := net.JoinHostPort(host, strconv.FormatInt(port, 10))
		if listener, err := net.Listen("tcp", address); err == nil {
			_ = listener.Close()
			return address
		}
	}
	require.FailNow(t, "no port is free")
	return ""
}
