package proof

import (
	"flag"
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/format"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

var maxTries = flag.Int("shrinking-tries", 1000, "how many smaller kinds TestGeneratedKinds tries for one that shows a difference")

// shrinker makes a kind small about which CUE and the compiled behaviour differ, with the pair.
type shrinker struct {
	source     string
	kind       load.Draft
	pair       pair
	difference error
	left       int // tries
}

// shrink makes a kind and its pair smaller while they differ as they do.
func shrink(source string, k load.Draft, p pair, difference error) *shrinker {
	s := &shrinker{source, k, p, difference, *maxTries}
	for s.shrinkPair() || s.shrinkSource() { // each shrinks as far as it can
	}
	return s
}

// trySource takes a kind if it differs as before.
func (s *shrinker) trySource(source string) bool {
	if s.left--; s.left < 0 {
		return false
	}
	k, err := loadSource(source)
	if err != nil || !s.try(k, s.pair) {
		return false
	}
	s.source = source
	return true
}

// try takes a kind and a pair if they differ as before.
func (s *shrinker) try(k load.Draft, p pair) bool {
	if len(k.Problems(p.object)) > 0 {
		return false
	}
	p.object = k.Default(p.object)
	v, _, difference := judge(k, p)
	if v != different || formOf(difference) != formOf(s.difference) {
		return false
	}
	s.kind, s.pair, s.difference = k, p, difference
	return true
}

// formOf returns a difference without its values, which tells one from another.
func formOf(difference error) string {
	path, _, _ := strings.Cut(difference.Error(), " ")
	form := path
	for _, part := range []string{"missing for", "for Fescue and missing", "only CUE", "only Fescue", "compiled ! is wrong", "compiled ! waits", "compiled ! does not exist", "CUE ! is wrong", "CUE ! waits", "CUE ! does not exist"} {
		if strings.Contains(difference.Error(), part) {
			form += ", " + part
		}
	}
	return form
}

// shrinkPair removes fields of the object and its children.
func (s *shrinker) shrinkPair() (smaller bool) {
	for _, remove := range removals(s.pair.object) {
		if p := (pair{remove, s.pair.observed}); len(text(remove)) < len(text(s.pair.object)) && s.try(s.kind, p) && len(text(s.pair.object)) == len(text(remove)) {
			return true
		}
	}
	for _, remove := range removals(s.pair.observed) {
		if s.try(s.kind, pair{s.pair.object, remove}) {
			return true
		}
	}
	return false
}

// removals are the structs without one of the fields within a struct.
func removals(of map[string]any) (all []map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		without := maps.Clone(of)
		delete(without, name)
		all = append(all, without)
		if inner, ok := of[name].(map[string]any); ok {
			for _, smaller := range removals(inner) {
				with := maps.Clone(of)
				with[name] = smaller
				all = append(all, with)
			}
		}
	}
	return all
}

// shrinkSource removes declarations and elements, and replaces expressions by parts of them and by constants.
func (s *shrinker) shrinkSource() (smaller bool) {
	file, err := parser.ParseFile("kind.cue", s.source)
	if err != nil {
		return false
	}
	for again := true; again; {
		again = false
		for _, edit := range editsOf(file) {
			undo := edit()
			b, err := format.Node(file)
			if err == nil && len(b) < len(s.source)+20 && string(b) != s.source && s.trySource(string(b)) {
				smaller, again = true, true
				continue
			}
			undo()
		}
	}
	return smaller
}

// edit makes a syntax tree smaller, and returns what undoes it.
type edit func() (undo func())

// editsOf are the ways to make a syntax tree smaller, large ones first.
func editsOf(file *ast.File) (edits []edit) {
	e := &editor{}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.Field); ok && syntax.SourceOf(f.Label) != "#K" { // objects have to stay valid
			e.expr(&f.Value)
		}
	}
	slices.SortStableFunc(e.removals, func(a, b removal) int { return a.depth - b.depth })
	for _, r := range e.removals {
		edits = append(edits, r.edit)
	}
	return append(edits, e.replacements...)
}

// editor collects ways to make a syntax tree smaller.
type editor struct {
	removals     []removal
	replacements []edit
	depth        int
}

// removal leaves out a part of a syntax tree that is so deep in it.
type removal struct {
	edit
	depth int
}

func (e *editor) remove(by edit) { e.removals = append(e.removals, removal{by, e.depth}) }

// replace replaces what a place of a syntax tree holds.
func replace[T any](place *T, by T) edit {
	return func() func() {
		was := *place
		*place = by
		return func() { *place = was }
	}
}

// leaveOut removes an element of a list, if it is still there.
func leaveOut[T comparable](list *[]T, element T) edit {
	return func() func() {
		was := slices.Clone(*list)
		*list = slices.DeleteFunc(slices.Clone(*list), func(e T) bool { return e == element })
		return func() { *list = was }
	}
}

func (e *editor) decls(list *[]ast.Decl) {
	e.depth++
	defer func() { e.depth-- }()
	for i, decl := range *list {
		e.remove(leaveOut(list, decl))
		switch decl := decl.(type) {
		case *ast.Field:
			e.expr(&decl.Value)
			if pattern, ok := decl.Label.(*ast.ListLit); ok && len(pattern.Elts) == 1 {
				e.expr(&pattern.Elts[0])
			}
			if computed, ok := decl.Label.(*ast.ParenExpr); ok {
				e.expr(&computed.X)
			}
		case *ast.EmbedDecl:
			e.expr(&decl.Expr)
		case *ast.LetClause:
			e.expr(&decl.Expr)
		case *ast.Comprehension:
			if body, ok := decl.Value.(*ast.StructLit); ok {
				at := i
				e.remove(func() func() {
					was := *list
					if at >= len(was) || was[at] != ast.Decl(decl) {
						return func() {}
					}
					*list = slices.Concat(was[:at], body.Elts, was[at+1:])
					return func() { *list = was }
				})
			}
			e.comprehension(decl)
		}
	}
}

func (e *editor) comprehension(c *ast.Comprehension) {
	if len(c.Clauses) > 1 {
		for _, clause := range c.Clauses {
			e.remove(func() func() {
				if len(c.Clauses) == 1 {
					return func() {}
				}
				return leaveOut(&c.Clauses, clause)()
			})
		}
	}
	for _, clause := range c.Clauses {
		switch clause := clause.(type) {
		case *ast.IfClause:
			e.expr(&clause.Condition)
		case *ast.ForClause:
			e.expr(&clause.Source)
		case *ast.LetClause:
			e.expr(&clause.Expr)
		}
	}
	if body, ok := c.Value.(*ast.StructLit); ok {
		e.decls(&body.Elts)
	}
}

// constantsOfEdits replace expressions.
var constantsOfEdits = []func() ast.Expr{
	func() ast.Expr { return ast.NewString("a") },
	func() ast.Expr { return ast.NewLit(token.INT, "1") },
	func() ast.Expr { return ast.NewBool(true) },
	func() ast.Expr { return &ast.ListLit{} },
	func() ast.Expr { return ast.NewStruct() },
}

// expr collects the ways to make an expression smaller: by a part of it, or a constant.
func (e *editor) expr(place *ast.Expr) {
	var parts []*ast.Expr
	switch x := (*place).(type) {
	case *ast.BasicLit, *ast.Ident:
		return
	case *ast.StructLit:
		e.decls(&x.Elts)
		return
	case *ast.Comprehension:
		e.comprehension(x)
		if body, ok := x.Value.(*ast.StructLit); ok && len(body.Elts) == 1 {
			if embedded, ok := body.Elts[0].(*ast.EmbedDecl); ok {
				e.replacements = append(e.replacements, replace(place, embedded.Expr))
			}
		}
		return
	case *ast.ListLit:
		for i := range x.Elts {
			e.remove(leaveOut(&x.Elts, x.Elts[i]))
			parts = append(parts, &x.Elts[i])
		}
	case *ast.BinaryExpr:
		parts = append(parts, &x.X, &x.Y)
	case *ast.UnaryExpr:
		parts = append(parts, &x.X)
	case *ast.ParenExpr:
		parts = append(parts, &x.X)
	case *ast.CallExpr:
		for i := range x.Args {
			parts = append(parts, &x.Args[i])
		}
	case *ast.IndexExpr:
		parts = append(parts, &x.X, &x.Index)
	case *ast.SliceExpr:
		parts = append(parts, &x.X)
	case *ast.Interpolation:
		for i := 1; i < len(x.Elts); i += 2 {
			parts = append(parts, &x.Elts[i])
		}
	}
	for _, constant := range constantsOfEdits {
		e.replacements = append(e.replacements, replace(place, constant()))
	}
	for _, part := range parts {
		if _, isElement := (*part).(*ast.Comprehension); !isElement {
			e.replacements = append(e.replacements, replace(place, *part))
		}
		e.expr(part)
	}
}
