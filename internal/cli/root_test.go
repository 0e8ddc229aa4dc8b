package cli

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A command that hangs where it cannot be interrupted ends soon after a signal.
func TestSignalEndsACommandThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, stop)
		began := time.Now()
		hanging := make(chan struct{})
		require.EqualError(t, abandon(ctx, func(context.Context) error { <-hanging; return nil }), "stopped by a signal")
		require.Equal(t, time.Minute+stopGrace, time.Since(began))
		close(hanging)

		failed := errors.New("failed")
		require.Equal(t, failed, abandon(t.Context(), func(context.Context) error { return failed }))
		require.Equal(t, context.Canceled, abandon(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }))
	})
}
