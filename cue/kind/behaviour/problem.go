package behaviour

import (
	"fmt"
	"slices"
	"strings"

	"cuelang.org/go/cue/token"
)

// Problem is why an expression has no value.
type Problem struct {
	// IsIncomplete means that something is absent so far; otherwise something is wrong.
	IsIncomplete bool
	// Path is the field of the behaviour that has no value.
	Path string
	// At is the place of the expression.
	At token.Pos
	// Absent is what is absent, as in observed.db.status.address; it may be empty.
	Absent string
	// Message is what is wrong.
	Message string
	// More are the other things that are absent in the same value.
	More []*Problem

	// isOpen means that there is a value, which is a type or several alternatives so far.
	isOpen bool
	// format and args make up Message, unless that is the same for all values.
	format string
	args   []any
}

func (p *Problem) Error() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// source is a part of a message that stands in the CUE of the kind, or of Fescue.
type source string

// Rule is Message without values: with the types, and with what the CUE of the kind says.
func (p *Problem) Rule() string {
	if p.format == "" {
		return p.Message
	}
	args := slices.Clone(p.args)
	for i, arg := range args {
		switch arg.(type) {
		case source, Kinds, token.Token:
		default:
			args[i] = source("…")
		}
	}
	return fmt.Sprintf(strings.NewReplacer("%d", "%s", "%v", "%s", "%q", "%s").Replace(p.format), args...)
}

func problemAt(pos token.Pos, format string, args ...any) *Problem {
	return &Problem{At: pos, Message: fmt.Sprintf(format, args...), format: format, args: args}
}

func wrong(x Expr, format string, args ...any) *Problem { return problemAt(x.Pos(), format, args...) }

func incomplete(x Expr, absent, format string, args ...any) *Problem {
	p := problemAt(x.Pos(), format, args...)
	p.IsIncomplete, p.Absent = true, absent
	return p
}

// join returns the problem of a value with two parts: what is absent in both counts.
func join(a, b *Problem) *Problem {
	if a == nil || b == nil || !a.IsIncomplete || !b.IsIncomplete || a == b {
		return worse(a, b)
	}
	joined := *a
	joined.More = slices.Concat(a.More, []*Problem{b}, b.More)
	return &joined
}

// worse returns the problem that counts of two: what is wrong stays wrong.
func worse(a, b *Problem) *Problem {
	if a == nil || b != nil && a.IsIncomplete && !b.IsIncomplete {
		return b
	}
	return a
}
