package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/fescue-dev/fescue/crds/install"
)

// TestMain makes the test binary serve as the command fescue, for scripts and for
// tests that start it as a process.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"fescue": main})
}

// TestScripts runs the command line as people do. Each script has a namespace of its
// own, which is the default of its kubeconfig.
func TestScripts(t *testing.T) {
	t.Parallel()
	runScripts(t, "scripts")
}

// TestInstallScripts is not parallel: it installs and removes what there is only one of
// in a cluster, the CRDs of the other tests among it.
func TestInstallScripts(t *testing.T) { runScripts(t, "install") }

func runScripts(t *testing.T, folder string) {
	root, err := os.Getwd()
	require.NoError(t, err)
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", folder),
		Setup: func(e *testscript.Env) error {
			namespace := newNamespace(t)
			kubeconfig := filepath.Join(e.WorkDir, "kubeconfig")
			writeKubeconfig(t, kubeconfig, restConfig(t), namespace)
			e.Setenv("ROOT", root)
			e.Setenv("NAMESPACE", namespace)
			e.Setenv("KUBECONFIG", kubeconfig)
			host, port, err := net.SplitHostPort(freePort(t, hostAddress(t)))
			require.NoError(t, err)
			e.Setenv("HOST_ADDRESS", host)
			e.Setenv("FREE_PORT", port)
			// The go command and kubectl keep their caches there.
			e.Setenv("HOME", os.Getenv("HOME"))
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"load":      loadCommand(restConfig(t)),
			"writefile": writeFileCommand,
			"rights":    func(ts *testscript.TestScript, neg bool, args []string) { rightsCommand(t, ts, neg, args) },
		},
	})
}

// hostAddress is an address of this machine that Services may lead to: the API server refuses
// endpoints on loopback.
func hostAddress(t testing.TB) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok && network.IP.To4() != nil && network.IP.IsGlobalUnicast() {
			return network.IP.String()
		}
	}
	require.Fail(t, "this machine has no IPv4 address but those of loopback")
	return ""
}

// writeFileCommand writes the standard output of the last command to a file.
func writeFileCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: writefile FILE")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(ts.ReadFile("stdout")), 0o600))
}

// rightsCommand writes a kubeconfig called operator, with the rights that `fescue manifests
// --install-crds` prints for the namespace of the script and the kinds in folders.
func rightsCommand(t *testing.T, ts *testscript.TestScript, neg bool, dirs []string) {
	if neg {
		ts.Fatalf("usage: rights DIR...")
	}
	client, err := dynamic.NewForConfig(restConfig(t))
	ts.Check(err)
	c := &cluster{t: t, client: client, namespace: ts.Getenv("NAMESPACE")}
	loaded, err := loadKinds(dirs)
	ts.Check(errors.Join(err, loaded.BrokenError()))
	o := c.installation(false)
	o.InstallCRDs = true
	parts, err := o.partsFor(loaded.All(), nil)
	ts.Check(err)
	writeKubeconfig(t, ts.MkAbs("operator"), c.grant(rightsIn(install.Objects(parts))), c.namespace)
}

// restConfig is the administrator's configuration of the control plane of this run.
func restConfig(t testing.TB) *rest.Config {
	t.Helper()
	dir := os.Getenv("DEVCLUSTER_DIR")
	require.NotEmpty(t, dir, "there is no control plane: run the tests with make test, or under .devcluster/bin/devcluster -- go test ./…")
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig"))
	require.NoError(t, err)
	config.QPS = -1
	return config
}

// newNamespace makes a namespace for one test, which is deleted after it.
func newNamespace(t testing.TB) string {
	t.Helper()
	client, err := kubernetes.NewForConfig(restConfig(t))
	require.NoError(t, err)
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, client.CoreV1().Namespaces().Delete(context.Background(), namespace.Name, metav1.DeleteOptions{}))
	})
	require.Eventually(t, func() bool {
		_, err := client.CoreV1().ServiceAccounts(namespace.Name).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	}, timeout, poll, "no Pod is admitted before the namespace has its service account")
	return namespace.Name
}

// writeKubeconfig writes a kubeconfig for the server and token of config.
func writeKubeconfig(t *testing.T, file string, config *rest.Config, namespace string) {
	t.Helper()
	written := clientcmdapi.NewConfig()
	written.Clusters["test"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	written.AuthInfos["test"] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
	written.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test", Namespace: namespace}
	written.CurrentContext = "test"
	require.NoError(t, clientcmd.WriteToFile(*written, file))
}

func TestErrorsTakeOneLineEach(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	printErrors(&out, fmt.Errorf("load: %w", fmt.Errorf("first\nsecond")))
	require.Equal(t, "error: load: first second\n", out.String())
}
