package infer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"

	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// Value is what is known of the value of an expression.
type Value struct {
	// Type is its type, if it is not written in CUE.
	Type *types.Type
	// Parts are what a struct or a list consists of that is written in CUE.
	Parts []Part
	// Literal is the value of a scalar that is known: a string, an int64, a float64 or a bool.
	Literal any
	// Path is where it is read from, as in object.spec.text; Owner has the fields at Names.
	Path, Owner string
	Names       []string
	// IsType means that the source describes values, such as string, instead of being one.
	IsType bool
	// Alternatives are the values that it is one of.
	Alternatives []Value
	// Members is what its fields are called, if a field that it does not have is a mistake: "child".
	Members string
}

// Unknown is a value of which nothing is known.
var Unknown = Value{Type: types.Unknown}

func of(v types.Values) Value { return Value{Type: types.Of(v)} }

func literalOf(v any) Value {
	result := Value{Literal: v}
	switch v.(type) {
	case string:
		result.Type = types.Of(types.String)
	case int64:
		result.Type = types.Of(types.Integer)
	case float64:
		result.Type = types.Of(types.Number)
	case bool:
		result.Type = types.Of(types.Boolean)
	default:
		return of(types.Null)
	}
	return result
}

// oneOf returns a value that is one of some; of nothing, it has no type.
func oneOf(alternatives []Value) Value {
	switch len(alternatives) {
	case 0:
		return Value{}
	case 1:
		return alternatives[0]
	}
	return Value{Type: types.Unknown, Alternatives: alternatives}
}

// Kinds are the kinds of values that it may be.
func (v Value) Kinds() types.Values {
	if len(v.Alternatives) > 0 {
		var all types.Values
		for _, a := range v.Alternatives {
			all |= a.Kinds()
		}
		return all
	}
	return v.Type.Values
}

// Describe returns what a mistake calls a value: its source and its type.
func (v Value) Describe(e ast.Expr) string {
	switch e.(type) {
	case *ast.StructLit:
		return "a struct"
	case *ast.ListLit:
		return "a list"
	}
	kinds := v.Kinds().String()
	if v.Kinds() == types.Bytes {
		switch e.(type) {
		case *ast.BasicLit, *ast.Interpolation:
			kinds += ": write text in double quotes"
		default:
			kinds += ": write hex.Encode(…) or \"\\(…)\" for text"
		}
	}
	return fmt.Sprintf("%s (%s)", syntax.SourceOf(e), kinds)
}

// Article names kinds of values with their article.
func Article(v types.Values) string {
	switch text := v.String(); {
	case v == types.Any || strings.HasPrefix(text, "null"):
		return text
	case text == "int":
		return "an int"
	default:
		return "a " + text
	}
}

// Fits reports whether one of the kinds of values is one of those that are wanted.
func Fits(have, want types.Values) bool {
	if have&types.Integer != 0 && want&types.Number != 0 {
		return true
	}
	return have&want != 0 || have == types.Null
}

// typeNamed returns one of CUE's own types.
func typeNamed(name string) Value {
	if strings.TrimPrefix(name, "__") == "null" {
		return of(types.Null)
	}
	v := Unknown
	if own := behaviour.Predeclared(name); own != nil && own.Kinds != behaviour.Bytes {
		v = of(valuesOf[own.Kinds])
		if own.Kinds == behaviour.Number && own.Min != nil { // float32 and float64 are no integers
			v = of(types.Number)
		}
	}
	v.IsType = true
	return v
}

// valuesOf are the kinds of values that behaviours have names for, too.
var valuesOf = map[behaviour.Kinds]types.Values{
	behaviour.String: types.String, behaviour.Bool: types.Boolean, behaviour.Int: types.Integer,
	behaviour.Float:  types.Number,
	behaviour.Number: types.Integer | types.Number,
}

// DidYouMean suggests the name of a field, or lists all if there are few.
func DidYouMean(name string, t *types.Type) string {
	return types.Suggest(name, slices.Collect(maps.Keys(t.Fields)), 8)
}
