package infer

import (
	"iter"
	"slices"

	"cuelang.org/go/cue/ast"
)

// Together returns which lists of a field exist together. A list in an if is together with those that exist whenever it
// does: without an if, or in some of its own. Others are apart from it, since it may be that only one of them exists.
func Together(lists []Part) (groups [][]Part) {
	conditions := make([][]string, len(lists))
	for i, p := range lists {
		conditions[i] = p.requires()
	}
	// follows means that list j exists whenever list i does.
	follows := func(i, j int) bool {
		return !slices.ContainsFunc(conditions[j], func(c string) bool { return !slices.Contains(conditions[i], c) })
	}
	for i := range lists {
		var group []Part
		inOther := false
		for j, other := range lists {
			if follows(i, j) {
				group = append(group, other)
			}
			inOther = inOther || follows(j, i) && (j < i || !follows(i, j))
		}
		if !inOther {
			groups = append(groups, group)
		}
	}
	return groups
}

// Rows returns the items of list literals that are unified, each with what it is unified from: also what a list says of
// all further items, as in [...{image: "nginx"}]. If there are loops in them, it is not known which items belong
// together: then each is a row of its own, and partial.
func Rows(r *Reader, lists []Part) (rows [][]Part) {
	loops := slices.ContainsFunc(lists, func(p Part) bool {
		list, ok := p.Expr.(*ast.ListLit)
		return ok &&
			slices.ContainsFunc(list.Elts, func(e ast.Expr) bool { _, ok := e.(*ast.Comprehension); return ok })
	})
	for _, p := range lists {
		list, ok := p.Expr.(*ast.ListLit)
		if !ok {
			continue
		}
		for i, item := range r.Items(p, list) {
			switch {
			case len(lists) > 1 && loops:
				item.Partial = true
				rows = append(rows, []Part{item})
			case i < len(rows) && !loops:
				rows[i] = append(rows[i], item)
			default:
				rows = append(rows, []Part{item})
			}
		}
	}
	for _, p := range lists {
		list, ok := p.Expr.(*ast.ListLit)
		if !ok || loops || len(list.Elts) == 0 {
			continue
		}
		if further, ok := list.Elts[len(list.Elts)-1].(*ast.Ellipsis); ok && further.Type != nil {
			for i := len(list.Elts) - 1; i < len(rows); i++ {
				rows[i] = append(rows[i], p.With(further.Type))
			}
		}
	}
	return rows
}

// Items returns the items of a list of structs with their indices; known is false if it may have others. What several
// lists give an item is unified. Lists that may exist without each other, because of ifs around them, have their items
// one after the other.
func (s *Structure) Items(name string) (items iter.Seq2[int, *Structure], known bool) {
	var groups [][]Part
	known = true
	if m := s.Fields[name]; m != nil {
		known = !slices.ContainsFunc(m.Parts, func(p Part) bool { _, isList := p.Expr.(*ast.ListLit); return !isList })
		if known {
			groups = Together(m.Parts)
		}
	}
	return func(yield func(int, *Structure) bool) {
		for _, lists := range groups {
			for i, parts := range Rows(s.reader, lists) {
				item := s.Within(parts)
				item.Open = item.Open || parts[0].Partial
				if !yield(i, item) {
					return
				}
			}
		}
	}, known
}
