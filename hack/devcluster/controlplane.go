package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	// readyTimeout bounds the start of each part; on two busy cores the API server
	// takes about 5 s.
	readyTimeout = 2 * time.Minute
	// stopTimeout is the time that a part has to stop before it is killed.
	stopTimeout = 10 * time.Second
)

// errPartFailed means that a part ended without being stopped.
var errPartFailed = errors.New("part of the control plane failed")

// users are the identities of the parts, each with a token of its own. The API server's built-in
// RBAC knows their names and groups.
var users = map[string]struct{ user, group string }{
	"admin":              {"admin", "system:masters"},
	"controller-manager": {"system:kube-controller-manager", ""},
	"scheduler":          {"system:kube-scheduler", ""},
	"kubelet":            {"system:node:" + realNodeName, "system:nodes"},
	"kube-proxy":         {"system:kube-proxy", ""},
	kwokUser:             {kwokUser, "system:masters"},
}

// controlPlane is one running control plane: programs in bin, everything else in dir.
type controlPlane struct {
	bin, dir string
	// auditPolicy is the file with the API server's audit policy; it has none if this is empty.
	auditPolicy string
	// gates are the API server's feature gates.
	gates   string
	log     func(format string, args ...any)
	thread  thread
	node    *realNode         // nil with kwok
	tokens  map[string]string // by name in users
	running []*process
}

type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}
}

// kubeconfig returns the path of the administrator's kubeconfig.
func (c *controlPlane) kubeconfig() string { return c.path("admin.kubeconfig") }

func (c *controlPlane) path(elem ...string) string {
	return filepath.Join(append([]string{c.dir}, elem...)...)
}

// address returns the address that all parts listen on.
func (c *controlPlane) address() string {
	if c.node != nil {
		return c.node.address
	}
	return "127.0.0.1"
}

// start starts the parts in the order of their dependencies, and returns when Pods can run. It
// calls fail with the reason when a part ends by itself later.
func (c *controlPlane) start(ctx context.Context, fail context.CancelCauseFunc) error {
	client, err := c.startAPIServer(ctx, fail)
	if err != nil {
		return err
	}
	if err := c.launch(fail, "kube-controller-manager",
		"--kubeconfig", c.path("controller-manager.kubeconfig"), "--controllers=*,-nodeipam",
		"--service-account-private-key-file", c.path("sa.key"), "--root-ca-file", c.path("certs", "apiserver.crt"),
		"--use-service-account-credentials", "--leader-elect=false", "--secure-port=0"); err != nil {
		return err
	}
	if err := c.launch(fail, "kube-scheduler",
		"--kubeconfig", c.path("scheduler.kubeconfig"), "--leader-elect=false", "--secure-port=0"); err != nil {
		return err
	}
	name := realNodeName
	if c.node != nil {
		err = c.startRealNode(ctx, fail)
	} else {
		name = kwokNodeName
		err = c.startKwok(ctx, fail, client)
	}
	if err != nil {
		return err
	}
	return awaitNode(ctx, client, name)
}

// startAPIServer starts etcd and the API server, and returns a client of the administrator.
func (c *controlPlane) startAPIServer(ctx context.Context, fail context.CancelCauseFunc) (kubernetes.Interface, error) {
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	etcdURL, peerURL := "http://"+c.address()+":"+ports[0], "http://"+c.address()+":"+ports[1]
	server := "https://" + c.address() + ":" + ports[2]
	if err := c.writeCredentials(); err != nil {
		return nil, err
	}
	if err := c.writeConfiguration(); err != nil {
		return nil, err
	}
	if err := c.launch(fail, "etcd",
		"--data-dir", c.path("etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls", etcdURL, "--advertise-client-urls", etcdURL,
		"--listen-peer-urls", peerURL, "--initial-advertise-peer-urls", peerURL,
		"--initial-cluster", "default="+peerURL); err != nil {
		return nil, err
	}
	if err := c.waitFor(ctx, "etcd", http.DefaultClient, etcdURL+"/health"); err != nil {
		return nil, err
	}
	args := []string{
		"--etcd-servers", etcdURL, "--bind-address", c.address(), "--secure-port", ports[2],
		"--cert-dir", c.path("certs"), "--token-auth-file", c.path("tokens.csv"),
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", c.path("sa.key"),
		"--service-account-signing-key-file", c.path("sa.key"), "--service-cluster-ip-range=10.0.0.0/24",
		"--authorization-mode=Node,RBAC", "--allow-privileged=true",
		"--kubelet-client-certificate", c.path("kubelet-client.crt"), "--kubelet-client-key",
		c.path("kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP",
		// Without kube-proxy, the API server calls webhooks at the endpoints of their Services.
		fmt.Sprintf("--enable-aggregator-routing=%t", c.node == nil),
		"--admission-control-config-file", c.path(admissionFile),
		// The generated rights must suffice with this plugin.
		"--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
	}
	if c.gates != "" {
		args = append(args, "--feature-gates", c.gates)
	}
	if c.auditPolicy != "" {
		// Without a maximum size, the log is rotated at 100 MB.
		args = append(args, "--audit-policy-file", c.auditPolicy, "--audit-log-path", c.path(auditFile),
			"--audit-log-maxsize=1000000")
	}
	if err := c.launch(fail, "kube-apiserver", args...); err != nil {
		return nil, err
	}
	if err := c.writeKubeconfigs(ctx, server); err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig())
	if err != nil {
		return nil, err
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	if err := c.waitFor(ctx, "kube-apiserver", httpClient, server+"/readyz"); err != nil {
		return nil, err
	}
	return kubernetes.NewForConfigAndClient(config, httpClient)
}

// launch starts one part with its output in logs/NAME.log.
func (c *controlPlane) launch(fail context.CancelCauseFunc, name string, args ...string) error {
	if err := os.MkdirAll(c.path("logs"), 0o755); err != nil {
		return err
	}
	logFile, err := os.Create(c.path("logs", name+".log"))
	if err != nil {
		return err
	}
	defer func() { _ = logFile.Close() }() // the part has a handle of its own
	program := filepath.Join(c.bin, name)
	if _, err := os.Stat(program); err != nil {
		program = name // installed on the machine
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr = childAttr()
	if c.node != nil {
		cmd.SysProcAttr = c.node.childAttr()
	}
	if err := c.thread.do(cmd.Start); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, done: make(chan struct{})}
	c.running = append(c.running, p)
	go func() {
		_ = cmd.Wait() // how it ended is in ProcessState
		close(p.done)
		fail(fmt.Errorf("%w: %s ended (%s); its last lines:\n%s", errPartFailed, name, cmd.ProcessState,
			lastLines(logFile.Name(), 5)))
	}()
	return nil
}

// stop stops the parts in the reverse order of their start, and everything that they have started.
func (c *controlPlane) stop() error {
	for _, p := range slices.Backward(c.running) {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
		case <-time.After(stopTimeout):
			_ = p.cmd.Process.Kill()
			<-p.done
		}
	}
	if c.node != nil {
		return c.node.stop()
	}
	return nil
}

// waitFor polls url until it answers 200.
func (c *controlPlane) waitFor(ctx context.Context, name string, client *http.Client, url string) error {
	return poll(ctx, name+" at "+url, func(ctx context.Context) bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false
		}
		response, err := client.Do(request)
		if err != nil {
			return false
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	})
}

// poll waits until a part is ready.
func poll(ctx context.Context, what string, ready func(context.Context) bool) error {
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, readyTimeout, true,
		func(ctx context.Context) (bool, error) {
			return ready(ctx), nil
		})
	if err != nil {
		return fmt.Errorf("wait for %s: %w", what, err)
	}
	return nil
}

// writeCredentials writes the key that signs service account tokens, the client certificates of the
// API server for the kubelet and for webhooks, which are self-signed, and the tokens of the parts.
func (c *controlPlane) writeCredentials() error {
	if _, err := c.writeKey("sa.key"); err != nil {
		return err
	}
	if err := c.writeClientCertificate("kubelet-client",
		cert.Config{CommonName: "kube-apiserver", Organization: []string{"system:masters"}}); err != nil {
		return err
	}
	if err := c.writeClientCertificate(webhookClient, cert.Config{CommonName: "kube-apiserver"}); err != nil {
		return err
	}
	c.tokens = make(map[string]string)
	var file strings.Builder
	for name, u := range users {
		c.tokens[name] = rand.Text()
		fmt.Fprintf(&file, "%s,%s,%s,%q\n", c.tokens[name], u.user, u.user, u.group)
	}
	return os.WriteFile(c.path("tokens.csv"), []byte(file.String()), 0o600)
}

// writeClientCertificate writes NAME.key and NAME.crt.
func (c *controlPlane) writeClientCertificate(name string, config cert.Config) error {
	key, err := c.writeKey(name + ".key")
	if err != nil {
		return err
	}
	client, err := cert.NewSelfSignedCACert(config, key)
	if err != nil {
		return err
	}
	text, err := cert.EncodeCertificates(client)
	if err != nil {
		return err
	}
	return cert.WriteCert(c.path(name+".crt"), text)
}

// writeKey creates a key and writes it.
func (c *controlPlane) writeKey(name string) (*rsa.PrivateKey, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	text, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, err
	}
	return key, keyutil.WriteKey(c.path(name), text)
}

// writeKubeconfigs writes NAME.kubeconfig for each user, once the API server has created its
// serving certificate.
func (c *controlPlane) writeKubeconfigs(ctx context.Context, server string) error {
	var ca []byte
	if err := poll(ctx, "the certificate of kube-apiserver", func(context.Context) bool {
		var err error
		ca, err = os.ReadFile(c.path("certs", "apiserver.crt"))
		return err == nil && len(ca) > 0
	}); err != nil {
		return err
	}
	for name := range users {
		config := clientcmdapi.NewConfig()
		config.Clusters["devcluster"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: c.tokens[name]}
		config.Contexts["devcluster"] = &clientcmdapi.Context{Cluster: "devcluster", AuthInfo: name}
		config.CurrentContext = "devcluster"
		if err := clientcmd.WriteToFile(*config, c.path(name+".kubeconfig")); err != nil {
			return err
		}
	}
	return nil
}

// awaitNode waits until a node is ready and the default namespace has its service account, which
// Pods need.
func awaitNode(ctx context.Context, client kubernetes.Interface, name string) error {
	return poll(ctx, "the node", func(ctx context.Context) bool {
		if _, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default",
			metav1.GetOptions{}); err != nil {
			return false
		}
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err == nil && len(node.Spec.Taints) == 0 &&
			slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			})
	})
}

// Ports that freePorts returns. Linux gives connections a port from 32768 on, and Services have NodePorts from 30000
// on, so nobody takes one of these before the process that will listen on it.
const firstPort, lastPort = 20000, 29999

// freePorts returns n loopback ports that were free a moment ago. Their order is random, so that processes that start
// at the same time take others.
func freePorts(n int) ([]string, error) {
	var ports []string
	for _, i := range mathrand.Perm(lastPort - firstPort + 1) {
		port := strconv.Itoa(firstPort + i)
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			continue
		}
		defer func() { _ = listener.Close() }()
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("fewer than %d ports from %d to %d are free", n, firstPort, lastPort)
}

// lastLines returns the last n lines of a file, or why they cannot be read.
func lastLines(name string, n int) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
