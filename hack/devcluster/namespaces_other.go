//go:build !linux

package main

import (
	"errors"
	"syscall"
)

// namespaces are those that a real node lives in, which only Linux has.
type namespaces struct{ address, cgroup string }

func enterNamespaces(thread, string) (*namespaces, error) {
	return nil, errors.New("--node=real: needs Linux")
}

func (*namespaces) childAttr() *syscall.SysProcAttr { return childAttr() }

func (*namespaces) end() error { return nil }
