package syntax

import (
	"strings"
	"sync"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/cuecontext"

	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/binding"
)

// ValueAt returns the CUE of the field of a definition at a JSONPath like ".spec.count"; it does not exist if CUE knows
// the field under a condition only.
func (pkg *Package) ValueAt(name, path string) cue.Value {
	at := pkg.Definition(name)
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "."), ".") {
		var next cue.Value
		for _, label := range []cue.Selector{cue.Str(name), cue.Str(name).Required(), cue.Str(name).Optional()} {
			if next = at.LookupPath(cue.MakePath(label)); next.Exists() {
				break
			}
		}
		at = next
	}
	return at
}

// Contract are the rules that a behaviour is checked against.
type Contract struct {
	Controller                 cue.Value // of the contract
	Decorator, Decorated       cue.Value // of the contract
	PodTemplate, LabelSelector cue.Value // of the library: what may be injected, and where
	Contract                   *build.Instance
}

// Package is a CUE package with kinds, which share all of this.
type Package struct {
	Instance    *build.Instance
	Context     *cue.Context
	Value       cue.Value
	Definitions map[string][]*ast.Field // at the top of its files
	Rules       Contract
	// Proving is held by a proof, which builds the package again.
	Proving *sync.Mutex
}

// Definition returns a definition, given its name without #. That of what a decorator is for, which has none, is in the
// contract.
func (p *Package) Definition(name string) cue.Value {
	if name == "" {
		return p.Rules.Decorated
	}
	return p.Value.LookupPath(cue.MakePath(cue.Def(name)))
}

// InNewContext returns the package for evaluations whose memory is free again when it is dropped. Nothing else may read
// its syntax meanwhile.
func (p *Package) InNewContext() *Package {
	renewed := *p
	context, values, err := BuildPackages([]*build.Instance{p.Instance})
	if err == nil { // it was built before
		renewed.Context, renewed.Value = context, values[0]
	}
	return &renewed
}

// BuildPackages builds packages in one context, of which the first one imports the others. An unresolved reference, for
// example, breaks all of it.
func BuildPackages(instances []*build.Instance) (*cue.Context, []cue.Value, error) {
	defer behaviour.SeparateOperands(filesOf(instances[0]))()
	ctx := cuecontext.New()
	values := make([]cue.Value, len(instances))
	for i, instance := range instances {
		values[i] = ctx.BuildInstance(instance)
		if instance.Err != nil {
			return nil, nil, instance.Err
		}
	}
	return ctx, values, nil
}

// filesOf returns the files of a package and of those that it imports.
func filesOf(instance *build.Instance) (files []*ast.File) {
	binding.EachPackage(instance, func(of *build.Instance) bool {
		files = append(files, of.Files...)
		return true
	})
	return files
}
