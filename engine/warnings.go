package engine

import (
	"context"
	"errors"
	"log/slog"
)

// Warnings logs the warnings of the API server, each once a minute if the handler of the log limits errors to that. It
// is the rest.WarningHandlerWithContext of the clients in a Config: client-go logs the text as it is, and a policy or a
// webhook may quote the object that is written.
type Warnings struct{ Log *slog.Logger }

// warned is the key of a function in a context that logs a warning.
type warned struct{}

// withWarnings returns a context for requests whose warnings go to a function.
func withWarnings(ctx context.Context, warn func(error)) context.Context {
	return context.WithValue(ctx, warned{}, warn)
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w Warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	if code != warningCode || text == "" {
		return
	}
	warn, ok := ctx.Value(warned{}).(func(error))
	if !ok {
		warn = func(err error) { logWarning(w.Log, err) }
	}
	warn(errors.New(text))
}

// warningCode is that of the warnings of the API server (RFC 7234, section 5.5.7).
const warningCode = 299

func logWarning(log *slog.Logger, err error) { log.Warn("the API server warns", "error", err) }
