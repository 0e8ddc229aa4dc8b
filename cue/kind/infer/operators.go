package infer

import (
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

func (r *Reader) unary(p Part, e *ast.UnaryExpr) Value {
	x := r.Infer(p.With(e.X))
	switch e.Op {
	case token.NOT:
		r.must(p.With(e.X), x, types.Boolean, "!")
		return of(types.Boolean)
	case token.MUL:
		return x
	case token.SUB, token.ADD:
		if v, err := syntax.LiteralValue(e); err == nil {
			return literalOf(v)
		}
		return Value{Type: types.Of(x.Kinds())}
	case token.MAT, token.NMAT:
		pattern(r, p.With(e.X), x)
		return Value{Type: types.Of(types.String), IsType: true}
	case token.NEQ:
		return Value{Type: types.Unknown, IsType: true}
	}
	return Value{Type: types.Of(x.Kinds()), IsType: true} // a bound
}

// must reports an operand that cannot be of the kinds that an operator needs.
func (r *Reader) must(p Part, v Value, needed types.Values, what string) {
	if v.Kinds()&needed == 0 {
		r.Report(mistake.WrongOperand, p.Node(), "%s needs %s, not %s", what, Article(needed), v.Describe(p.Expr))
	}
}

// pattern reports a regular expression that cannot be compiled, if it is known.
func pattern(r *Reader, p Part, v Value) {
	text, ok := v.Literal.(string)
	if !ok {
		return
	}
	if _, err := syntax.CompilePattern(text); err != nil {
		r.Report(mistake.CUEError, p.Node(), "%v", err)
	}
}

// Condition checks that an expression can be a bool.
func (r *Reader) Condition(p Part) {
	v := r.Infer(p)
	if v.Kinds()&types.Boolean == 0 {
		r.Report(mistake.ConditionNotBool, p.Node(), "a condition must be a bool, not %s", v.Describe(p.Expr))
		return
	}
	e, ok := p.Expr.(*ast.BinaryExpr)
	if !ok || e.Op != token.OR || len(v.Alternatives) == 0 { // it may not have been looked at
		return
	}
	for i, branch := range syntax.Flatten(e) {
		if marked, ok := branch.(*ast.UnaryExpr); ok && marked.Op == token.MUL {
			branch = marked.X
		}
		if a := v.Alternatives[i]; a.Kinds()&types.Boolean == 0 {
			r.Report(mistake.ConditionNotBool, p.Node(),
				"a condition must be a bool, but may be %s: an alternative needs parentheses before it is compared, as in (*a | b) == c", a.Describe(branch))
			return
		}
	}
}

func (r *Reader) binary(p Part, e *ast.BinaryExpr) Value {
	switch e.Op {
	case token.AND:
		var parts []Part
		for _, expr := range syntax.Conjuncts(e) {
			parts = append(parts, p.With(expr))
		}
		return r.Unified(parts)
	case token.OR:
		return r.disjunction(p, e)
	case token.EQL, token.NEQ:
		return r.comparison(p, e)
	case token.LAND, token.LOR:
		r.Condition(p.With(e.X))
		inner := p
		if e.Op == token.LAND {
			inner.Conditions = ifs(p.Conditions, e.X)
		}
		r.Condition(inner.With(e.Y))
		return of(types.Boolean)
	case token.MAT, token.NMAT:
		x, y := r.Infer(p.With(e.X)), r.Infer(p.With(e.Y))
		r.must(p.With(e.X), x, types.String, e.Op.String())
		pattern(r, p.With(e.Y), y)
		if text, ok := y.Literal.(string); ok {
			neverMatches(r, p, e.X, x, text)
		}
		return of(types.Boolean)
	}
	x, y := r.Infer(p.With(e.X)), r.Infer(p.With(e.Y))
	switch e.Op {
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		operation{r, p, e, x, y}.comparable()
		return of(types.Boolean)
	}
	return operation{r, p, e, x, y}.arithmetic()
}

func (r *Reader) disjunction(p Part, e *ast.BinaryExpr) Value {
	branches := syntax.Flatten(e)
	result := Value{Type: types.Unknown, IsType: true}
	for i, branch := range branches {
		if unary, ok := branch.(*ast.UnaryExpr); ok && unary.Op == token.MUL {
			branch = unary.X
		}
		if i < len(branches)-1 {
			r.tolerant++
		}
		alternative := p.With(branch)
		alternative.Conditional = true
		v := r.Infer(alternative)
		if i < len(branches)-1 {
			r.tolerant--
		}
		if i > 0 {
			parenthesized(r, p.With(branch), branches[i-1])
		}
		result.IsType = result.IsType && v.IsType
		result.Alternatives = append(result.Alternatives, v)
	}
	return result
}

// parenthesized reports the last value of a disjunction that a logical operator takes away from it: in *a | false || b,
// it is the operand of ||.
func parenthesized(r *Reader, p Part, before ast.Expr) {
	e, ok := p.Expr.(*ast.BinaryExpr)
	if !ok || e.Op != token.LOR && e.Op != token.LAND {
		return
	}
	if value, err := syntax.LiteralValue(e.X); err == nil {
		r.Report(mistake.WrongOperand, p.Node(), "%[1]s binds tighter than |: write (%[2]s | %[3]v) %[1]s %[4]s", e.Op,
			syntax.SourceOf(before), value, syntax.SourceOf(e.Y))
	}
}

// comparison checks == and !=.
func (r *Reader) comparison(p Part, e *ast.BinaryExpr) Value {
	if _, ok := e.Y.(*ast.BottomLit); ok { // does it exist?
		r.tolerant++
		r.Infer(p.With(e.X))
		r.tolerant--
		return of(types.Boolean)
	}
	x, y := r.Infer(p.With(e.X)), r.Infer(p.With(e.Y))
	operation{r, p, e, x, y}.comparable()
	for _, side := range []struct {
		read, other Value
		expr        ast.Expr
	}{{x, y, e.X}, {y, x, e.Y}} {
		if text, ok := side.other.Literal.(string); ok {
			never(r, p, side.expr, side.read, text)
		}
	}
	return of(types.Boolean)
}

// operation is a comparison or a computation with two operands.
type operation struct {
	*Reader
	p    Part
	e    *ast.BinaryExpr
	x, y Value
}

// comparable checks that two values can be compared.
func (o operation) comparable() {
	const numbers = types.Integer | types.Number
	widen := func(v types.Values) types.Values {
		if v&numbers != 0 {
			v |= numbers
		}
		return v
	}
	a, b := widen(o.x.Kinds()), widen(o.y.Kinds())
	if a&b == 0 && (a|b)&types.Null == 0 {
		hint := ""
		if text, ok := o.y.Literal.(string); ok && a&numbers != 0 {
			if _, err := strconv.ParseFloat(text, 64); err == nil {
				hint = ": write " + text
			}
		}
		o.Report(mistake.ImpossibleComparison, o.p.Node(), "%s compares %s with %s%s", syntax.SourceOf(o.e),
			o.x.Describe(o.e.X), o.y.Describe(o.e.Y), hint)
	}
}

// arithmetic infers x + y and the like.
func (o operation) arithmetic() Value {
	const numbers = types.Integer | types.Number
	a, b := o.x.Kinds(), o.y.Kinds()
	texts := a&types.String != 0 && b&types.String != 0
	repeats := o.e.Op == token.MUL &&
		(a&types.String != 0 && b&types.Integer != 0 || a&types.Integer != 0 && b&types.String != 0)
	switch {
	case a&numbers != 0 && b&numbers != 0:
	case o.e.Op == token.ADD && texts, repeats:
		return of(types.String)
	case o.e.Op == token.ADD && a == types.Bytes && b == types.Bytes,
		o.e.Op == token.MUL && (a == types.Bytes && b&types.Integer != 0 || a&types.Integer != 0 && b == types.Bytes):
		return of(types.Bytes)
	case a == types.Any || b == types.Any:
		return Unknown
	case (a|b)&types.List != 0:
		o.Report(mistake.WrongOperand, o.p.Node(), "%s: lists are joined by list.Concat([a, b])", syntax.SourceOf(o.e))
		return of(types.List)
	default:
		hint := ""
		if o.e.Op == token.ADD && (a|b)&types.String != 0 {
			hint = `: write numbers into a string as in "a-\(n)"`
		}
		o.Report(mistake.WrongOperand, o.p.Node(), "%s: %s cannot be applied to %s and %s%s", syntax.SourceOf(o.e),
			o.e.Op, o.x.Describe(o.e.X), o.y.Describe(o.e.Y), hint)
		return Unknown
	}
	switch o.e.Op {
	case token.QUO:
		divisor(o.Reader, o.p, o.e.Y, o.y)
		return of(types.Number)
	}
	if a&types.String != 0 || b&types.String != 0 { // as it may be either
		return Unknown
	}
	switch { // what is a float for certain makes the result one
	case a == types.Number || b == types.Number:
		return of(types.Number)
	case a&numbers == types.Integer && b&numbers == types.Integer:
		return of(types.Integer)
	}
	return of(a&numbers | b&numbers)
}

// divisor reports a divisor that is or may be 0.
func divisor(r *Reader, p Part, e ast.Expr, v Value) {
	if inner, ok := e.(*ast.ParenExpr); ok {
		e = inner.X
	}
	if v.Literal == int64(0) || v.Literal == 0.0 {
		r.Report(mistake.DivisionByZero, p.With(e).Node(), "division by zero")
		return
	}
	read, less, ok := difference(r, p, e)
	if !ok || !strings.HasPrefix(read.Path, behaviour.ObjectName+".") || read.Literal != nil ||
		len(read.Alternatives) > 0 {
		return
	}
	if r.IsTolerant() || p.IsGuarded(e) || p.IsGuarded(read.expr) || read.Type.Minimum != nil &&
		*read.Type.Minimum > less {
		return
	}
	if less == 0 {
		r.Report(mistake.DivisionByZero, p.With(e).Node(),
			"division by zero: %s may be 0: write int & >=1 in the schema, or test it first", read.Path)
		return
	}
	r.Report(mistake.DivisionByZero, p.With(e).Node(),
		"division by zero: %s is 0 if %s is %v: write int & >=%v in the schema, or test it first", syntax.SourceOf(e),
		read.Path, less, less+1)
}

// subtracted is what is read in a difference.
type subtracted struct {
	Value
	expr ast.Expr
}

// difference returns what is read in x, x - 1 or x + 1, and at which value the result is 0.
func difference(r *Reader, p Part, e ast.Expr) (read subtracted, zero float64, ok bool) {
	switch inner := e.(type) {
	case *ast.ParenExpr:
		return difference(r, p, inner.X)
	case *ast.BinaryExpr:
		n, isLiteral := r.Infer(p.With(inner.Y)).Literal.(int64)
		if !isLiteral || inner.Op != token.SUB && inner.Op != token.ADD {
			return subtracted{}, 0, false
		}
		if inner.Op == token.ADD {
			n = -n
		}
		read, zero, ok = difference(r, p, inner.X)
		return read, zero + float64(n), ok
	}
	return subtracted{r.Infer(p.With(e)), e}, 0, true
}
