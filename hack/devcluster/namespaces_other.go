//go:build !linux

package main

import (
	"errors"
	"syscall"
)

// namespaces are the kernel namespaces of a real node, which only Linux has.
type namespaces struct{ address, cgroup string }

func enterNamespaces(thread, string) (*namespaces, error) {
	return nil, errors.New("--node=real: requires Linux")
}

func (*namespaces) childAttr() *syscall.SysProcAttr { return childAttr() }

func (*namespaces) end() error { return nil }
