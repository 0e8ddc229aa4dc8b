package compile

import (
	"math"
	"net/netip"
	"regexp"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"
	cuenet "cuelang.org/go/pkg/net"
	cuetime "cuelang.org/go/pkg/time"
	"k8s.io/kube-openapi/pkg/validation/strfmt"

	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/binding"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// predeclared returns one of CUE's own types, of those that objects have values of; nil for any other name.
func predeclared(e *ast.Ident) *schema.Schema {
	rule := ruleAt(e)
	s := typedBy(rule)
	// A field may hide the name of a type, which then has another.
	switch name := strings.TrimPrefix(e.Name, "__"); name {
	case "_":
		return schema.Anything(rule.Position)
	case "null":
		s.Types = schema.Null
		return s
	case "rune", "int128", "uint128":
		return nil
	case "int32", "int64":
		s.Format = name
	}
	own := behaviour.Predeclared(e.Name)
	if own == nil || own.Kinds == behaviour.Bytes {
		return nil
	}
	s.Types, s.Min, s.Max = typesOf[own.Kinds], limit(rule, own.Kinds, own.Min), limit(rule, own.Kinds, own.Max)
	return s
}

// typesOf are the types of values that behaviours have names for, too.
var typesOf = map[behaviour.Kinds]schema.Types{
	behaviour.String: schema.String, behaviour.Bool: schema.Bool, behaviour.Int: schema.Int,
	behaviour.Float: schema.Float, behaviour.Number: schema.Number,
}

// limit returns the bound that a limit of one of CUE's own types is; nil if numbers of 64 bits do not pass it.
func limit(rule *schema.Rule, kinds behaviour.Kinds, at *behaviour.Decimal) *schema.Bound {
	if at == nil {
		return nil
	}
	n, err := at.Int64()
	f, _ := at.Float64()
	switch {
	case kinds == behaviour.Int && err == nil && n != math.MinInt64 && n != math.MaxInt64:
		return &schema.Bound{Rule: rule, Value: n}
	case kinds == behaviour.Number && math.Abs(f) < math.MaxFloat64:
		return &schema.Bound{Rule: rule, Value: f}
	}
	return nil
}

// typedBy begins a schema with a rule that also sets the type. The type is a separate
// rule, because the CRD may carry the type alone.
func typedBy(rule *schema.Rule) *schema.Schema {
	typeRule := *rule
	return &schema.Schema{Position: rule.Position, TypeRule: &typeRule}
}

// namedChecks are the validators of CUE's standard library that take no argument.
var namedChecks = map[string]func(*schema.Rule) *schema.Schema{
	"time.Time": stringCheck("date-time",
		func(text string) bool { ok, err := cuetime.Time(text); return ok && err == nil }),
	"time.Duration": stringCheck("",
		func(text string) bool { ok, err := cuetime.Duration(text); return ok && err == nil }),
	"net.FQDN": stringCheck("", cuenet.FQDN),
	"net.URL":  stringCheck("", func(text string) bool { ok, err := cuenet.URL(text); return ok && err == nil }),
	"net.AbsURL": stringCheck("",
		func(text string) bool { ok, err := cuenet.AbsURL(text); return ok && err == nil }),
	"net.IPCIDR": stringCheck("", func(text string) bool { _, err := netip.ParsePrefix(text); return err == nil }),
	"net.IP":     addressCheck(func(a netip.Addr) bool { return a.IsValid() }),
	"net.IPv4":   addressCheck(netip.Addr.Is4),
	"net.IPv6":   addressCheck(netip.Addr.Is6),
	"list.UniqueItems": func(rule *schema.Rule) *schema.Schema {
		s := typedBy(rule)
		s.Types, s.Unique, s.Unclosed = schema.List, rule, true
		return s
	},
}

func stringCheck(format string, holds func(string) bool) func(*schema.Rule) *schema.Schema {
	return func(rule *schema.Rule) *schema.Schema {
		s := typedBy(rule)
		s.Types, s.Checks = schema.String, []schema.Check{{Rule: rule, Holds: holds, Format: format}}
		return s
	}
}

// addressCheck returns a check for IP addresses, which CUE also takes as lists of bytes.
func addressCheck(holds func(netip.Addr) bool) func(*schema.Rule) *schema.Schema {
	return func(rule *schema.Rule) *schema.Schema {
		s := stringCheck("", func(text string) bool {
			address, err := netip.ParseAddr(text)
			return err == nil && holds(address)
		})(rule)
		s.Types |= schema.List
		return s
	}
}

// formatChecks are the checks that @kube(format=…) requires of a string: those of the API
// server for that format, from its own library.
var formatChecks = map[string]func(string) bool{
	"byte": func(text string) bool { return strfmt.Default.Validates("byte", text) },
}

// call reads a validator that takes arguments.
func (s scope) call(e *ast.CallExpr) (*schema.Schema, error) {
	if ident, ok := e.Fun.(*ast.Ident); ok {
		return s.builtin(e, ident)
	}
	selector, ok := e.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil, s.unsupported(e, "this call")
	}
	path, name := binding.Selected(selector)
	if check, ok := namedChecks[path+"."+name]; ok && len(e.Args) == 0 {
		return check(ruleAt(e)), nil
	}
	if len(e.Args) != 1 {
		return nil, s.unsupported(e, syntax.SourceOf(e))
	}
	argument, err := s.literalOf(e.Args[0])
	if err != nil {
		return nil, err
	}
	rule := ruleAt(e)
	result := typedBy(rule)
	switch arg := argument.(type) {
	case int64:
		if sized(result, path+"."+name, &schema.Limit{Rule: rule, N: arg}) {
			return result, nil
		}
	case string:
		if check, ok := textCheck(path+"."+name, arg); ok {
			check.Rule = rule
			result.Types, result.Checks = schema.String, []schema.Check{check}
			return result, nil
		}
	}
	return nil, s.unsupported(e, syntax.SourceOf(e))
}

// sized adds the validators that bound lengths and sizes.
func sized(s *schema.Schema, name string, limit *schema.Limit) bool {
	switch name {
	case "strings.MinRunes":
		s.Types, s.Length.Min = schema.String, limit
	case "strings.MaxRunes":
		s.Types, s.Length.Max = schema.String, limit
	case "list.MinItems":
		s.Types, s.Size.Min, s.Unclosed = schema.List, limit, true
	case "list.MaxItems":
		s.Types, s.Size.Max, s.Unclosed = schema.List, limit, true
	case "struct.MinFields":
		s.Types, s.Count.Min = schema.Struct, limit
	case "struct.MaxFields":
		s.Types, s.Count.Max = schema.Struct, limit
	default:
		return false
	}
	return true
}

// textCheck finds a validator for strings that has a string as its argument.
func textCheck(name, arg string) (schema.Check, bool) {
	quoted := regexp.QuoteMeta(arg)
	switch name {
	case "strings.HasPrefix":
		return schema.Check{Pattern: "^" + quoted,
			Holds: func(text string) bool { return strings.HasPrefix(text, arg) }}, true
	case "strings.HasSuffix":
		return schema.Check{Pattern: quoted + "$",
			Holds: func(text string) bool { return strings.HasSuffix(text, arg) }}, true
	case "strings.Contains":
		return schema.Check{Pattern: quoted, Holds: func(text string) bool { return strings.Contains(text, arg) }}, true
	case "time.Format":
		hasFormat := func(text string) bool { ok, err := cuetime.Format(text, arg); return ok && err == nil }
		return schema.Check{Holds: hasFormat}, true
	}
	return schema.Check{}, false
}

// builtin reads close(…), and(…), or(…) and matchN(…).
func (s scope) builtin(e *ast.CallExpr, ident *ast.Ident) (*schema.Schema, error) {
	isOwn := binding.Of(ident).Kind == binding.Unbound
	if isOwn && ident.Name == "matchN" && len(e.Args) == 2 {
		return s.matchN(e)
	}
	if !isOwn || len(e.Args) != 1 {
		return nil, s.unsupported(e, syntax.SourceOf(e))
	}
	list, isList := e.Args[0].(*ast.ListLit)
	switch {
	case ident.Name == "close":
		compiled, err := s.expression(e.Args[0])
		if err != nil {
			return nil, err
		}
		s.groups++
		return schema.Close(compiled, s.groups), nil
	case (ident.Name == "or" || ident.Name == "and") && isList && len(list.Elts) > 0:
		op := token.OR
		if ident.Name == "and" {
			op = token.AND
		}
		joined := list.Elts[0]
		for _, element := range list.Elts[1:] {
			joined = &ast.BinaryExpr{X: joined, Op: op, Y: element}
		}
		return s.expression(joined)
	}
	return nil, s.unsupported(e, syntax.SourceOf(e))
}

// matchN reads matchN(1, [A, B]), a bound for how many of the schemas in a list a value
// satisfies.
func (s scope) matchN(e *ast.CallExpr) (*schema.Schema, error) {
	list, isList := e.Args[1].(*ast.ListLit)
	count, isCount := s.countOf(e.Args[0])
	if !isList || !isCount || len(list.Elts) == 0 {
		return nil, s.unsupported(e, syntax.SourceOf(e))
	}
	match := schema.Match{Rule: ruleAt(e), Count: count}
	s.embedded = false
	for _, element := range list.Elts {
		compiled, err := s.expression(element)
		if err != nil {
			return nil, err
		}
		if compiled.DependsOnObject() || compiled.IsRecursive() {
			return nil, s.unsupported(element, "a reference to other fields in matchN")
		}
		match.Schemas = append(match.Schemas, compiled)
	}
	if either := match.Either(); either != nil {
		return either, nil
	}
	return &schema.Schema{Position: syntax.PositionOf(e), Types: schema.AnyType, Matches: []schema.Match{match},
		Unclosed: true}, nil
}

// countOf reads a number like 1, or a bound like >=1.
func (s scope) countOf(e ast.Expr) (schema.Range, bool) {
	op, number := token.EQL, e
	if unary, ok := e.(*ast.UnaryExpr); ok {
		op, number = unary.Op, unary.X
	}
	value, err := s.literalOf(number)
	n, ok := value.(int64)
	if err != nil || !ok {
		return schema.Range{}, false
	}
	limit := func(n int64) *schema.Limit { return &schema.Limit{Rule: ruleAt(e), N: n} }
	switch op {
	case token.EQL:
		return schema.Range{Min: limit(n), Max: limit(n)}, true
	case token.GEQ:
		return schema.Range{Min: limit(n)}, true
	case token.GTR:
		return schema.Range{Min: limit(n + 1)}, true
	case token.LEQ:
		return schema.Range{Max: limit(n)}, true
	case token.LSS:
		return schema.Range{Max: limit(n - 1)}, true
	}
	return schema.Range{}, false
}

// unary reads bounds and negative numbers.
func (s scope) unary(e *ast.UnaryExpr) (*schema.Schema, error) {
	rule := ruleAt(e)
	if named := s.source(e.X); named != nil {
		if _, err := syntax.LiteralValue(named); err == nil {
			rule.Text = e.Op.String() + syntax.SourceOf(named) // a name means nothing to people who write objects
		}
	}
	result := typedBy(rule)
	switch e.Op {
	case token.SUB, token.ADD:
		return s.constant(e)
	case token.MAT, token.NMAT:
		text, err := s.literalOf(e.X)
		pattern, ok := text.(string)
		if err != nil || !ok {
			return nil, s.unsupported(e, "a pattern that is not a literal")
		}
		compiled, err := syntax.CompilePattern(pattern)
		if err != nil {
			return nil, syntax.ErrorAtNode(mistake.CUEError, e, "%v", err)
		}
		result.Types = schema.String
		result.Patterns = []schema.Pattern{{Rule: rule, Regexp: compiled, Negated: e.Op == token.NMAT}}
		return result, nil
	case token.NEQ, token.GEQ, token.GTR, token.LEQ, token.LSS:
		return s.bound(e, result)
	}
	return nil, s.unsupported(e, "the operator "+e.Op.String())
}

// bound reads >=x and its like, where x is a literal or an expression over the object.
func (s scope) bound(e *ast.UnaryExpr, result *schema.Schema) (*schema.Schema, error) {
	rule := new(*result.TypeRule)
	value, err := s.literalOf(e.X)
	if err != nil {
		return s.relativeBound(e, result)
	}
	isNumber := schema.TypeOf(value)&schema.Number != 0
	switch {
	case e.Op == token.NEQ && value == nil:
		result.Types = schema.AnyType &^ schema.Null
		return result, nil
	case e.Op == token.NEQ:
		result.Not = []schema.Literal{{Rule: rule, Value: value}}
		if result.Types = schema.TypeOf(value); isNumber {
			result.Types = schema.Number
		}
		return result, nil
	case !isNumber:
		return nil, s.unsupported(e, "a bound that is not a number")
	}
	result.Types = schema.Number
	bound := &schema.Bound{Rule: rule, Value: value, Exclusive: e.Op == token.GTR || e.Op == token.LSS}
	if e.Op == token.GEQ || e.Op == token.GTR {
		result.Min = bound
	} else {
		result.Max = bound
	}
	return result, nil
}

// relativeBound reads a bound that another field of the object gives.
func (s scope) relativeBound(e *ast.UnaryExpr, result *schema.Schema) (*schema.Schema, error) {
	expr, err := s.objectExpr(e.X)
	if err != nil {
		return nil, err
	}
	result.Types = schema.AnyType &^ (schema.Struct | schema.List)
	result.Relations = []schema.Relation{{Rule: new(*result.TypeRule), Op: e.Op.String(), Expr: expr}}
	return result, nil
}
