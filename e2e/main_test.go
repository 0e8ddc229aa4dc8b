package e2e

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/internal/cli"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// TestMain makes the test binary serve as the command fescue, for scripts and for tests that start
// it as a process.
func TestMain(m *testing.M) {
	testscript.Main(endToEnd{m}, map[string]func(){"fescue": func() {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		context.AfterFunc(ctx, stop) // as in main.go
		os.Exit(cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}})
}

// restOfTests has the tests run that hold none of the promises in doc.go, and no others.
var restOfTests = flag.Bool("rest", false, "run the tests that hold none of the promises in e2e/doc.go, instead of those that do")

// endToEnd runs the tests of this package.
type endToEnd struct{ *testing.M }

// Run selects the tests, and runs six at a time, unless flags say otherwise: they wait more than they compute.
func (e endToEnd) Run() int {
	flag.Parse()
	selection := "test.run"
	if *restOfTests {
		selection = "test.skip"
	}
	defaults := map[string]string{"test.parallel": "6", selection: "^(" + strings.Join(promised(), "|") + ")$"}
	flag.Visit(func(f *flag.Flag) {
		if f.Name == "test.run" || f.Name == "test.bench" || f.Name == "test.list" {
			delete(defaults, selection)
		}
		delete(defaults, f.Name)
	})
	for name, value := range defaults {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	return e.M.Run()
}

// doc is the documentation of this package, which lists the promises.
//
//go:embed doc.go
var doc string

// promised returns the names of the tests that doc.go lists.
func promised() []string {
	_, list, _ := strings.Cut(doc, "// The promises")
	return slices.Compact(slices.Sorted(slices.Values(regexp.MustCompile(`\bTest\w+`).FindAllString(list, -1))))
}

// The tests that doc.go lists exist, and those that hack/test.sh runs with the race detector.
func TestPromisesHaveTests(t *testing.T) {
	t.Parallel()
	requireTests(t, promised())
	script, err := os.ReadFile("../hack/test.sh")
	require.NoError(t, err)
	lines := regexp.MustCompile(`(?m)^all_goroutines\+?='\|?(.+)'$`).FindAllStringSubmatch(string(script), -1)
	require.NotEmpty(t, lines)
	var names []string
	for _, line := range lines {
		for name := range strings.SplitSeq(line[1], "|") {
			names = append(names, "Test"+name)
		}
	}
	requireTests(t, names)
}

// requireTests requires that this package has tests of these names.
func requireTests(t *testing.T, names []string) {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	var source []byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		source = append(source, text...)
	}
	for _, name := range names {
		require.Contains(t, string(source), "func "+name+"(")
	}
}

// TestScripts runs the command line like users do. Each script has a namespace of its own, which is
// the default of its kubeconfig.
func TestScripts(t *testing.T) {
	t.Parallel()
	runScripts(t, "scripts")
}

// TestInstallScripts is not parallel: it installs and removes objects that exist only once in a
// cluster, such as the CRDs of the other tests.
func TestInstallScripts(t *testing.T) { runInstallations(t, "install") }

// TestHelmScripts installs with Helm, which it builds: the first time takes minutes. It is not parallel either.
func TestHelmScripts(t *testing.T) { runInstallations(t, "helm") }

func runInstallations(t *testing.T, folder string) {
	t.Helper()
	removeFailedInstallation(t)
	runScripts(t, folder)
}

// removeFailedInstallation removes what a failed test leaves in fescue-system, and its webhooks: they would reject the
// objects of all other tests, and fescue uninstall keeps the CRDs while another installation has an operator.
func removeFailedInstallation(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		c := newClients(t, "")
		ctx := context.Background()
		registrations := c.typed.AdmissionregistrationV1()
		_ = registrations.MutatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		_ = registrations.ValidatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		namespaces := c.typed.CoreV1().Namespaces()
		_ = namespaces.Delete(ctx, "fescue-system", metav1.DeleteOptions{})
		testcluster.WaitUntil(func() bool {
			_, err := namespaces.Get(ctx, "fescue-system", metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	})
}

func runScripts(t *testing.T, folder string) {
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("..", "testdata", folder),
		Setup: func(e *testscript.Env) error {
			namespace := testcluster.Namespace(t)
			kubeconfig := filepath.Join(e.WorkDir, "kubeconfig")
			testcluster.WriteKubeconfig(t, kubeconfig, testcluster.Config(t), namespace)
			e.Setenv("ROOT", root)
			e.Setenv("NAMESPACE", namespace)
			e.Setenv("KUBECONFIG", kubeconfig)
			host, port, err := net.SplitHostPort(testcluster.FreePort(t, hostAddress(t)))
			require.NoError(t, err)
			e.Setenv("HOST_ADDRESS", host)
			e.Setenv("FREE_PORT", port)
			// The go command and kubectl have their caches there.
			e.Setenv("HOME", os.Getenv("HOME"))
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"load":      loadCommand(testcluster.Config(t)),
			"writefile": writeFileCommand,
			"rights":    func(ts *testscript.TestScript, neg bool, args []string) { rightsCommand(t, ts, neg, args) },
		},
	})
}

// hostAddress returns an address of this machine for the endpoints of Services, which the API
// server rejects on loopback.
func hostAddress(t testing.TB) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok && network.IP.To4() != nil && network.IP.IsGlobalUnicast() {
			return network.IP.String()
		}
	}
	require.Fail(t, "this machine has only loopback IPv4 addresses")
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
// --install-crds` prints for the namespace of the script and for the kinds in folders.
func rightsCommand(t *testing.T, ts *testscript.TestScript, neg bool, dirs []string) {
	if neg {
		ts.Fatalf("usage: rights DIR...")
	}
	c := newClients(t, ts.Getenv("NAMESPACE"))
	kinds, err := load.All(true, dirs...)
	ts.Check(errors.Join(err, kinds.BrokenError()))
	o := c.installation(false)
	o.InstallCRDs = true
	testcluster.WriteKubeconfig(t, ts.MkAbs("operator"), c.grant(o.rights(t, kinds.Behaviours())), c.namespace)
}
