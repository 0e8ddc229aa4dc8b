package engine

import (
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// warningInterval is the least time between two log lines that warn of the same.
const warningInterval = time.Minute

// warnings are the last ones that were logged for each object.
type warnings struct {
	clock    clock.PassiveClock
	mu       sync.Mutex
	byObject map[cache.ObjectName]warning
}

type warning struct {
	text string
	at   time.Time
}

func newWarnings(clock clock.PassiveClock) *warnings {
	return &warnings{clock: clock, byObject: make(map[cache.ObjectName]warning)}
}

// level returns the level at which to log a warning: that of debugging for one that was logged
// less than warningInterval ago.
func (w *warnings) level(name cache.ObjectName, text string) slog.Level {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, now := w.byObject[name], w.clock.Now()
	if last.text == text && now.Sub(last.at) < warningInterval {
		return slog.LevelDebug
	}
	w.byObject[name] = warning{text, now}
	return slog.LevelWarn
}

func (w *warnings) forget(name cache.ObjectName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byObject, name)
}
