package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// namespaces are the kernel namespaces of a real node. They have its mounts, network interfaces,
// packet filters and processes. The kernel removes all of them with the last process, so nothing
// remains, no matter how devcluster ends.
type namespaces struct {
	// first is the process that all others end with. It waits for the end of stdin.
	first *exec.Cmd
	stdin io.Closer
	// link is the host's interface to the namespaces.
	link string
	// address is that of the node, gateway that of the host.
	address, gateway string
	cgroup           string
}

// hostTunables are settings of the whole machine that a kubelet changes (setupKernelTunables in
// k8s.io/kubernetes/pkg/kubelet/cm). The kubelet gets copies of them.
var hostTunables = []string{
	"kernel/keys/root_maxbytes", "kernel/keys/root_maxkeys", "kernel/panic", "kernel/panic_on_oops",
	"vm/overcommit_memory", "vm/panic_on_oom",
}

// stateFolders are where the programs of a node keep their data by default.
var stateFolders = []string{"/var/lib/cni", "/var/lib/containerd", "/var/lib/kubelet"}

// cgroupPrefix and the ID of devcluster's process are the name of the node's cgroup.
const cgroupPrefix = "devcluster-"

// enterNamespaces moves a thread into new namespaces, and with it the processes that it starts
// later. Their data is in dir.
func enterNamespaces(t thread, dir string) (*namespaces, error) {
	n := &namespaces{cgroup: cgroupPrefix + strconv.Itoa(os.Getpid())}
	err := t.do(func() error { return n.enter(dir) })
	if err == nil {
		err = n.connect(t)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("namespaces of the node: %w", err), n.end())
	}
	return n, nil
}

// enter runs on the thread.
func (n *namespaces) enter(dir string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	// It ends with its input, which ends with devcluster. It ignores SIGCHLD, so that the kernel
	// removes the orphans that become its children.
	n.first = exec.Command("sh", "-c", `trap "" CHLD; exec cat`)
	stdin, err := n.first.StdinPipe()
	if err != nil {
		return err
	}
	n.first.SysProcAttr = n.childAttr()
	n.first.SysProcAttr.Cloneflags = unix.CLONE_NEWPID
	if err := n.first.Start(); err != nil {
		return err
	}
	n.stdin = stdin
	processes, err := os.Open(fmt.Sprintf("/proc/%d/ns/pid", n.first.Process.Pid))
	if err != nil {
		return err
	}
	defer func() { _ = processes.Close() }()
	if err := unix.Setns(int(processes.Fd()), unix.CLONE_NEWPID); err != nil {
		return fmt.Errorf("setns: %w", err)
	}
	if err := n.createCgroup(); err != nil {
		return err
	}
	return mountState(dir)
}

// childAttr is for processes in the namespaces, which end with devcluster anyway. They cannot see
// their parent, so the signal for its end would reach them at once.
func (*namespaces) childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// mountState mounts private folders where the node writes to fixed paths.
func mountState(dir string) error {
	copies := filepath.Join(dir, "sysctl")
	if err := os.MkdirAll(copies, 0o755); err != nil {
		return err
	}
	for _, name := range hostTunables {
		value, err := os.ReadFile(filepath.Join("/proc/sys", name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(copies, filepath.Base(name)), value, 0o644); err != nil {
			return err
		}
	}
	for _, target := range []string{"/run", "/var/log"} {
		if err := unix.Mount("tmpfs", target, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("mount %s: %w", target, err)
		}
	}
	// A child does this, because this thread is not in the namespace of its processes.
	if out, err := exec.Command("mount", "-t", "proc", "proc", "/proc").CombinedOutput(); err != nil {
		return fmt.Errorf("mount /proc: %w: %s", err, bytes.TrimSpace(out))
	}
	for _, name := range hostTunables {
		if err := bind(filepath.Join(copies, filepath.Base(name)), filepath.Join("/proc/sys", name)); err != nil {
			return err
		}
	}
	for _, target := range stateFolders {
		source := filepath.Join(dir, filepath.Base(target))
		if err := errors.Join(os.MkdirAll(source, 0o755), os.MkdirAll(target, 0o755)); err != nil {
			return err
		}
		if err := bind(source, target); err != nil {
			return err
		}
	}
	return nil
}

func bind(source, target string) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s at %s: %w", source, target, err)
	}
	return nil
}

// connect connects the network of the node to the host, and to nothing else.
func (n *namespaces) connect(t thread) error {
	// The addresses are of a range that is not routed (RFC 2544).
	const networks = 64
	pid := strconv.Itoa(n.first.Process.Pid)
	for i := range networks {
		link := fmt.Sprintf("devcluster%d", i)
		err := ip("link add " + link + " type veth peer name eth0 netns " + pid)
		if err == nil {
			n.link, n.gateway, n.address = link, fmt.Sprintf("198.18.%d.1", i), fmt.Sprintf("198.18.%d.2", i)
			break
		}
		if i == networks-1 || !strings.Contains(err.Error(), "File exists") {
			return err
		}
	}
	for _, args := range []string{"address add " + n.gateway + "/30 dev " + n.link, "link set " + n.link + " up"} {
		if err := ip(args); err != nil {
			return err
		}
	}
	return t.do(func() error {
		for _, args := range []string{"link set lo up", "address add " + n.address + "/30 dev eth0", "link set eth0 up",
			"route add default via " + n.gateway} {
			if err := ip(args); err != nil {
				return err
			}
		}
		return nil
	})
}

// ip runs the program ip in the network of the calling thread.
func ip(args string) error {
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", args, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// createCgroup creates the cgroup of the node in each hierarchy: version 1 has several, version 2
// has one. It removes those of killed processes, because only cgroups outlive the namespaces.
func (n *namespaces) createCgroup() error {
	for _, hierarchy := range hierarchies() {
		others, _ := filepath.Glob(filepath.Join(hierarchy, cgroupPrefix+"*")) // the pattern is well-formed
		for _, other := range others {
			pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(other), cgroupPrefix))
			if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
				_ = removeCgroup(other) // the next devcluster tries again
			}
		}
		if err := os.MkdirAll(filepath.Join(hierarchy, n.cgroup), 0o755); err != nil {
			return fmt.Errorf("cgroup of the node: %w", err)
		}
	}
	return nil
}

func hierarchies() []string {
	const root = "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		return []string{root}
	}
	var all []string
	found, _ := filepath.Glob(filepath.Join(root, "*", "cgroup.procs")) // the pattern is well-formed
	for _, file := range found {
		all = append(all, filepath.Dir(file))
	}
	return all
}

// end kills all processes in the namespaces, and waits until they end.
func (n *namespaces) end() error {
	if n.stdin == nil {
		return nil
	}
	_ = n.stdin.Close()
	_ = n.first.Wait() // it was killed
	var errs []error
	for _, hierarchy := range hierarchies() {
		errs = append(errs, removeCgroup(filepath.Join(hierarchy, n.cgroup)))
	}
	return errors.Join(errs...)
}

// removeCgroup removes a cgroup and the cgroups in it. Their processes have been killed, but the
// kernel may still be ending the last of them.
func removeCgroup(dir string) error {
	var err error
	_ = wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, 10*time.Second, true,
		func(context.Context) (bool, error) {
			err = removeEmptyCgroup(dir)
			return !errors.Is(err, syscall.EBUSY), nil
		})
	return err
}

func removeEmptyCgroup(dir string) error {
	children, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, child := range children {
		if child.IsDir() {
			if err := removeEmptyCgroup(filepath.Join(dir, child.Name())); err != nil {
				return err
			}
		}
	}
	if err := syscall.Rmdir(dir); err != nil {
		return fmt.Errorf("remove the cgroup %s: %w", dir, err)
	}
	return nil
}
