package ir

import (
	"math"
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// Sample makes an object that a schema is about: mostly valid, often with values at the
// edges of what is allowed, and now and then with one beyond them. It is what checks of
// the compiled form against CUE's evaluator and against the CRD begin with.
func Sample(s *Schema, random *rand.Rand) map[string]any {
	g := generator{Rand: random, noise: []float64{0, 0, 0.02, 0.1}[random.IntN(4)], extras: []float64{0.1, 0.4, 0.8}[random.IntN(3)]}
	object, _ := g.structure(s.Struct, 0).(map[string]any)
	return object
}

// maxSampleDepth ends schemas that contain themselves.
const maxSampleDepth = 12

type generator struct {
	*rand.Rand
	noise  float64 // how often a value breaks a rule on purpose
	extras float64 // how often an optional field is there
}

func (g *generator) chance(p float64) bool { return g.Float64() < p }

func pick[T any](g *generator, from []T) T { return from[g.IntN(len(from))] }

func (g *generator) value(s *Schema, depth int) any {
	if s.Reference != nil {
		s = s.Reference
	}
	if len(s.Alternatives) > 0 {
		return g.value(pick(g, s.Alternatives).Schema, depth)
	}
	if g.chance(g.noise) {
		return g.any(depth)
	}
	if s.Default != nil && g.chance(0.2) {
		return s.Default.Value
	}
	if s.Enum != nil && g.chance(0.9) {
		return pick(g, s.Enum.Values)
	}
	if len(s.Not) > 0 && g.chance(0.1) {
		return pick(g, s.Not).Value
	}
	return g.typed(s, depth)
}

func (g *generator) typed(s *Schema, depth int) any {
	types := []Types{Null, Bool, Int, Float, String, List, Struct}
	types = slices.DeleteFunc(types, func(t Types) bool { return s.Types&t == 0 || depth > maxSampleDepth && t&(List|Struct) != 0 })
	if len(types) == 0 {
		return nil
	}
	switch pick(g, types) {
	case Bool:
		return g.chance(0.5)
	case Int:
		return g.integer(s)
	case Float:
		n, _ := g.integer(s).(int64)
		return float64(n) + pick(g, []float64{0, 0.5, -0.25})
	case String:
		return g.text(s)
	case List:
		return g.list(s, depth)
	case Struct:
		return g.structure(s.Struct, depth)
	}
	return nil
}

// any is a value that no schema was asked about.
func (g *generator) any(depth int) any {
	all := []any{nil, true, false, int64(0), int64(-1), int64(3), 0.5, 1.0, "", "a", "true", int64(math.MaxInt64), []any{}, []any{"a", int64(1)}, map[string]any{}, map[string]any{"a": "b"}}
	if depth > maxSampleDepth {
		return nil
	}
	return pick(g, all)
}

// integer is a number at or next to a bound, or a small one, so that two fields that
// are compared with each other are often equal or neighbours.
func (g *generator) integer(s *Schema) any {
	var near []int64
	for _, b := range []*Bound{s.Min, s.Max} {
		if b == nil {
			continue
		}
		if f := float(b.Value); math.Abs(f) < 1<<62 {
			near = append(near, int64(f))
		}
	}
	for _, value := range s.scalars() {
		if n, ok := value.(int64); ok && g.chance(0.5) {
			near = append(near, n)
		}
	}
	if len(near) > 0 && g.chance(0.6) {
		return pick(g, near) + int64(g.IntN(3)) - 1
	}
	if len(near) == 2 && s.Min != nil && s.Max != nil {
		return near[0] + g.Int64N(max(near[1]-near[0], 0)+1)
	}
	return int64(g.IntN(8)) - 2
}

// scalars are the values that the schema names.
func (s *Schema) scalars() []any {
	var values []any
	if s.Enum != nil {
		values = append(values, s.Enum.Values...)
	}
	for _, not := range s.Not {
		values = append(values, not.Value)
	}
	return values
}

// texts are strings that the named checks and formats let pass, or nearly so.
var texts = []string{"", "a", "b", "abc", "A", "a b", "é", "0", "1Gi", "500m", "YQ==", "YQ", "2030-01-01T00:00:00Z", "2030-01-01T00:00:00.5+01:00",
	"2030-13-01T00:00:00Z", "2030-01-01", "5m", "1.5h", "-3s", "5", "10.0.0.1", "010.0.0.1", "::1", "fe80::1%eth0", "10.0.0.0/8", "::/0", "example.com", "example.com.",
	"http://a/b", "/a/b", "%zz", "x=1", strings.Repeat("a", 64), "true", "latest", "a-b.c"}

func (g *generator) text(s *Schema) string {
	text := pick(g, texts)
	if len(s.Patterns) > 0 && g.chance(0.9) {
		text = g.matching(pick(g, s.Patterns).Regexp)
	} else if len(s.Checks) > 0 && g.chance(0.8) {
		text = g.passing(s.Checks)
	}
	for _, limit := range []*Limit{s.Length.Min, s.Length.Max} {
		if limit != nil && limit.N < 1<<12 && g.chance(0.3) {
			text = resized(text, int(limit.N)+g.IntN(3)-1)
		}
	}
	return text
}

// passing looks for a text that passes all checks.
func (g *generator) passing(checks []Check) string {
	fit := slices.DeleteFunc(slices.Clone(texts), func(text string) bool {
		return slices.ContainsFunc(checks, func(c Check) bool { return !c.Holds(text) })
	})
	if len(fit) == 0 {
		return pick(g, texts)
	}
	return pick(g, fit)
}

// resized makes a text n characters long by repeating or cutting it.
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

// matching makes a text that a regular expression matches, as far as it can.
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

func (g *generator) list(s *Schema, depth int) any {
	n := g.IntN(3)
	for _, limit := range []*Limit{s.Size.Min, s.Size.Max} {
		if limit != nil && limit.N < 40 && g.chance(0.5) {
			n = max(0, int(limit.N)+g.IntN(3)-1)
		}
	}
	items := s.Items
	if items == nil {
		items = Anything(s.Position)
	}
	list := make([]any, 0, n)
	for range n {
		if len(list) > 0 && g.chance(0.1) {
			list = append(list, pick(g, list))
			continue
		}
		list = append(list, g.value(items, depth+1))
	}
	return list
}

func (g *generator) structure(s *StructSchema, depth int) any {
	object := make(map[string]any)
	if s == nil {
		if g.chance(0.5) {
			object["any"] = g.any(depth + 1)
		}
		return object
	}
	g.fields(s, object, depth)
	if g.chance(g.noise / 2) {
		object["unknown"] = g.any(depth + 1)
	}
	for _, label := range s.Labels {
		for range g.IntN(3) {
			name := pick(g, []string{"a", "b", "ab", "az", "x-y", "key"})
			if label.Regexp != nil && g.chance(0.8) {
				name = g.matching(label.Regexp)
			}
			object[name] = g.value(label.Schema, depth+1)
		}
	}
	return object
}

// isDemanded tells whether an object without the field is not valid.
func (f *Field) isDemanded() bool {
	if f.Presence == Regular {
		_, ok := staticDefault(f.Schema)
		return !ok
	}
	return f.Presence == Required
}

func (g *generator) fields(s *StructSchema, object map[string]any, depth int) {
	for _, f := range s.Fields {
		p := g.extras
		switch {
		case f.isDemanded():
			p = 1 - g.noise
		case depth > maxSampleDepth:
			p = 0
		}
		if g.chance(p) {
			object[f.Name] = g.value(f.Schema, depth+1)
		}
	}
	for _, c := range s.Conditions {
		if g.chance(0.5) {
			g.fields(c.Then, object, depth)
		}
	}
}
