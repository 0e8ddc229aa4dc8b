package check

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// check reports where something does not fit a type. The parts are unified.
func (c *Checker) check(parts []Part, want *types.Type, path string) {
	before := c.checked
	defer func() { c.checked = before }()
	c.checked = path
	c.checkAt(parts, want, path, nil)
}

// checkAt is check with the place of the field that is checked.
func (c *Checker) checkAt(parts []Part, want *types.Type, path string, at ast.Node) {
	if c.exhausted() {
		return
	}
	c.depth++
	defer func() { c.depth-- }()
	var structs, lists, others []Part
	for _, p := range parts {
		c.sort(p, &structs, &lists, &others)
	}
	if len(structs) > 0 {
		c.checkStruct(structs, others, want, path, at)
	}
	if len(lists) > 0 {
		c.checkList(lists, want, path, at)
	}
	for _, p := range others {
		c.checkValue(p, want, path, len(structs)+len(lists) > 0)
	}
}

// sort puts what is unified into structs, lists and the rest.
func (c *Checker) sort(p Part, structs, lists, others *[]Part) {
	switch e := p.expr.(type) {
	case *ast.ParenExpr:
		c.sort(p.with(e.X), structs, lists, others)
		return
	case *ast.BinaryExpr:
		if e.Op == token.AND {
			c.sort(p.with(e.X), structs, lists, others)
			c.sort(p.with(e.Y), structs, lists, others)
			return
		}
	case *ast.StructLit:
		if inner := unembed(p); inner.expr != p.expr {
			c.sort(inner, structs, lists, others)
			return
		}
		*structs = append(*structs, p)
		return
	case *ast.ListLit:
		*lists = append(*lists, p)
		return
	case *ast.Ident, *ast.SelectorExpr, *ast.IndexExpr, *ast.CallExpr:
		v := c.infer(p)
		if len(v.parts) == 0 || len(v.alternatives) > 0 || c.following[e] {
			break
		}
		c.following[e] = true
		defer delete(c.following, e)
		for _, inner := range v.parts {
			if inner.at == nil {
				inner.at = p.node()
			}
			inner.conditional = inner.conditional || p.conditional
			inner.constraint = inner.constraint || p.constraint
			c.sort(inner, structs, lists, others)
		}
		return
	}
	*others = append(*others, p)
}

// leftover explains a struct that is nothing but a comprehension, which leaves {} if it yields nothing.
func leftover(structs []Part) string {
	literal, ok := structs[0].expr.(*ast.StructLit)
	if !ok || len(literal.Elts) != 1 {
		return ""
	}
	if _, ok := literal.Elts[0].(*ast.Comprehension); !ok {
		return ""
	}
	return ": an if inside leaves {} where it does not hold: write it around the field or, in a list, after the for, as in [for x in LIST if CONDITION {x}]"
}

func (c *Checker) checkStruct(structs, others []Part, want *types.Type, path string, at ast.Node) {
	if at == nil {
		at = structs[0].node()
	}
	s := c.Gather(structs)
	if want.Values&types.Object == 0 {
		if s.isStruct {
			c.report(at, "%s: must be %s, not a struct%s", path, article(want.Values), leftover(structs))
		}
		return
	}
	for _, name := range s.Order {
		m := s.Fields[name]
		field := want.Field(name)
		switch {
		case field != nil:
			c.checkAt(m.Parts, field, path+"."+name, m.Node)
		case !m.Constraint:
			c.report(m.Node, "%s.%s: unknown field%s", path, name, didYouMean(name, want))
		}
	}
	for _, d := range s.dynamic {
		c.label(d)
		values := want.Others
		if values == nil {
			values = types.Unknown
		}
		c.check([]Part{d.value}, values, path+"[…]")
	}
	for _, p := range s.others { // embedded
		c.checkValue(p, want, path, true)
	}
	isPartial := slices.ContainsFunc(structs, func(p Part) bool { return p.partial })
	isDescribed := !slices.ContainsFunc(structs, func(p Part) bool { return !p.constraint }) // there may be none
	if s.open || isPartial || isDescribed || len(s.others) > 0 || len(others) > 0 || len(s.dynamic) > 0 {
		return
	}
	for _, name := range want.Required {
		if s.Fields[name] == nil || s.Fields[name].Constraint {
			c.report(structs[0].node(), "%s.%s: is missing: Kubernetes requires it%s", path, name, want.Field(name).Choices())
		}
	}
}

// label checks a computed name.
func (c *Checker) label(d dynamicField) {
	if e, ok := d.label.(*ast.ParenExpr); ok {
		p := d.value.with(e.X)
		c.must(p, c.infer(p), types.String, "the name of a field")
		return
	}
	if e, ok := d.label.(ast.Expr); ok {
		c.infer(d.value.with(e))
	}
}

func (c *Checker) checkList(lists []Part, want *types.Type, path string, place ast.Node) {
	if want.Values&types.List == 0 {
		if place == nil {
			place = lists[0].node()
		}
		c.report(place, "%s: must be %s, not a list", path, article(want.Values))
		return
	}
	seen := make(map[string]bool)
	for i, item := range c.rows(lists) {
		at := fmt.Sprintf("%s[%d]", path, i)
		c.check(item, want.Item(), at)
		if len(want.Keys) == 0 || item[0].conditional || item[0].partial {
			continue
		}
		if key, known := c.keyOf(item, want.Keys); known && seen[key] {
			c.report(item[0].node(), "%s: a second item with %s", at, key)
		} else if known {
			seen[key] = true
		}
	}
}

// rows returns the items of lists that are unified, each with what it is unified from. If there are
// loops in them, it is not known which items belong together.
func (c *Checker) rows(lists []Part) (rows [][]Part) {
	var loops bool
	for _, p := range lists {
		list := p.expr.(*ast.ListLit) // see sort
		loops = loops || slices.ContainsFunc(list.Elts, func(e ast.Expr) bool { _, ok := e.(*ast.Comprehension); return ok })
	}
	for _, p := range lists {
		for i, item := range c.items(p, p.expr.(*ast.ListLit)) {
			switch {
			case len(lists) > 1 && loops:
				item.partial = true
				rows = append(rows, []Part{item})
			case i < len(rows) && !loops:
				rows[i] = append(rows[i], item)
			default:
				rows = append(rows, []Part{item})
			}
		}
	}
	return rows
}

// keyOf returns the keys of an item of a list, if they are known.
func (c *Checker) keyOf(item []Part, keys []string) (string, bool) {
	s := c.Gather(item)
	var texts []string
	for _, name := range keys {
		m := s.Fields[name]
		if m == nil {
			return "", false
		}
		v := c.Unified(m.Parts)
		if v.literal == nil {
			return "", false
		}
		texts = append(texts, fmt.Sprintf("%s %v", name, v.literal))
	}
	return strings.Join(texts, ", "), true
}

// checkValue checks an expression that is neither a struct nor a list in CUE. If it is embedded,
// or only describes a value, it need not be one.
func (c *Checker) checkValue(p Part, want *types.Type, path string, embedded bool) {
	if e, ok := p.expr.(*ast.BinaryExpr); ok && e.Op == token.OR {
		c.checkAlternatives(p, e, want, path)
		return
	}
	if e, ok := p.expr.(*ast.IndexExpr); ok {
		if list, ok := e.X.(*ast.ListLit); ok { // [if c {a}, b][0]
			for _, item := range c.items(p, list) {
				item.conditional = true
				c.check([]Part{item}, want, path)
			}
			return
		}
	}
	v := c.infer(p)
	if p.constraint {
		v.literal, v.isType = nil, true
	}
	if len(v.alternatives) > 0 {
		if !v.isType && !fits(v.Kinds(), want.Values) {
			c.mismatch(p, v, want, path)
		}
		return
	}
	if embedded && v.t.Values == types.Any {
		return
	}
	if !fits(v.t.Values, want.Values) {
		c.mismatch(p, v, want, path)
		return
	}
	if reason := want.OutOfBounds(v.literal); reason != "" && !v.isType {
		c.report(p.node(), "%s: %v %s", path, v.literal, reason)
	}
	if text, ok := v.literal.(string); ok {
		c.checkText(p, text, want, path)
	}
	if v.t.Fields != nil && want.Fields != nil {
		c.compare(p, v.t, want, path, v.path, 0)
	}
}

// fits reports whether one of the kinds of values is one of those that are wanted.
func fits(have, want types.Values) bool {
	if have&types.Integer != 0 && want&types.Number != 0 {
		return true
	}
	return have&want != 0 || have == types.Null
}

// checkAlternatives checks each alternative of a disjunction. Of those that are types, it is
// enough if one fits.
func (c *Checker) checkAlternatives(p Part, e *ast.BinaryExpr, want *types.Type, path string) {
	all := c.infer(p)
	if all.isType {
		if !fits(all.Kinds(), want.Values) {
			c.mismatch(p, all, want, path)
		}
		return
	}
	for _, branch := range syntax.Flatten(e) {
		if unary, ok := branch.(*ast.UnaryExpr); ok && unary.Op == token.MUL {
			branch = unary.X
		}
		inner := p.with(branch)
		inner.conditional = true
		c.tolerant++
		if v := c.infer(inner); !v.isType {
			c.check([]Part{inner}, want, path)
		}
		c.tolerant--
	}
}

// mismatch reports a value of a wrong type, and what to write instead.
func (c *Checker) mismatch(p Part, v Value, want *types.Type, path string) {
	hint := ""
	source := syntax.SourceOf(p.expr)
	switch kinds := v.Kinds(); {
	case want.Values == types.String && kinds&^(types.Integer|types.Number|types.Boolean) == 0:
		hint = fmt.Sprintf(`: write "\(%s)"`, source)
		if v.literal != nil {
			hint = fmt.Sprintf(": write %q", fmt.Sprint(v.literal))
		}
	case want.Values&types.Integer != 0 && kinds == types.Number:
		hint = ": write div(a, b), or math.Round(…)"
	case want.Values&types.Integer != 0 && kinds == types.String && v.literal == nil:
		if hint = ": write strconv.Atoi(" + source + ")"; isInterpolation(p.expr) {
			hint = ""
		}
	case want.Values&(types.Integer|types.Boolean) != 0 && v.literal != nil:
		text := fmt.Sprint(v.literal)
		_, errInt := strconv.Atoi(text)
		_, errBool := strconv.ParseBool(text)
		if errInt == nil && want.Values&types.Integer != 0 || errBool == nil && want.Values&types.Boolean != 0 {
			hint = ": write " + text
		}
	case want.Values&types.List != 0:
		hint = ": write [" + source + "]"
	}
	c.report(p.node(), "%s: must be %s, not %s%s", path, article(want.Values), v.describe(p.expr), hint)
}

// isInterpolation reports whether an expression is a string with expressions within it.
func isInterpolation(e ast.Expr) bool {
	_, ok := e.(*ast.Interpolation)
	return ok
}

// checkText checks a known string.
func (c *Checker) checkText(p Part, text string, want *types.Type, path string) {
	switch {
	case want.Quantity:
		if _, err := resource.ParseQuantity(text); err != nil {
			c.report(p.node(), "%s: %q is not a quantity like 100m, 0.5, 128Mi or 1Gi", path, text)
		}
	case len(want.Enum) > 0 && text != "" && !slices.Contains(want.Enum, text):
		c.report(p.node(), "%s: %q must be one of %s%s", path, text, strings.Join(want.Enum, ", "), types.DidYouMean(text, want.Enum))
	}
}

// compare checks that the fields of a struct that is read exist where it is written.
func (c *Checker) compare(p Part, have, want *types.Type, path, source string, depth int) {
	if depth > 8 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(have.Fields)) {
		field := want.Field(name)
		switch inner := have.Fields[name]; {
		case field == nil:
			c.report(p.node(), "%s: %s may have the field %s, which is unknown here%s", path, source, name, didYouMean(name, want))
		case !fits(inner.Values, field.Values):
			c.report(p.node(), "%s.%s: must be %s, but %s.%s is %s", path, name, article(field.Values), source, name, article(inner.Values))
		case inner.Fields != nil && field.Fields != nil:
			c.compare(p, inner, field, path+"."+name, source+"."+name, depth+1)
		}
	}
}
