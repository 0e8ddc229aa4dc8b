package main

import "syscall"

// childAttr lets the kernel end a part when devcluster itself is killed, and keeps
// an interrupt at the terminal from reaching the parts before devcluster stops them.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
}
