// Command fescue runs Kubernetes kinds that are written in CUE.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/fescue-dev/fescue/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal restores the default, so that a second one ends the program at once.
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
