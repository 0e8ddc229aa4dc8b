package behaviour

import (
	"cuelang.org/go/cue/token"
)

// Expr is an expression, or a part of a struct, with its place in the source.
type Expr interface {
	// Pos is the place in the source.
	Pos() token.Pos
}

// at is the place of an expression.
type at struct{ pos token.Pos }

// Pos returns the place in the source.
func (a at) Pos() token.Pos { return a.pos }

// The kinds of values. A set of them is their sum.
const (
	Null Kinds = 1 << iota
	Bool
	Int
	Float
	String
	Bytes
	List
	Struct
	Number = Int | Float
	Any    = Null | Bool | Number | String | Bytes | List | Struct
)

// Kinds is a set of kinds of values.
type Kinds uint16

type (
	// Literal is a constant: nil, bool, int64, *Decimal, string or []byte.
	Literal struct {
		at
		Value any
	}
	// Type is one of CUE's own types, like string, or _ for any value.
	Type struct {
		at
		Kinds Kinds
		// Min and Max are the limits of a sized integer like int32; nil is none.
		Min, Max *Decimal
		// Name is the type in CUE.
		Name string
	}
	// Bottom is _|_.
	Bottom struct{ at }
	// Reference is the name of a field of a struct around the expression, or of its package.
	Reference struct {
		at
		// Up counts the scopes from the innermost one outwards. Structs are scopes, and so are
		// the clauses of comprehensions.
		Up int
		// Name is the field. Hidden names carry their package.
		Name string
		// Text is the reference in CUE.
		Text string
	}
	// Variable is that of a for or let clause, or the name that a pattern gives to a label.
	Variable struct {
		at
		Up    int
		IsKey bool // of a for clause, or of a pattern
		Name  string
	}
	// Self is the value of a field that its own alias names.
	Self struct {
		at
		Up   int
		Name string
	}
	// LetReference is a let clause of a struct literal.
	LetReference struct {
		at
		// Up is how many scopes further out the literal is.
		Up  int
		Let *Let
	}
	// PackageReference is a field at the top of a package.
	PackageReference struct {
		at
		Package *Package
		Name    string
		Text    string

		isRoot bool // the definition of a behaviour is unified with it
	}
	// Selector is X.Name.
	Selector struct {
		at
		X    Expr
		Name string
		Text string
	}
	// Index is X[Index].
	Index struct {
		at
		X, Index Expr
		Text     string
	}
	// Slice is X[Low:High]; Low and High may be nil.
	Slice struct {
		at
		X, Low, High Expr
	}
	// Call is the call of a builtin.
	Call struct {
		at
		Function *Function
		Args     []Expr
		Text     string
	}
	// Builtin is a builtin that is not called: a validator like time.Time.
	Builtin struct {
		at
		Function *Function
	}
	// Unary is an operator before an expression: -, +, !, and the bounds <, <=, >, >=, !=, =~
	// and !~.
	Unary struct {
		at
		Op   token.Token
		X    Expr
		Text string
	}
	// Binary is an operator between two expressions; & unifies them.
	Binary struct {
		at
		Op   token.Token
		X, Y Expr
		Text string
	}
	// Disjunction is a | b, in which * marks defaults.
	Disjunction struct {
		at
		Alternatives []Alternative
		HasDefault   bool
		Text         string

		counts bool // for Ways
	}
	// Alternative is one of a disjunction.
	Alternative struct {
		X       Expr
		Default bool
	}
	// Interpolation is a string or bytes with expressions within it.
	Interpolation struct {
		at
		Parts   []Expr
		IsBytes bool
	}
	// ListLit is a list. Its elements may be comprehensions.
	ListLit struct {
		at
		Elements []Expr
		// Rest describes the further elements of an open list; nil is a closed list.
		Rest Expr

		constant []any // of a closed list of literals
	}
	// StructLit is a struct.
	StructLit struct {
		at
		Fields   []*Field // with names that are known
		Dynamic  []*DynamicField
		Patterns []*Pattern
		// Embeds are embedded values. Comprehensions are apart.
		Embeds         []Expr
		Comprehensions []*Comprehension
		// IsOpen means that it has an ellipsis.
		IsOpen bool

		order  []Expr // of fields, embedded literals and comprehensions
		byName map[string][]*Field
		scalar bool // it may be something else than a struct
	}
	// Let is a let clause of a struct literal. Unlike fields, those of literals that are unified are not.
	Let struct {
		at
		Name  string
		Value Expr
	}
	// Field is a field of a struct.
	Field struct {
		at
		Name  string
		Mode  Mode
		Value Expr
	}
	// DynamicField is a field whose name is computed.
	DynamicField struct {
		at
		Name  Expr
		Mode  Mode
		Value Expr
	}
	// Pattern describes all fields of a struct whose names match.
	Pattern struct {
		at
		Name Expr
		// HasAlias means that Value can refer to the name: it has a scope of its own.
		HasAlias bool
		Value    Expr
	}
	// Comprehension adds its body once for each time that its clauses yield.
	Comprehension struct {
		at
		Clauses []Clause
		Body    Expr
		// names are the fields that it can add; all is any.
		names  map[string]bool
		all    bool
		scalar bool // it may add something else than fields
	}
	// Clause is for, if, or let.
	Clause struct {
		at
		// Kind is token.FOR, token.IF or token.LET.
		Kind       token.Token
		Key, Value string // of for; the variable of let is Value
		X          Expr

		counts bool // for Ways
	}
)

// Mode states whether a field exists.
type Mode int

// Regular fields exist, optional and required ones only describe fields.
const (
	Regular Mode = iota
	Optional
	Required
)

// Package is a CUE package: a struct of its top-level fields.
type Package struct {
	// Path is its import path.
	Path string

	top   *StructLit
	names map[string]bool
	// pending are the fields that nothing has referred to so far.
	pending map[string][]func() *Field
}
