package jsontext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Value is a part of a text; the zero value is none.
type Value struct {
	doc *document
	at  int32
}

func (v Value) token() *token { return &v.doc.tokens[v.at] }

// Raw returns the text of a value.
func (v Value) Raw() []byte { t := v.token(); return v.doc.text[t.start:t.end] }

// ValuesOfText returns how many values the text around the value has, at all levels. Names do not
// count.
func (v Value) ValuesOfText() int { return v.doc.values }

// Start returns where the text of the value begins.
func (v Value) Start() int { return int(v.token().start) }

// End returns where the text of the value ends.
func (v Value) End() int { return int(v.token().end) }

// Exists reports whether there is a value, even if it is null.
func (v Value) Exists() bool { return v.doc != nil }

// IsSet reports whether there is a value other than null, which Kubernetes treats as absent.
func (v Value) IsSet() bool { return v.doc != nil && v.doc.text[v.token().start] != 'n' }

// Is reports whether the text of the value begins with c, as in '{' for an object.
func (v Value) Is(c byte) bool { return v.doc != nil && v.doc.text[v.token().start] == c }

// Members yields the names, which are strings, and values of an object.
func (v Value) Members(yield func(name, member Value) bool) {
	if !v.Is('{') {
		return
	}
	tokens := v.doc.tokens
	for i, end := v.at+1, v.token().next; i+1 < end; i = tokens[i+1].next {
		name, member := Value{v.doc, i}, Value{v.doc, i + 1}
		if member.isCutOff() || !yield(name, member) {
			return
		}
	}
}

// isCutOff reports whether a value without parts is incomplete, in a text that is not valid.
func (v Value) isCutOff() bool { return v.token().end < 0 && !v.Is('{') && !v.Is('[') }

// Items yields the items of a list.
func (v Value) Items(yield func(i int, item Value) bool) {
	if !v.Is('[') {
		return
	}
	n := 0
	for i, end := v.at+1, v.token().next; i < end; i = v.doc.tokens[i].next {
		if item := (Value{v.doc, i}); item.isCutOff() || !yield(n, item) {
			return
		}
		n++
	}
}

// Len returns the number of the items of a list.
func (v Value) Len() int {
	n := 0
	for range v.Items {
		n++
	}
	return n
}

// IsEmpty reports whether an object or a list has no parts.
func (v Value) IsEmpty() bool { return v.token().next == v.at+1 }

// Member returns the member of an object with that name; of several it is the last, as in
// encoding/json.
func (v Value) Member(name string) Value {
	var found Value
	for n, member := range v.Members {
		if n.Equals(name) {
			found = member
		}
	}
	return found
}

// MemberNamed is Member with a name that is a string of a text itself.
func (v Value) MemberNamed(name Value) Value {
	var found Value
	for n, member := range v.Members {
		if Same(n, name) {
			found = member
		}
	}
	return found
}

// Item returns an item of a list, or none.
func (v Value) Item(index int) Value {
	for i, item := range v.Items {
		if i == index {
			return item
		}
	}
	return Value{}
}

// Content returns the content of a string as bytes.
func (v Value) Content() []byte {
	if raw := v.Raw(); !v.escaped() {
		return raw[1 : len(raw)-1]
	}
	return []byte(v.String())
}

// Equals reports whether the value is a string with that content.
func (v Value) Equals(text string) bool {
	if !v.Is('"') {
		return false
	}
	raw := v.Raw()
	return string(raw[1:len(raw)-1]) == text || v.escaped() && v.String() == text
}

// escaped reports whether the text of a string differs from its content.
func (v Value) escaped() bool { return v.token().escaped }

// String returns the content of a string, and "" for every other value.
func (v Value) String() string {
	if !v.Is('"') {
		return ""
	}
	raw := v.Raw()
	if !v.escaped() {
		return string(raw[1 : len(raw)-1])
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		panic(fmt.Sprintf("a string that was parsed before: %v", err)) // cannot happen
	}
	return text
}

// Same reports whether two scalars are equal: strings by their content, numbers by their
// value, so that 1 is 1.0.
func Same(a, b Value) bool {
	switch {
	case bytes.Equal(a.Raw(), b.Raw()):
		return true
	case a.Is('"') && b.Is('"'):
		return (a.escaped() || b.escaped()) && a.String() == b.String()
	}
	x, errX := strconv.ParseFloat(string(a.Raw()), 64)
	y, errY := strconv.ParseFloat(string(b.Raw()), 64)
	// Beyond 2^53 different integers are one float64.
	return errX == nil && errY == nil && x == y && math.Abs(x) < 1<<53
}

// AppendQuoted appends a text as a JSON string.
func AppendQuoted[T string | []byte](to []byte, text T) []byte {
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
