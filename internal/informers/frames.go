package informers

import (
	"errors"
	"fmt"
	"io"
)

const (
	// readSize is how much is read at a time.
	readSize = 16 << 10
	// maxFrame bounds one event. It is the limit of client-go's own watches.
	maxFrame = 16 << 20
)

var errLargeFrame = fmt.Errorf("an event has more than %d bytes", maxFrame)

// frames are the JSON objects of a stream, with white space between them or none.
type frames struct {
	from io.Reader
	// buffer[start:end] is read and not returned yet; of that, all before at is known to belong to
	// the next frame.
	buffer         []byte
	start, at, end int
	depth          int  // of the brackets at that place
	quoted, escape bool // whether it is within a string, and after a backslash there
}

func newFrames(from io.Reader) *frames { return &frames{from: from, buffer: make([]byte, readSize)} }

// next returns the text of the next object, until the next call. At the end of the stream, the error
// is io.EOF between two objects and io.ErrUnexpectedEOF within one.
func (f *frames) next() ([]byte, error) {
	if f.start == f.end && len(f.buffer) > readSize {
		f.buffer, f.start, f.end = make([]byte, readSize), 0, 0 // what a large object took
	}
	f.at, f.depth = f.start, 0
	for {
		if found, err := f.scan(); err != nil || found {
			frame := f.buffer[f.start:f.at]
			f.start = f.at
			return frame, err
		}
		if err := f.read(); err != nil {
			return nil, err
		}
	}
}

// scan looks for the end of the frame in what is read.
func (f *frames) scan() (found bool, err error) {
	for ; f.at < f.end; f.at++ {
		c := f.buffer[f.at]
		switch {
		case f.escape:
			f.escape = false
		case f.quoted:
			f.quoted, f.escape = c != '"', c == '\\'
		case c == '"':
			f.quoted = true
		case c == '{' || c == '[':
			f.depth++
		case c == '}' || c == ']':
			if f.depth--; f.depth == 0 {
				f.at++
				return true, nil
			}
		}
		if f.depth > 0 {
			continue
		}
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return false, errors.New("a watch has something else than objects")
		}
		f.start = f.at + 1
	}
	return false, nil
}

// read reads more of the stream.
func (f *frames) read() error {
	if f.start > 0 {
		copy(f.buffer, f.buffer[f.start:f.end])
		f.at, f.end, f.start = f.at-f.start, f.end-f.start, 0
	}
	if f.end == len(f.buffer) {
		if f.end >= maxFrame {
			return errLargeFrame
		}
		f.buffer = append(f.buffer, make([]byte, len(f.buffer))...)
	}
	n, err := f.from.Read(f.buffer[f.end:])
	f.end += n
	switch {
	case n > 0:
		return nil // an error comes again
	case err == nil:
		return nil
	case errors.Is(err, io.EOF) && f.depth > 0:
		return io.ErrUnexpectedEOF
	}
	return err
}
