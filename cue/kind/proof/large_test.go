package proof

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind/load"
)

const (
	many = 100_000
	// fewer is how many structs are within the budget in each case.
	fewer = 10_000
	deep  = 10_000
	// nested is how deep the objects are whose schema is read again at each level: work
	// that doubles with each would not end.
	nested = 30
)

// TestLarge gives the compiled form objects that are as large as the API server lets them be. It has no
// clock: what takes time that grows faster than the object would not end, and
// BenchmarkLarge has the figures.
func TestLarge(t *testing.T) {
	t.Parallel()
	for name, l := range largeObjects(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, errs := l.DefaultAndValidate(l.NewBudget(), l.object)
			require.LessOrEqual(t, len(errs), 200)
			require.Equal(t, l.valid, len(errs) == 0, "%v", errs)
			require.Equal(t, l.exceeds, len(errs) == 1 && strings.Contains(errs[0].Detail, "takes more than 500000 steps"), "%v", errs)
			if l.valid { // the limits are for Validate to check
				l.Default(l.object)
			}
		})
	}
}

// BenchmarkLarge validates objects that are as large as the API server lets them be, and
// sets the defaults of the valid ones.
func BenchmarkLarge(b *testing.B) {
	for name, l := range largeObjects(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, errs := l.DefaultAndValidate(l.NewBudget(), l.object); len(errs) > 0 {
					continue
				}
				l.Default(l.object)
			}
		})
	}
}

type large struct {
	load.Draft
	object  map[string]any
	valid   bool
	exceeds bool // the budget
}

func largeObjects(tb testing.TB) map[string]large {
	watcher, big := shippedKind(tb, "Watcher"), loadBig(tb)
	watch := func(spec map[string]any) map[string]any {
		spec["container"] = merged(map[string]any{"name": "a"}, spec["container"])
		return objectOf(watcher, spec)
	}
	container := func(field string, value any) map[string]any {
		return watch(map[string]any{"container": map[string]any{field: value}})
	}
	bigOf := func(field string, value any) map[string]any {
		return objectOf(big, map[string]any{field: value})
	}
	unknown := watch(mapOf(many, func(int) any { return "" }))
	labels := watch(map[string]any{})
	labels["metadata"].(map[string]any)["labels"] = mapOf(many, func(int) any { return "-" })
	return map[string]large{
		"map":              {watcher, watch(map[string]any{"configData": mapOf(many, func(int) any { return "text" })}), true, false},
		"map/wrong":        {watcher, watch(map[string]any{"configData": mapOf(many, func(i int) any { return int64(i) })}), false, false},
		"labels/wrong":     {watcher, labels, false, false},
		"unknown/wrong":    {watcher, unknown, false, false},
		"list":             {watcher, container("args", listOf(many, func(i int) any { return fmt.Sprint(i) })), true, false},
		"list/wrong":       {watcher, container("args", listOf(many, func(i int) any { return int64(i) })), false, false},
		"ports":            {watcher, container("ports", listOf(fewer, func(i int) any { return map[string]any{"containerPort": int64(i + 1)} })), true, false},
		"ports/much":       {watcher, container("ports", listOf(65535, func(i int) any { return map[string]any{"containerPort": int64(i + 1)} })), false, true},
		"ports/wrong":      {watcher, container("ports", listOf(fewer, func(int) any { return map[string]any{"containerPort": int64(1)} })), false, false},
		"ports/wrong/much": {watcher, container("ports", listOf(many, func(int) any { return map[string]any{"containerPort": int64(1)} })), false, true},
		"deep/wrong":       {watcher, watch(map[string]any{"configData": deepIn("a", deep)}), false, false},
		"tree-deep":        {big, bigOf("tree", treeOf(nested)), true, false},
		"tree-deep/wrong":  {big, bigOf("tree", treeOf(deep)), false, false},
		"tree-wide":        {big, bigOf("tree", map[string]any{"children": listOf(fewer, func(int) any { return map[string]any{"leaf": "a"} })}), true, false},
		"tree-wide/much":   {big, bigOf("tree", map[string]any{"children": listOf(many, func(int) any { return map[string]any{"leaf": "a"} })}), false, true},
		"twin":             {big, bigOf("twin", chainOf(nested, func(i int) map[string]any { return map[string]any{"kind": "ab"[i%2 : i%2+1]} })), true, false},
		"twin/wrong":       {big, bigOf("twin", chainOf(nested, func(int) map[string]any { return map[string]any{"kind": "c"} })), false, false},
		"conditions":       {big, bigOf("steps", listOf(fewer, func(int) any { return map[string]any{} })), true, false},
		"conditions/much":  {big, bigOf("steps", listOf(many, func(int) any { return map[string]any{} })), false, true},
		"conditions-deep": {big, bigOf("chain", map[string]any{"mode": "off", "child": map[string]any{
			"mode": "off", "depth": int64(0), "child": chainOf(nested, func(int) map[string]any { return map[string]any{} }),
		}}), true, false},
		"inner":             {big, bigOf("inner", chainOf(10, func(int) map[string]any { return map[string]any{} })), true, false},
		"shapes":            {big, bigOf("shapes", listOf(fewer, func(i int) any { return map[string]any{"kind": "circle", "radius": int64(i)} })), true, false},
		"shapes/much":       {big, bigOf("shapes", listOf(many, func(i int) any { return map[string]any{"kind": "circle", "radius": int64(i)} })), false, true},
		"shapes/wrong":      {big, bigOf("shapes", listOf(fewer, func(i int) any { return map[string]any{"kind": "circle", "radius": fmt.Sprint(i)} })), false, false},
		"shapes/wrong/much": {big, bigOf("shapes", listOf(many, func(i int) any { return map[string]any{"kind": "circle", "radius": fmt.Sprint(i)} })), false, true},
		"unique":            {big, bigOf("unique", listOf(fewer, func(i int) any { return map[string]any{"n": int64(i)} })), true, false},
		"unique/much":       {big, bigOf("unique", listOf(many, func(i int) any { return map[string]any{"n": int64(i)} })), false, true},
		"unique/wrong":      {big, bigOf("unique", listOf(many, func(int) any { return map[string]any{"n": int64(1)} })), false, false},
		"set/wrong":         {big, bigOf("set", listOf(many, func(int) any { return "a" })), false, false},
		"alternatives-20":   {big, bigOf("alternatives", chainOf(20, func(int) map[string]any { return map[string]any{"m": "a"} })), true, false},
	}
}

// loadBig loads a kind with constructs that could take more than linear time.
func loadBig(tb testing.TB) load.Draft {
	source := strings.NewReplacer(
		"ALTERNATIVES", nestedAlternatives(20), "INNER", nestedConditions(10),
	).Replace(`package big

import (
	"list"

	"fescue.dev/cue/contract"
)

#Big: {
	apiVersion!: "large.example.com/v1"
	kind!: "Big"
	metadata!: {...}
	spec!: {
		tree?: #Tree
		twin?: #Twin
		chain?: #Chain
		steps?: [...#Step]
		shapes?: [...#Shape]
		unique?: list.UniqueItems() & [...#Numbered]
		set?: [...string] @kube(listType=set)
		alternatives?: ALTERNATIVES
		inner?: INNER
	}
	status?: contract.#Status
}
#Step: {
	a: *"a" | string
	b?: string
	c?: string
	if a == "a" {b: *"b" | string}
	if b == "b" {c: *"c" | string}
	if c == "c" {d: *"d" | string}
}
#Numbered: n!: int
#Tree: {leaf!: string, weight: *1 | int} | {children!: [...#Tree]}
#Twin: {kind!: "a", child?: #Twin, x: *1 | int} | {kind!: "b", child?: #Twin, y: *2 | int}
#Chain: {
	mode: *"on" | "off"
	child?: #Chain
	depth?: int
	if mode == "on" {depth: *1 | int}
	if child != _|_ if child.depth == 1 {parent: *true | bool}
}
#Shape: {kind!: "circle", radius!: int, colour: *"red" | string} | {kind!: "square", side!: int, colour: *"blue" | string}
#BigController: contract.#Controller & {object!: #Big, names: plural: "bigs"}
`)
	kinds, err := draftsOf(tb, source)
	require.NoError(tb, err)
	return kinds[0]
}

// nestedAlternatives writes disjunctions within each other that are distinguished by
// fields next to the next one.
func nestedAlternatives(depth int) string {
	source := "string"
	for range depth {
		source = `{m!: "a", x: *1 | int, child?: ` + source + `} | {m!: "b", y: *1 | int}`
		source = "(" + source + ")"
	}
	return source
}

// nestedConditions writes structs within each other that all have an if.
func nestedConditions(depth int) string {
	source := "string"
	for i := range depth {
		source = fmt.Sprintf("{m%d: *1 | int, child?: %s, if m%d == 1 {n%d: *1 | int}}", i, source, i, i)
	}
	return source
}

func objectOf(k load.Draft, spec map[string]any) map[string]any {
	apiVersion, name := k.GroupVersionKind.ToAPIVersionAndKind()
	return map[string]any{"apiVersion": apiVersion, "kind": name, "metadata": map[string]any{"name": "a"}, "spec": spec}
}

func mapOf(n int, value func(int) any) map[string]any {
	m := make(map[string]any, n)
	for i := range n {
		m[fmt.Sprintf("key-%06d", i)] = value(i)
	}
	return m
}

func listOf(n int, value func(int) any) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = value(i)
	}
	return list
}

func merged(into map[string]any, from any) map[string]any {
	if m, ok := from.(map[string]any); ok {
		maps.Copy(into, m)
	}
	return into
}

// deepIn returns a struct in a struct in a struct ….
func deepIn(name string, depth int) map[string]any {
	var value any = "end"
	for range depth {
		value = map[string]any{name: value}
	}
	return value.(map[string]any)
}

// treeOf returns a #Tree with two children at each level; one is a leaf.
func treeOf(depth int) map[string]any {
	tree := map[string]any{"leaf": "a"}
	for range depth {
		tree = map[string]any{"children": []any{map[string]any{"leaf": "a"}, tree}}
	}
	return tree
}

// chainOf returns structs that each have the next one as their child.
func chainOf(depth int, value func(int) map[string]any) map[string]any {
	chain := value(0)
	for i := 1; i < depth; i++ {
		next := value(i)
		next["child"] = chain
		chain = next
	}
	return chain
}
