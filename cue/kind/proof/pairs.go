package proof

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/check"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
	"github.com/fescue-dev/fescue/internal/parts"
)

// pairs makes objects of a kind, with their children: both evaluators are asked about them (proof.go).
type pairs struct {
	kind *kind.Kind
	// sampled returns an object of the schema, and sample one to compare.
	sampled, sample func(*rand.Rand) map[string]any

	random  *rand.Rand
	texts   []string
	numbers []int64
	// object is the type of the object of a decorator, and children those of what is observed, by name. They are not
	// known where the source does not state them.
	object   *types.Type
	children map[string]*types.Type
	// keepsTypes means that each value has the type that the API server ensures, if it is known. Otherwise types do not
	// matter for one of four pairs: for those that are odd.
	keepsTypes, odd bool
}

// maxInvalid is how many objects in a row may be invalid before there is taken to be no valid one that the
// sampler finds. Three of four are, of most kinds.
const maxInvalid = 200

// maxPartDepth is how deep the parts of a child are nested at most: what is read of a list whose elements are read like
// the list has no end.
const maxPartDepth = 8

// newPairs returns a generator whose texts and numbers are those at the edges of comparisons in the source of the kind,
// among others. They have the types that the source states; those of others than Kubernetes are in known, which may be
// nil.
func newPairs(draft load.Draft, known *types.Catalog) *pairs {
	k := draft.Kind
	p := &pairs{
		kind: k, texts: []string{"", "x", "0", "1", "2", "2030-01-01T00:00:00Z"}, numbers: []int64{-1, 0, 1, 2, 3},
		object: types.Unknown, children: make(map[string]*types.Type),
	}
	if known != nil {
		c := check.New(k, draft.Source, known)
		p.object = c.Object
		for name, child := range c.Children {
			p.children[name] = child.T
		}
	}
	p.sampled = k.Sampler()
	p.sample = p.sampled
	if k.Target != nil {
		p.sample = p.foreign
	}
	syntax.WalkSources(draft.Source.Instance, p.learn)
	return p
}

// learn notes the literals of a source, and those more often that something is compared with.
func (p *pairs) learn(node ast.Node) bool {
	const often = 5
	switch node := node.(type) {
	case *ast.ImportDecl, *ast.Attribute:
		return false
	case *ast.BasicLit:
		p.literal(node, 1)
	case *ast.UnaryExpr:
		p.literal(node.X, often)
	case *ast.BinaryExpr:
		switch node.Op {
		case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
			p.literal(node.X, often)
			p.literal(node.Y, often)
		}
	}
	return true
}

// literal notes a text a number of times, or a whole number and its neighbours if it is more than once.
func (p *pairs) literal(expr ast.Expr, times int) {
	const longText, largeNumber = 40, 1_000_000
	value, err := syntax.LiteralValue(expr)
	if err != nil {
		return
	}
	switch value := value.(type) {
	case string:
		if len(value) <= longText {
			p.texts = append(p.texts, slices.Repeat([]string{value}, times)...)
		}
	case int64:
		if times > 1 && max(value, -value) < largeNumber {
			p.numbers = append(p.numbers, value-1, value, value+1)
		}
	}
}

// next returns a valid object with its defaults, in one of the phases, and its children. Parts of
// what the behaviour reads of them are absent, and some have another type. It returns nothing if it finds no valid
// object.
func (p *pairs) next() (object, observed map[string]any) {
	p.odd = p.random.IntN(4) == 0 && !p.keepsTypes
	object = p.valid()
	if object == nil {
		return nil, nil
	}
	k := p.kind
	if _, isStruct := object["status"].(map[string]any); !isStruct && k.Target == nil {
		delete(object, "status") // the contract says that it is a struct, where the schema does not
	}
	if phases := slices.Sorted(maps.Keys(k.Phases)); len(phases) > 0 && k.Target == nil {
		status, _ := object["status"].(map[string]any)
		status = maps.Clone(status)
		if status == nil {
			status = make(map[string]any)
		}
		status["phase"] = phases[p.random.IntN(len(phases))]
		status["lastPhaseTransitionTime"] = "2030-01-01T00:00:00Z"
		object["status"] = status
	}
	observed = make(map[string]any)
	for _, name := range p.named(k.Reads.Observed) {
		read, child := k.Reads.Observed.AtField(name), cmp.Or(p.children[name], types.Unknown)
		if !k.IsList(name) {
			observed[name] = p.part(read, child, 0)
			continue
		}
		members := make([]any, p.random.IntN(4))
		for i := range members {
			members[i] = p.structure(read.AtElement(), child, 0)
		}
		observed[name] = members
	}
	return object, observed
}

// valid returns an object with its defaults; nil if there seems to be none.
func (p *pairs) valid() map[string]any {
	for range maxInvalid {
		object := p.sample(p.random)
		if len(p.kind.Problems(object)) == 0 {
			return maps.Clone(p.kind.Default(object))
		}
	}
	return nil
}

// foreign returns an object of the type that a decorator is for, as far as the behaviour reads it: the schema has
// only its metadata.
func (p *pairs) foreign(random *rand.Rand) map[string]any {
	object := p.sampled(random)
	for name, value := range p.structure(p.kind.Reads.Object, p.object, 0) {
		read, isStruct := value.(map[string]any)
		if metadata, _ := object[name].(map[string]any); name == "metadata" && isStruct && metadata != nil {
			maps.Copy(metadata, read)
		} else if name != "apiVersion" && name != "kind" && name != "metadata" {
			object[name] = value
		}
	}
	return object
}

// named returns names of fields that are read, and others if any may be.
func (p *pairs) named(r *parts.Set) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
		if p.random.IntN(6) > 0 {
			names = append(names, name)
		}
	}
	if r.Elements != nil || r.Whole {
		for range p.random.IntN(3) {
			names = append(names, p.text())
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// structure is a part that is a struct.
func (p *pairs) structure(r *parts.Set, t *types.Type, depth int) map[string]any {
	object := make(map[string]any)
	for _, name := range p.named(r) {
		object[name] = p.part(r.AtField(name), cmp.Or(t.Field(name), types.Unknown), depth+1)
	}
	return object
}

// part makes a value of a type. A struct has only fields that are read.
func (p *pairs) part(r *parts.Set, t *types.Type, depth int) any {
	if depth > maxPartDepth {
		return p.text()
	}
	if p.odd || t.Values&types.Any == types.Any {
		return p.anything(r, t, depth)
	}
	switch values := t.Values; {
	case values&types.Object != 0 && (len(r.Fields) > 0 || values == types.Object):
		return p.structure(r, t, depth)
	case values&types.List != 0:
		return p.list(r, t, depth)
	case values&types.Integer != 0 && (values&types.String == 0 || p.random.IntN(2) == 0):
		return p.number(t)
	case len(t.Enum) > 0 && p.random.IntN(3) > 0:
		return t.Enum[p.random.IntN(len(t.Enum))]
	case t.Quantity:
		return []string{"0", "100m", "1", "1Gi"}[p.random.IntN(4)]
	case values&types.String != 0:
		return p.text()
	case values&types.Boolean != 0:
		return p.random.IntN(2) == 0
	}
	return p.anything(r, t, depth)
}

// anything is a part whose type is not known.
func (p *pairs) anything(r *parts.Set, t *types.Type, depth int) any {
	if len(r.Fields) > 0 && p.random.IntN(30) > 0 {
		return p.structure(r, t, depth)
	}
	if r.Elements != nil && p.random.IntN(10) > 0 {
		return p.list(r, t, depth)
	}
	switch n := p.random.IntN(20); {
	case n < 10:
		return p.text()
	case n < 15:
		return p.numbers[p.random.IntN(len(p.numbers))]
	case n < 17:
		return p.random.IntN(2) == 0
	case n < 18:
		return float64(p.random.IntN(8)) / 2
	case n < 19 && depth < 5:
		return map[string]any{p.text(): p.part(&parts.Set{}, types.Unknown, depth+1)}
	}
	return nil
}

func (p *pairs) list(r *parts.Set, t *types.Type, depth int) []any {
	list := make([]any, p.random.IntN(4))
	for i := range list {
		list[i] = p.part(r.AtElement(), t.Item(), depth+1)
	}
	return list
}

// number returns a number of the source that a type allows, if there is one.
func (p *pairs) number(t *types.Type) int64 {
	n := p.numbers[p.random.IntN(len(p.numbers))]
	for range 5 {
		if t.OutOfBounds(n) == "" {
			break
		}
		n = p.numbers[p.random.IntN(len(p.numbers))]
	}
	return n
}

func (p *pairs) text() string { return p.texts[p.random.IntN(len(p.texts))] }
