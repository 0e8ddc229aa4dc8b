package behaviour

import (
	"flag"
	"fmt"
	"strings"
	"testing"
)

var closedGenerated = flag.Uint64("closed", 300, "how many behaviours with definitions are generated and compared with CUE's evaluator")

// closed are behaviours with definitions and close(), which admit no other fields.
var closed = []string{
	`#D: {a: int, s: {x: int}}, out: #D & {a: 1, s: x: 1, b: 1}`, `#D: {a: int, s: {x: int}}, out: #D & {a: 1, s: {x: 1, b: 1}}`, `#D: {a: int, s: {x: int}}, out: {#D, a: 1, s: {x: 1}, b: 1}`, `#D: {a: int, s: {x: int}}, out: {#D, a: 1, s: {x: 1, z: 1}, b: 1}`,
	`#D: {a: int}, out: {#D, a: 1, b: 1} & {c: 1}`, `y: {b: 1}, #R: {a: y}, out: #R & {a: c: 1}`, `#T: {a: _}, out: #T & {a: c: 1}`, `#T: {a: {_}}, out: #T & {a: c: 1}`, `#T: {a: _ & {b: 1}}, out: #T & {a: c: 1}`, `#S: {a: {...}}, out: #S & {a: c: 1}`, `#O: {a: int, ...}, out: #O & {a: 1, b: 1}`, `#O: {a: int, b: {c: 1}, ...}, out: #O & {a: 1, b: d: 1}`, `#O: {a: int, ...}, out: #O & {a: 1, b: d: 1}`,
	// A reference to something within a definition closes as well, but not one to what only refers to a definition.
	`#D: {a: int, s: {x: int}}, _a: #D, out: _a & {a: 1, s: x: 1, b: 1}`, `#D: {a: int, s: {x: int}}, _a: #D, out: _a.s & {x: 1, z: 1}`, `#D: {s: {x: int}}, out: #D.s & {x: 1, q: 1}`, `#D: {s: {x: int}}, out: #D.s & {x: 1}`, `#D: {s: {x: int}}, out: #D["s"] & {x: 1, q: 1}`, `#D: {s: [{x: int}]}, out: #D.s[0] & {x: 1, q: 1}`, `#D: {_b: {a: 1}, o: _b & {c: 1}}, out: #D`, `#D: {_b: {a: 1}, o: _b & {c: 1}}, out: #D & {o: d: 1}`, `#D: {_b: {a: 1}, o: _b & {c: 1}}, out: #D.o & {d: 1}`, `#D: {#b: {a: 1}, o: #b & {c: 1}}, out: #D`, `#D: {b: {a: {z: 1}}, o: b.a & {c: 1}}, out: #D`, `_#D: {a: int}, out: _#D & {a: 1, b: 1}`, `_a: {#d: {a: 1}}, out: _a.#d & {b: 1}`, `#D: {a: int}, out: #D & {a: len([1]), b: 1}`, `out: D & {b: 1}
	---
	let D = {a: 1}`, `out: lib.#L & {c: 1}`, `out: lib.#L & {b: 1}`, `out: lib.#A & {x: 1}`, `out: lib.#A & {y: 1}`, `out: #d & {b: 1}
	---
	#d: {a: 1}`,
	// What embeds a definition is closed, and has fields of its own.
	`#D: {a: int}, #E: {#D, b: 1}, out: #E & {a: 1}`, `#D: {a: int}, #E: {#D, b: 1}, out: #E & {a: 1, c: 1}`, `#D: {a: int}, let M = {#D, q: 1}, out: M & {a: 1, r: 1}`, `#D: {a: int}, let M = {#D, q: 1}, out: M & {a: 1}`, `#D: {a: int}, #O: {a: int, ...}, out: {#D & #O, a: 1, b: 1}`, `#D: {a: int}, #E: {s: {#D, e: 1}}, out: #E & {s: {a: 1, e: 1}}`, `#D: {a: int}, #E: {s: {#D, e: 1}}, out: #E & {s: {a: 1, f: 1}}`,
	`#A: {x: {y: int}}, #B: {x: {z: int}}, out: #A & #B & {x: y: 1}`, `#A: {x: {y: int}}, #B: {x: {z: int}}, out: {#A, #B, x: {y: 1, z: 1}}`, `#A: {x: {y: int}}, #B: {x: {z: int}}, out: {#A & #B, x: {y: 1, z: 1}}`, `#A: {x: {y: int}}, _h: {#A, w: 1}, out: _h & {x: y: 1}`, `#A: {x: {y: int}}, _h: {#A, w: 1}, out: {_h, v: 1, x: y: 1}`, `#A: {x: {y: int}}, _h: {#A, w: 1}, out: _h & {v: 1, x: y: 1}`, `#A: {x: {y: int}}, _g: {x: #A}, out: {_g.x, q: 1, x: y: 1}`, `#A: {x: {y: int}}, _g: {x: #A}, out: _g.x & {q: 1, x: y: 1}`, `#A: {x: {y: int}}, _g: {x: #A}, out: {_g, x: {q: 1, x: y: 1}}`,
	`#U: {a: 1, b: {a: 1, s: x: 1}, b: #D}, #D: {a: int, s: {x: int}}, out: {#U, b: c: 1}`, `#U: {a: 1, b: {a: 1, s: x: 1}, b: #D}, #D: {a: int, s: {x: int}}, out: {#U, b: s: c: 1}`, `#D: {a: int}, #Y: {#D, ...}, out: #Y & {a: 1, q: 1}`, `#D: {s: x: int}, #Y: {#D, ...}, out: #Y & {s: {x: 1, q: 1}}`, `#D: {a: int}, out: #D & {#D, a: 1}`, `#D: {a: int}, out: #D & {#D, a: 1, b: 1}`, `#D: {a: int}, out: {#D, #D & {a: 1}, b: 1}`, `#D: {a: int}, #E: #D, out: #E & {#D, a: 1, b: 1}`, `#D: {a: int}, #E: {#D}, out: #E & {a: 1, b: 1}`, `#D: {a: int}, out: #D & {a: 1} & #D`, `#D: {a: int}, out: {{#D}, a: 1, b: 1} & {c: 1}`, `#D: {a: int}, out: {{{#D}, b: 1}, a: 1}`,
	`#A: {x: {y: int}}, out: {if true {#A}, q: 1, x: y: 1}`, `#A: {x: {y: int}}, out: {if true {#A}, x: y: 1} & {q: 1}`, `#A: {x: {y: int}}, out: {if true {q: 1}} & #A`, `#D: {a: int}, out: {for k, v in {z: 1} {#D, a: 1, (k): v}}`, `#I: {a: int, if true {b: 1}}, out: #I & {a: 1, b: 1}`, `#I: {a: int, if true {b: 1}}, out: #I & {a: 1, c: 1}`, `#D: {a: int}, out: {for x in [#D] {x}, b: 1, a: 1}`, `#D: {a: int}, out: [for x in [#D] {x & {a: 1, b: 1}}]`, `#D: {a: int}, out: [for x in [#D] {x, b: 1}]`,
	// close() closes one level.
	`out: close({a: 1, s: {x: 1}}) & {s: y: 1}`, `out: close({a: 1}) & {b: 1}`, `out: {close({a: 1}), b: 1}`, `out: {close({a: 1}), b: 1} & {c: 1}`, `out: {s: close({a: 1, t: {}})} & {s: {t: b: 1}}`, `out: {close({a: 1, s: {}}), s: b: 1} & {s: c: 1}`, `out: close({a: 1, ...}) & {b: 1}`,
	// They choose alternatives.
	`#F: {a: int} | {b: int}, out: #F & {a: 1}`, `#F: {a: int} | {b: int}, out: (#F & {b: 1}).b`, `#Q: string | {a: int}, out: #Q & {b: 1}`, `#D: {a: int}, out: *(#D & {b: 1}) | 5`, `#D: {a: int, s: x: int}, #O: {a: int, s: {...}, ...}, #X: {a: #D | #O}, out: #X & {a: {a: 1, s: x: 1, q: 1}}`, `#N: {x: {y: int} | {z: int}}, out: #N & {x: z: 1}`, `#N: {x: {y: int} | {z: int}}, out: #N.x & {z: 1}`, `#N: {x: [...({y: int} | {z: int})]}, out: #N & {x: [{z: 1}]}`, `#Y: {y: int}, #Z: {z: int}, out: (#Y | #Z) & {z: 1}`, `#Y: {y: int}, #Z: {z: int}, #N: {x: #Y | #Z}, out: #N & {x: z: 1}`, `#Y: {y: int}, #Z: {z: int}, _n: x: #Y | #Z, out: (_n & {x: z: 1}).x.z`, `#Y: {y: int}, #Z: {z: int}, #N: [...(#Y | #Z)], out: #N & [{z: 1}, {y: 1}]`, `#N: x: close({y: int}) | close({z: int}), out: #N & {x: z: 1}`, `#N: {x: {y: int} | {z: int}} | {w: int}, out: #N & {x: z: 1}`, `#N: {x: {k: "a", y: int} | {k: "b", z: int}}, out: #N & {x: {k: "b", y: 1}}`, `#A: {x: {y: int}}, out: (*#A | {q: int}) & {q: 1}`, `#A: {x: {y: int}}, out: (#A | *{q: 3}) & {x: y: 1}`,
	`#D: {a: 1} | {b: 1} | {c: 1}, out: [for x in [{a: 1}, {b: 1}] {#D & x}]`, `#D: {kind: "a", a: int} | {kind: "b", b: int}, out: #D & {kind: "b", a: 1}`, `#D: {git: string} | {oci: string}, out: #D & {git: object.spec.absent}`, `#D: {git: string} | {oci: string}, out: #D & {git: object.metadata.name}`, `#D: *{git: string} | {oci: string}, out: #D & {oci: object.metadata.name}`, `#D: {a: int}, out: or([#D, {b: 1}]) & {b: 1}`, `#D: {a: int}, out: and([#D, {a: 1, b: 1}])`,
	`out: close({a: 1}) | {a: 1}`, `out: close({a: 1}) | close({a: 1})`, `#D: {a: 1}, out: #D | {a: 1}`, `#D: {a: 1, #h: 1}, out: #D | {a: 1, #h: 1}`,
	// Fields that are computed, hidden, described by patterns, or absent so far.
	`#D: {a: int}, out: #D & {a: 1, #h: 1, _h: 1}`, `#P: {[=~"^a"]: int}, out: #P & {b: 1}`, `#P: {[=~"^a"]: int}, out: #P & {ab: 1}`, `#D: {a: int}, out: #D & {a: 1, "\(object.metadata.name)": 1}`, `#D: {a: int}, out: #D & {a: 1, "\(object.spec.s)": 1}`, `#D: {a: int}, out: #D & {a: 1, "\(object.spec.absent)": 1}`, `#D: {a: int}, out: #D & {a: 1, if object.spec.absent {b: 1}}`, `#D: {a: int}, out: #D & {a: 1, if object.spec.b {b: 1}}`, `#I: {a: int, if object.spec.absent {b: int}}, out: #I & {a: 1, b: 1}`, `#D: {a: int}, out: #D & {a: 1, b?: 1}`, `#D: {a?: int}, out: #D & {}`, `#D: {a?: int}, out: #D & {a: 1}`, `#D: {[string]: string}, out: #D & object.spec.map`, `#D: {s: {[string]: string}}, out: #D & {s: object.spec.map}`, `#D: {x: string}, out: #D & object.spec.map`, `#D: {x: string}, out: *(#D & object.spec.map) | "no"`, `#D: {m: object.spec.map}, out: #D & {m: z: "1"}`, `#D: {m: {a: string, b: string}}, out: #D & {m: object.spec.map}`, `#V: [string]: #D, #D: {a: int}, out: #V & {k: {a: 1, q: 1}}`, `#V: [string]: #D, #D: {a: int}, out: #V & {k: {a: 1}}`,
	`#L: [...{a: int}], out: #L & [{b: 1}]`, `#L: [...{a: int}], out: #L & [{a: 1}]`, `#L: [{a: int}], out: #L & [{b: 1}]`, `#D: {a?: #D, n: int}, out: #D & {n: 1, a: {n: 2, a: n: 3}}`, `#D: {a?: #D, n: int}, out: #D & {n: 1, a: {n: 2, a: {n: 3, m: 1}}}`, `#D: {a: int}, #E: {s: #D, t: #D}, out: #E & {s: a: 1, t: a: 2}`, `#D: {a: int}, _c: {a: 1, c: 1}, out: #D & _c`, `#D: {a: int}, #H: {x: #D}, out: #H & {x: {a: 1, q: 1}}`, `#D: {a: int}, out: (#D & {a: 1}) & {q: 1}`, `#D: {a: int}, out: [#D & {a: 1}][0] & {q: 1}`, `#D: {a: int}, _n: {o: #D}, out: _n.o & {a: 1, q: 1}`, `#D: {a: int}, _n: {o: #D}, out: _n & {o: {a: 1, q: 1}}`, `#D: {a: int}, _n: {o: #D & {a: 1}}, out: _n & {p: 1}`,
	`#D: {a: int}, out: (#D & {a: 1, b: 1}) == _|_`, `#D: {a: int}, out: len(#D & {a: 1, b: 1})`, `#D: {a: int}, out: [for k, v in #D & {a: 1, b: 1} {k}]`, `#D: {a: int}, _x: #D & {a: 1, b: 1}, out: _x != _|_`,
}

func TestClosedLikeCUE(t *testing.T) {
	t.Parallel()
	for _, body := range closed {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			o := newOracle(t, packageOf(body))
			o.inFile = true
			o.requireSame(t)
		})
	}
}

// definitions makes behaviours whose values are unified from definitions, and structs with other fields.
type definitions struct {
	picker
	// names are the definitions and hidden fields so far.
	names []string
}

// generatedDefinitions returns a package with definitions.
func generatedDefinitions(seed uint64) string {
	g := &definitions{picker: newPicker(seed, 3)}
	return packageOf(g.behaviour())
}

func (g *definitions) behaviour() string {
	var body []string
	for i := range 2 + g.IntN(4) {
		name := fmt.Sprintf("%s%c", g.pick("#", "#", "_"), 'A'+rune(i))
		value := g.structure(2, g.pick("#", "_"))
		if g.IntN(4) == 0 {
			value = g.value(2)
		}
		if g.IntN(4) == 0 {
			value += " | " + g.structure(1, "#")
		}
		body = append(body, name+": "+value)
		g.names = append(g.names, name)
	}
	return strings.Join(append(body, "out: "+g.value(3)), "\n\t")
}

// structure is a struct; the fields of a definition are types as well.
func (g *definitions) structure(d int, of string) string {
	var parts []string
	for _, name := range []string{"a", "b", "c"} {
		if g.IntN(3) == 0 {
			continue
		}
		value := "1"
		switch {
		case d > 0 && name == "c":
			value = g.pick(g.structure(d-1, of), g.value(d-1), "[1, "+g.value(d-1)+"]")
		case of == "#":
			value = g.pick("int", "1", "_", "number")
			name += g.pick("", "", "?", "!")
		}
		parts = append(parts, name+": "+value)
	}
	if d > 0 && len(g.names) > 0 {
		switch g.IntN(6) {
		case 0, 1:
			parts = append(parts, g.pick(g.names...))
		case 2:
			parts = append(parts, g.value(d-1))
		case 3:
			parts = append(parts, "if "+g.pick("true", "object.spec.b", "object.spec.absent")+" "+g.structure(d-1, of))
		}
	}
	switch g.IntN(12) {
	case 0:
		parts = append(parts, "...")
	case 1:
		parts = append(parts, g.pick(`[=~"^[ab]"]: int`, `[string]: _`, `"\(object.spec.key)": 1`, `"d-\(object.spec.s)": 1`, "_h: 1", "#h: {a: 1}"))
	}
	g.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	if n := len(parts) - 1; n >= 0 {
		for i, part := range parts {
			if part == "..." { // it must be the last
				parts[i], parts[n] = parts[n], parts[i]
			}
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func (g *definitions) value(d int) string {
	if d <= 0 || len(g.names) == 0 {
		return g.structure(0, "_")
	}
	switch g.IntN(10) {
	case 0, 1, 2:
		return g.pick(g.names...) + " & " + g.structure(d-1, "_")
	case 3:
		return "{" + g.pick(g.names...) + ", " + strings.TrimPrefix(g.structure(d-1, "_"), "{")
	case 4:
		return g.pick(g.names...)
	case 5:
		return "(" + g.value(d-1) + " & " + g.value(d-1) + ")"
	case 6:
		return "(" + g.pick("", "*") + g.structure(d-1, "_") + " | " + g.value(d-1) + ")"
	case 7:
		return "close(" + g.structure(d-1, "_") + ")"
	case 8:
		return g.pick(g.names...) + ".c"
	default:
		return g.structure(d-1, "_")
	}
}

// Generated definitions admit the fields that they admit in CUE.
func TestGeneratedDefinitionsLikeCUE(t *testing.T) {
	t.Parallel()
	requireValues(t, *closedGenerated, func(seed uint64) bool {
		source := generatedDefinitions(seed)
		o := newOracle(t, source)
		o.inFile = true
		return o.requireSameOrNone(t, seed, source)
	})
}
