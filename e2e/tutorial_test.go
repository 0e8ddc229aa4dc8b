package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
	"github.com/fescue-dev/fescue/internal/testing/tutorial"
)

// previews is the resource of the tutorial.
var previews = schema.GroupVersionResource{Group: "platform.example.com", Version: "v1", Resource: "previews"}

// TestTutorial does what the pages of the tutorial show, in their order. The node runs no containers, so a process of
// this machine stands in for the operator that the last page installs. It is installed under the names that everyone
// has who follows the pages, so no other test may run meanwhile.
func TestTutorial(t *testing.T) {
	c := newClients(t, testcluster.Namespace(t))
	c.deleteCRDs(previews.GroupResource().String())
	removeFailedInstallation(t)
	c.deleteWebhooks("fescue")
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	testcluster.WriteKubeconfig(t, kubeconfig, testcluster.Config(t), c.namespace)
	installed := &installedOperator{cluster: newClients(t, "fescue-system"), user: c, address: testcluster.FreePort(t, hostAddress(t))}
	installed.everywhere = true
	reader := tutorial.Reader{Env: []string{"KUBECONFIG=" + kubeconfig}, HasCluster: true, Before: func(dir, command string) {
		switch {
		case strings.HasSuffix(command, "-f install.yaml"):
			withoutPods(t, filepath.Join(dir, "install.yaml"))
		case strings.Contains(command, "rollout status"):
			installed.rollOut()
		}
	}}
	reader.Run(t)
}

// withoutPods has manifests create no Pods of the operator.
func withoutPods(t *testing.T, file string) {
	t.Helper()
	manifests, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, 1, bytes.Count(manifests, []byte("replicas: 2")))
	require.NoError(t, os.WriteFile(file, bytes.Replace(manifests, []byte("replicas: 2"), []byte("replicas: 0"), 1), 0o600))
}

// installedOperator is a process with the flags, the files and the rights of the Deployment in fescue-system.
type installedOperator struct {
	*cluster
	user    *cluster
	address string // where the webhooks listen
	process *process
}

// rollOut replaces the process by one of the Deployment as it is now, and waits until it accepts objects.
func (o *installedOperator) rollOut() {
	o.t.Helper()
	deployment, err := o.typed.AppsV1().Deployments(o.namespace).Get(o.t.Context(), "fescue", metav1.GetOptions{})
	require.NoError(o.t, err)
	if o.process != nil {
		o.process.stop()
	} else {
		o.serveWebhooksAt(o.address)
	}
	args := deployment.Spec.Template.Spec.Containers[0].Args[1:] // without run
	for i, volume := range deployment.Spec.Template.Spec.Volumes {
		mounted := deployment.Spec.Template.Spec.Containers[0].VolumeMounts[i].MountPath
		args[slices.Index(args, "--kinds="+mounted)] = "--kinds=" + o.write(volume.ConfigMap)
	}
	o.process = o.launchAs(o.configOf("fescue"), append(args, "--log-format=text", "--metrics-listen=127.0.0.1:0", "--health-listen=127.0.0.1:0",
		"--webhook-listen="+o.address, "--shutdown-delay-duration=0s")...)
	o.process.awaitReady()
	require.True(o.t, testcluster.WaitUntil(func() bool {
		_, err = o.user.createBy(o.user.client, previews, "Preview", "probe", map[string]any{"image": "probe"}, dryRun)
		return err == nil
	}), "%v", err)
}

// write writes the files of a ConfigMap to a new folder.
func (o *installedOperator) write(source *corev1.ConfigMapVolumeSource) (dir string) {
	o.t.Helper()
	dir = o.t.TempDir()
	files, err := o.typed.CoreV1().ConfigMaps(o.namespace).Get(o.t.Context(), source.Name, metav1.GetOptions{})
	require.NoError(o.t, err)
	for _, item := range source.Items {
		require.NoError(o.t, os.WriteFile(filepath.Join(dir, item.Path), []byte(files.Data[item.Key]), 0o600))
	}
	return dir
}
