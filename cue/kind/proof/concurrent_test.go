package proof

import (
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"cuelang.org/go/cue/token"
	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/budget"
	"github.com/fescue-dev/fescue/cue/kind/load"
)

// asked is what a kind returns for an object, from everything that reconciles and reviews call.
type asked struct {
	Problems  []kind.Problem
	Defaulted map[string]any
	Decision  *kind.Decision
	Injection *kind.Injection
	Lookups   []kind.Lookup
	Places    kind.Places
	Converted []map[string]any
	Errors    []string
}

// ask asks a kind everything about an object and its children.
func ask(k load.Draft, object, observed map[string]any) *asked {
	a := &asked{Problems: k.Problems(object)}
	note := func(err error) {
		if err != nil {
			a.Errors = append(a.Errors, err.Error())
		}
	}
	a.Defaulted = k.Default(object)
	var err error
	a.Decision, err = k.Decide(k.NewBudget(), object, observed)
	note(err)
	a.Injection, err = k.Injection(k.NewBudget(), object)
	note(err)
	a.Lookups, err = k.LookupsOf(k.NewBudget(), object)
	note(err)
	a.Places, err = k.PlacesOf(k.NewBudget(), object)
	note(err)
	if k.Versions.Converts() {
		for _, v := range k.Versions {
			converted, lost, err := k.Versions.Convert(k.NewBudget(), object, v.GroupVersionKind.GroupVersion().String())
			note(err)
			note(lost.ToAggregate())
			a.Converted = append(a.Converted, converted)
		}
	}
	return a
}

// manyParts has a template that is unified from many literals, so that evaluations append to what
// they collect of one field.
const manyParts = `package kinds

import "fescue.dev/cue/contract"

#Parts: {
	apiVersion!: "parts.example.com/v1"
	kind!:       "Parts"
	metadata!: {...}
	spec!: {secret?: string, items: [...string]}
	status?: contract.#Status
}
#PartsController: contract.#Controller & {
	object!: #Parts
	names: plural: "parts"
	children: c: template: {
		apiVersion: "v1"
		kind:       "ConfigMap"
		if object.spec.secret != _|_ {data: secret: object.spec.secret}
		for i, v in object.spec.items {data: "\(i)": v}
	} & {data: p0: "x"} & {data: p1: "x"} & {data: p2: "x"}
}
`

// question is an object with its children, and what its kind returns for them alone.
type question struct {
	object, observed map[string]any
	alone            uint64
}

// Eight goroutines ask one kind about eight objects at once. Each gets what it would get alone, and
// keeps it: nothing of an evaluation is reachable from another. The race detector watches.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	const askers, rounds = 8, 10
	use := func(t *testing.T, k load.Draft, next func(i int) (object, observed map[string]any)) {
		questions := make([]question, askers)
		for i := range questions {
			object, observed := next(i)
			questions[i] = question{object, observed, deepHash(ask(k, object, observed), false, nil)}
		}
		program := deepHash(programsOf(k), true, nil)
		answers := make([][]*asked, askers)
		var asking sync.WaitGroup
		for i, q := range questions {
			asking.Go(func() {
				for range rounds {
					answers[i] = append(answers[i], ask(k, q.object, q.observed))
				}
			})
		}
		asking.Wait()
		for i, q := range questions {
			for _, answer := range answers[i] {
				require.Equal(t, q.alone, deepHash(answer, false, nil), "%s\nobserved %s", text(q.object), text(q.observed))
			}
		}
		require.Equal(t, program, deepHash(programsOf(k), true, nil), "the compiled form has changed")
	}
	for name, source := range kindSources(t) {
		for _, k := range source.kinds {
			t.Run(name+"/"+k.GroupVersionKind.Kind, func(t *testing.T) {
				t.Parallel()
				p := newLikelyPairs(k, source.samplesOf(k))
				use(t, k, func(i int) (object, observed map[string]any) {
					p.random = rand.New(rand.NewPCG(uint64(i), 3))
					return p.next()
				})
			})
		}
	}
	t.Run("many parts", func(t *testing.T) {
		t.Parallel()
		kinds, err := draftsOf(t, manyParts)
		require.NoError(t, err)
		use(t, kinds[0], func(i int) (object, observed map[string]any) {
			items := make([]any, 200)
			for j := range items {
				items[j] = fmt.Sprintf("%d of %d", j, i)
			}
			return objectOf(kinds[0], map[string]any{"secret": fmt.Sprint("of ", i), "items": items}), map[string]any{}
		})
	})
}

// A program holds no node, scope or run of an evaluation: what one run computes cannot be reached
// from another.
func TestProgramsHoldNoRun(t *testing.T) {
	t.Parallel()
	ofRuns := []string{"behaviour.node", "behaviour.env", "behaviour.run"}
	for name, kinds := range allKinds(t) {
		for _, k := range kinds {
			var held []string
			deepHash(programsOf(k), true, func(t reflect.Type) {
				if slices.Contains(ofRuns, t.String()) {
					held = append(held, t.String())
				}
			})
			require.Empty(t, held, "%s/%s", name, k.GroupVersionKind.Kind)
		}
	}
	// Where one is, it is found.
	reached := make(map[string]bool)
	run := shippedKind(t, "At").Program.Run(budget.New("At"), at, observedPod)
	_, _ = run.Data() // what it computes is looked at, not its result
	deepHash(run, true, func(t reflect.Type) { reached[t.String()] = true })
	for _, name := range ofRuns {
		require.True(t, reached[name], name)
	}
}

// programsOf returns the compiled programs of a kind: of its behaviour and of its conversions.
func programsOf(k load.Draft) []any {
	programs := []any{k.Program}
	for _, v := range k.Versions {
		if v.Conversion != nil {
			programs = append(programs, v.Conversion.Program)
		}
	}
	return programs
}

// deepHash is a hash of a value and of all that it refers to, and visit, if there is one, gets the
// type of each part. With spare, what slices hold beyond their length counts: an append writes there.
func deepHash(value any, spare bool, visit func(reflect.Type)) uint64 {
	hash := fnv.New64a()
	f := &deepWriter{to: hash, spare: spare, visit: visit, seen: make(map[reflect.Value]int)}
	f.add(reflect.ValueOf(value))
	return hash.Sum64()
}

// dumpOf is a value as text, with all that it refers to.
func dumpOf(value any) string {
	var b strings.Builder
	f := &deepWriter{to: &b, seen: make(map[reflect.Value]int)}
	f.add(reflect.ValueOf(value))
	return b.String()
}

// deepWriter writes a value and all that it refers to.
type deepWriter struct {
	to    io.Writer
	spare bool
	visit func(reflect.Type)
	seen  map[reflect.Value]int // pointers and maps, in the order in which they were met
}

func (f *deepWriter) write(parts ...any) { _, _ = fmt.Fprintln(f.to, parts...) }

// isKnown reports whether a pointer or map was met before.
func (f *deepWriter) isKnown(v reflect.Value) bool {
	number, known := f.seen[v]
	if !known {
		number = len(f.seen)
		f.seen[v] = number
	}
	f.write(number)
	return known
}

func (f *deepWriter) add(v reflect.Value) {
	if !v.IsValid() {
		f.write("nil")
		return
	}
	if f.visit != nil {
		f.visit(v.Type())
	}
	f.write(v.Type())
	if v.Type() == reflect.TypeFor[token.Pos]() {
		f.write(v.FieldByName("offset")) // a place in a file of CUE
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && !f.isKnown(v) {
			f.add(v.Elem())
		}
	case reflect.Interface:
		f.add(v.Elem())
	case reflect.Struct:
		for field, value := range v.Fields() {
			f.write(field.Name)
			f.add(value)
		}
	case reflect.Map:
		if v.IsNil() || f.isKnown(v) {
			return
		}
		f.addMap(v)
	case reflect.Slice, reflect.Array:
		f.write(v.Len())
		if f.spare && v.Kind() == reflect.Slice {
			v = v.Slice(0, v.Cap())
		}
		for i := range v.Len() {
			f.add(v.Index(i))
		}
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		f.write(v.IsNil())
	default:
		f.write(v)
	}
}

// addMap adds the entries of a map in the order of their keys, which are texts, numbers or pointers.
func (f *deepWriter) addMap(v reflect.Value) {
	entries := make(map[string]reflect.Value, v.Len())
	for key, value := range v.Seq2() {
		entries[fmt.Sprint(key)] = value
	}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		f.write(key)
		f.add(entries[key])
	}
}
