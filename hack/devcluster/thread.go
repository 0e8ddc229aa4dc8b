package main

import "runtime"

// thread is a thread of the operating system that starts all parts and ends with devcluster. The
// kernel signals a child when the thread that started it ends (see childAttr), and a child is in
// the namespaces of that thread.
type thread chan func()

func newThread() thread {
	t := make(thread)
	go func() {
		runtime.LockOSThread()
		for f := range t {
			f()
		}
	}()
	return t
}

// do runs f on the thread.
func (t thread) do(f func() error) error {
	done := make(chan error)
	t <- func() { done <- f() }
	return <-done
}
