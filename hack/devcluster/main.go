// Command devcluster runs a real Kubernetes control plane on loopback: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler, and kwok in the
// place of a kubelet. It builds them from Go modules on first use, so that a
// machine with Go, make and git needs nothing else.
//
//	devcluster                  start, print the kubeconfig's path, stay until signalled
//	devcluster -- COMMAND ARG…  start, run COMMAND with KUBECONFIG set, stop, exit as COMMAND did
//	devcluster -build           build only
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
	"syscall"
	"time"
)

func main() {
	home := flag.String("home", ".devcluster", "folder for binaries and for the data of running control planes")
	module := flag.String("module", "hack/devcluster", "folder of the Go module that pins the versions")
	buildOnly := flag.Bool("build", false, "build what is missing and exit")
	keep := flag.Bool("keep", false, "keep the data and logs of this run")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := run(ctx, *home, *module, *buildOnly, *keep, flag.Args())
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

// run builds, starts, waits for command (or for ctx to end) and stops.
// A command that fails is returned as its *exec.ExitError.
func run(ctx context.Context, home, module string, buildOnly, keep bool, command []string) (err error) {
	home, err = filepath.Abs(home)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go cancelWithParent(ctx, cancel)

	bin := filepath.Join(home, "bin")
	if err := buildMissing(ctx, bin, module); err != nil || buildOnly {
		return err
	}
	dir, err := os.MkdirTemp(home, "run-")
	if err != nil {
		return err
	}
	cluster := &controlPlane{bin: bin, dir: dir, log: progressTo(os.Stderr)}
	defer func() {
		cluster.stop()
		if keep || errors.Is(err, errPartFailed) {
			fmt.Fprintln(os.Stderr, "devcluster: logs and data are kept in", dir)
			return
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	began := time.Now()
	if err := cluster.start(ctx, cancel); err != nil {
		return stopCause(ctx, err)
	}
	cluster.log("Kubernetes %s is ready after %s; KUBECONFIG=%s", kubernetesVersion, time.Since(began).Round(100*time.Millisecond), cluster.kubeconfig())
	if len(command) == 0 {
		<-ctx.Done()
		return stopCause(ctx, nil)
	}
	return stopCause(ctx, runCommand(ctx, command, cluster))
}

// runCommand runs command to its end. When ctx ends first the command is asked to
// stop with SIGINT and killed if it has not stopped after 20 s.
func runCommand(ctx context.Context, command []string, cluster *controlPlane) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.kubeconfig(), "DEVCLUSTER_DIR="+cluster.dir)
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
