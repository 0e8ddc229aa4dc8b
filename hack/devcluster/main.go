// Command devcluster runs a real Kubernetes control plane on loopback: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler, with kwok standing in for the kubelet. It builds them
// from Go modules on first use, so that a machine with Go, make and git needs nothing else.
//
//	devcluster                  start, print the kubeconfig's path, stay until signalled
//	devcluster -- COMMAND ARG…  start, run COMMAND with KUBECONFIG set, stop, exit as COMMAND did
//	devcluster -build           get the programs only
//	devcluster -kubernetes 1.34 …  the same with an older control plane
//
// With --node=real (Linux, root), containerd, a kubelet and kube-proxy replace kwok and run
// containers, of busybox or of an image that --image names. COMMAND runs on the host with
// DEVCLUSTER_NODE=real; see docs/decisions/0016-real-node.md.
//
// For webhooks, $DEVCLUSTER_FREE_ADDRESS is an address with a free port that the API server reaches,
// and the API server has the client certificate webhook-client.crt in $DEVCLUSTER_DIR.
//
// With -audit-policy, the API server logs the requests that the policy selects to audit.log in
// $DEVCLUSTER_DIR.
//
// COMMAND has kubectl on its PATH: the one of the machine, or else one built from the same module
// as the API server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// options are the values of the flags.
type options struct {
	home, module    string
	kubernetes      string // a minor version
	downloads       string // a URL, none, or empty for the hosts of the projects
	buildOnly, keep bool
	node            string
	auditPolicy     string            // a file; none if empty
	images          map[string]string // folders of OCI layouts by name
}

func main() {
	o := options{images: make(map[string]string)}
	flag.StringVar(&o.home, "home", ".devcluster", "folder for binaries and for the data of running control planes")
	flag.StringVar(&o.module, "module", "hack/devcluster", "folder of the Go module that pins the versions")
	flag.StringVar(&o.kubernetes, "kubernetes", releases[0].minor,
		"minor version of the control plane; older ones only work with --node=kwok")
	flag.StringVar(&o.downloads, "downloads", os.Getenv("DEVCLUSTER_DOWNLOADS"),
		"where release files come from: a URL in place of the hosts of the projects, or none; $DEVCLUSTER_DOWNLOADS by default")
	flag.BoolVar(&o.buildOnly, "build", false, "get what is missing and exit")
	flag.BoolVar(&o.keep, "keep", false, "keep the data and logs of this run")
	flag.StringVar(&o.node, "node", "kwok", "what runs Pods: kwok, which only simulates them, or real")
	flag.StringVar(&o.auditPolicy, "audit-policy", "",
		"file with the audit policy of the API server, which then writes audit.log; no audit log by default")
	flag.Func("image",
		"image for --node=real as NAME=FOLDER: a name like docker.io/library/example:v1 and an OCI layout (repeatable)",
		o.addImage)
	listMissing := flag.Bool("missing", false,
		"print the Debian packages that --node=real needs and that are missing, and exit")
	flag.Parse()
	if *listMissing {
		_, missing := findHost()
		fmt.Println(strings.Join(missing, " "))
		return
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := run(ctx, o, flag.Args())
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		os.Exit(exit.ExitCode())
	default:
		fmt.Fprintln(os.Stderr, "devcluster:", err)
		os.Exit(1)
	}
}

func (o *options) addImage(text string) error {
	name, folder, ok := strings.Cut(text, "=")
	if !ok {
		return errors.New("must be NAME=FOLDER")
	}
	if _, err := layout(folder).image(); err != nil {
		return err
	}
	o.images[name] = folder
	return nil
}

// run builds and starts the parts, waits for command (or for ctx to end), and stops them. It
// returns the *exec.ExitError of a command that fails.
func run(ctx context.Context, o options, command []string) (err error) {
	home, err := filepath.Abs(o.home)
	if err != nil {
		return err
	}
	r, err := releaseOf(o.kubernetes)
	if err != nil {
		return err
	}
	wanted, host := kwokParts, host{}
	switch o.node {
	case "kwok":
	case "real":
		if !r.isDefault() {
			return fmt.Errorf("--node: invalid value %q: must be kwok with -kubernetes %s", o.node, o.kubernetes)
		}
		wanted = realParts
		if host, err = needHost(); err != nil {
			return err
		}
	default:
		return fmt.Errorf("--node: invalid value %q: must be kwok or real", o.node)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go cancelWithParent(ctx, cancel)

	d, err := downloaderFor(o.downloads)
	if err != nil {
		return err
	}
	bin := r.bin(home)
	if err := getMissing(ctx, bin, o.module, r, wanted, d); err != nil || o.buildOnly {
		return err
	}
	dir, err := os.MkdirTemp(home, "run-")
	if err != nil {
		return err
	}
	cluster := &controlPlane{bin: bin, dir: dir, auditPolicy: o.auditPolicy, gates: r.gates, log: progressTo(os.Stderr),
		thread: newThread()}
	defer func() {
		err = errors.Join(err, cluster.stop())
		if o.keep || errors.Is(err, errPartFailed) {
			fmt.Fprintln(os.Stderr, "devcluster: logs and data are kept in", dir)
			return
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	began := time.Now()
	if o.node == "real" {
		if cluster.node, err = newRealNode(cluster.thread, dir, host, o.images); err != nil {
			return err
		}
		// A proxy cannot reach the node. Go's HTTP client reads this before its first request.
		if err := os.Setenv("NO_PROXY", cluster.node.noProxy()); err != nil {
			return err
		}
	}
	if err := cluster.start(ctx, cancel); err != nil {
		return stopCause(ctx, err)
	}
	cluster.log("Kubernetes %s is ready after %s; KUBECONFIG=%s", r.version,
		time.Since(began).Round(100*time.Millisecond), cluster.kubeconfig())
	if len(command) == 0 {
		<-ctx.Done()
		return stopCause(ctx, nil)
	}
	return stopCause(ctx, runCommand(ctx, o, command, cluster))
}

// runCommand runs command until it ends. When ctx ends first, the command gets SIGINT, and is
// killed if it has not stopped after 20 s.
func runCommand(ctx context.Context, o options, command []string, cluster *controlPlane) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	ports, err := freePorts(1)
	if err != nil {
		return err
	}
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.kubeconfig(), "DEVCLUSTER_DIR="+cluster.dir,
		"DEVCLUSTER_NODE="+o.node,
		"DEVCLUSTER_FREE_ADDRESS="+net.JoinHostPort(cluster.address(), ports[0]))
	if _, err := exec.LookPath("kubectl"); err != nil {
		cmd.Env = append(cmd.Env, "PATH="+cluster.bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	return cmd.Run()
}

// stopCause returns why the run ended. A signal and the end of the parent process are not errors; a
// failed part is.
func stopCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errPartFailed) {
		return cause
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// cancelWithParent ends the run when the parent process is gone, so that a killed make or test run
// leaves no control plane behind. On every Unix, an orphaned process gets another parent.
func cancelWithParent(ctx context.Context, cancel context.CancelCauseFunc) {
	parent := os.Getppid()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if os.Getppid() != parent {
				cancel(errors.New("parent is gone"))
				return
			}
		}
	}
}
