// Command devcluster runs a real Kubernetes control plane on loopback: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler, and kwok in the
// place of a kubelet. It builds them from Go modules on first use, so that a
// machine with Go, make and git needs nothing else.
//
//	devcluster                  start, print the kubeconfig's path, stay until signalled
//	devcluster -- COMMAND ARG…  start, run COMMAND with KUBECONFIG set, stop, exit as COMMAND did
//	devcluster -build           build only
//	devcluster -kubernetes 1.34 …  the same with an older control plane
//
// With --node=real, on Linux and as root, the place of kwok is taken by containerd, a
// kubelet and kube-proxy, and containers run, of busybox or of an image that --image
// names. COMMAND finds DEVCLUSTER_NODE=real, and runs on the host as ever; see
// docs/decisions/0016-real-node.md.
//
// The API server shows webhooks the certificate webhook-client.crt in $DEVCLUSTER_DIR, and
// sends its spans of requests that a client has sampled to the socket otlp.sock there.
//
// COMMAND also finds kubectl on its PATH: the machine's own if it has one, else
// one built from the same module as the API server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// options are what the flags say.
type options struct {
	home, module    string
	kubernetes      string // a minor version
	buildOnly, keep bool
	node            string
	images          map[string]string // folders of OCI layouts by name
}

func main() {
	o := options{images: make(map[string]string)}
	flag.StringVar(&o.home, "home", ".devcluster", "folder for binaries and for the data of running control planes")
	flag.StringVar(&o.module, "module", "hack/devcluster", "folder of the Go module that pins the versions")
	flag.StringVar(&o.kubernetes, "kubernetes", releases[0].minor, "minor version of the control plane; another than the first has --node=kwok only")
	flag.BoolVar(&o.buildOnly, "build", false, "build what is missing and exit")
	flag.BoolVar(&o.keep, "keep", false, "keep the data and logs of this run")
	flag.StringVar(&o.node, "node", "kwok", "what runs Pods: kwok, which only says that it does, or real")
	flag.Func("image", "NAME=FOLDER, a name as in docker.io/library/example:v1 and an OCI layout, that --node=real has as an image (repeatable)", o.addImage)
	listMissing := flag.Bool("missing", false, "print the names of Debian's packages that --node=real lacks and exit")
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

// run builds, starts, waits for command (or for ctx to end) and stops.
// A command that fails is returned as its *exec.ExitError.
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

	bin := r.bin(home)
	if err := buildMissing(ctx, bin, o.module, r, wanted); err != nil || o.buildOnly {
		return err
	}
	dir, err := os.MkdirTemp(home, "run-")
	if err != nil {
		return err
	}
	cluster := &controlPlane{bin: bin, dir: dir, log: progressTo(os.Stderr), thread: newThread()}
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
		// A proxy cannot reach it. Go's HTTP client looks here before its first request.
		if err := os.Setenv("NO_PROXY", cluster.node.noProxy()); err != nil {
			return err
		}
	}
	if err := cluster.start(ctx, cancel); err != nil {
		return stopCause(ctx, err)
	}
	cluster.log("Kubernetes %s is ready after %s; KUBECONFIG=%s", r.version, time.Since(began).Round(100*time.Millisecond), cluster.kubeconfig())
	if len(command) == 0 {
		<-ctx.Done()
		return stopCause(ctx, nil)
	}
	return stopCause(ctx, runCommand(ctx, o, command, cluster))
}

// runCommand runs command to its end. When ctx ends first the command is asked to
// stop with SIGINT and killed if it has not stopped after 20 s.
func runCommand(ctx context.Context, o options, command []string, cluster *controlPlane) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.kubeconfig(), "DEVCLUSTER_DIR="+cluster.dir, "DEVCLUSTER_NODE="+o.node)
	if _, err := exec.LookPath("kubectl"); err != nil {
		cmd.Env = append(cmd.Env, "PATH="+cluster.bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	return cmd.Run()
}

// stopCause says why the run ended: a signal and the end of our parent are no
// errors, a part that failed is.
func stopCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errPartFailed) {
		return cause
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// cancelWithParent ends the run when the process that started us is gone, so that
// a killed make or test run leaves no control plane behind. An orphan is handed to
// another parent, which is how it is noticed on every Unix.
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
