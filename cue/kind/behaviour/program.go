package behaviour

import (
	"errors"
	"fmt"

	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/token"
)

const (
	// maxSteps bounds an evaluation. A step takes about 50 ns, so that an evaluation ends
	// within 100 ms. A set of 10,000 Pods, the most that the contract allows, may take 100 steps
	// for each.
	maxSteps = 1_000_000
	// bytesPerStep is how much text a step may produce: no evaluation produces more than
	// maxSteps times as many bytes.
	bytesPerStep = 64
	// maxDepth bounds how deep values may be within each other. Objects have 128 levels at most.
	maxDepth = 1000
	// maxRepeat is CUE's own limit for the repetition of strings and lists.
	maxRepeat = 1_000_000
)

// Program is the compiled behaviour of a kind. It never changes, and may be used by many
// goroutines at once.
type Program struct {
	pkg  *Package
	name string
}

// Compile compiles a definition of a package. All constructs outside the language are returned as
// joined *Errors.
func Compile(instance *build.Instance, name string) (*Program, error) {
	c := newCompiler()
	pkg := c.open(instance)
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
	return &Program{pkg: pkg, name: name}, nil
}

// Fields returns the declarations of the definition: what is unified to it.
func (p *Program) Fields() []*Field { return p.pkg.top.byName[p.name] }

// Fields returns the declarations of a top-level field that a PackageReference refers to.
func (r *PackageReference) Fields() []*Field { return r.Package.top.byName[r.Name] }

// Value is a part of a behaviour, for one object. It is computed when it is asked for, and is for
// one goroutine.
type Value struct {
	run     *run
	exists  bool
	value   any // a node, or data
	problem *Problem
}

// Run returns the behaviour for an object and its children. Neither is changed.
func (p *Program) Run(object, observed map[string]any) Value {
	r := &run{steps: maxSteps}
	given := map[string]any{"object": object}
	if observed != nil {
		given["observed"] = observed
	}
	root := &node{conjs: []conj{{value: given}}}
	for _, f := range p.Fields() {
		root.conjs = append(root.conjs, conj{x: f.Value, env: r.top(p.pkg).lits[0].env})
	}
	if object != nil {
		root.arcs = append(root.arcs, &arc{"object", &node{up: root, label: "object", conjs: []conj{{value: object}}}})
	}
	return Value{run: r, exists: true, value: root}
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

// Problem returns why the value is not known; nil means nothing so far.
func (v Value) Problem() *Problem { return v.problem }

// Lookup returns a field of a struct. One that does not exist has neither a value nor a problem.
func (v Value) Lookup(names ...string) (found Value) {
	found = v
	defer func() {
		var problem *Problem
		v.guard(&problem)
		if problem != nil {
			found = Value{run: v.run, problem: problem}
		}
	}()
	for _, name := range names {
		if !found.exists {
			return found
		}
		base := found.value
		if n, ok := base.(*node); ok {
			var problem *Problem
			if base, problem = v.run.target(n); problem != nil {
				return Value{run: v.run, problem: problem}
			}
		}
		next := Value{run: v.run}
		switch b := base.(type) {
		case map[string]any:
			next.value, next.exists = fieldOf(b, dataLabel(name))
		case *node:
			if field := v.run.arc(b, dataLabel(name)); field != nil {
				next.value, next.exists = field, true
			} else if next.problem = b.problemOf(dataLabel(name)); next.problem == nil {
				next.problem = b.problem
			}
		}
		found = next
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
	if !v.Exists() || v.problem != nil {
		return nil, v.problem
	}
	value, problem := v.run.valueOf(v.value)
	if problem != nil {
		return nil, problem
	}
	if kindOf(value) != Struct {
		return nil, &Problem{Message: "must be a struct"}
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
	if !v.Exists() || v.problem != nil {
		return nil, v.problem
	}
	value, problem := v.run.valueOf(v.value)
	if problem != nil {
		return nil, problem
	}
	if kindOf(value) != List {
		return nil, &Problem{Message: "must be a list"}
	}
	list, problem := v.run.elements(value)
	for _, element := range list {
		elements = append(elements, Value{run: v.run, exists: true, value: element})
	}
	return elements, problem
}
