package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ticks is the number of units of CPU time in /proc for a second: USER_HZ, which is 100 on all
// architectures that Go runs on.
const ticks = 100

// pid identifies a process whose use of the machine /proc reports.
type pid int

// cpu returns the CPU time that the process has used, in seconds.
func (p pid) cpu() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p))
	if err != nil {
		return 0, err
	}
	// The name of the program, in parentheses, may contain anything; proc(5) counts it as field 2.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	user, err := strconv.ParseUint(string(fields[14-3]), 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseUint(string(fields[15-3]), 10, 64)
	return float64(user+system) / ticks, err
}

// resetPeak makes peak report what happens from now on.
func (p pid) resetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p), []byte("5"), 0o200)
}

// peak returns the largest resident size since resetPeak, in MiB. It includes the pages of the
// program's file that were read.
func (p pid) peak() (float64, error) { return p.status("VmHWM:") }

// own returns the resident size without the pages of files, in MiB: what the kernel cannot read again.
func (p pid) own() (float64, error) { return p.status("RssAnon:") }

// status returns a size from /proc, in MiB.
func (p pid) status(name string) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), name)
	size, _, _ := strings.Cut(strings.TrimSpace(rest), " kB")
	kib, err := strconv.ParseFloat(size, 64)
	return kib / 1024, err
}

// findAPIServer returns the API server of a control plane with its data in dir.
func findAPIServer(dir string) (pid, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		if bytes.Contains(text, []byte("--cert-dir\x00"+dir+"/certs\x00")) {
			number, err := strconv.Atoi(strings.Split(file, "/")[2])
			return pid(number), err
		}
	}
	return 0, fmt.Errorf("no API server runs with its certificates in %s", dir)
}

// process is a running operator.
type process struct {
	pid
	cmd     *exec.Cmd
	done    chan struct{}
	log     string // a file
	started time.Time
	health  string // URL of the health check; empty for none
	metrics string // URL of /metrics and /debug/pprof; empty for none
}

// startProcess starts a program that logs to a file.
func startProcess(program string, args []string, log string) (*process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // the process has a handle of its own
	p := &process{cmd: exec.Command(program, args...), done: make(chan struct{}), log: log, started: time.Now()}
	p.cmd.Stdout, p.cmd.Stderr = file, file
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.pid = pid(p.cmd.Process.Pid)
	go func() {
		_ = p.cmd.Wait() // how it ended is in ProcessState
		close(p.done)
	}()
	return p, nil
}

// stop ends the process as Kubernetes does.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.done:
		return nil
	case <-time.After(30 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
		return errors.New("the operator did not end within 30 s of SIGTERM")
	}
}

// hasEnded returns an error with the end of the log if the process has ended.
func (p *process) hasEnded() error {
	select {
	case <-p.done:
		text, _ := os.ReadFile(p.log)
		return fmt.Errorf("the operator has ended: %s; its log ends:\n%s", p.cmd.ProcessState,
			text[max(0, len(text)-2000):])
	default:
		return nil
	}
}

// awaitReady waits until the health check succeeds.
func (p *process) awaitReady(ctx context.Context) error {
	return until(ctx, func() (bool, error) {
		if err := p.hasEnded(); err != nil {
			return false, err
		}
		_, err := get(ctx, p.health)
		return err == nil, nil
	})
}

// idleAfter waits until the process has used less than 4 % of a core for two seconds, and returns
// when that began, relative to its start.
func (p *process) idleAfter(ctx context.Context) (time.Duration, error) {
	const window, share = 2 * time.Second, 0.04
	since := time.Now()
	used, err := p.cpu()
	if err != nil {
		return 0, err
	}
	err = until(ctx, func() (bool, error) {
		now, err := p.cpu()
		if now-used > share*window.Seconds() {
			since, used = time.Now(), now
		}
		return time.Since(since) > window, err
	})
	return since.Sub(p.started), err
}

// liveHeap returns the size of the live heap, in MiB, and its profile.
func (p *process) liveHeap(ctx context.Context) (mib float64, profile []byte, err error) {
	profile, err = get(ctx, p.metrics+"/debug/pprof/heap?gc=1")
	if err != nil {
		return 0, nil, err
	}
	size, err := p.metric(ctx, "go_memstats_heap_alloc_bytes")
	return size / (1 << 20), profile, err
}

// metric returns the value of a metric without labels.
func (p *process) metric(ctx context.Context, name string) (float64, error) {
	text, err := get(ctx, p.metrics+"/metrics")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "\n"+name+" ")
	value, _, _ := strings.Cut(rest, "\n")
	return strconv.ParseFloat(value, 64)
}

// get returns the answer of a URL, and an error if it is not 200.
func get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return text, err
}

// until polls a condition until it holds.
func until(ctx context.Context, holds func() (bool, error)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if done, err := holds(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
