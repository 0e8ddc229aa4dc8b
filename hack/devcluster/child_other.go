//go:build !linux

package main

import "syscall"

// childAttr keeps an interrupt at the terminal from the parts, which devcluster stops in order.
// Only Linux can also end them when devcluster is killed.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
