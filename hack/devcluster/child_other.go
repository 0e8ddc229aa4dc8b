//go:build !linux

package main

import "syscall"

// childAttr keeps an interrupt at the terminal from reaching the parts before
// devcluster stops them. Only Linux can also tie their lives to devcluster's.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
