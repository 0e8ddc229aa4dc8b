package schema

import (
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/fescue-dev/fescue/cue/kind/budget"
)

// Sampler generates objects for a schema.
type Sampler struct {
	schema *Schema
	places []spot
}

// NewSampler returns a generator of objects for a schema.
func NewSampler(s *Schema) *Sampler {
	p := placeCollector{seen: make(map[any]bool), parent: -1}
	p.schema(s)
	return &Sampler{s, p.places}
}

// Sample returns an object. Most are valid except at one random place, where the
// value is at the edge of what is allowed, or beyond it: an error at one place could hide
// that of another. The checks of the compiled form against CUE's evaluator and against the
// CRD use it.
func (s *Sampler) Sample(random *rand.Rand) map[string]any {
	g := generator{Rand: random, extras: pick(random, []float64{0.1, 0.4, 0.8})}
	switch random.IntN(10) {
	case 0: // nothing is wrong on purpose
	case 1:
		g.noise = 0.1
	default:
		g.focusOn(s.places)
	}
	object, _ := g.value(s.schema, 0).(map[string]any)
	if object == nil {
		object, _ = g.structure(s.schema.Struct, 0).(map[string]any)
	}
	return object
}

const (
	// maxSampleDepth ends schemas that contain themselves.
	maxSampleDepth = 12
	// maxTries bounds the attempts to generate a value that fits.
	maxTries = 20
)

type generator struct {
	*rand.Rand
	noise  float64 // how often a value breaks a rule on purpose
	extras float64 // how often an optional field is set
	// focus is the place that gets a value at the edge: a schema, a field or a struct.
	// way holds it and all that lead to it.
	focus   any
	way     map[any]bool
	structs []map[string]any // around the value, outermost first
	ifs     int              // how many are around the value
}

func (g *generator) chance(p float64) bool { return g.Float64() < p }

func pick[T any](random interface{ IntN(int) int }, from []T) T { return from[random.IntN(len(from))] }

// focusOn chooses one of the places within a schema, each as likely as its weight.
func (g *generator) focusOn(places []spot) {
	chosen := -1
	for i, p := range places {
		if g.IntN(p.weights) < p.weight {
			chosen = i
		}
	}
	g.way = make(map[any]bool)
	if chosen >= 0 {
		g.focus = places[chosen].step
	}
	for i := chosen; i >= 0; i = places[i].parent {
		g.way[places[i].step] = true
	}
}

// spot is a part of a schema: a schema, a field or a struct. parent is the number of the place that
// it is in, or -1.
type spot struct {
	step            any
	parent          int
	weight, weights int // its own, and those of all places so far
}

// placeCollector lists the places within a schema.
type placeCollector struct {
	seen   map[any]bool
	places []spot
	parent int
}

// within adds a place, and what is within it; values offer more to try than other places.
func (p *placeCollector) within(step any, weight int, walk func()) {
	if p.seen[step] {
		return
	}
	p.seen[step] = true
	weights := weight
	if len(p.places) > 0 {
		weights += p.places[len(p.places)-1].weights
	}
	parent := p.parent
	p.parent = len(p.places)
	p.places = append(p.places, spot{step, parent, weight, weights})
	walk()
	p.parent = parent
}

func (p *placeCollector) schema(s *Schema) {
	p.within(s, 1+2*max(1, len(s.rules())), func() {
		for _, a := range s.Alternatives {
			p.schema(a.Schema)
		}
		if s.Items != nil {
			p.schema(s.Items)
		}
		if s.Struct != nil {
			p.structure(s.Struct)
		}
	})
}

func (p *placeCollector) structure(s *StructSchema) {
	p.within(s, 1, func() {
		for _, f := range s.Fields {
			p.within(f, 1, func() { p.schema(f.Schema) })
		}
		for _, l := range s.Labels {
			p.schema(l.Schema)
		}
		for _, c := range s.Conditions {
			p.structure(c.Then)
		}
	})
}

func (g *generator) value(s *Schema, depth int) any {
	if s.Reference != nil {
		s = s.Reference
	}
	if g.focus == s {
		g.focus = nil // one is enough
		return g.edge(s, depth)
	}
	if g.chance(g.noise) {
		return g.any(depth)
	}
	if len(s.Alternatives) > 0 {
		i := slices.IndexFunc(s.Alternatives, func(a Alternative) bool { return g.way[a.Schema] })
		if i < 0 {
			i = g.IntN(len(s.Alternatives))
		}
		return g.value(s.Alternatives[i].Schema, depth)
	}
	if s.Default != nil && g.chance(0.2) {
		return s.Default.Value
	}
	if value, ok := g.related(s, 0); ok {
		return value
	}
	if s.Enum != nil {
		return pick(g, s.Enum.Values)
	}
	value := g.typed(s, g.oneOf(s.Types, depth), depth)
	for range maxTries {
		if s.matchedBy(value) {
			break
		}
		value = g.typed(s, g.oneOf(s.Types, depth), depth)
	}
	return value
}

// matchedBy reports whether a value has as many of several schemas as it must.
func (s *Schema) matchedBy(value any) bool {
	w := walker{where: where{budget: budget.New("")}}
	for i := range s.Matches {
		w.match(&s.Matches[i], value)
	}
	return len(w.found) == 0
}

// related returns a value that satisfies a relation, or is off by a number.
func (g *generator) related(s *Schema, off int64) (any, bool) {
	if len(s.Relations) == 0 {
		return nil, false
	}
	r := pick(g, s.Relations)
	other, how := r.Expr.eval(g.structs)
	n, ok := other.(int64)
	switch {
	case how != known:
		return nil, false
	case !ok:
		return other, off == 0
	case r.Op == ">" || r.Op == "!=":
		n++
	case r.Op == "<":
		n--
	}
	return n + off, true
}

// oneOf picks a type; a value that is nested too deep has nothing in it.
func (g *generator) oneOf(types Types, depth int) Types {
	var all []Types
	for t := Null; t <= Struct; t <<= 1 {
		if types&t != 0 && (depth <= maxSampleDepth || t&(List|Struct) == 0) {
			all = append(all, t)
		}
	}
	if len(all) == 0 {
		return Null
	}
	return pick(g, all)
}

func (g *generator) typed(s *Schema, t Types, depth int) any {
	switch t {
	case Bool:
		return g.chance(0.5)
	case List:
		return g.list(s, depth)
	case Struct:
		return g.structure(s.Struct, depth)
	case Null:
		return nil
	}
	var value any
	for range maxTries {
		switch t {
		case Int:
			value = g.integer(s)
		case Float:
			value = float64(g.integer(s)) + pick(g, []float64{0, 0.5, -0.25})
		case String:
			value = g.text(s)
		}
		if s.scalarFits(value) {
			break
		}
	}
	return value
}

// edge returns a value that may or may not be allowed.
func (g *generator) edge(s *Schema, depth int) any {
	if g.chance(0.4) || s.Types == 0 {
		return g.other(s, depth)
	}
	if value, ok := g.related(s, int64(g.IntN(3))-1); ok && g.chance(0.7) {
		return value
	}
	if len(s.Not) > 0 && g.chance(0.3) {
		return pick(g, s.Not).Value
	}
	if s.Enum != nil && g.chance(0.7) {
		switch value := pick(g, s.Enum.Values).(type) {
		case string:
			return value + pick(g, []string{"x", "x", " "})
		case int64:
			return value + int64(g.IntN(3)) - 1
		default:
			return value
		}
	}
	switch t := g.oneOf(s.Types, depth); t {
	case Int:
		return g.atBound(s)
	case Float:
		return float64(g.atBound(s)) + pick(g, []float64{0, 0, 0.5, -0.25})
	case String:
		return g.edgeText(s)
	case List:
		return g.edgeList(s, depth)
	case Struct:
		return g.edgeStruct(s, depth)
	default:
		return g.typed(s, t, depth)
	}
}

// other returns a value of a type that the schema does not have, or one with parts of two
// alternatives.
func (g *generator) other(s *Schema, depth int) any {
	if len(s.Alternatives) > 0 {
		merged := make(map[string]any)
		for range 2 {
			value := g.value(pick(g, s.Alternatives).Schema, depth)
			object, ok := value.(map[string]any)
			if !ok {
				break
			}
			maps.Copy(merged, object)
		}
		if len(merged) > 0 {
			return merged
		}
		return g.any(depth)
	}
	t := AnyType &^ s.Types
	if t == 0 {
		return g.any(depth)
	}
	// A wrong schema most likely allows values that resemble an allowed type.
	if near := t & (Null | s.Types<<1 | s.Types>>1); near != 0 && g.chance(0.8) {
		t = near
	}
	return g.typed(Anything(s.Position), g.oneOf(t, depth), depth)
}

// any returns a value regardless of any schema.
func (g *generator) any(depth int) any {
	all := []any{
		nil, true, false, int64(0), int64(-1), int64(3), 0.5, 1.0, "", "a", "true", int64(math.MaxInt64), []any{},
		[]any{"a", int64(1)},
		map[string]any{}, map[string]any{"a": "b"},
	}
	if depth > maxSampleDepth {
		return nil
	}
	return pick(g, all)
}

// integer returns a number between the bounds, or a small one, so that two fields that are
// compared with each other are often equal or neighbours.
func (g *generator) integer(s *Schema) int64 {
	near := boundsOf(s)
	if len(near) == 2 && g.chance(0.5) {
		return near[0] + g.Int64N(max(near[1]-near[0], 0)+1)
	}
	if len(near) > 0 && g.chance(0.5) {
		return pick(g, near) + int64(g.IntN(3)) - 1
	}
	return int64(g.IntN(8)) - 2
}

func (g *generator) atBound(s *Schema) int64 {
	if near := boundsOf(s); len(near) > 0 {
		return pick(g, near) + int64(g.IntN(3)) - 1
	}
	return g.integer(s)
}

// boundsOf returns the bounds that numbers can be computed with.
func boundsOf(s *Schema) []int64 {
	var near []int64
	for _, b := range []*Bound{s.Min, s.Max} {
		if b == nil {
			continue
		}
		if f := float(b.Value); math.Abs(f) < 1<<61 {
			near = append(near, int64(f))
		}
	}
	return near
}

// texts are strings that the named checks and formats accept, or nearly so.
var texts = []string{"", "a", "b", "abc", "A", "a b", "é", "0", "1Gi", "500m", "YQ==", "YQ", "2030-01-01T00:00:00Z",
	"2030-01-01T00:00:00.5+01:00",
	"2030-13-01T00:00:00Z", "2030-01-01", "5m", "1.5h", "-3s", "5", "10.0.0.1", "010.0.0.1", "::1", "fe80::1%eth0",
	"10.0.0.0/8", "::/0", "example.com", "example.com.",
	"http://a/b", "/a/b", "%zz", "x=1", strings.Repeat("a", 64), "true", "latest", "a-b.c"}

func (g *generator) text(s *Schema) string {
	text := pick(g, texts)
	if len(s.Patterns) > 0 && g.chance(0.8) {
		text = ""
		for _, p := range s.Patterns {
			if !p.Negated && (text == "" || !p.Regexp.MatchString(text)) {
				text += g.matching(p.Regexp)
			}
		}
	} else if len(s.Checks) > 0 && g.chance(0.8) {
		text = g.passing(s.Checks)
	}
	if s.Length.Min != nil && runes(text) < s.Length.Min.N && s.Length.Min.N <= maxSampleLength {
		text = resized(text, int(s.Length.Min.N))
	}
	return text
}

// maxSampleLength bounds texts that are generated for a length.
const maxSampleLength = 1 << 12

// edgeText returns a text that is as long as it may be, or nearly so, or one that nearly
// matches a pattern.
func (g *generator) edgeText(s *Schema) string {
	text, _ := g.typed(s, String, 0).(string)
	for _, limit := range []*Limit{s.Length.Min, s.Length.Max} {
		if limit != nil && limit.N <= maxSampleLength && g.chance(0.4) {
			return resized(text, int(limit.N)+g.IntN(3)-1)
		}
	}
	if less, ok := g.without(s); ok && g.chance(0.4) {
		text, _ = g.typed(less, String, 0).(string)
	}
	part := pick(g, []string{"x", "-", "\n", " ", "0", "é", "A"})
	switch g.IntN(6) {
	case 0:
		return part + text
	case 1:
		return text + part
	case 2:
		return resized(text, len([]rune(text))-1)
	case 5:
		return part
	case 3:
		return strings.ToUpper(text)
	case 4:
		return pick(g, texts)
	}
	return text
}

// passing returns a text that satisfies all checks, if it finds one.
func (g *generator) passing(checks []Check) string {
	fit := slices.DeleteFunc(slices.Clone(texts), func(text string) bool {
		return slices.ContainsFunc(checks, func(c Check) bool { return !c.Holds(text) })
	})
	if len(fit) == 0 {
		return pick(g, texts)
	}
	return pick(g, fit)
}

// resized repeats or cuts a text so that it is n characters long.
func resized(text string, n int) string {
	if n <= 0 {
		return ""
	}
	all := []rune(text)
	if len(all) == 0 {
		all = []rune("a")
	}
	for len(all) < n {
		all = append(all, all[:min(len(all), n-len(all))]...)
	}
	return string(all[:n])
}

// matching generates a text that a regular expression matches, as far as it can.
func (g *generator) matching(pattern *regexp.Regexp) string {
	parsed, err := syntax.Parse(pattern.String(), syntax.Perl)
	if err != nil {
		return ""
	}
	var b strings.Builder
	g.write(&b, parsed.Simplify())
	return b.String()
}

func (g *generator) write(b *strings.Builder, re *syntax.Regexp) {
	repeat := func(least, most int) {
		for range least + g.IntN(most-least+1) {
			g.write(b, re.Sub[0])
		}
	}
	switch re.Op {
	case syntax.OpLiteral:
		b.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		i := 2 * g.IntN(len(re.Rune)/2)
		low, high := re.Rune[i], min(re.Rune[i+1], re.Rune[i]+40)
		b.WriteRune(low + rune(g.IntN(int(high-low)+1)))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte('x')
	case syntax.OpConcat, syntax.OpCapture:
		for _, sub := range re.Sub {
			g.write(b, sub)
		}
	case syntax.OpAlternate:
		g.write(b, pick(g, re.Sub))
	case syntax.OpStar:
		repeat(0, 3)
	case syntax.OpPlus:
		repeat(1, 3)
	case syntax.OpQuest:
		repeat(0, 1)
	case syntax.OpRepeat:
		repeat(re.Min, max(re.Min, re.Max))
	}
}

// without returns a schema without one rule for strings: a value of it breaks at most that rule.
func (g *generator) without(s *Schema) (*Schema, bool) {
	less := *s
	n := len(s.Patterns) + len(s.Checks)
	if n == 0 {
		return s, false
	}
	if i := g.IntN(n); i < len(s.Patterns) {
		less.Patterns = slices.Delete(slices.Clone(s.Patterns), i, i+1)
	} else {
		i -= len(s.Patterns)
		less.Checks = slices.Delete(slices.Clone(s.Checks), i, i+1)
	}
	return &less, true
}

func (g *generator) list(s *Schema, depth int) []any {
	n := int64(g.IntN(3))
	if g.way[s.Items] {
		n = max(n, 1)
	}
	if limit := s.Size.Max; limit != nil {
		n = min(n, limit.N)
	}
	if limit := s.Size.Min; limit != nil && limit.N < maxSampleItems {
		n = max(n, limit.N)
	}
	return g.items(s, int(n), depth)
}

// maxSampleItems bounds lists and maps that are generated for a size.
const maxSampleItems = 40

// items generates a list; if its items have to differ, it takes some tries.
func (g *generator) items(s *Schema, n, depth int) []any {
	items := s.Items
	if items == nil {
		items = Anything(s.Position)
	}
	list := make([]any, 0, n)
	for range n {
		list = append(list, g.value(items, depth+1))
		for range maxTries {
			w := walker{where: where{budget: budget.New("")}}
			if w.list(&Schema{Unique: s.Unique, Attributes: s.Attributes}, list); len(w.found) == 0 {
				break
			}
			list[len(list)-1] = g.value(items, depth+1)
		}
	}
	return list
}

func (g *generator) edgeList(s *Schema, depth int) []any {
	for _, limit := range []*Limit{s.Size.Min, s.Size.Max} {
		if limit != nil && limit.N < maxSampleItems && g.chance(0.5) {
			return g.items(s, max(0, int(limit.N)+g.IntN(3)-1), depth)
		}
	}
	list := g.items(s, 1+g.IntN(2), depth)
	return append(list, pick(g, list))
}

func (g *generator) structure(s *StructSchema, depth int) any {
	object := make(map[string]any)
	if s == nil {
		if g.chance(0.5) {
			object["any"] = g.any(depth + 1)
		}
		return object
	}
	g.structs = append(g.structs, object)
	g.fields(s, object, depth)
	g.labels(s, object, depth)
	g.structs = g.structs[:len(g.structs)-1]
	isOpenByIf := s.canAllowMore() || g.ifs > 0 && s.isOpen()
	if g.focus == s || g.chance(g.noise/2) || isOpenByIf && g.chance(0.3) {
		object[pick(g, []string{"unknown", "a", "x-y"})] = g.any(depth + 1)
	}
	return object
}

func (g *generator) labels(s *StructSchema, object map[string]any, depth int) {
	for _, label := range s.Labels {
		least := 0
		if g.way[label.Schema] {
			least = 1
		}
		for range least + g.IntN(3) {
			name := pick(g, []string{"a", "b", "ab", "az", "x-y", "key"})
			if label.Regexp != nil && g.chance(0.8) {
				name = g.matching(label.Regexp)
			}
			if s.Field(name) == nil {
				object[name] = g.value(label.Schema, depth+1)
			}
		}
	}
}

// edgeStruct returns a struct with as many fields as there may be, or nearly so.
func (g *generator) edgeStruct(s *Schema, depth int) any {
	object, _ := g.structure(s.Struct, depth).(map[string]any)
	for _, limit := range []*Limit{s.Count.Min, s.Count.Max} {
		if limit == nil || limit.N >= maxSampleItems || g.chance(0.5) {
			continue
		}
		for i := 0; int64(len(object)) < limit.N+int64(g.IntN(3))-1; i++ {
			var value any = "a"
			if s.Struct != nil && len(s.Struct.Labels) > 0 {
				value = g.value(s.Struct.Labels[0].Schema, depth+1)
			}
			object["k"+strconv.Itoa(i)] = value
		}
	}
	return object
}

// fields sets the fields of a struct: first those that others are compared with.
func (g *generator) fields(s *StructSchema, object map[string]any, depth int) {
	for _, related := range []bool{false, true} {
		for _, f := range s.Fields {
			if (len(f.Schema.Relations) > 0) == related && g.present(f, depth) {
				object[f.Name] = g.value(f.Schema, depth+1)
			}
		}
	}
	for _, c := range s.Conditions {
		holds, how := c.When.eval(g.structs)
		if how == known && holds == true || g.focus == c.Then || g.chance(g.noise) {
			g.ifs++
			g.fields(c.Then, object, depth)
			g.labels(c.Then, object, depth)
			g.ifs--
		}
	}
}

// present decides whether a field is set.
func (g *generator) present(f *Field, depth int) bool {
	switch {
	case g.focus == f:
		return f.Presence == Optional
	case g.way[f]:
		return true
	case f.Presence == Required:
		return !g.chance(g.noise)
	}
	return depth <= maxSampleDepth && g.chance(g.extras)
}
