package schema

import (
	"cmp"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/fescue-dev/fescue/cue/kind/budget"
)

// Op is the operation that an expression applies to its arguments.
type Op string

// The operations that a condition or a relation may use; the others are named
// by CUE's operators.
const (
	OpLiteral   Op = "literal"
	OpReference Op = "reference"
	OpPresent   Op = "present" // x != _|_
	OpNot       Op = "!"
	OpLen       Op = "len"
	OpMatch     Op = "=~"
	OpNoMatch   Op = "!~"
)

// Expr is an expression over the object in a condition or a relation.
type Expr struct {
	Op   Op
	Args []*Expr
	// Value is that of a literal.
	Value any
	// Up and Path are a reference: how many structs to go up, then which fields to follow.
	Up   int
	Path []string
	// Text is the expression in CUE.
	Text string
	// Regexp is the right side of a match.
	Regexp *regexp.Regexp
}

// outcome is how an evaluation ended.
type outcome int

const (
	known   outcome = iota
	missing         // a field that it reads is absent
	invalid         // the types do not fit
	outside         // a field that it reads is outside the value, which is evaluated alone
)

// eval computes an expression where structs are the structs around it, outermost first.
func (e *Expr) eval(structs []map[string]any) (any, outcome) {
	switch e.Op {
	case OpLiteral:
		return e.Value, known
	case OpReference:
		return e.lookUp(structs)
	case OpPresent:
		_, how := e.Args[0].eval(structs)
		if how == outside {
			return nil, outside
		}
		return how == known, known
	case "&&", "||":
		return e.evalLogic(structs)
	}
	values := make([]any, 0, 2)
	for _, arg := range e.Args {
		v, how := arg.eval(structs)
		if how != known {
			return nil, how
		}
		values = append(values, v)
	}
	return e.apply(values)
}

// steps is what it takes to match, or to compare, the texts that an expression reads.
func (e *Expr) steps(structs []map[string]any) (n int) {
	for _, arg := range e.Args {
		n += arg.steps(structs)
	}
	if e.Op == OpReference {
		value, _ := e.lookUp(structs)
		text, _ := value.(string)
		n += len(text) / budget.BytesPerMatch
	}
	return n
}

// missing names the first field that an expression reads and that is not there.
func (e *Expr) missing(structs []map[string]any) string {
	switch e.Op {
	case OpPresent:
		return ""
	case OpReference:
		if _, how := e.lookUp(structs); how == missing {
			return strings.Join(e.Path, ".")
		}
	}
	for _, arg := range e.Args {
		if name := arg.missing(structs); name != "" {
			return name
		}
	}
	return ""
}

// lookUp follows a reference from the innermost struct.
func (e *Expr) lookUp(structs []map[string]any) (any, outcome) {
	level := len(structs) - 1 - e.Up
	if level < 0 {
		return nil, outside
	}
	var value any = structs[level]
	for _, name := range e.Path {
		m, ok := value.(map[string]any)
		if !ok {
			return nil, missing
		}
		if value, ok = m[name]; !ok {
			return nil, missing
		}
	}
	return value, known
}

// evalLogic evaluates && and ||, which in CUE evaluate both sides whatever the left one is.
func (e *Expr) evalLogic(structs []map[string]any) (any, outcome) {
	result := e.Op == "&&"
	for _, arg := range e.Args {
		v, how := arg.eval(structs)
		if how != known {
			return nil, how
		}
		b, ok := v.(bool)
		if !ok {
			return nil, invalid
		}
		if e.Op == "&&" {
			result = result && b
		} else {
			result = result || b
		}
	}
	return result, known
}

// apply computes an operation of values that are known.
func (e *Expr) apply(values []any) (any, outcome) {
	switch e.Op {
	case OpNot:
		if b, ok := values[0].(bool); ok {
			return !b, known
		}
	case OpLen:
		if n, ok := length(values[0]); ok {
			return n, known
		}
	case OpMatch, OpNoMatch:
		if text, ok := values[0].(string); ok {
			return e.Regexp.MatchString(text) == (e.Op == OpMatch), known
		}
	case "==", "!=":
		if a, b := TypeOf(values[0]), TypeOf(values[1]); a != b && (a|b)&(List|Struct) != 0 {
			return e.Op == "!=", known // CUE compares a list or struct with anything else
		}
		fallthrough
	default:
		if holds, ok := compare(string(e.Op), values[0], values[1]); ok {
			return holds, known
		}
	}
	return nil, invalid
}

// length returns what CUE's len gives: a string has as many bytes, which for CUE is not the
// number of its runes.
func length(value any) (int64, bool) {
	switch v := value.(type) {
	case string:
		return int64(len(v)), true
	case []any:
		return int64(len(v)), true
	case map[string]any:
		return int64(len(v)), true
	}
	return 0, false
}

// compare reports whether a op b; ok is false if CUE cannot compare the two.
func compare(op string, a, b any) (holds, ok bool) {
	types := TypeOf(a) | TypeOf(b)
	var order int
	switch {
	case types&^Number == 0:
		order = compareNumbers(a, b)
	case types == String:
		order = strings.Compare(a.(string), b.(string))
	case op == "==" || op == "!=":
		if types&(List|Struct) != 0 {
			return false, false
		}
		return (a == b) == (op == "=="), true
	default:
		return false, false
	}
	switch op {
	case "==":
		return order == 0, true
	case "!=":
		return order != 0, true
	case "<":
		return order < 0, true
	case "<=":
		return order <= 0, true
	case ">":
		return order > 0, true
	case ">=":
		return order >= 0, true
	}
	return false, false
}

// compareNumbers orders two numbers, exactly also where an integer is too large for a
// float64.
func compareNumbers(a, b any) int {
	x, xIsInt := a.(int64)
	y, yIsInt := b.(int64)
	switch {
	case xIsInt && yIsInt:
		return cmp.Compare(x, y)
	case xIsInt:
		return -compareFloatInt(b.(float64), x)
	case yIsInt:
		return compareFloatInt(a.(float64), y)
	}
	return cmp.Compare(a.(float64), b.(float64))
}

func compareFloatInt(f float64, i int64) int {
	switch {
	case f >= 1<<63:
		return 1
	case f < -1<<63:
		return -1
	}
	if order := cmp.Compare(int64(f), i); order != 0 {
		return order
	}
	return cmp.Compare(f, float64(int64(f)))
}

// runes counts the characters of a string as strings.MinRunes does.
func runes(text string) int64 { return int64(utf8.RuneCountInString(text)) }
