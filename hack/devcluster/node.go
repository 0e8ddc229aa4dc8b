package main

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

const (
	realNodeName = "node"
	// registryAddress is the address of the node's registry, in the node's own network.
	registryAddress = "127.0.0.1:5000"
	// podSubnet is the address range of Pods, which only the node can reach.
	podSubnet = "10.244.0.0/24"
	// containerdSocket is where containerd listens by default.
	containerdSocket = "/run/containerd/containerd.sock"
)

// realNode is a node that runs containers: containerd, a kubelet and kube-proxy in their own
// namespaces.
type realNode struct {
	*namespaces
	host     host
	registry *http.Server
}

// newRealNode creates the namespaces, and serves images in them: OCI layouts by name, and the two
// of each node.
func newRealNode(t thread, dir string, host host, layouts map[string]string) (*realNode, error) {
	images, err := writeImages(filepath.Join(dir, "images"), host.busybox)
	if err != nil {
		return nil, err
	}
	for name, folder := range layouts {
		images[name] = layout(folder)
	}
	n := &realNode{host: host, registry: &http.Server{Handler: images, ReadHeaderTimeout: time.Minute}}
	if n.namespaces, err = enterNamespaces(t, dir); err != nil {
		return nil, err
	}
	var listener net.Listener
	if err := t.do(func() (err error) {
		listener, err = net.Listen("tcp", registryAddress)
		return err
	}); err != nil {
		return nil, errors.Join(err, n.end())
	}
	go func() { _ = n.registry.Serve(listener) }() // until stop
	return n, nil
}

func (n *realNode) stop() error {
	_ = n.registry.Close() // it has no clients any more
	return n.end()
}

// noProxy returns the value of NO_PROXY that the node needs.
func (n *realNode) noProxy() string {
	return strings.Trim(cmp.Or(os.Getenv("NO_PROXY"), os.Getenv("no_proxy"))+","+n.address, ",")
}

//go:embed all:node
var nodeFiles embed.FS

// writeNodeFiles writes the configuration of the node's programs.
func (c *controlPlane) writeNodeFiles() error {
	values := map[string]string{
		"Dir": c.path("node"), "KubeletClient": c.path("kubelet-client.crt"), "Plugins": c.node.host.plugins,
		"Address": c.node.address, "Cgroup": c.node.cgroup,
		"PauseImage": pauseImage, "Registry": registryAddress, "PodSubnet": podSubnet, "Socket": containerdSocket,
	}
	return fs.WalkDir(nodeFiles, "node", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		t, err := template.ParseFS(nodeFiles, path)
		if err != nil {
			return err
		}
		var text strings.Builder
		if err := t.Option("missingkey=error").Execute(&text, values); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(c.path(path)), 0o755); err != nil {
			return err
		}
		return os.WriteFile(c.path(path), []byte(text.String()), 0o644)
	})
}

// startRealNode starts the programs of the node.
func (c *controlPlane) startRealNode(ctx context.Context, fail context.CancelCauseFunc) error {
	if err := c.writeNodeFiles(); err != nil {
		return err
	}
	if err := c.launch(fail, "containerd", "--config", c.path("node", "containerd.toml")); err != nil {
		return err
	}
	// The kubelet exits if containerd does not answer.
	if err := c.awaitContainerd(ctx); err != nil {
		return err
	}
	if err := c.launch(fail, "kubelet",
		"--kubeconfig", c.path("kubelet.kubeconfig"), "--config", c.path("node", "kubelet.yaml"),
		"--hostname-override", realNodeName, "--node-ip", c.node.address); err != nil {
		return err
	}
	return c.launch(fail, "kube-proxy",
		"--kubeconfig", c.path("kube-proxy.kubeconfig"), "--proxy-mode=nftables", "--cluster-cidr", podSubnet,
		"--hostname-override", realNodeName, "--conntrack-max-per-core=0") // it would change the whole machine
}

// awaitContainerd waits until containerd accepts connections.
func (c *controlPlane) awaitContainerd(ctx context.Context) error {
	return poll(ctx, "containerd", func(context.Context) bool {
		return c.thread.do(func() error {
			connection, err := net.Dial("unix", containerdSocket)
			if err == nil {
				err = connection.Close()
			}
			return err
		}) == nil
	})
}
