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
	// registryAddress is that of the node's registry, in the node's own network.
	registryAddress = "127.0.0.1:5000"
	// podSubnet is the range of Pods' addresses, which only the node itself can reach.
	podSubnet = "10.244.0.0/24"
	// containerdSocket is where containerd listens by default.
	containerdSocket = "/run/containerd/containerd.sock"
)

// realNode is a node that runs containers: containerd, a kubelet and kube-proxy, in
// namespaces of their own.
type realNode struct {
	*namespaces
	host     host
	registry *http.Server
}

// newRealNode makes the namespaces, and serves in them the images: those of OCI layouts
// by their names, and ours.
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
	_ = n.registry.Close() // nobody asks any more
	return n.end()
}

// noProxy is the value of NO_PROXY with which the node is reached.
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

// startRealNode starts what runs containers.
func (c *controlPlane) startRealNode(ctx context.Context, fail context.CancelCauseFunc) error {
	if err := c.writeNodeFiles(); err != nil {
		return err
	}
	if err := c.launch(fail, "containerd", "--config", c.path("node", "containerd.toml")); err != nil {
		return err
	}
	// The kubelet would end if containerd did not answer yet.
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
		"--hostname-override", realNodeName, "--conntrack-max-per-core=0") // which would be for the whole machine
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
