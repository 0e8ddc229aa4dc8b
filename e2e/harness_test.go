package e2e

import (
	"cmp"
	"context"
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
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
	"github.com/fescue-dev/fescue/internal/testing/logtest"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// cluster is a namespace of the control plane, with clients of the administrator. The operators of
// a test reach the API server through a proxy that the test can observe and cut.
type cluster struct {
	t         *testing.T
	client    dynamic.Interface
	typed     kubernetes.Interface
	namespace string
	proxy     *proxy
	// env is added to the environment of operators.
	env []string
	// program is the fescue that operators run; without it, that of this test.
	program string
	// wrapper is a command that runs the command of an operator, which follows it; nil is none.
	wrapper []string
	// types name the resources of children, like --type of fescue manifests.
	types []string
	// keepCRDs is for tests that install the CRDs themselves.
	keepCRDs bool
	// prepared identifies the flags for which config has the rights.
	prepared string
	config   *rest.Config
	granted  []*unstructured.Unstructured

	everywhere bool // the operator works in all namespaces, without the shipped kinds
}

// newCluster creates a namespace and a proxy for a test.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := newClients(t, testcluster.Namespace(t))
	c.proxy = newProxy(t, testcluster.Config(t))
	return c
}

// group returns a group for the kinds of a test alone.
func (c *cluster) group() string { return strings.ReplaceAll(c.namespace, "-", "") + ".example.com" }

// newClients returns a cluster for a namespace that exists, without a proxy.
func newClients(t *testing.T, namespace string) *cluster {
	t.Helper()
	c := &cluster{t: t, namespace: namespace}
	var err error
	c.client, err = dynamic.NewForConfig(testcluster.Config(t))
	require.NoError(t, err)
	c.typed, err = kubernetes.NewForConfig(testcluster.Config(t))
	require.NoError(t, err)
	return c
}

// process is a running operator: the program itself.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *logtest.Buffer
	done chan struct{}
}

// start runs `fescue run` for the namespace and waits until it is ready and runs all its kinds.
func (c *cluster) start(args ...string) *process {
	c.t.Helper()
	o := c.launch(args...)
	o.awaitReady()
	require.True(c.t, testcluster.WaitUntil(func() bool {
		waiting := o.scrape()["fescue_kinds_waiting"].GetMetric()
		return len(waiting) > 0 && !slices.ContainsFunc(waiting, func(m *dto.Metric) bool { return m.GetGauge().GetValue() > 0 })
	}), "a kind is not running")
	return o
}

// launch starts an operator without waiting for anything. It acts as the service account that
// `fescue manifests` prints, with its rights.
func (c *cluster) launch(args ...string) *process {
	c.t.Helper()
	c.prepare(args)
	return c.launchAs(c.proxy.through(c.config), args...)
}

// launchUntilWrite starts an operator that is killed after its write number n.
func (c *cluster) launchUntilWrite(n int64, args ...string) *process {
	c.t.Helper()
	o := c.launch(args...)
	c.proxy.writes.Store(0)
	hook := func(written int64) {
		if written == n {
			_ = o.cmd.Process.Kill()
		}
	}
	c.proxy.afterWrite.Store(&hook)
	return o
}

// launchAs starts an operator with the server and the token of config.
func (c *cluster) launchAs(config *rest.Config, args ...string) *process {
	c.t.Helper()
	kubeconfig := filepath.Join(c.t.TempDir(), "kubeconfig")
	testcluster.WriteKubeconfig(c.t, kubeconfig, config, c.namespace)
	o := &process{t: c.t, log: &logtest.Buffer{}, done: make(chan struct{})}
	command := slices.Concat(c.wrapper, []string{cmp.Or(c.program, "fescue"), "run", "--kubeconfig", kubeconfig, "--health-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"}, args)
	if c.everywhere {
		command = append(command, "--shipped-kinds=false")
	} else {
		command = append(command, "--namespace", c.namespace)
	}
	o.cmd = exec.Command(command[0], command[1:]...)
	o.cmd.Env = append(append(os.Environ(), "GOGC=100"), c.env...) // as in production
	o.cmd.Stdout, o.cmd.Stderr = o.log, o.log
	require.NoError(c.t, o.cmd.Start())
	go func() {
		_ = o.cmd.Wait() // how it ended is in ProcessState
		close(o.done)
	}()
	c.t.Cleanup(func() {
		o.kill()
		if strings.Contains(o.log.String(), "WARNING: DATA RACE") { // whatever its exit code is
			c.t.Error("the operator has a data race")
		}
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
		request, err := http.NewRequestWithContext(o.t.Context(), http.MethodGet, ready, nil)
		require.NoError(o.t, err)
		response, err := http.DefaultClient.Do(request)
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

// awaitLog waits until the operator has logged a text, and fails if it ends first. It is for tests
// of the log itself: others wait for /readyz or for what is stored.
func (o *process) awaitLog(text string) {
	o.t.Helper()
	require.True(o.t, testcluster.WaitUntil(func() bool {
		return o.hasEnded() || strings.Contains(o.log.String(), text)
	}), "the log does not have %q", text)
	require.Contains(o.t, o.log.String(), text)
}

// logged returns when the operator has logged a text, which it waits for.
func (o *process) logged(text string) time.Time {
	o.t.Helper()
	o.awaitLog(text)
	before, _, _ := strings.Cut(o.log.String(), text)
	_, stamp, _ := strings.Cut(before[strings.LastIndexByte(before, '\n')+1:], "time=")
	stamp, _, _ = strings.Cut(stamp, " ")
	logged, err := time.Parse(time.RFC3339, stamp)
	require.NoError(o.t, err)
	return logged
}

// awaitEnd waits until the operator has ended.
func (o *process) awaitEnd() {
	o.t.Helper()
	require.True(o.t, testcluster.WaitUntil(o.hasEnded), "the operator does not end")
}

// kill ends the operator like a crash.
func (o *process) kill() {
	_ = o.cmd.Process.Kill()
	<-o.done
}

// stop ends the operator like Kubernetes does, and returns its exit code.
func (o *process) stop() int {
	o.t.Helper()
	require.NoError(o.t, o.cmd.Process.Signal(syscall.SIGTERM))
	o.awaitEnd()
	return o.cmd.ProcessState.ExitCode()
}

// prepare installs what an operator with these flags needs: the CRDs, and the rights that
// `fescue manifests` prints and no others.
func (c *cluster) prepare(args []string) {
	c.t.Helper()
	var dirs []string
	webhooks, shards, shipped := false, 1, !slices.Contains(args, "--shipped-kinds=false")
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
	key := fmt.Sprint(dirs, webhooks, shards, shipped)
	if key == c.prepared {
		return
	}
	kinds, err := load.All(shipped && !c.everywhere, dirs...)
	require.NoError(c.t, errors.Join(err, kinds.BrokenError()))
	if !c.keepCRDs {
		c.installCRDs(kinds.All())
	}
	o := c.installation(webhooks)
	o.Shards = shards
	rights := o.rights(c.t, kinds.Behaviours())
	c.keepRights(rights)
	c.config = c.grant(rights)
	c.prepared = key
}

// installCRDs installs the CRDs of kinds and waits until discovery lists the kinds.
func (c *cluster) installCRDs(kinds []*kind.Kind) {
	c.t.Helper()
	require.NoError(c.t, testcluster.InstallCRDs(c.t.Context(), c.client, kinds, crds.Webhook{}))
	require.True(c.t, testcluster.WaitUntil(func() bool {
		return !slices.ContainsFunc(kinds, func(k *kind.Kind) bool {
			list, err := c.typed.Discovery().ServerResourcesForGroupVersion(k.GroupVersionKind.GroupVersion().String())
			return err != nil || !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == k.Names.Plural })
		})
	}))
}

// deleteCRDs deletes CRDs after the test, if they exist. Their objects lose their finalizers first, which no operator
// removes any more: the API server has five workers for the CRDs of all tests, and each waits up to a minute, again and
// again, for the objects of a CRD to be gone.
func (c *cluster) deleteCRDs(names ...string) {
	c.t.Cleanup(func() {
		for _, name := range names {
			definition, err := c.client.Resource(definitions).Get(context.Background(), name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				continue
			}
			require.NoError(c.t, err)
			c.removeFinalizers(definition)
			err = c.client.Resource(definitions).Delete(context.Background(), name, metav1.DeleteOptions{})
			require.True(c.t, err == nil || apierrors.IsNotFound(err), "%v", err)
		}
	})
}

// removeFinalizers removes the finalizers of all objects of a CRD. It leaves out a CRD that the API server does not
// serve, or whose objects it cannot convert.
func (c *cluster) removeFinalizers(definition *unstructured.Unstructured) {
	c.t.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	require.NoError(c.t, runtime.DefaultUnstructuredConverter.FromUnstructured(definition.Object, &crd))
	stored := crd.Spec.Versions[slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })]
	objects := c.client.Resource(schema.GroupVersionResource{Group: crd.Spec.Group, Version: stored.Name, Resource: crd.Spec.Names.Plural})
	list, err := objects.List(context.Background(), metav1.ListOptions{})
	if err != nil {
		c.t.Logf("CRD %s: %v", crd.Name, err)
		return
	}
	for _, object := range list.Items {
		if len(object.GetFinalizers()) == 0 {
			continue
		}
		patch := []byte(`{"metadata":{"finalizers":null}}`)
		_, err := objects.Namespace(object.GetNamespace()).Patch(context.Background(), object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
		require.True(c.t, err == nil || apierrors.IsNotFound(err), "%v", err)
	}
}

// address returns the address that an operator listens on for a flag. The port is random, so it is
// read from the log.
func (o *process) address(flag string) string {
	o.t.Helper()
	pattern := regexp.MustCompile(`msg=listening flag=` + flag + ` address=(\S+)`)
	var found []string
	require.True(o.t, testcluster.WaitUntil(func() bool {
		found = pattern.FindStringSubmatch(o.log.String())
		return found != nil
	}), "it does not listen for %s", flag)
	return "http://" + found[1]
}

// get returns the answer of a URL.
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

// writeKind writes a file of kinds to a new folder, and loads it.
func writeKind(t *testing.T, text string) (dir string, kinds []*kind.Kind) {
	t.Helper()
	dir = corpus.Folder(t, text)
	return dir, kindtest.FromDir(t, dir)
}
