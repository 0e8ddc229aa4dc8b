package main

import "syscall"

// childAttr lets the kernel end a part when devcluster is killed, and keeps an interrupt at the
// terminal from the parts, which devcluster stops in order.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
}
