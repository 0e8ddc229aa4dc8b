package inject

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// value is a part of a document; the zero value is none.
type value struct {
	*document
	at int32
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
