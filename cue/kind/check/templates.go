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

	"github.com/fescue-dev/fescue/cue/kind/infer"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// fitter reports where parts of a definition do not fit a type.
type fitter struct {
	*infer.Reader
	checked string // the path of what is compared; empty for what others refer to
	// following are references whose parts are being compared, to notice what contains itself.
	following map[ast.Expr]bool
}

func newFitter(r *infer.Reader) *fitter {
	return &fitter{Reader: r, following: make(map[ast.Expr]bool)}
}

// check reports where something does not fit a type. The parts are unified.
func (f *fitter) check(parts []infer.Part, want *types.Type, path string) {
	before := f.checked
	defer func() { f.checked = before }()
	f.checked = path
	f.checkAt(parts, want, path, nil)
}

// checkAt is check with the place of the field that is checked.
func (f *fitter) checkAt(parts []infer.Part, want *types.Type, path string, at ast.Node) {
	if !f.Enter() {
		return
	}
	defer f.Leave()
	var structs, lists, others []infer.Part
	for _, p := range parts {
		f.sort(p, &structs, &lists, &others)
	}
	if len(structs) > 0 {
		f.checkStruct(structs, others, want, path, at)
	}
	if len(lists) > 0 {
		f.checkList(lists, want, path, at)
	}
	isKnown := len(others) > 1 && f.Unified(others).Literal != nil
	for _, p := range others {
		if isKnown && len(f.Infer(p).Alternatives) > 0 {
			continue // it is none of the other alternatives
		}
		f.checkValue(p, want, path, len(structs)+len(lists) > 0)
	}
}

// sort puts what is unified into structs, lists and the rest.
func (f *fitter) sort(p infer.Part, structs, lists, others *[]infer.Part) {
	switch e := p.Expr.(type) {
	case *ast.ParenExpr:
		f.sort(p.With(e.X), structs, lists, others)
		return
	case *ast.BinaryExpr:
		if e.Op == token.AND {
			f.sort(p.With(e.X), structs, lists, others)
			f.sort(p.With(e.Y), structs, lists, others)
			return
		}
	case *ast.StructLit:
		if inner := infer.Unembedded(p); inner.Expr != p.Expr {
			f.sort(inner, structs, lists, others)
			return
		}
		*structs = append(*structs, p)
		return
	case *ast.ListLit:
		*lists = append(*lists, p)
		return
	case *ast.Ident, *ast.SelectorExpr, *ast.IndexExpr, *ast.CallExpr:
		v := f.Infer(p)
		if len(v.Parts) == 0 || len(v.Alternatives) > 0 || f.following[e] {
			break
		}
		f.following[e] = true
		defer delete(f.following, e)
		for _, inner := range v.Parts {
			if inner.At == nil {
				inner.At = p.Node()
			}
			inner.Conditional = inner.Conditional || p.Conditional
			inner.Constraint = inner.Constraint || p.Constraint
			f.sort(inner, structs, lists, others)
		}
		return
	}
	*others = append(*others, p)
}

// leftover explains a struct that is nothing but a comprehension, which leaves {} if it yields nothing.
func leftover(structs []infer.Part) string {
	literal, ok := structs[0].Expr.(*ast.StructLit)
	if !ok || len(literal.Elts) != 1 {
		return ""
	}
	if _, ok := literal.Elts[0].(*ast.Comprehension); !ok {
		return ""
	}
	return ": an if inside leaves {} where it does not hold: write it around the field or, in a list, after the for, as in [for x in LIST if CONDITION {x}]"
}

func (f *fitter) checkStruct(structs, others []infer.Part, want *types.Type, path string, at ast.Node) {
	if at == nil {
		at = structs[0].Node()
	}
	s := f.Gather(structs)
	if want.Values&types.Object == 0 {
		if s.IsStruct {
			f.Report(mistake.WrongType, at, "%s: must be %s, not a struct%s", path, infer.Article(want.Values),
				leftover(structs))
		}
		return
	}
	for _, name := range s.Order {
		m := s.Fields[name]
		field := want.Field(name)
		if reason := want.MalformedKey(name); reason != "" && !m.Constraint {
			f.Report(mistake.InvalidValue, m.Node, "%s: %q: %s", path, name, reason)
		}
		switch {
		case field != nil:
			f.checkAt(m.Parts, field, path+"."+name, m.Node)
		case !m.Constraint:
			f.Report(mistake.UnknownField, m.Node, "%s.%s: unknown field%s", path, name, infer.DidYouMean(name, want))
		}
	}
	for _, d := range s.Dynamic {
		f.Label(d)
		values := want.Others
		if values == nil {
			values = types.Unknown
		}
		f.check([]infer.Part{d.Value}, values, path+"[…]")
	}
	for _, p := range s.Others { // embedded
		f.checkValue(p, want, path, true)
	}
	isPartial := slices.ContainsFunc(structs, func(p infer.Part) bool { return p.Partial })
	isDescribed := !slices.ContainsFunc(structs, func(p infer.Part) bool { return !p.Constraint }) // there may be none
	if s.Open || isPartial || isDescribed || len(s.Others) > 0 || len(others) > 0 || len(s.Dynamic) > 0 {
		return
	}
	for _, name := range want.Required {
		if s.Fields[name] == nil || s.Fields[name].Constraint {
			f.Report(mistake.MissingField, structs[0].Node(), "%s.%s: is missing: Kubernetes requires it%s", path, name,
				want.Field(name).Choices())
		}
	}
}

func (f *fitter) checkList(lists []infer.Part, want *types.Type, path string, place ast.Node) {
	if want.Values&types.List == 0 {
		if place == nil {
			place = lists[0].Node()
		}
		f.Report(mistake.WrongType, place, "%s: must be %s, not a list", path, infer.Article(want.Values))
		return
	}
	for _, together := range infer.Together(lists) {
		seen := make(map[string]bool)
		for i, item := range infer.Rows(f.Reader, together) {
			at := fmt.Sprintf("%s[%d]", path, i)
			f.check(item, want.Item(), at)
			if len(want.Keys) == 0 || item[0].Conditional || item[0].Partial {
				continue
			}
			if key, known := f.keyOf(item, want.Keys); known && seen[key] {
				f.Report(mistake.DuplicateItem, item[0].Node(), "%s: a second item with %s", at, key)
			} else if known {
				seen[key] = true
			}
		}
	}
}

// keyOf returns the keys of an item of a list, if they are known.
func (f *fitter) keyOf(item []infer.Part, keys []string) (string, bool) {
	s := f.Gather(item)
	var texts []string
	for _, name := range keys {
		value := s.Literal(name)
		if value == nil {
			return "", false
		}
		texts = append(texts, fmt.Sprintf("%s %v", name, value))
	}
	return strings.Join(texts, ", "), true
}

// checkValue checks an expression that is neither a struct nor a list in CUE. If it is embedded,
// or only describes a value, it need not be one.
func (f *fitter) checkValue(p infer.Part, want *types.Type, path string, embedded bool) {
	if e, ok := p.Expr.(*ast.BinaryExpr); ok && e.Op == token.OR {
		f.checkAlternatives(p, e, want, path)
		return
	}
	if e, ok := p.Expr.(*ast.IndexExpr); ok {
		if list, ok := e.X.(*ast.ListLit); ok { // [if c {a}, b][0]
			for _, item := range f.Items(p, list) {
				item.Conditional = true
				item.Partial = item.Partial || embedded
				f.check([]infer.Part{item}, want, path)
			}
			return
		}
	}
	v := f.Infer(p)
	if p.Constraint {
		v.Literal, v.IsType = nil, true
	}
	if len(v.Alternatives) > 0 {
		if !v.IsType && !fits(v.Kinds(), want) {
			f.mismatch(p, v, want, path)
		}
		return
	}
	if embedded && v.Type.Values == types.Any {
		return
	}
	if !fits(v.Type.Values, want) {
		f.mismatch(p, v, want, path)
		return
	}
	if e, ok := p.Expr.(*ast.BinaryExpr); ok && want.Quantity && e.Op == token.MUL && v.Type.Values == types.String {
		f.Report(mistake.InvalidQuantity, p.Node(),
			"%s: %s repeats a text: compute with a number, as in \"\\(object.spec.millis * 2)m\"", path,
			syntax.SourceOf(e))
	}
	if reason := want.OutOfBounds(v.Literal); reason != "" && !v.IsType {
		f.Report(mistake.OutOfRange, p.Node(), "%s: %v %s", path, v.Literal, reason)
	}
	if text, ok := v.Literal.(string); ok {
		f.checkText(p, text, want, path)
	}
	if v.Type.Fields != nil && want.Fields != nil {
		f.compare(p, v.Type, want, path, v.Path, 0)
	}
}

// fits reports whether one of the kinds of values is one of a type. Bytes become a string in base64.
func fits(have types.Values, want *types.Type) bool {
	return infer.Fits(have, want.Values) || want.Base64 && have&types.Bytes != 0
}

// checkAlternatives checks each alternative of a disjunction. Of those that are types, it is
// enough if one fits.
func (f *fitter) checkAlternatives(p infer.Part, e *ast.BinaryExpr, want *types.Type, path string) {
	all := f.Infer(p)
	if all.IsType {
		if !fits(all.Kinds(), want) {
			f.mismatch(p, all, want, path)
		}
		return
	}
	for _, branch := range syntax.Flatten(e) {
		if unary, ok := branch.(*ast.UnaryExpr); ok && unary.Op == token.MUL {
			branch = unary.X
		}
		inner := p.With(branch)
		inner.Conditional = true
		f.Tolerantly(func() {
			if v := f.Infer(inner); !v.IsType {
				f.check([]infer.Part{inner}, want, path)
			}
		})
	}
}

// moment is the type of a duration or a time.
var moment = types.Of(types.String)

// unitOf returns the unit of a number of time as its name says it: seconds, if it says nothing.
func unitOf(source string) string {
	switch name := strings.ToLower(source); {
	case strings.HasSuffix(name, "hours"):
		return "h"
	case strings.HasSuffix(name, "minutes"):
		return "m"
	}
	return "s"
}

// mismatch reports a value of a wrong type, and what to write instead.
func (f *fitter) mismatch(p infer.Part, v infer.Value, want *types.Type, path string) {
	hint := ""
	source := syntax.SourceOf(p.Expr)
	switch kinds := v.Kinds(); {
	case f.fitsAlone(p, want):
		hint = ": write " + syntax.SourceOf(onlyIn(p.Expr))
	case want.Values == types.String && kinds&^(types.Integer|types.Number|types.Boolean) == 0:
		unit := ""
		if want == moment {
			unit = unitOf(source)
		}
		hint = fmt.Sprintf(`: write "\(%s)%s"`, source, unit)
		if v.Literal != nil {
			hint = fmt.Sprintf(": write %q", fmt.Sprint(v.Literal)+unit)
		}
	case want.Values&types.Integer != 0 && kinds == types.Number:
		hint = ": write div(a, b), or math.Round(…)"
	case want.Values&types.Integer != 0 && kinds == types.String && v.Literal == nil:
		if hint = ": write strconv.Atoi(" + source + ")"; isInterpolation(p.Expr) {
			hint = ""
		}
	case want.Values&(types.Integer|types.Boolean) != 0 && v.Literal != nil:
		text := fmt.Sprint(v.Literal)
		_, errInt := strconv.Atoi(text)
		_, errBool := strconv.ParseBool(text)
		if errInt == nil && want.Values&types.Integer != 0 || errBool == nil && want.Values&types.Boolean != 0 {
			hint = ": write " + text
		}
	case want.Values&types.List != 0:
		hint = ": write [" + source + "]"
	}
	f.Report(mistake.WrongType, p.Node(), "%s: must be %s, not %s%s", path, infer.Article(want.Values),
		v.Describe(p.Expr), hint)
}

// fitsAlone reports whether a text has nothing but a value that would fit without it.
func (f *fitter) fitsAlone(p infer.Part, want *types.Type) (fits bool) {
	only := onlyIn(p.Expr)
	if only == nil {
		return false
	}
	f.Quietly(func() {
		kinds := f.Infer(p.With(only)).Kinds()
		fits = kinds != types.Any && infer.Fits(kinds, want.Values)
	})
	return fits
}

// onlyIn returns the expression in a text that has nothing else, as in "\(a)"; nil for any other.
func onlyIn(e ast.Expr) ast.Expr {
	text, ok := e.(*ast.Interpolation)
	if !ok || len(text.Elts) != 3 {
		return nil
	}
	before, isBefore := text.Elts[0].(*ast.BasicLit)
	after, isAfter := text.Elts[2].(*ast.BasicLit)
	if !isBefore || !isAfter || before.Value != `"\(` || after.Value != `)"` {
		return nil
	}
	return text.Elts[1]
}

// isInterpolation reports whether an expression is a string with expressions within it.
func isInterpolation(e ast.Expr) bool {
	_, ok := e.(*ast.Interpolation)
	return ok
}

// checkText checks a known string.
func (f *fitter) checkText(p infer.Part, text string, want *types.Type, path string) {
	switch reason := want.Malformed(text); {
	case want.Quantity:
		if _, err := resource.ParseQuantity(text); err != nil {
			f.Report(mistake.InvalidQuantity, p.Node(), "%s: %q is not a quantity like 100m, 0.5, 128Mi or 1Gi", path,
				text)
		}
	case reason != "":
		f.Report(mistake.InvalidValue, p.Node(), "%s: %q: %s", path, text, reason)
	case len(want.Enum) > 0 && text != "" && !slices.Contains(want.Enum, text):
		f.Report(mistake.UnsupportedValue, p.Node(), "%s: %q must be one of %s%s", path, text,
			strings.Join(want.Enum, ", "), types.DidYouMean(text, want.Enum))
	}
}

// compare checks that the fields of a struct that is read exist where it is written.
func (f *fitter) compare(p infer.Part, have, want *types.Type, path, source string, depth int) {
	if depth > 8 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(have.Fields)) {
		field := want.Field(name)
		switch inner := have.Fields[name]; {
		case field == nil:
			f.Report(mistake.UnknownField, p.Node(), "%s: %s may have the field %s, which is unknown here%s", path,
				source, name, infer.DidYouMean(name, want))
		case !infer.Fits(inner.Values, field.Values):
			f.Report(mistake.WrongType, p.Node(), "%s.%s: must be %s, but %s.%s is %s", path, name,
				infer.Article(field.Values), source, name, infer.Article(inner.Values))
		case inner.Fields != nil && field.Fields != nil:
			f.compare(p, inner, field, path+"."+name, source+"."+name, depth+1)
		}
	}
}
