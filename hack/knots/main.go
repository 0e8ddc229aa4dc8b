// Command knots measures how the files of each package refer to each other, and fails where too many do.
//
// An arrow is a file that names something that another file of its package declares: a type, a function, a method, a
// field. A knot is a set of files that reach each other along arrows: none of them can be read, or moved, without the
// others. The output has a line for each package, with its largest knot, and the types with the most methods. Tests do
// not count.
package main

import (
	"fmt"
	"go/ast"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

const (
	// maxKnot is how many files of a package may reach each other, and maxMethods how many methods a type may have.
	maxKnot    = 15
	maxMethods = 40
	// shownTypes is how many types are listed.
	shownTypes = 10
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: knots DIR PATTERN...")
		os.Exit(2)
	}
	failures, err := run(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "knots:", err)
		os.Exit(2)
	}
	for _, failure := range failures {
		fmt.Fprintln(os.Stderr, failure)
	}
	if len(failures) > 0 {
		os.Exit(1)
	}
}

// run prints the figures of the packages in a folder that match patterns, and returns what is beyond a limit.
func run(dir string, patterns []string) (failures []string, err error) {
	loaded, err := packages.Load(&packages.Config{
		Dir: dir,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes |
			packages.NeedTypesInfo | packages.NeedImports,
	}, patterns...)
	if err != nil {
		return nil, err
	}
	var all []*pkg
	for _, l := range loaded {
		if len(l.Errors) > 0 {
			return nil, l.Errors[0]
		}
		all = append(all, newPackage(l))
	}
	slices.SortStableFunc(all, func(a, b *pkg) int { return len(b.knot()) - len(a.knot()) })
	fmt.Printf("%-56s %5s %6s %6s  %s\n", "package", "files", "lines", "arrows", "largest knot")
	var files, lines int
	var methods []methodSet
	for _, p := range all {
		knot := p.knot()
		fmt.Printf("%-56s %5d %6d %6d  %2d %s\n", p.path, len(p.files), p.lines, p.arrows(), len(knot),
			strings.Join(knot, " "))
		if len(knot) > maxKnot {
			failures = append(failures, fmt.Sprintf("%s: %d files reach each other, and %d may", p.path, len(knot),
				maxKnot))
		}
		files, lines, methods = files+len(p.files), lines+p.lines, append(methods, p.methods...)
	}
	fmt.Printf("%-56s %5d %6d\n\n", "all", files, lines)
	slices.SortStableFunc(methods, func(a, b methodSet) int { return b.count - a.count })
	for i, m := range methods {
		if i < shownTypes {
			fmt.Printf("%3d methods in %2d files  %s\n", m.count, m.files, m.name)
		}
		if m.count > maxMethods {
			failures = append(failures, fmt.Sprintf("%s: it has %d methods, and %d may be", m.name, m.count,
				maxMethods))
		}
	}
	return failures, nil
}

// methodSet is how many methods a type has, and in how many files.
type methodSet struct {
	name         string
	count, files int
}

// pkg is a package without its tests.
type pkg struct {
	path    string
	lines   int
	files   []string       // their names
	refers  []map[int]bool // the files that each file refers to
	index   map[string]int // of each file, by its path
	methods []methodSet
}

func newPackage(l *packages.Package) *pkg {
	p := &pkg{path: l.PkgPath, index: make(map[string]int)}
	for _, file := range l.Syntax {
		path := l.Fset.Position(file.Package).Filename
		p.index[path] = len(p.files)
		p.files = append(p.files, filepath.Base(path))
		p.refers = append(p.refers, make(map[int]bool))
		p.lines += l.Fset.File(file.Package).LineCount()
	}
	fileOf := func(o types.Object) int { return p.index[l.Fset.Position(o.Pos()).Filename] }
	for from, file := range l.Syntax {
		ast.Inspect(file, func(n ast.Node) bool {
			ident, ok := n.(*ast.Ident)
			if o := l.TypesInfo.Uses[ident]; ok && o != nil && o.Pkg() == l.Types && isShared(o) {
				if to := fileOf(o); to != from {
					p.refers[from][to] = true
				}
			}
			return true
		})
	}
	for _, name := range l.Types.Scope().Names() {
		if named, ok := l.Types.Scope().Lookup(name).Type().(*types.Named); ok && named.Obj().Pkg() == l.Types &&
			named.Obj().Name() == name {
			in := make(map[int]bool)
			for m := range named.Methods() {
				in[fileOf(m)] = true
			}
			p.methods = append(p.methods, methodSet{l.PkgPath + "." + name, named.NumMethods(), len(in)})
		}
	}
	return p
}

// isShared reports whether all files of a package see an object: it is declared at the top of a file, or is a method or
// a field.
func isShared(o types.Object) bool {
	switch o := o.(type) {
	case *types.Var:
		return o.IsField() || o.Parent() == o.Pkg().Scope()
	case *types.Func:
		return true
	}
	return o.Parent() == o.Pkg().Scope()
}

func (p *pkg) arrows() (n int) {
	for _, to := range p.refers {
		n += len(to)
	}
	return n
}

// knot returns the files of the largest knot; nil if no two files reach each other.
func (p *pkg) knot() (largest []string) {
	reached := make([]map[int]bool, len(p.files))
	for from := range p.files {
		reached[from] = make(map[int]bool)
		p.reach(from, reached[from])
	}
	for a := range p.files {
		var knot []string
		for b := range p.files {
			if a == b || reached[a][b] && reached[b][a] {
				knot = append(knot, p.files[b])
			}
		}
		if len(knot) > max(1, len(largest)) {
			largest = knot
		}
	}
	return largest
}

// reach adds the files that a file reaches.
func (p *pkg) reach(from int, reached map[int]bool) {
	for to := range p.refers[from] {
		if !reached[to] {
			reached[to] = true
			p.reach(to, reached)
		}
	}
}
