package infer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/literal"

	"github.com/fescue-dev/fescue/cue/kind/binding"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// Given is what a definition reads that no CUE defines: the object of a behaviour, and what it observes.
type Given interface {
	// Root returns what a name stands for that the contract gives a definition; false for any other name.
	Root(p Part, e *ast.Ident) (Value, bool)
	// Select is called with the path of each field that is selected of something given, whether or not there is such
	// a field.
	Select(p Part, e ast.Expr, path string)
	// Field is called with each field of something given, and returns what is known of it.
	Field(p Part, e ast.Expr, of Value, name string, field Value) Value
}

// Names are values that are given by name, of which nobody asks how they are read.
type Names map[string]Value

// Root returns the value of a name.
func (n Names) Root(_ Part, e *ast.Ident) (Value, bool) {
	v, ok := n[e.Name]
	return v, ok
}

// Select does nothing.
func (Names) Select(Part, ast.Expr, string) {}

// Field returns the field.
func (Names) Field(_ Part, _ ast.Expr, _ Value, _ string, field Value) Value { return field }

// Reader infers what the expressions of one definition can be, and collects what cannot be right in them, whatever is
// given.
type Reader struct {
	// Definition has the fields of the definition: a controller, a decorator or a conversion.
	Definition *Structure
	// Mistakes are those found so far, each place once.
	Mistakes []*syntax.LoadError
	// Beyond counts how often something was read that does not follow from what is submitted: see Part.Beyond.
	Beyond int
	// GaveUp means that something was not looked at, because there was too much.
	GaveUp bool

	kind     string // whose mistakes it finds
	packages binding.TopLevels
	given    Given
	source   []Part                  // of the definition
	own      map[*ast.StructLit]bool // the struct literals of the definition itself, if something is given to it

	variables map[ast.Expr]Value // of comprehensions
	// following are references whose parts are being looked at, to notice what contains itself.
	following map[ast.Expr]bool
	reading   map[ast.Expr]bool // references that are being inferred
	tolerant  int               // it is asked whether something exists
	steps     int
	depth     int
	found     map[string]bool
}

// New returns a reader of a definition at the top of a package, to which nothing is given: object and observed are what
// the definition itself says of them. The kind is that of mistakes.
func New(in *build.Instance, definition, kind string) *Reader {
	r := &Reader{
		kind: kind, packages: make(binding.TopLevels), given: Names{}, variables: make(map[ast.Expr]Value),
		following: make(map[ast.Expr]bool), reading: make(map[ast.Expr]bool), found: make(map[string]bool),
	}
	r.source = r.TopLevel(Part{In: in}, definition)
	r.Definition = r.Gather(r.source)
	return r
}

// Give gives the definition what it reads, from now on: also in the ifs around its fields.
func (r *Reader) Give(given Given) {
	r.given, r.own = given, make(map[*ast.StructLit]bool)
	for _, s := range r.Definition.Literals {
		r.own[s] = true
	}
	r.Quietly(func() { r.Definition = r.Gather(r.source) })
}

// IsOwn reports whether a name refers to a field of the definition itself.
func (r *Reader) IsOwn(e *ast.Ident) bool { return r.own[binding.Of(e).Struct] }

// Forget drops the mistakes that were found.
func (r *Reader) Forget() { r.Mistakes, r.found = nil, make(map[string]bool) }

// IsTolerant reports whether what is inferred need not exist: something asks for that, or has an alternative.
func (r *Reader) IsTolerant() bool { return r.tolerant > 0 }

// Tolerantly does something in which what is inferred need not exist.
func (r *Reader) Tolerantly(do func()) {
	r.tolerant++
	do()
	r.tolerant--
}

// maxSteps bounds how many expressions are checked in one behaviour. A field counts again for each reference to it, so
// large behaviours need more than 100,000. All steps take less than a second. The rest is not checked.
const maxSteps = 1_000_000

// maxDepth bounds how deeply references lead into each other.
const maxDepth = 200

// Report adds a mistake at a place. A place is reported once: the same source may be used by
// several children.
func (r *Reader) Report(check mistake.Check, at ast.Node, format string, args ...any) {
	e, ok := errors.AsType[*syntax.LoadError](syntax.ErrorAtNode(check, at, format, args...))
	if !ok {
		return
	}
	key := fmt.Sprintf("%s:%d:%d", e.File, e.Line, at.Pos().Column())
	if r.found[key] {
		return
	}
	r.found[key] = true
	e.Kind = r.kind
	r.Mistakes = append(r.Mistakes, e)
}

// Enter counts a step into an expression, and reports whether it may be taken: then Leave ends it.
func (r *Reader) Enter() bool {
	r.steps++
	tooMuch := r.steps > maxSteps || r.depth > maxDepth
	r.GaveUp = r.GaveUp || tooMuch
	if !tooMuch {
		r.depth++
	}
	return !tooMuch
}

// Leave ends what Enter began.
func (r *Reader) Leave() { r.depth-- }

// TopLevel returns what a name at the top of a package stands for.
func (r *Reader) TopLevel(p Part, name string) []Part {
	var parts []Part
	for _, f := range r.packages.FieldsOf(p.In)[name] {
		next := p.With(f.Value)
		parts = append(parts, next)
	}
	return parts
}

// Quietly does something of which nothing is reported.
func (r *Reader) Quietly(do func()) {
	mistakes, found := r.Mistakes, r.found
	r.found = make(map[string]bool)
	do()
	r.Mistakes, r.found = mistakes, found
}

// Infer finds out what an expression can be, and reports what is wrong within it.
func (r *Reader) Infer(p Part) Value {
	if !r.Enter() {
		return Unknown
	}
	defer r.Leave()
	switch e := p.Expr.(type) {
	case *ast.ParenExpr:
		return r.Infer(p.With(e.X))
	case *ast.BasicLit:
		if syntax.IsBytes(e) {
			return of(types.Bytes)
		}
		v, err := syntax.LiteralValue(e)
		if err != nil {
			return Unknown
		}
		return literalOf(v)
	case *ast.BottomLit:
		return Unknown
	case *ast.Interpolation:
		return r.interpolation(p, e)
	case *ast.StructLit:
		return Value{Type: types.Of(types.Object), Parts: []Part{p}}
	case *ast.ListLit:
		return Value{Type: types.Of(types.List), Parts: []Part{p}}
	case *ast.Ident:
		return r.identifier(p, e)
	case *ast.SelectorExpr:
		return r.selector(p, e)
	case *ast.IndexExpr:
		return r.index(p, e)
	case *ast.SliceExpr:
		return r.Infer(p.With(e.X))
	case *ast.UnaryExpr:
		return r.unary(p, e)
	case *ast.BinaryExpr:
		return r.binary(p, e)
	case *ast.CallExpr:
		return r.call(p, e)
	}
	return Unknown
}

// Visit reports what is wrong within an expression and all that it contains.
func (r *Reader) Visit(p Part) {
	if !r.Enter() {
		return
	}
	defer r.Leave()
	switch e := p.Expr.(type) {
	case *ast.StructLit:
		s := r.Gather([]Part{p})
		for _, name := range s.Order {
			for _, inner := range s.Fields[name].Parts {
				r.Visit(inner)
			}
		}
		for _, d := range s.Dynamic {
			r.Label(d)
			r.Visit(d.Value)
		}
	case *ast.ListLit:
		for _, item := range r.Items(p, e) {
			r.Visit(item)
		}
	default:
		r.Infer(p)
	}
}

// Items returns the elements of a list, those of comprehensions once.
func (r *Reader) Items(p Part, e *ast.ListLit) (items []Part) {
	for _, element := range e.Elts {
		switch element := element.(type) {
		case *ast.Ellipsis:
		case *ast.Comprehension:
			r.within(p, element.Clauses, func(inner Part) { items = append(items, inner.With(element.Value)) })
		default:
			items = append(items, p.With(element))
		}
	}
	return items
}

func (r *Reader) interpolation(p Part, e *ast.Interpolation) Value {
	for i, element := range e.Elts {
		if i%2 == 0 { // a piece of text
			continue
		}
		inner := r.Infer(p.With(element))
		if inner.Kinds()&^(types.Object|types.List|types.Null) == 0 {
			r.Report(mistake.WrongOperand, p.With(element).Node(), "a string cannot contain %s",
				inner.Describe(element))
		}
	}
	if first, ok := e.Elts[0].(*ast.BasicLit); ok && syntax.IsBytes(first) {
		return of(types.Bytes)
	}
	return of(types.String)
}

// identifier infers what a name stands for.
func (r *Reader) identifier(p Part, e *ast.Ident) Value {
	b := binding.Of(e)
	if v, ok := r.variables[b.Expr]; ok {
		return v
	}
	switch b.Kind {
	case binding.Unbound, binding.Top:
		if fields := r.TopLevel(p, e.Name); len(fields) > 0 {
			return r.reference(p, e, fields)
		}
		return typeNamed(e.Name)
	case binding.Import:
		return Unknown
	case binding.Field:
		if r.own[b.Struct] {
			if v, ok := r.given.Root(p, e); ok {
				return v
			}
			if m := r.Definition.Fields[e.Name]; m != nil {
				return r.reference(p, e, m.Parts) // other conjuncts may add to it
			}
		}
		fields := p.fields(b.Fields(e.Name))
		for i := range fields {
			fields[i].Partial = true // where the struct is unified with others
		}
		return r.reference(p, e, fields)
	default:
		return r.reference(p, e, []Part{p.With(b.Expr)})
	}
}

// reference infers what the parts of a field stand for together.
func (r *Reader) reference(p Part, e ast.Expr, fields []Part) Value {
	if r.reading[e] || len(fields) == 0 {
		return Unknown
	}
	r.reading[e] = true
	defer delete(r.reading, e)
	fields = slices.Clone(fields)
	for i := range fields {
		fields[i] = fields[i].within(p)
		if fields[i].At == nil && p.At != nil {
			fields[i].At = p.At
		}
	}
	if len(fields) == 1 {
		return r.Resolved(fields[0])
	}
	return r.Unified(fields)
}

// Resolved infers one part; what only describes a value has no value.
func (r *Reader) Resolved(p Part) Value {
	v := r.Infer(p)
	if p.Constraint {
		v.Literal, v.IsType = nil, true
	}
	return v
}

// Unified infers what several parts are together.
func (r *Reader) Unified(parts []Part) Value {
	result := Value{Type: types.Unknown, IsType: true}
	var choices []Part // may have fields as well
	var maybe []Value  // each in an if of its own
	isAny := false     // several disjunctions of structs: each combination has the fields of all
	for _, p := range parts {
		v := r.Resolved(p)
		if len(v.Alternatives) > 0 && len(result.Parts) == 0 {
			choices = append(choices, p)
		}
		switch {
		case v.Literal != nil && p.Conditional:
			if !slices.ContainsFunc(maybe, func(other Value) bool { return other.Literal == v.Literal }) {
				maybe = append(maybe, v)
			}
		case v.Literal != nil:
			return v
		case len(v.Parts) > 0:
			if len(result.Parts) > 0 {
				choices = nil // they are in it
			}
			result.Parts = slices.Concat(result.Parts, v.Parts, choices)
			result.Type, result.IsType, result.Alternatives = v.Type, false, nil
		case len(result.Parts) > 0:
			result.Parts = append(result.Parts, p)
		case result.Type == types.Unknown:
			isAny = isAny || len(result.Alternatives) > 0 && len(v.Alternatives) > 0 && v.Kinds()&types.Object != 0
			result.Type, result.Alternatives, result.IsType = v.Type, v.Alternatives, v.IsType
			result.Path, result.Owner, result.Names = v.Path, v.Owner, v.Names
		case len(v.Alternatives) == 0 && v.Type.Values != types.Any && v.Type.Values&result.Type.Values != 0 &&
			result.Type.Fields == nil:
			result.Type = v.Type
		}
	}
	switch {
	case len(maybe) > 0:
		return oneOf(maybe)
	case isAny && len(result.Parts) == 0:
		return Unknown
	}
	return result
}

// Text returns a literal, or an interpolation with its unknown parts replaced; ok is false if
// nothing is known of the text.
func (r *Reader) Text(p Part, replace func(Value) string) (text string, known, ok bool) {
	v := r.Infer(p)
	if literal, ok := v.Literal.(string); ok {
		return literal, true, true
	}
	e, ok := p.Expr.(*ast.Interpolation)
	if !ok {
		return "", false, false
	}
	var b strings.Builder
	for i, element := range e.Elts {
		if i%2 == 1 {
			inner := r.Infer(p.With(element))
			if inner.Literal != nil {
				fmt.Fprint(&b, inner.Literal)
			} else {
				b.WriteString(replace(inner))
			}
			continue
		}
		piece, err := pieceOf(e, i)
		if err != nil {
			return "", false, false
		}
		b.WriteString(piece)
	}
	return b.String(), false, true
}

// pieceOf returns the text before or after the expressions of an interpolation.
func pieceOf(e *ast.Interpolation, i int) (string, error) {
	first, ok1 := e.Elts[0].(*ast.BasicLit)
	last, ok2 := e.Elts[len(e.Elts)-1].(*ast.BasicLit)
	piece, ok3 := e.Elts[i].(*ast.BasicLit)
	if !ok1 || !ok2 || !ok3 {
		return "", errNoText
	}
	_, start, end, err := literal.ParseQuotes(first.Value, last.Value)
	if err != nil {
		return "", err
	}
	text := piece.Value
	if i == 0 {
		text = text[start:]
	} else {
		text = strings.TrimPrefix(text, ")")
	}
	if i == len(e.Elts)-1 {
		text = text[:len(text)-end]
	} else {
		text = strings.TrimSuffix(text, `\(`)
	}
	if strings.Contains(text, `\`) {
		return "", errNoText
	}
	return text, nil
}

var errNoText = errors.New("not understood")
