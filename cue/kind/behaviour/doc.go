// Package behaviour compiles the behaviour of a kind from its syntax, and evaluates it over plain Go values. It is an
// evaluator of CUE, for one purpose: to say in microseconds what CUE's own evaluator would say of a behaviour for one
// object, within a budget.
//
// # The model
//
// Compile turns the syntax into expressions (ir.go) and resolves each name in it, so that nothing is looked up by name
// later. The result is a Program, which never changes. Run gives it an object and what is observed, and returns a
// Value; the parts of it are computed when they are asked for.
//
// Three types share the work. An expression computes its own value (eval), or unifies a node with itself (addTo). A
// node (node.go) collects what it is unified from, and finds its fields or elements. A run is what both are given: the
// budget, the object, what is known already.
//
// What is computed is a node: everything that is unified to one field, as pairs of an expression and the scope (env) in
// which its names are meant. Take this behaviour, for an object with spec.n: 3:
//
//		#XController: {
//			object!: spec: n?: int
//			double: object.spec.n * 2
//			status: {n: double, if double > 4 {large: true}}
//		}
//
//	 1. Lookup("status") makes a node with one conjunct, the literal {n: …, if …}. To expand the node is to note
//	    what the literal declares: the field n, and a comprehension.
//	 2. To list the fields of status, the comprehension has to run: its condition is Binary(double > 4), so the
//	    node double is asked for.
//	 3. The node double has the conjunct Binary(object.spec.n * 2). The node object has two: the literal of the
//	    definition, and the given object, which is data. The node object.spec.n unifies int and 3, which is 3. So
//	    double is 6.
//	 4. 6 > 4, so the literal {large: true} joins status, with a scope of its own. Data returns
//	    {"n": 6, "large": true}.
//
// A node that cannot be computed has a Problem instead of a value, and so has what is computed from it. Something that
// is wrong, such as 1 & 2, counts more than something that is absent. With no spec.n, the Problem of status is
// incomplete, and its Absent says that object.spec.n does not exist; whether large is a field is not known, which is
// not the same as that it is none. The kind decides what to do then: a child stays, a status keeps the field.
//
// What a node is unified with has a turn (queue.go): a literal at once, then references, then disjunctions, then what
// is found with fields of the struct itself, as _sizes[#size] in {#size: string, _sizes[#size]}.
//
// A disjunction multiplies what it is unified with. A node keeps it open, and a product (alternatives.go) tries the
// alternatives of all its disjunctions until one is left, or one default. A definition is closed: closings (closed.go)
// note which literals allow which fields.
//
// Which parts of the object, and of what is observed, any run can read follows from the expressions alone (reads.go).
// Caches keep nothing else.
//
// # What it promises
//
//   - A value is what CUE says, or there is none in both, for the same reason: something is absent, or something is
//     wrong.
//   - Each step is taken from the budget, and each text that is made; a run that exceeds it ends, at the same step
//     everywhere.
//   - A run owns everything that it computes: no node, scope, map or slice that a run writes can be reached from a
//     program, or from another run (TestProgramsHoldNoRun).
//   - Data gives numbers as the API server stores them: 6 for the float 6.0.
//
// # What it leaves out
//
// Compile returns an error for what is not compiled, with its place and what to write instead: fields that refer to
// themselves, functions that are not in functions.go, and what docs/cue.md lists beside them. What is compiled and
// known to differ from CUE is listed there as well.
//
// # How it is proved
//
// CUE's evaluator defines what each expression means. The tests compare the two for each expression that a line of
// oracle_test.go has, for generated expressions, definitions and disjunctions (the tests of this package), and for
// generated kinds (cue/kind/proof, TestGeneratedKinds). TestMutants breaks the evaluator in each place and asks whether
// the comparison notices. vet compares each kind that someone writes (decision 67). With another version of CUE:
//
//	hack/cue-upgrade.sh v0.18.0
package behaviour
