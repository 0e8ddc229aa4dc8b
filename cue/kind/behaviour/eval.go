package behaviour

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/token"
	"github.com/cockroachdb/apd/v3"
)

func sortedKeys(m map[string]any) []string {
	if len(m) == 1 {
		for name := range m {
			return []string{name}
		}
	}
	return slices.Sorted(maps.Keys(m))
}

// resolve finds what a reference refers to: a node, or a value.
func (r *run) resolve(x Expr, e *env) (any, *Problem) {
	r.step()
	switch x := x.(type) {
	case *Reference:
		n := e.at(x.Up).node
		if field := n.arc(r, x.Name); field != nil {
			return field, nil
		}
		return nil, n.absent(x.Name, x, x.Text)
	case *LetReference:
		return x.resolve(r, e.at(x.Up))
	case *PackageReference:
		top := r.top(x.Package)
		if field := top.arc(r, x.Name); field != nil {
			return field, nil
		}
		return nil, top.absent(x.Name, x, x.Text)
	case *Variable:
		e = e.at(x.Up)
		if x.IsKey {
			return e.key, nil
		}
		return e.value, nil
	case *Self:
		return e.at(x.Up).node, nil
	case *Selector:
		base, problem := r.base(x.X, e, x.Text)
		if problem != nil {
			return nil, problem
		}
		return r.selected(base, x.Name, x, x.Text)
	case *Index:
		return x.resolve(r, e)
	}
	return r.eval(x, e)
}

// letIn is a let clause of one literal.
type letIn struct {
	let *Let
	in  *env
}

// resolve returns the node of a let clause. Each literal has its own, though those of a comprehension are
// unified to one struct.
func (x *LetReference) resolve(r *run, in *env) (any, *Problem) {
	key := letIn{x.Let, in}
	if known, ok := r.lets[key]; ok && known.isValid(in.node) {
		return known.node, nil
	}
	let := kept{node: &node{up: in.node, label: x.Let.Name, isLet: true, conjs: []conj{{x: x.Let.Value, env: in}}}}
	if in.node.state == expanding {
		let.parts = partsOfStruct(in.node) // it may read fields of which there is more
	}
	if r.lets == nil {
		r.lets = make(map[letIn]kept)
	}
	r.lets[key] = let
	return let.node, nil
}

func (e *env) at(up int) *env {
	for range up {
		e = e.up
	}
	return e
}

// top returns the struct of a package.
func (r *run) top(p *Package) *node {
	if known := r.packages[p]; known != nil {
		return known
	}
	n := &node{state: expanded, kinds: Struct}
	n.lits = []lit{{StructLit: p.top, env: &env{node: n}}}
	if r.packages == nil {
		r.packages = make(map[*Package]*node)
	}
	r.packages[p] = n
	return n
}

func (n *node) absent(name string, x Expr, text string) *Problem {
	if problem := n.problemOf(name); problem != nil {
		return problem
	}
	return incomplete(x, text, "%s does not exist", source(text))
}

// base evaluates what a selection is from: a node, a struct or a list of data.
func (r *run) base(x Expr, e *env, text string) (any, *Problem) {
	value, problem := r.resolve(x, e)
	if problem != nil {
		return nil, problem
	}
	n, ok := value.(*node)
	if !ok {
		return value, nil
	}
	value, problem = n.target(r)
	if problem != nil {
		return nil, problem
	}
	n, ok = value.(*node)
	if !ok {
		return value, nil
	}
	if n.state == expanding {
		return n, nil
	}
	if n.problem != nil && (!n.problem.IsIncomplete || !n.isLet) {
		return nil, n.problem // CUE looks into what a let clause says before it is complete
	}
	if n.isScalar {
		return n.scalar, nil
	}
	if len(n.lits)+len(n.data)+len(n.lists) == 0 {
		if n.kinds&(Struct|List) != 0 {
			return nil, incomplete(x, text, "%s does not exist", source(text))
		}
		return nil, wrong(x, "cannot select from a value of type %s", n.kinds)
	}
	return n.plain(), nil
}

// plain returns the data of a struct or list that nothing else describes, or the node.
func (n *node) plain() any {
	switch {
	case len(n.lits) > 0:
	case len(n.data) == 1 && len(n.lists) == 0:
		return n.data[0].fields
	case len(n.lists) == 1 && len(n.data) == 0 && n.lists[0].list == nil:
		return n.lists[0].data
	}
	return n
}

// selected returns a field of a struct.
func (r *run) selected(base any, name string, x Expr, text string) (any, *Problem) {
	switch b := base.(type) {
	case map[string]any:
		if value, ok := fieldOf(b, name); ok {
			return value, nil
		}
		return nil, incomplete(x, text, "%s does not exist", source(text))
	case *node:
		if len(b.lists) == 0 {
			if field := b.arc(r, name); field != nil {
				return field, nil
			}
			return nil, b.absent(name, x, text)
		}
	}
	return nil, wrong(x, "invalid operand in %s: found %s, want a struct", source(text), kindOf(scalarOf(base)))
}

func (x *Index) resolve(r *run, e *env) (any, *Problem) {
	base, problem := r.base(x.X, e, x.Text)
	if problem != nil {
		return nil, problem
	}
	index, problem := r.eval(x.Index, e)
	if problem != nil {
		return nil, problem
	}
	switch i := index.(type) {
	case string:
		if kind := kindOf(scalarOf(base)); kind != Struct {
			return nil, wrong(x, "invalid index %s in %s: found %s, want a struct", textOf(i), source(x.Text), kind)
		}
		return r.selected(base, dataLabel(i), x, x.Text)
	case int64:
		if kind := kindOf(scalarOf(base)); kind != List {
			return nil, wrong(x, "invalid index %d in %s: found %s, want a list", i, source(x.Text), kind)
		}
		length, problem := r.length(base)
		if problem != nil {
			return nil, problem
		}
		if i < 0 {
			return nil, wrong(x, "invalid index %d in %s: it must not be negative", i, source(x.Text))
		}
		if i >= int64(length) {
			return nil, wrong(x, "index out of range [%d] with length %d in %s", i, length, source(x.Text))
		}
		return r.element(base, int(i)), nil
	}
	return nil, wrong(x, "invalid index %s in %s (type %s)", textOf(index), source(x.Text), kindOf(index))
}

// eval computes an expression to a scalar, a struct or a list.
func (r *run) eval(x Expr, e *env) (any, *Problem) {
	r.step()
	switch x := x.(type) {
	case *Literal:
		return x.Value, nil
	case *Reference, *LetReference, *PackageReference, *Variable, *Self, *Selector, *Index:
		value, problem := r.resolve(x, e)
		if problem != nil {
			return nil, problem
		}
		return r.valueOf(value)
	case *Interpolation:
		return x.eval(r, e)
	case *Binary:
		if x.Op != token.AND {
			return x.eval(r, e)
		}
	case *Unary:
		if !isBound(x.Op) {
			return x.eval(r, e)
		}
		return nil, incomplete(x, "", "non-concrete value %s", source(x.Text))
	case *Slice:
		return x.eval(r, e)
	case *Call:
		if x.isValidator() {
			return nil, wrong(x, "non-concrete value %s", x.Function.Name)
		}
		if !x.Function.isNode {
			return x.eval(r, e)
		}
	case *ListLit:
		if x.constant != nil {
			return x.constant, nil
		}
	}
	return (&node{conjs: []conj{{x: x, env: e}}}).value(r)
}

// valueOf computes what a reference refers to.
func (r *run) valueOf(value any) (any, *Problem) {
	if n, ok := value.(*node); ok {
		return n.value(r)
	}
	return scalarOf(value), nil
}

func (x *Interpolation) eval(r *run, e *env) (any, *Problem) {
	var b []byte
	var worst *Problem
	for _, part := range x.Parts {
		value, problem := r.eval(part, e)
		if problem != nil {
			worst = worse(worst, problem)
			continue
		}
		switch v := value.(type) {
		case string:
			b = append(b, v...)
		case []byte:
			b = append(b, v...)
		case bool:
			b = strconv.AppendBool(b, v)
		case int64:
			b = strconv.AppendInt(b, v, 10)
		case *Decimal:
			b = append(b, v.String()...)
		default:
			worst = worse(worst,
				wrong(part, "invalid interpolation: cannot use a value of type %s, only string, bytes, number and bool",
					kindOf(value)))
		}
	}
	if worst != nil {
		return nil, worst
	}
	r.spend(len(b) / bytesPerStep)
	if x.IsBytes {
		return b, nil
	}
	return string(b), nil
}

func isBound(op token.Token) bool {
	switch op {
	case token.LSS, token.LEQ, token.GTR, token.GEQ, token.NEQ, token.EQL, token.MAT, token.NMAT:
		return true
	}
	return false
}

func (x *Unary) eval(r *run, e *env) (any, *Problem) {
	value, problem := r.eval(x.X, e)
	if problem != nil {
		return nil, problem
	}
	switch kind := kindOf(value); {
	case x.Op == token.NOT && kind == Bool:
		return !value.(bool), nil
	case x.Op == token.SUB && kind&Number != 0:
		return negated(value), nil
	case x.Op == token.ADD && kind&Number != 0:
		return value, nil
	}
	return nil, wrong(x, "invalid operation %s (%s %s)", source(x.Text), x.Op, kindOf(value))
}

// isBottom reports whether an expression is _|_.
func isBottom(x Expr) bool {
	_, ok := x.(*Bottom)
	return ok
}

// eval computes a binary operation except &.
func (x *Binary) eval(r *run, e *env) (any, *Problem) {
	if x.Op == token.EQL || x.Op == token.NEQ {
		if isBottom(x.X) {
			return x.exists(r, x.Y, e)
		}
		if isBottom(x.Y) {
			return x.exists(r, x.X, e)
		}
	}
	left, problem := r.eval(x.X, e)
	right, problem2 := r.eval(x.Y, e)
	if problem = worse(problem, problem2); problem != nil {
		return nil, problem
	}
	r.spend((sizeOf(left) + sizeOf(right)) / bytesPerStep)
	switch x.Op {
	case token.EQL, token.NEQ:
		if problem := worse(r.unknown(left), r.unknown(right)); problem != nil {
			return nil, problem
		}
		if order, ok := compare(left, right); ok {
			return (order == 0) == (x.Op == token.EQL), nil
		}
		equal, problem := r.equal(left, right)
		return equal == (x.Op == token.EQL), problem
	case token.LAND, token.LOR:
		a, ok1 := left.(bool)
		b, ok2 := right.(bool)
		if ok1 && ok2 {
			return x.Op == token.LAND && a && b || x.Op == token.LOR && (a || b), nil
		}
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		if order, ok := compare(left, right); ok {
			return ordered(x.Op, order), nil
		}
	case token.MAT, token.NMAT:
		text, ok1 := left.(string)
		pattern, ok2 := right.(string)
		if ok1 && ok2 {
			re, problem := r.regexp(pattern, x)
			if problem != nil {
				return nil, problem
			}
			r.spend(searching(pattern, text) / bytesPerStep)
			return re.MatchString(text) == (x.Op == token.MAT), nil
		}
	default:
		return x.arithmetic(r, left, right)
	}
	return nil, x.invalidOperands(left, right)
}

func (x *Binary) invalidOperands(left, right any) *Problem {
	return wrong(x, "invalid operands %s and %s to '%s' (type %s and %s) in %s", textOf(left), textOf(right), x.Op,
		kindOf(left), kindOf(right), source(x.Text))
}

func ordered(op token.Token, order int) bool {
	switch op {
	case token.LSS:
		return order < 0
	case token.LEQ:
		return order <= 0
	case token.GTR:
		return order > 0
	case token.GEQ:
		return order >= 0
	}
	return false
}

// compare orders two strings, bytes or numbers.
func compare(left, right any) (order int, ok bool) {
	a, b := kindOf(left), kindOf(right)
	switch {
	case a&Number != 0 && b&Number != 0:
		return compareNumbers(left, right), true
	case a == String && b == String:
		return strings.Compare(left.(string), right.(string)), true
	case a == Bytes && b == Bytes:
		return bytes.Compare(left.([]byte), right.([]byte)), true
	}
	return 0, false
}

// exists reports whether an operand is not an error, for !=, or is one, for ==.
func (x *Binary) exists(r *run, operand Expr, e *env) (any, *Problem) {
	value, problem := r.resolve(operand, e)
	if problem != nil && problem.isOpen { // of an expression that is no reference
		value, problem = &node{conjs: []conj{{x: operand, env: e}}}, nil
	}
	if n, ok := value.(*node); ok && problem == nil {
		if value, problem = n.value(r); problem != nil && problem.isOpen && n.mayBeStruct(r) {
			problem = nil
		}
	}
	if n, ok := value.(*node); ok && problem == nil {
		problem = worse(n.partial(r), n.broken(r))
	}
	return (problem == nil) == (x.Op == token.NEQ), nil
}

// mayBeStruct reports whether a node that has no value so far exists for a comparison with _|_: it does if it may
// become a struct or a list, or one of several alternatives. Other types do not.
func (n *node) mayBeStruct(r *run) bool {
	target, problem := n.target(r)
	if problem != nil {
		return problem.isOpen
	}
	n, ok := target.(*node)
	return ok && n.kinds&(Struct|List) != 0
}

// unknown returns what is absent or wrong within an operand of a comparison.
func (r *run) unknown(operand any) (worst *Problem) {
	switch operand := operand.(type) {
	case *node:
		_, worst = r.export(operand)
	case []any: // what a builtin returns
		for _, element := range operand {
			worst = worse(worst, r.unknown(element))
		}
	}
	return worst
}

// equal reports whether two values are the same, of the same type: 1 is not 1.0, which only == between numbers says.
func (r *run) equal(a, b any) (bool, *Problem) {
	r.step()
	x, y := kindOf(a), kindOf(b)
	switch {
	case x != y:
		return false, nil
	case x&Number != 0:
		return compareNumbers(a, b) == 0, nil
	case x == List:
		n, problem := r.length(a)
		m, problem2 := r.length(b)
		if problem = worse(problem, problem2); problem != nil || n != m {
			return false, problem
		}
		for i := range n {
			equal, problem := r.equalFields(r.element(a, i), r.element(b, i))
			if problem != nil || !equal {
				return false, problem
			}
		}
		return true, nil
	case x == Struct:
		names, problem := r.names(a)
		others, problem2 := r.names(b)
		if problem = worse(problem, problem2); problem != nil || len(names) != len(others) {
			return false, problem
		}
		for _, name := range names {
			if !slices.Contains(others, name) {
				return false, nil
			}
			equal, problem := r.equalFields(r.fieldIn(a, name), r.fieldIn(b, name))
			if problem != nil || !equal {
				return false, problem
			}
		}
		return true, nil
	case x == Bytes:
		return bytes.Equal(a.([]byte), b.([]byte)), nil
	}
	return a == b, nil
}

func (r *run) equalFields(a, b any) (bool, *Problem) {
	x, problem := r.valueOf(a)
	if problem != nil {
		return false, problem
	}
	y, problem := r.valueOf(b)
	if problem != nil {
		return false, problem
	}
	return r.equal(x, y)
}

// names lists the fields of a struct.
func (r *run) names(s any) ([]string, *Problem) {
	if data, ok := s.(map[string]any); ok {
		names := sortedKeys(data)
		for i := range names {
			names[i] = dataLabel(names[i])
		}
		return names, nil
	}
	return s.(*node).fields(r)
}

func (r *run) fieldIn(s any, name string) any {
	if data, ok := s.(map[string]any); ok {
		value, _ := fieldOf(data, name)
		return value
	}
	return s.(*node).field(r, name)
}

// regexp compiles a pattern, once for a run: it may be of an object. Matching takes time in proportion to the text.
func (r *run) regexp(pattern string, x Expr) (*regexp.Regexp, *Problem) {
	if known := r.patterns[pattern]; known != nil {
		return known, nil
	}
	r.spend(len(pattern) * patternSteps)
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, problemAt(posOf(x), "invalid regular expression %s: %v", textOf(pattern), err)
	}
	if r.patterns == nil {
		r.patterns = make(map[string]*regexp.Regexp)
	}
	r.patterns[pattern] = re
	return re, nil
}

func (x *Binary) arithmetic(r *run, left, right any) (any, *Problem) {
	a, b := kindOf(left), kindOf(right)
	if a&Number != 0 && b&Number != 0 {
		return x.calculate(left, right)
	}
	switch {
	case x.Op == token.ADD && a == String && b == String:
		sum := left.(string) + right.(string)
		r.spend(len(sum) / bytesPerStep)
		return sum, nil
	case x.Op == token.ADD && a == Bytes && b == Bytes:
		return slices.Concat(left.([]byte), right.([]byte)), nil
	case x.Op == token.ADD && a == List && b == List:
		return nil, wrong(x, "lists cannot be added: use list.Concat")
	case x.Op == token.MUL && a == Int && b&(String|Bytes) != 0:
		return r.repeat(x, right, left)
	case x.Op == token.MUL && b == Int && a&(String|Bytes) != 0:
		return r.repeat(x, left, right)
	case x.Op == token.MUL && (a == List && b == Int || a == Int && b == List):
		return nil, wrong(x, "a list cannot be multiplied: use list.Repeat")
	}
	return nil, x.invalidOperands(left, right)
}

func (r *run) repeat(x Expr, value, count any) (any, *Problem) {
	n, ok := count.(int64)
	if !ok || n < 0 || n > maxRepeat {
		return nil, wrong(x, "cannot repeat %s times: the number must be from 0 to %d", textOf(count), maxRepeat)
	}
	if text, ok := value.(string); ok {
		r.spend(len(text) * int(n) / bytesPerStep)
		return strings.Repeat(text, int(n)), nil
	}
	r.spend(len(value.([]byte)) * int(n) / bytesPerStep)
	return bytes.Repeat(value.([]byte), int(n)), nil
}

// calculate computes with numbers.
func (x *Binary) calculate(left, right any) (any, *Problem) {
	a, ok1 := left.(int64)
	b, ok2 := right.(int64)
	if ok1 && ok2 && within32(a) && within32(b) {
		switch x.Op {
		case token.ADD:
			return a + b, nil
		case token.SUB:
			return a - b, nil
		case token.MUL:
			return a * b, nil
		}
	}
	p, _ := toDecimal(left)
	q, _ := toDecimal(right)
	result := &Decimal{IsFloat: p.IsFloat || q.IsFloat || x.Op == token.QUO}
	var condition apd.Condition
	var err error
	switch x.Op {
	case token.ADD:
		condition, err = arithmetic.Add(&result.Decimal, &p.Decimal, &q.Decimal)
	case token.SUB:
		condition, err = arithmetic.Sub(&result.Decimal, &p.Decimal, &q.Decimal)
	case token.MUL:
		condition, err = arithmetic.Mul(&result.Decimal, &p.Decimal, &q.Decimal)
	case token.QUO:
		condition, err = arithmetic.Quo(&result.Decimal, &p.Decimal, &q.Decimal)
		result.trim()
	default:
		return nil, x.invalidOperands(left, right)
	}
	if condition.DivisionByZero() {
		return nil, wrong(x, "division by zero in %s", source(x.Text))
	}
	if err != nil {
		return nil, wrong(x, "failed arithmetic in %s: %v", source(x.Text), err)
	}
	return result.reduced(), nil
}

func within32(n int64) bool { return n >= math.MinInt32 && n <= math.MaxInt32 }

// divide divides integers.
func divide(x Expr, by func(result, a, b *big.Int) *big.Int, left, right any) (any, *Problem) {
	if kindOf(left) != Int || kindOf(right) != Int {
		return nil, wrong(x, "cannot divide %s by %s: both must be integers", textOf(left), textOf(right))
	}
	a, b := bigInt(left), bigInt(right)
	if b.Sign() == 0 {
		return nil, wrong(x, "division by zero")
	}
	return fromBig(by(new(big.Int), a, b)), nil
}

func bigInt(value any) *big.Int {
	if n, ok := value.(int64); ok {
		return big.NewInt(n)
	}
	d, _ := toDecimal(value)
	result := new(big.Int)
	result.SetString(fmt.Sprintf("%f", &d.Decimal), 10)
	return result
}

func fromBig(n *big.Int) any {
	if n.IsInt64() {
		return n.Int64()
	}
	return parseDecimal(n.String())
}

func (x *Slice) eval(r *run, e *env) (any, *Problem) {
	base, problem := r.eval(x.X, e)
	if problem != nil {
		return nil, problem
	}
	var length int
	switch kindOf(base) {
	case List:
		if length, problem = r.length(base); problem != nil {
			return nil, problem
		}
	case Bytes:
		length = len(base.([]byte))
	default:
		return nil, wrong(x, "cannot slice %s (type %s)", textOf(base), kindOf(base))
	}
	bounds := [2]int{0, length}
	for i, bound := range []Expr{x.Low, x.High} {
		if bound == nil {
			continue
		}
		value, problem := r.eval(bound, e)
		if problem != nil {
			return nil, problem
		}
		n, ok := value.(int64)
		if !ok || n < 0 || n > int64(length) && i == 1 {
			return nil, wrong(bound, "index %s out of range with length %d", textOf(value), length)
		}
		bounds[i] = int(min(n, math.MaxInt32))
	}
	low, high := bounds[0], bounds[1]
	if low > high {
		return nil, wrong(x, "invalid slice index: %d > %d", low, high)
	}
	if b, ok := base.([]byte); ok {
		return b[low:high], nil
	}
	part := make([]any, high-low)
	r.spend(len(part))
	for i := range part {
		part[i] = r.element(base, low+i)
	}
	return part, nil
}

// within tests the limits of a sized integer.
func within(t *Type) func(*run, any) *Problem {
	return func(_ *run, value any) *Problem {
		if kindOf(value)&Number == 0 {
			return nil
		}
		if compareNumbers(value, t.Min) < 0 || t.Max != nil && compareNumbers(value, t.Max) > 0 {
			return wrong(t, "invalid value %s (out of bound %s)", textOf(value), source(t.Name))
		}
		return nil
	}
}

// addTo unifies a node with a bound like >=5.
func (x *Unary) addTo(n *node, limit any) {
	kind := kindOf(limit)
	switch {
	case x.Op == token.NEQ || x.Op == token.EQL:
		if kind == Bool {
			n.fail(wrong(x, "invalid value %s (type bool) for bound %s", textOf(limit), x.Op))
			return
		}
	case x.Op == token.MAT || x.Op == token.NMAT:
		if kind != String {
			n.fail(wrong(x, "invalid value %s (type %s) for bound %s: it must be a regular expression", textOf(limit),
				kind, x.Op))
			return
		}
		n.limit(String, x)
	case kind&Number != 0:
		n.limit(Number, x)
	case kind&(String|Bytes) != 0:
		n.limit(kind, x)
	default:
		n.fail(wrong(x, "cannot use %s for bound %s", kind, x.Op))
		return
	}
	if x.Op == token.NEQ && kind == Null {
		n.kinds &^= Null
		return
	}
	if x.Op == token.NEQ && kind&Number != 0 {
		n.limit(Number, x)
	} else if x.Op == token.NEQ || x.Op == token.EQL {
		n.limit(kind, x)
	}
	n.checks = append(n.checks, check{x, func(r *run, value any) *Problem {
		holds := false
		switch x.Op {
		case token.NEQ, token.EQL:
			equal, problem := r.equal(value, limit)
			if problem != nil {
				return problem
			}
			holds = equal == (x.Op == token.EQL)
		case token.MAT, token.NMAT:
			re, problem := r.regexp(limit.(string), x)
			if problem != nil {
				return problem
			}
			text, ok := value.(string)
			holds = ok && re.MatchString(text) == (x.Op == token.MAT)
		default:
			order, ok := compare(value, limit)
			holds = ok && ordered(x.Op, order)
		}
		if !holds {
			return wrong(x, "invalid value %s (out of bound %s)", textOf(value), source(x.Text))
		}
		return nil
	}})
}

// length returns the number of elements of a list.
func (r *run) length(list any) (int, *Problem) {
	if data, ok := list.([]any); ok {
		return len(data), nil
	}
	n := list.(*node)
	if problem := n.enumerate(r); problem != nil {
		return 0, problem
	}
	return n.length, nil
}

// element returns an element of a list, as a value or a node.
func (r *run) element(list any, i int) any {
	if data, ok := list.([]any); ok {
		return data[i]
	}
	n := list.(*node)
	if n.entries != nil { // its only part
		nodes := make([]node, len(n.entries))
		n.arcs = make([]arc, len(nodes))
		for j := range nodes {
			nodes[j] = node{up: n, label: strconv.Itoa(j), conjs: n.entries[j : j+1 : j+1]}
			n.arcs[j].node = &nodes[j]
		}
		n.entries = nil
	}
	return n.arcs[i].node
}

// enumerate finds the elements of a list.
func (n *node) enumerate(r *run) *Problem {
	if n.enumerated {
		return n.problem
	}
	n.enumerated = true
	type part struct {
		conjs []conj
		rest  *conj
	}
	parts := make([]part, 0, len(n.lists))
	length, isClosed := 0, -1
	for _, l := range n.lists {
		p := part{}
		if l.list == nil {
			r.spend(len(l.data))
			p.conjs = make([]conj, len(l.data))
			for i, value := range l.data {
				p.conjs[i] = conj{value: value, group: l.group}
			}
		} else {
			p.conjs = make([]conj, 0, len(l.list.Elements))
			for _, element := range l.list.Elements {
				c, ok := element.(*Comprehension)
				if !ok {
					p.conjs = append(p.conjs, conj{x: element, env: l.env, group: l.group})
					continue
				}
				if problem := r.comprehend(c.Clauses, l.env, func(e *env) {
					if len(p.conjs) == cap(p.conjs) {
						// append would grow a long list by a quarter, and copy it often
						p.conjs = slices.Grow(p.conjs, len(p.conjs)+1)
					}
					p.conjs = append(p.conjs, conj{x: c.Body, env: e, group: l.group})
				}); problem != nil {
					n.fail(problem)
				}
			}
			if l.list.Rest != nil {
				p.rest = &conj{x: l.list.Rest, env: l.env, group: l.group}
			}
		}
		if p.rest == nil {
			if isClosed >= 0 && isClosed != len(p.conjs) {
				n.fail(problemAt(n.pos(), "incompatible list lengths (%d and %d)", isClosed, len(p.conjs)))
			}
			isClosed = len(p.conjs)
		}
		length = max(length, len(p.conjs))
		parts = append(parts, p)
	}
	if isClosed >= 0 && isClosed < length {
		n.fail(problemAt(n.pos(), "incompatible list lengths (%d and %d)", isClosed, length))
		length = isClosed
	}
	if n.problem != nil {
		return n.problem
	}
	r.spend(length)
	n.length = length
	if len(parts) == 1 && length > 0 {
		n.entries = parts[0].conjs
		return nil
	}
	n.arcs = make([]arc, length)
	nodes := make([]node, length)
	for i := range length {
		nodes[i] = node{up: n, label: strconv.Itoa(i)}
		for _, p := range parts {
			switch {
			case i < len(p.conjs):
				nodes[i].conjs = append(nodes[i].conjs, p.conjs[i])
			case p.rest != nil:
				nodes[i].conjs = append(nodes[i].conjs, *p.rest)
			}
		}
		n.arcs[i].node = &nodes[i]
	}
	return nil
}
