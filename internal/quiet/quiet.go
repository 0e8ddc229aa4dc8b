// Package quiet limits a log: of the same problem, one line a minute is written, with the number of
// those that were left out.
//
// It knows errors of requests and of the API server. It does not know kinds or who logs.
package quiet

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// window is how long lines about the same problem are left out.
	window = time.Minute
	// maxProblems bounds the problems that are remembered. More than that are not the same few
	// problems again and again; their lines are written.
	maxProblems = 1000
)

// Handler passes records on. Of those at level Warn and above that have an error, it passes on one a
// minute for each message and cause.
type Handler struct {
	next slog.Handler
	seen *seen
}

type seen struct {
	mu       sync.Mutex
	problems map[problem]*count
}

// problem is what lines have in common that report the same.
type problem struct{ message, cause string }

// count is how many lines of a problem were left out, and the last of them.
type count struct {
	leftOut int
	last    slog.Record
	handler slog.Handler
}

// NewHandler returns a handler in front of next.
func NewHandler(next slog.Handler) *Handler {
	return &Handler{next, &seen{problems: make(map[problem]*count)}}
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{h.next.WithAttrs(attrs), h.seen}
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.next.WithGroup(name), h.seen}
}

// Handle implements slog.Handler. After each minute, the last line that was left out is written; its
// attribute leftOut counts the others.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	err := errorOf(r)
	if err == nil || r.Level < slog.LevelWarn {
		return h.next.Handle(ctx, r)
	}
	p := problem{r.Message, cause(err)}
	h.seen.mu.Lock()
	known := h.seen.problems[p]
	switch {
	case known == nil && len(h.seen.problems) >= maxProblems:
		h.seen.mu.Unlock()
		return h.next.Handle(ctx, r)
	case known == nil:
		h.seen.problems[p] = &count{}
		time.AfterFunc(window, func() { h.forget(p) })
		h.seen.mu.Unlock()
		return h.next.Handle(ctx, r)
	}
	known.leftOut++
	known.last, known.handler = r.Clone(), h.next
	h.seen.mu.Unlock()
	return nil
}

// forget ends the window of a problem. If lines were left out, it writes the last of them, and the
// next window begins.
func (h *Handler) forget(p problem) {
	h.seen.mu.Lock()
	known := h.seen.problems[p]
	if known.leftOut == 0 {
		delete(h.seen.problems, p)
		h.seen.mu.Unlock()
		return
	}
	last, handler := known.last, known.handler
	last.AddAttrs(slog.Int("leftOut", known.leftOut-1))
	h.seen.problems[p] = &count{}
	time.AfterFunc(window, func() { h.forget(p) })
	h.seen.mu.Unlock()
	_ = handler.Handle(context.Background(), last) // as slog.Logger does
}

// errorOf returns the error of a record, which is called error by Fescue and err by klog.
func errorOf(r slog.Record) (err error) {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" || a.Key == "err" {
			err, _ = a.Value.Any().(error)
		}
		return err == nil
	})
	return err
}

// forbiddenObject is the part of the API server's text that differs between objects.
var forbiddenObject = regexp.MustCompile(`^.* is forbidden: `)

// cause returns what errors have in common that have the same cause: a right that is missing, or a
// server that does not answer. Others are their own cause.
func cause(err error) string {
	if apierrors.IsForbidden(err) {
		return forbiddenObject.ReplaceAllString(err.Error(), "")
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		if connection, ok := errors.AsType[*net.OpError](err); ok && connection.Err != nil {
			return connection.Err.Error()
		}
		return request.Err.Error()
	}
	return strings.TrimSpace(err.Error())
}
