package admission

import (
	"bytes"
	"errors"

	kjson "sigs.k8s.io/json"
)

// scanner reads JSON once from front to back, and only finds where values begin and end.
// A review is mostly the object in it, which a decoder would look at three times before
// we get to decode it. What is skipped is not checked: whoever uses it decodes it.
type scanner struct {
	data []byte
	at   int
}

var errSyntax = errors.New("is no JSON")

// space moves to the next byte that is none, and returns it; at the end it is 0.
func (s *scanner) space() byte {
	for ; s.at < len(s.data); s.at++ {
		switch c := s.data[s.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// object visits the fields of an object. visit has to move behind the field's value.
func (s *scanner) object(visit func(name []byte) error) error {
	if s.space() != '{' {
		return errSyntax
	}
	s.at++
	if s.space() == '}' {
		s.at++
		return nil
	}
	for {
		if s.space() != '"' {
			return errSyntax
		}
		name, err := s.value()
		if err != nil {
			return err
		}
		if s.space() != ':' {
			return errSyntax
		}
		s.at++
		if err := visit(name[1 : len(name)-1]); err != nil {
			return err
		}
		switch s.space() {
		case ',':
			s.at++
		case '}':
			s.at++
			return nil
		default:
			return errSyntax
		}
	}
}

// value moves behind the next value and returns its text, which is a part of the data.
func (s *scanner) value() ([]byte, error) {
	first := s.space()
	from, depth := s.at, 0
	for s.at < len(s.data) {
		c := s.data[s.at]
		switch c {
		case '"':
			if !s.text() {
				return nil, errSyntax
			}
		case '{', '[':
			depth++
			s.at++
		case '}', ']':
			depth--
			s.at++
		default:
			s.at++
		}
		switch {
		case depth > 0:
		case first == '{', first == '[', first == '"':
			return s.data[from:s.at], nil
		case depth < 0, s.at == len(s.data), bytes.IndexByte(scalarEnds, s.data[s.at]) >= 0:
			// a number, or a word
			return s.data[from:s.at], nil
		}
	}
	return nil, errSyntax
}

// scalarEnds are what follows a number or a word.
var scalarEnds = []byte(",}] \t\r\n")

// text moves behind a string, at whose first quote it stands.
func (s *scanner) text() bool {
	for at := s.at + 1; ; {
		n := bytes.IndexByte(s.data[at:], '"')
		if n < 0 {
			return false
		}
		at += n + 1
		escapes := 0
		for i := at - 2; s.data[i] == '\\'; i-- {
			escapes++
		}
		if escapes%2 == 0 {
			s.at = at
			return true
		}
	}
}

// str reads a string.
func (s *scanner) str() (string, error) {
	value, err := s.value()
	if err != nil {
		return "", err
	}
	if len(value) > 1 && value[0] == '"' && bytes.IndexByte(value, '\\') < 0 {
		return string(bytes.ToValidUTF8(value[1:len(value)-1], []byte("\uFFFD"))), nil
	}
	var text string
	return text, kjson.UnmarshalCaseSensitivePreserveInts(value, &text)
}

// decode reads any value into what a pointer points to.
func (s *scanner) decode(into any) error {
	value, err := s.value()
	if err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(value, into)
}
