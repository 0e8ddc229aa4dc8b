package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/testcluster"
)

var (
	ats  = schema.GroupVersionResource{Group: "cnat.fescue.dev", Version: "v1alpha1", Resource: "ats"}
	pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// cluster is a namespace of the control plane, and a way to the API server for the
// operator of a test that can be watched and cut.
type cluster struct {
	t         *testing.T
	client    dynamic.Interface
	namespace string
	proxy     *proxy
	// env is added to the environment of operators.
	env []string
	// types name the resources of children, as --type of fescue manifests.
	types []string
	// keepCRDs leaves the CRDs that a test has installed itself.
	keepCRDs bool
	// prepared says for which flags config has the rights.
	prepared string
	config   *rest.Config
	granted  []*unstructured.Unstructured
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	config := testcluster.Config(t)
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return &cluster{t: t, client: client, namespace: testcluster.Namespace(t), proxy: newProxy(t, config)}
}

// operator is a running process of the program itself.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *syncedBuffer
	done chan struct{}
}

// start runs `fescue run` for the namespace and returns when it is ready.
func (c *cluster) start(args ...string) *process {
	c.t.Helper()
	o := c.launch(args...)
	o.awaitReady()
	return o
}

// launch starts it without waiting for anything. Operators act as the service account that
// `fescue manifests` prints, with its rights.
func (c *cluster) launch(args ...string) *process {
	c.t.Helper()
	c.prepare(args)
	return c.launchAs(c.proxy.through(c.config), args...)
}

// launchAs starts `fescue run` for the namespace with the server and the token of config.
func (c *cluster) launchAs(config *rest.Config, args ...string) *process {
	c.t.Helper()
	kubeconfig := filepath.Join(c.t.TempDir(), "kubeconfig")
	testcluster.WriteKubeconfig(c.t, kubeconfig, config, c.namespace)
	if !slices.Contains(args, "--health-listen") {
		args = append(args, "--health-listen", "127.0.0.1:0")
	}
	o := &process{t: c.t, log: &syncedBuffer{}, done: make(chan struct{})}
	o.cmd = exec.Command("fescue", append([]string{"run", "--kubeconfig", kubeconfig, "--namespace", c.namespace}, args...)...)
	o.cmd.Env = append(os.Environ(), c.env...)
	o.cmd.Stdout, o.cmd.Stderr = o.log, o.log
	require.NoError(c.t, o.cmd.Start())
	go func() {
		_ = o.cmd.Wait() // how it ended is in ProcessState
		close(o.done)
	}()
	c.t.Cleanup(func() {
		o.kill()
		if c.t.Failed() {
			c.t.Logf("operator's log:\n%s", o.log)
		}
	})
	return o
}

// awaitReady waits until /readyz succeeds, and fails if the operator ends first.
func (o *process) awaitReady() {
	o.t.Helper()
	ready := o.address("--health-listen") + "/readyz"
	require.True(o.t, testcluster.WaitUntil(func() bool {
		if o.hasEnded() {
			return true
		}
		response, err := http.Get(ready)
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	}), "not ready")
	require.False(o.t, o.hasEnded(), "the operator has ended")
}

func (o *process) hasEnded() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// awaitLog waits until the operator has logged a text, and fails if it ends first.
func (o *process) awaitLog(text string) {
	o.t.Helper()
	require.Eventually(o.t, func() bool {
		return o.hasEnded() || strings.Contains(o.log.String(), text)
	}, testcluster.Timeout, testcluster.Poll, "log has no %q", text)
	require.Contains(o.t, o.log.String(), text)
}

// kill ends the operator as a crash does.
func (o *process) kill() {
	_ = o.cmd.Process.Kill()
	<-o.done
}

// stop ends the operator as Kubernetes does and returns its exit code.
func (o *process) stop() int {
	require.NoError(o.t, o.cmd.Process.Signal(syscall.SIGTERM))
	<-o.done
	return o.cmd.ProcessState.ExitCode()
}

type syncedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncedBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncedBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// prepare installs, as an administrator, what an operator with these flags takes: the CRDs and
// the rights that `fescue manifests` prints, and no others.
func (c *cluster) prepare(args []string) {
	c.t.Helper()
	var dirs []string
	webhooks, shards := false, 1
	for i, arg := range args {
		webhooks = webhooks || arg == "--webhook-url" || arg == "--webhook-service"
		if arg == "--kinds" {
			dirs = append(dirs, args[i+1])
		}
		if n, ok := strings.CutPrefix(arg, "--shards="); ok {
			var err error
			shards, err = strconv.Atoi(n)
			require.NoError(c.t, err)
		}
	}
	key := fmt.Sprint(dirs, webhooks, shards)
	if key == c.prepared {
		return
	}
	kinds, err := kind.Load(true, dirs...)
	require.NoError(c.t, errors.Join(err, kinds.BrokenError()))
	if !c.keepCRDs {
		c.installCRDs(kinds.All())
	}
	o := c.installation(webhooks)
	o.Shards = shards
	parts, err := o.parts(kinds.All(), nil)
	require.NoError(c.t, err)
	rights := rightsIn(install.Objects(parts))
	c.keepRights(rights)
	c.config = c.grant(rights)
	c.prepared = key
}

// installCRDs returns when the API server serves the kinds, and says so.
func (c *cluster) installCRDs(kinds []*kind.Kind) {
	c.t.Helper()
	require.NoError(c.t, crds.Install(c.t.Context(), c.client, kinds))
	served, err := discovery.NewDiscoveryClientForConfig(testcluster.Config(c.t))
	require.NoError(c.t, err)
	require.True(c.t, testcluster.WaitUntil(func() bool {
		return !slices.ContainsFunc(kinds, func(k *kind.Kind) bool {
			list, err := served.ServerResourcesForGroupVersion(k.GroupVersionKind.GroupVersion().String())
			return err != nil || !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == k.Names.Plural })
		})
	}))
}

// address is where an operator listens for what a flag says, by its log.
func (o *process) address(flag string) string {
	o.t.Helper()
	pattern := regexp.MustCompile(`msg=listening flag=` + flag + ` address=(\S+)`)
	var found []string
	require.Eventually(o.t, func() bool {
		found = pattern.FindStringSubmatch(o.log.String())
		return found != nil
	}, testcluster.Timeout, testcluster.Poll)
	return "http://" + found[1]
}

func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

// writeKind writes a folder of kinds and loads it.
func writeKind(t *testing.T, text string) (dir string, kinds []*kind.Kind) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kinds.cue"), []byte(text), 0o600))
	kinds, err := kind.FromDir(dir)
	require.NoError(t, err)
	return dir, kinds
}
