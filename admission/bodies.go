package admission

import (
	"container/list"
	"errors"
	"io"
	"net/http"
	"sync"
)

const (
	// bodyBudget is how many bytes all request bodies may take together: an eighth of the memory
	// limit that `fescue manifests` sets, and enough for 2,700 usual reviews at a time.
	bodyBudget = 64 << 20
	// requestBytes is what a request takes besides its body: its goroutine, its header, and the
	// buffers of its connection or stream.
	requestBytes = 16 << 10
	// firstBytes is the size of a new buffer, which a review of a small object fits into.
	firstBytes = 4 << 10
	// maxKeptBytes bounds what an unused buffer holds: few objects have more than 64 KiB.
	maxKeptBytes = 64 << 10
)

var errBusy = failuref(http.StatusTooManyRequests, "other requests take all of the memory for requests: %d bytes",
	bodyBudget)

// bodies bounds the memory of all request bodies. A buffer grows with what was received, whatever
// the client announced. When the budget is used up, the request that has been receiving for the
// longest time is aborted: the API server sends at once, so it is hardly ever one of its own.
type bodies struct {
	mu        sync.Mutex
	free      int       // bytes of the budget
	changed   sync.Cond // free has grown, or a request was aborted
	receiving list.List // of *body: not complete and not aborted, in the order of their start
	aborted   int       // aborted requests that still have their memory
}

func newBodies(budget int) *bodies {
	b := &bodies{free: budget}
	b.changed.L = &b.mu
	return b
}

// body is the body of one request, for one goroutine.
type body struct {
	bytes []byte // what was received

	in      *bodies
	held    int // bytes of the budget
	abort   func()
	aborted bool
	place   *list.Element // in in.receiving, unless it was removed
}

// unused are bodies with a buffer for reuse. The raw objects of a request share memory with it.
var unused = sync.Pool{New: func() any { return new(body) }}

// begin returns an empty body. abort must end a read that is under way; it must not block.
func (b *bodies) begin(abort func()) *body {
	body := unused.Get().(*body)
	body.in, body.abort, body.aborted = b, abort, false
	b.mu.Lock()
	defer b.mu.Unlock()
	body.place = b.receiving.PushBack(body)
	return body
}

// readAll receives the whole body. With an error, bytes has what was received before.
func (b *body) readAll(r io.Reader) error {
	if err := b.take(requestBytes + cap(b.bytes)); err != nil {
		return err
	}
	for {
		if len(b.bytes) == cap(b.bytes) {
			if err := b.grow(); err != nil {
				return err
			}
		}
		n, err := r.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		if err == nil {
			continue
		}
		if b.complete() {
			return errBusy
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
}

// grow doubles the buffer. The budget has to cover the old one as well while it is copied.
func (b *body) grow() error {
	size := min(max(firstBytes, 2*cap(b.bytes)), maxBodyBytes+1)
	if err := b.take(size); err != nil {
		return err
	}
	old := cap(b.bytes)
	b.bytes = append(make([]byte, 0, size), b.bytes...)
	b.give(old)
	return nil
}

// take takes bytes of the budget. Where that is used up, it aborts the oldest request that is
// still receiving and waits for its memory. It fails if this request itself was aborted.
func (b *body) take(n int) error {
	in := b.in
	in.mu.Lock()
	defer in.mu.Unlock()
	for in.free < n && !b.aborted {
		if in.aborted == 0 {
			oldest := in.receiving.Remove(in.receiving.Front()).(*body) // if there is no other, this one
			oldest.aborted = true
			in.aborted++
			oldest.abort()
			in.changed.Broadcast()
			continue
		}
		in.changed.Wait()
	}
	if b.aborted {
		return errBusy
	}
	in.free -= n
	b.held += n
	return nil
}

// give gives bytes back to the budget.
func (b *body) give(n int) {
	b.in.mu.Lock()
	defer b.in.mu.Unlock()
	b.in.free += n
	b.held -= n
	b.in.changed.Broadcast()
}

// complete ends the receiving and reports whether the request was aborted before.
func (b *body) complete() (aborted bool) {
	b.in.mu.Lock()
	defer b.in.mu.Unlock()
	if !b.aborted {
		b.in.receiving.Remove(b.place)
	}
	return b.aborted
}

// release gives back all memory; bytes may not be used after that.
func (b *body) release() {
	b.in.mu.Lock()
	if b.aborted {
		b.in.aborted--
	} else {
		b.in.receiving.Remove(b.place)
	}
	b.in.free += b.held
	b.in.changed.Broadcast()
	b.in.mu.Unlock()
	b.held, b.abort, b.bytes = 0, nil, b.bytes[:0]
	if cap(b.bytes) <= maxKeptBytes {
		unused.Put(b)
	}
}
