package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
)

// converge decides what an object needs and has apply carry it out, until nothing is left that can be written.
func converge(k *kind.Kind, object *unstructured.Unstructured, v *View, now time.Time, apply func(*Comparison) *Changes) (*Plan, *Outcome) {
	a := NewMemory(object).Rounds(k, object, v, now).Attempt(object, v, now)
	for todo := a.Todo(now); todo != nil; todo = a.Todo(now) {
		a.Done(apply(todo), now)
	}
	return a.Outcome(now)
}
