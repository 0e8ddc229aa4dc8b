package inject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
)

// document is a JSON text with the places of its values, which are found in one pass and
// not decoded. A full decoding would take most of the time of an injection.
type document struct {
	text   []byte
	tokens []token
}

// token is a value or the name of a member. Those of a list's or an object's parts follow
// its own; a name comes before its value.
type token struct {
	start, end int32 // in the text, quotes and brackets included
	next       int32 // the first token after this one and its parts
	escaped    bool  // whether the text of a string is not its content
}

// value is a part of a document; the zero value is none.
type value struct {
	*document
	at int32
}

// maxDepth is how deep values may be within each other, as in encoding/json.
const maxDepth = 10_000

var errSyntax = errors.New("is not JSON")

// parse reads a text that is one JSON value. It accepts what encoding/json does.
func parse(text []byte) (value, error) {
	if len(text) > math.MaxInt32 {
		return value{}, errors.New("is too large")
	}
	p := parser{documents.Get().(*document)}
	p.text, p.tokens = text, p.tokens[:0]
	end := p.value(p.space(0), 0)
	if end < 0 || p.space(end) != len(text) {
		p.release()
		return value{}, errSyntax
	}
	return value{p.document, 0}, nil
}

// documents are kept for the next Pod: the places of a usual one take more memory than
// all else that an injection needs.
var documents = sync.Pool{New: func() any { return new(document) }}

// release gives a document back: no value of it may be used after that. One that is
// never released is left to the garbage collector.
func (d *document) release() {
	if d != nil {
		d.text = nil
		documents.Put(d)
	}
}

// parser fills a document. Its methods take the place where something begins and return
// the one after it, or -1 if it is not what it should be.
type parser struct{ *document }

// space passes over what means nothing.
func (p parser) space(at int) int {
	for at < len(p.text) && (p.text[at] == ' ' || p.text[at] == '\n' || p.text[at] == '\t' || p.text[at] == '\r') {
		at++
	}
	return at
}

func (p parser) value(at, depth int) int {
	if at >= len(p.text) || depth > maxDepth {
		return -1
	}
	i := len(p.tokens)
	p.tokens = append(p.tokens, token{start: int32(at)})
	var end int
	switch p.text[at] {
	case '"':
		end = p.string(at)
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
	p.tokens[i].end, p.tokens[i].next = int32(end), int32(len(p.tokens))
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
			if at = p.name(at); at < 0 {
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
func (p parser) name(at int) int {
	if at >= len(p.text) || p.text[at] != '"' {
		return -1
	}
	i := len(p.tokens)
	p.tokens = append(p.tokens, token{start: int32(at), next: int32(i + 1)})
	end := p.string(at)
	if end < 0 {
		return -1
	}
	p.tokens[i].end = int32(end)
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

// string reads a string, which is the last token.
func (p parser) string(at int) int {
	text := p.text
	for at++; at < len(text); at++ {
		switch c := text[at]; {
		case c == '"':
			return at + 1
		case c == '\\':
			p.tokens[len(p.tokens)-1].escaped = true
			if at = p.escape(at + 1); at < 0 {
				return -1
			}
		case c < ' ':
			return -1
		}
	}
	return -1
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

// raw is the text of a value.
func (v value) raw() []byte { return v.text[v.tokens[v.at].start:v.tokens[v.at].end] }

// start and end are where the value stands in the text of its document.
func (v value) start() int { return int(v.tokens[v.at].start) }
func (v value) end() int   { return int(v.tokens[v.at].end) }

// given tells whether there is a value; null is none to Kubernetes.
func (v value) given() bool { return v.document != nil && v.text[v.tokens[v.at].start] != 'n' }

// is tells whether the text of the value begins with c, as in '{' for an object.
func (v value) is(c byte) bool { return v.document != nil && v.text[v.tokens[v.at].start] == c }

// members yields the names, as they are quoted, and values of an object.
func (v value) members(yield func(name, member value) bool) {
	if !v.is('{') {
		return
	}
	for i := v.at + 1; i < v.tokens[v.at].next; i = v.tokens[i+1].next {
		if !yield(value{v.document, i}, value{v.document, i + 1}) {
			return
		}
	}
}

// items yields the items of a list.
func (v value) items(yield func(i int, item value) bool) {
	if !v.is('[') {
		return
	}
	n := 0
	for i := v.at + 1; i < v.tokens[v.at].next; i = v.tokens[i].next {
		if !yield(n, value{v.document, i}) {
			return
		}
		n++
	}
}

// length is the number of the items of a list.
func (v value) length() int {
	n := 0
	for range v.items {
		n++
	}
	return n
}

// empty tells whether an object or a list has no parts.
func (v value) empty() bool { return v.tokens[v.at].next == v.at+1 }

// member is the member of an object with that name; of several it is the last, as in
// encoding/json.
func (v value) member(name string) value {
	var found value
	for n, member := range v.members {
		if n.equals(name) {
			found = member
		}
	}
	return found
}

// like is the member of an object that has the name of another's.
func (v value) like(name value) value {
	var found value
	for n, member := range v.members {
		if same(n, name) {
			found = member
		}
	}
	return found
}

// item is an item of a list, or none.
func (v value) item(index int) value {
	for i, item := range v.items {
		if i == index {
			return item
		}
	}
	return value{}
}

// content is the content of a string as bytes.
func (v value) content() []byte {
	if raw := v.raw(); !v.escaped() {
		return raw[1 : len(raw)-1]
	}
	return []byte(v.string())
}

// equals tells whether the value is a string with that content.
func (v value) equals(text string) bool {
	if !v.is('"') {
		return false
	}
	raw := v.raw()
	return string(raw[1:len(raw)-1]) == text || v.escaped() && v.string() == text
}

// escaped tells whether the text of a string is not its content.
func (v value) escaped() bool { return v.tokens[v.at].escaped }

// string is the content of a string, and empty for all else.
func (v value) string() string {
	if !v.is('"') {
		return ""
	}
	raw := v.raw()
	if !v.escaped() {
		return string(raw[1 : len(raw)-1])
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		panic(fmt.Sprintf("a string that was read before: %v", err)) // cannot be
	}
	return text
}

// same tells whether two scalars are equal: strings by their content, numbers by their
// value, so that 1 is 1.0.
func same(a, b value) bool {
	switch {
	case bytes.Equal(a.raw(), b.raw()):
		return true
	case a.is('"') && b.is('"'):
		return (a.escaped() || b.escaped()) && a.string() == b.string()
	}
	x, errX := strconv.ParseFloat(string(a.raw()), 64)
	y, errY := strconv.ParseFloat(string(b.raw()), 64)
	// Beyond 2^53 different integers are one float64.
	return errX == nil && errY == nil && x == y && math.Abs(x) < 1<<53
}

// appendQuoted appends a text as a JSON string.
func appendQuoted[T string | []byte](to []byte, text T) []byte {
	const hex = "0123456789abcdef"
	to = append(to, '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			to = append(to, '\\', c)
		case c < ' ':
			to = append(to, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			to = append(to, c)
		}
	}
	return append(to, '"')
}
