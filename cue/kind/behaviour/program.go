package behaviour

import (
	"errors"
	"fmt"

	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind/budget"
)

const (
	// bytesPerStep is how much text a step may read or produce: no evaluation produces more than
	// budget.Steps times as many bytes.
	bytesPerStep = budget.BytesPerStep
	// partsPerStep is how many parts of a struct are looked at in a step.
	partsPerStep = 64
	// maxDepth bounds how deep values may be within each other. Objects have 128 levels at most.
	maxDepth = 1000
	// maxRepeat is CUE's own limit for the repetition of strings and lists.
	maxRepeat = 1_000_000
)

// Program is the compiled behaviour of a kind. It never changes, and may be used by many
// goroutines at once: all that a run computes belongs to that run alone, and nothing of it can be
// reached from a program (TestProgramsHoldNoRun).
type Program struct {
	pkg   *Package
	name  string
	given []string
	// forks are those of the package, and ways notes where runs go if there is one.
	forks []token.Pos
	ways  *Ways
}

// Compile compiles the behaviour of a kind, which is a definition of a package. All constructs outside
// the language are returned as joined *Errors.
func Compile(instance *build.Instance, name string) (*Program, error) {
	return CompileGiven(instance, name, ObjectName, ObservedName, IndexName)
}

// CompileGiven compiles a definition some of whose fields are given to each run: RunGiven.
func CompileGiven(instance *build.Instance, name string, given ...string) (*Program, error) {
	c := newCompiler()
	c.given = given
	pkg := c.open(instance)
	c.own = pkg
	c.roots[root{pkg, name}] = true
	if !c.use(pkg, name) {
		return nil, fmt.Errorf("%s does not exist", name)
	}
	c.finish()
	errs := make([]error, len(c.errors))
	for i, err := range c.errors {
		errs[i] = err
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return &Program{pkg: pkg, name: name, given: given, forks: c.forks}, nil
}

// Value is a part of a behaviour, for one object. It is computed when it is asked for, and is for
// one goroutine.
type Value struct {
	run     *run
	exists  bool
	value   any // a node, or data
	problem *Problem
}

// Run returns the behaviour for an object and its children. Neither is changed. The steps of computing its
// parts are taken from the budget.
func (p *Program) Run(b *budget.Budget, object, observed map[string]any) Value {
	return p.RunGiven(b, object, observed, nil)
}

// Member returns the whole behaviour again, for the member of a set with a number.
func (v Value) Member(index int) Value {
	return v.run.program.RunGiven(v.run.budget, v.run.values[0], v.run.values[1], int64(index))
}

// RunGiven returns the definition unified with what is given to it, in the order of CompileGiven;
// nil is not known. Nothing of it is changed. The steps of computing its parts are taken from the budget.
func (p *Program) RunGiven(b *budget.Budget, values ...any) Value {
	r := &run{program: p, values: values, meter: meter{budget: b}}
	given := make(map[string]any, len(values))
	for i, name := range p.given {
		if values[i] != nil {
			given[name] = values[i]
		}
	}
	scope := r.top(p.pkg).lits[0].env
	top := &node{conjs: []conj{{value: given}}}
	for _, f := range p.pkg.top.byName[p.name] {
		top.conjs = append(top.conjs, conj{x: f.Value, env: scope})
	}
	return Value{run: r, exists: true, value: top}
}

// guard turns an exceeded budget into a problem.
func (v Value) guard(problem **Problem) {
	switch p := recover().(type) {
	case nil:
	case exhausted:
		path := ""
		if n, ok := v.value.(*node); ok {
			path = n.path()
		}
		*problem = &Problem{Path: path, At: token.NoPos, Message: p.reason}
		v.run.depth = 0
	default:
		panic(p)
	}
}

// Exists reports whether there is a value, or a problem.
func (v Value) Exists() bool { return v.exists || v.problem != nil }

// Lookup returns a field of a struct. One that does not exist has neither a value nor a problem.
func (v Value) Lookup(names ...string) Value {
	for _, name := range names {
		v = v.field(dataLabel(name))
	}
	return v
}

func (v Value) field(name string) (found Value) {
	if !v.exists {
		return v
	}
	found.run = v.run
	defer v.guard(&found.problem)
	base := v.value
	if n, ok := base.(*node); ok {
		if base, found.problem = n.target(v.run); found.problem != nil {
			return found
		}
	}
	switch b := base.(type) {
	case map[string]any:
		found.value, found.exists = fieldOf(b, name)
	case *node:
		if field := b.arc(v.run, name); field != nil {
			found.value, found.exists = field, true
		} else if found.problem = b.problemOf(name); found.problem == nil {
			found.problem = b.problem
		}
	}
	return found
}

// Data computes the value and all that is in it: structs, lists, strings, int64, float64, bool and
// nil.
func (v Value) Data() (data any, problem *Problem) {
	defer v.guard(&problem)
	if !v.Exists() || v.problem != nil {
		return nil, v.problem
	}
	return v.run.export(v.value)
}

// Fields returns the names of the fields of a struct, and why there may be others.
func (v Value) Fields() (names []string, problem *Problem) {
	defer v.guard(&problem)
	value, problem := v.must(Struct)
	if value == nil || problem != nil {
		return nil, problem
	}
	labels, problem := v.run.names(value)
	for _, label := range labels {
		names = append(names, shown(label))
	}
	return names, problem
}

// Elements returns the elements of a list.
func (v Value) Elements() (elements []Value, problem *Problem) {
	defer v.guard(&problem)
	value, problem := v.must(List)
	if value == nil || problem != nil {
		return nil, problem
	}
	list, problem := v.run.elements(value)
	for _, element := range list {
		elements = append(elements, Value{run: v.run, exists: true, value: element})
	}
	return elements, problem
}

// must computes a value that has to be a struct, or a list; nil if it does not exist.
func (v Value) must(kind Kinds) (any, *Problem) {
	if !v.exists || v.problem != nil {
		return nil, v.problem
	}
	value, problem := v.run.structure(v.value)
	switch {
	case problem != nil:
		return nil, problem
	case kindOf(value) != kind:
		return nil, &Problem{Message: "must be a " + kind.String()}
	}
	return value, nil
}

// Positions are where the value is written: the places of all that is unified to it.
func (v Value) Positions() (places []token.Pos) {
	if n, ok := v.value.(*node); ok {
		for _, c := range n.conjs {
			if c.x != nil {
				places = append(places, c.x.Pos())
			}
		}
	}
	return places
}

// IsStruct reports whether the value is a struct.
func (v Value) IsStruct() (is bool) {
	var problem *Problem
	defer v.guard(&problem)
	if !v.exists {
		return false
	}
	value, _ := v.run.structure(v.value)
	return value != nil && kindOf(value) == Struct
}

// Fits returns why data does not fit what the behaviour declares of it: a wrong type or value, or
// a field that a declared struct does not have.
func (v Value) Fits() (problem *Problem) {
	defer v.guard(&problem)
	n, ok := v.value.(*node)
	if !ok || !v.exists || v.problem != nil {
		return v.problem
	}
	return n.fits(v.run)
}

func (n *node) fits(r *run) *Problem {
	value, problem := n.value(r)
	if problem != nil && !problem.IsIncomplete {
		return problem
	}
	n, ok := value.(*node)
	if !ok || problem != nil {
		return nil
	}
	if kindOf(n) == List {
		length, problem := r.length(n)
		if problem != nil {
			return problem
		}
		for i := range length {
			if element, ok := r.element(n, i).(*node); ok {
				if problem := element.fits(r); problem != nil {
					return problem
				}
			}
		}
		return nil
	}
	names, problem := n.fields(r)
	for _, name := range names {
		if field := n.arc(r, name); field != nil && problem == nil {
			problem = field.fits(r)
		}
	}
	return problem
}

// Guards returns why a struct may have other fields, or a list other elements: what their ifs and
// loops read.
func (v Value) Guards() (problem *Problem) {
	defer v.guard(&problem)
	if !v.exists || v.problem != nil {
		return v.problem
	}
	n, ok := v.value.(*node)
	if !ok {
		return nil
	}
	value, problem := n.target(v.run)
	if problem != nil {
		return problem
	}
	if n, ok = value.(*node); !ok {
		return nil
	}
	if len(n.lists) > 0 {
		_, problem = v.run.length(n)
		return problem
	}
	if _, problem = n.fields(v.run); problem != nil {
		return problem
	}
	return n.problem
}
