package schema

import (
	"sync"
	"sync/atomic"

	"github.com/fescue-dev/fescue/cue/kind/budget"
)

const (
	// maxConditions bounds the ifs of one struct: which of them hold is kept as the bits
	// of one word, and people do not read more.
	maxConditions = 16
	// maxRounds bounds how often defaults can bring in an if further up or next to them that
	// brings in defaults; kinds that people write need two or three.
	maxRounds = 64
	// maxVariants bounds how many variants of a struct are kept. Objects of few kinds use
	// more than a handful, but one could be written to use all 2^16.
	maxVariants = 256
	// variantSteps is what it takes to create a variant, for each condition.
	variantSteps = 50
)

// variants are the forms of a struct for its conditions that hold, created when they are
// first needed: n conditions have 2^n of them, and objects use few.
type variants struct {
	base  *StructSchema
	known sync.Map // of uint32 to *variant
	kept  atomic.Int32
}

// variant is the form of a struct where some of its conditions hold.
type variant struct {
	schema *StructSchema
	// impossible is the reason why these conditions contradict each other.
	impossible *Rule
}

func newVariants(s *StructSchema) *variants {
	base := *s
	base.Conditions, base.index, base.variants = nil, nil, nil
	return &variants{base: &base}
}

// with returns the struct where the conditions that are set in mask hold.
func (v *variants) with(b *budget.Budget, conditions []Condition, mask uint32) *variant {
	if found, ok := v.known.Load(mask); ok {
		return found.(*variant)
	}
	b.Take(variantSteps * len(conditions))
	created := &variant{schema: v.base}
	for i, c := range conditions {
		if mask&(1<<i) == 0 {
			continue
		}
		both, impossible := andStructSchemas(created.schema, c.Then)
		created.schema = both
		if impossible != nil && created.impossible == nil {
			created.impossible = impossible
		}
	}
	prepared := &Schema{Types: Struct, Struct: created.schema}
	if mask == 0 {
		copied := *v.base
		prepared.Struct, created.schema = &copied, &copied
	}
	Prepare(prepared)
	if v.kept.Add(1) > maxVariants {
		return created
	}
	found, _ := v.known.LoadOrStore(mask, created)
	return found.(*variant)
}

// holding finds out which conditions hold; structs ends with the struct that they
// stand in. failed are those that cannot be evaluated.
func (s *StructSchema) holding(b *budget.Budget, structs []map[string]any) (mask uint32, failed []failedCondition) {
	for i, c := range s.Conditions {
		b.Take(c.When.steps(structs))
		v, how := c.When.eval(structs)
		holds, isBool := v.(bool)
		switch {
		case how == outside: // unknown
		case how == missing:
			failed = append(failed, failedCondition{c, missing})
		case how == invalid || !isBool:
			failed = append(failed, failedCondition{c, invalid})
		case holds:
			mask |= 1 << i
		}
	}
	return mask, failed
}

type failedCondition struct {
	Condition
	how outcome
}
