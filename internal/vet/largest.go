package vet

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
)

const (
	// largeObjects is how many objects of a kind are made as large as its schema allows.
	largeObjects = 2
	// sampledObjects is how many objects are made to find valid ones among them.
	sampledObjects = 100
)

// largest advises on a schema that allows objects for which the behaviour has to compute more than it may: such an
// object is stored, and stalled. Texts and maps are those of samples, and there are no children yet.
func largest(k *kind.Kind) (kind.Advice, bool) {
	if k.Target != nil {
		return kind.Advice{}, false // the schema is somebody else's
	}
	random, sample := rand.New(rand.NewPCG(1, 1)), k.Sampler()
	for tried, grown := 0, 0; tried < sampledObjects && grown < largeObjects; tried++ {
		object := sample(random)
		delete(object, "status")
		if len(k.Problems(object)) > 0 {
			continue
		}
		grown++
		skip := make(map[string]bool)
		raised, exceeds := grownTo(k, object, skip)
		if !exceeds {
			continue
		}
		for _, one := range raised {
			skip[one] = true
			if fewer, exceeds := grownTo(k, object, skip); exceeds {
				raised = fewer
			} else {
				delete(skip, one)
			}
		}
		excess, _, _ := strings.Cut(k.NewBudget().Excess(), ":")
		return kind.Advice{
			Check: mistake.BeyondBudget, Field: "spec", Position: k.Compiled.Position,
			Text: fmt.Sprintf("an object with %s is stalled, since %s: lower the limits, or compute less",
				strings.Join(raised, ", "), excess),
		}, true
	}
	return kind.Advice{}, false
}

// grownTo returns what is raised in an object to make it as large as its schema allows, but for what to skip, and
// whether the behaviour exceeds its budget then.
func grownTo(k *kind.Kind, object map[string]any, skip map[string]bool) (raised []string, exceeds bool) {
	object = runtime.DeepCopyJSON(k.Default(object))
	raised = k.Grow(object, skip, func() bool { return len(k.Problems(object)) == 0 })
	b := k.NewBudget()
	_, err := k.Decide(b, k.Default(object), nil)
	return raised, err != nil && b.IsExceeded()
}
