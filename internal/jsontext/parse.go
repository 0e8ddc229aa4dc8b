package jsontext

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"sync"
)

// document is a JSON text with the places of its values.
type document struct {
	text   []byte
	tokens []token
	values int // in the text, whether they are kept or not
	// tooDeep means that the text was not read to its end.
	tooDeep bool
}

// token is a value or the name of a member. The tokens of the parts of a list or an object follow
// its own; a name comes before its value.
type token struct {
	start, end int32 // in the text, quotes and brackets included; end is -1 if the text ends or breaks off within
	next       int32 // the first token after this one and its parts
	escaped    bool  // whether the text of a string differs from its content
}

// maxDepth is how deep values may be nested, as in encoding/json.
const maxDepth = 10_000

// ErrTooDeep is the error for a text that may be JSON and is nested deeper than maxDepth.
var ErrTooDeep = fmt.Errorf("is nested deeper than %d levels", maxDepth)

var (
	errSyntax   = errors.New("is not valid JSON")
	errTooLarge = errors.New("is too large")
	errTooMany  = errors.New("has too many values")
)

// Parse reads a text that is one JSON value and accepts the same texts as encoding/json. With an
// error comes the value as far as it was read: the members that are complete, in objects that need
// not be. The value shares memory with the text, which must not change. It must be released.
func Parse(text []byte) (Value, error) { return ParseTo(text, maxDepth) }

// ParseTo is Parse for texts that are read no deeper than some levels below the root, where they
// have few values. The values of the last level have a text and no parts, which Parse may read: they
// may be nested as deep as a text of their own. It is an error if there are too many values above
// the last level, so that a large text takes little memory besides its own.
func ParseTo(text []byte, levels int) (Value, error) {
	if len(text) > math.MaxInt32 {
		return Value{}, errTooLarge
	}
	p := parser{documents.Get().(*document), levels}
	p.text, p.tokens, p.values, p.tooDeep = text, p.tokens[:0], 0, false
	end := p.value(p.space(0), 0)
	root := Value{p.document, 0}
	switch {
	case len(p.tokens) == 0, root.isCutOff():
		root.Release()
		return Value{}, errSyntax
	case p.tooDeep:
		return root, ErrTooDeep
	case end < 0 || p.space(end) != len(text):
		return root, errSyntax
	case p.isFull():
		return root, errTooMany
	}
	return root, nil
}

// documents are reused: the tokens of a usual Pod take more memory than everything else that an
// injection needs.
var documents = sync.Pool{New: func() any { return new(document) }}

// maxKeptTokens bounds what an unused document holds: 8192 tokens take 128 KiB, and the object of
// a usual review has a few hundred.
const maxKeptTokens = 8192

// Release returns the memory for reuse; no value of the text may be used after that. A text that
// is never released is left to the garbage collector.
func (v Value) Release() {
	if v.doc == nil || cap(v.doc.tokens) > maxKeptTokens {
		return
	}
	v.doc.text = nil
	documents.Put(v.doc)
}

// parser fills a document with the values down to some levels below the root. Its methods take the
// place where something begins and return the place after it, or -1 if the text is not valid there.
type parser struct {
	*document
	levels int
}

// begin adds the token of a value or a name, and returns its index; -1 means that it is
// not kept.
func (p parser) begin(at, depth int) int {
	if depth > p.levels || p.isFull() {
		return -1
	}
	p.tokens = append(p.tokens, token{start: int32(at)})
	return len(p.tokens) - 1
}

// deepest returns the depth below which there may be objects and lists.
func (p parser) deepest() int {
	if p.levels < maxDepth {
		return p.levels + maxDepth
	}
	return maxDepth
}

// isFull reports whether no more tokens may be kept of a text that is not read to its end.
func (p parser) isFull() bool { return p.levels < maxDepth && len(p.tokens) >= maxKeptTokens }

// finish completes a token, whose parts are those that were added after it.
func (p parser) finish(i, end int, escaped bool) {
	if i >= 0 {
		t := &p.tokens[i]
		t.end, t.next, t.escaped = int32(end), int32(len(p.tokens)), escaped
	}
}

// space skips white space.
func (p parser) space(at int) int {
	for at < len(p.text) && (p.text[at] == ' ' || p.text[at] == '\n' || p.text[at] == '\t' || p.text[at] == '\r') {
		at++
	}
	return at
}

func (p parser) value(at, depth int) int {
	if at >= len(p.text) {
		return -1
	}
	if depth >= p.deepest() && (p.text[at] == '{' || p.text[at] == '[') {
		p.tooDeep = true
		return -1
	}
	p.values++
	i := p.begin(at, depth)
	var end int
	var escaped bool
	switch p.text[at] {
	case '"':
		end, escaped = p.string(at)
	case '{':
		end = p.parts(at+1, depth+1, '}')
	case '[':
		end = p.parts(at+1, depth+1, ']')
	case 't':
		end = p.word(at, "true")
	case 'f':
		end = p.word(at, "false")
	case 'n':
		end = p.word(at, "null")
	default:
		end = p.number(at)
	}
	p.finish(i, end, escaped)
	return end
}

// parts reads the parts of an object or a list, up to the bracket that ends it.
func (p parser) parts(at, depth int, last byte) int {
	at = p.space(at)
	if at < len(p.text) && p.text[at] == last {
		return at + 1
	}
	for {
		if last == '}' {
			if at = p.name(at, depth); at < 0 {
				return -1
			}
		}
		if at = p.value(at, depth); at < 0 {
			return -1
		}
		if at = p.space(at); at >= len(p.text) {
			return -1
		}
		switch p.text[at] {
		case last:
			return at + 1
		case ',':
			at = p.space(at + 1)
		default:
			return -1
		}
	}
}

// name reads the name of a member and the colon after it.
func (p parser) name(at, depth int) int {
	if at >= len(p.text) || p.text[at] != '"' {
		return -1
	}
	i := p.begin(at, depth)
	end, escaped := p.string(at)
	p.finish(i, end, escaped)
	if end < 0 {
		return -1
	}
	if end = p.space(end); end >= len(p.text) || p.text[end] != ':' {
		return -1
	}
	return p.space(end + 1)
}

func (p parser) word(at int, word string) int {
	if !bytes.HasPrefix(p.text[at:], []byte(word)) {
		return -1
	}
	return at + len(word)
}

// string reads a string, and whether its text differs from its content.
func (p parser) string(at int) (end int, escaped bool) {
	text := p.text
	for at++; at < len(text); at++ {
		switch c := text[at]; {
		case c == '"':
			return at + 1, escaped
		case c == '\\':
			escaped = true
			if at = p.escape(at + 1); at < 0 {
				return -1, escaped
			}
		case c < ' ':
			return -1, escaped
		}
	}
	return -1, escaped
}

// escape reads what follows a backslash and returns the place of its last byte.
func (p parser) escape(at int) int {
	if at >= len(p.text) {
		return -1
	}
	switch p.text[at] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return at
	case 'u':
		if at+4 >= len(p.text) {
			return -1
		}
		for _, c := range p.text[at+1 : at+5] {
			if !isHex(c) {
				return -1
			}
		}
		return at + 4
	}
	return -1
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func (p parser) number(at int) int {
	if p.is(at, '-') {
		at++
	}
	if p.is(at, '0') {
		at++
	} else if at = p.digits(at); at < 0 {
		return -1
	}
	if p.is(at, '.') {
		if at = p.digits(at + 1); at < 0 {
			return -1
		}
	}
	if p.is(at, 'e') || p.is(at, 'E') {
		at++
		if p.is(at, '+') || p.is(at, '-') {
			at++
		}
		return p.digits(at)
	}
	return at
}

func (p parser) is(at int, c byte) bool { return at < len(p.text) && p.text[at] == c }

// digits reads one digit or more.
func (p parser) digits(at int) int {
	start := at
	for at < len(p.text) && '0' <= p.text[at] && p.text[at] <= '9' {
		at++
	}
	if at == start {
		return -1
	}
	return at
}
