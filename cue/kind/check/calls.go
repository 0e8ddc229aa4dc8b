package check

import (
	"errors"
	"fmt"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"

	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// signature is what a builtin takes and returns. A letter stands for a type: s string, i int,
// n number, b bool, l list, m struct, a anything; ls is a list of strings.
type signature struct{ args, result string }

// builtins are those that behaviours use. Others take and return anything.
var builtins = map[string]signature{
	"len": {"a", "i"}, "div": {"ii", "i"}, "mod": {"ii", "i"}, "quo": {"ii", "i"}, "rem": {"ii", "i"},
	"strings.ToUpper": {"s", "s"}, "strings.ToLower": {"s", "s"}, "strings.ToTitle": {"s", "s"}, "strings.ToCamel": {"s", "s"},
	"strings.TrimSpace": {"s", "s"}, "strings.Trim": {"ss", "s"}, "strings.TrimLeft": {"ss", "s"}, "strings.TrimRight": {"ss", "s"},
	"strings.TrimPrefix": {"ss", "s"}, "strings.TrimSuffix": {"ss", "s"}, "strings.Replace": {"sssi", "s"},
	"strings.Split": {"ss", "ls"}, "strings.SplitN": {"ssi", "ls"}, "strings.Fields": {"s", "ls"}, "strings.Join": {"ls", "s"},
	"strings.Contains": {"ss", "b"}, "strings.HasPrefix": {"ss", "b"}, "strings.HasSuffix": {"ss", "b"},
	"strings.Index": {"ss", "i"}, "strings.Count": {"ss", "i"}, "strings.Repeat": {"si", "s"}, "strings.SliceRunes": {"sii", "s"}, "strings.Runes": {"s", "l"},
	"strconv.Atoi": {"s", "i"}, "strconv.ParseInt": {"sii", "i"}, "strconv.ParseUint": {"sii", "i"}, "strconv.ParseFloat": {"si", "n"}, "strconv.ParseBool": {"s", "b"},
	"strconv.FormatInt": {"ii", "s"}, "strconv.FormatBool": {"b", "s"}, "strconv.Quote": {"s", "s"}, "strconv.Unquote": {"s", "s"},
	"list.Range": {"nnn", "l"}, "list.Sum": {"l", "n"}, "list.Max": {"l", "n"}, "list.Min": {"l", "n"}, "list.Avg": {"l", "n"},
	"list.Contains": {"la", "b"}, "list.Sort": {"la", "l"}, "list.SortStrings": {"l", "ls"}, "list.Repeat": {"li", "l"},
	"list.Concat": {"l", "l"}, "list.FlattenN": {"li", "l"}, "list.Take": {"li", "l"}, "list.Drop": {"li", "l"}, "list.Slice": {"lii", "l"}, "list.Reverse": {"l", "l"},
	"list.IsSorted": {"la", "b"}, "list.IsSortedStrings": {"l", "b"},
	"math.Floor": {"n", "i"}, "math.Ceil": {"n", "i"}, "math.Round": {"n", "i"}, "math.Trunc": {"n", "i"}, "math.Abs": {"n", "n"}, "math.MultipleOf": {"nn", "b"},
	"json.Marshal": {"a", "s"}, "json.Indent": {"sss", "s"}, "json.MarshalStream": {"a", "s"}, "json.Unmarshal": {"s", "a"}, "json.Valid": {"s", "b"},
	"yaml.Marshal": {"a", "s"}, "yaml.MarshalStream": {"a", "s"}, "yaml.Unmarshal": {"s", "a"},
	"base64.Encode": {"aa", "s"}, "hex.Encode": {"a", "s"}, "hex.EncodedLen": {"i", "i"},
	"regexp.Match": {"ss", "b"}, "regexp.ReplaceAll": {"sss", "s"}, "regexp.ReplaceAllLiteral": {"sss", "s"}, "regexp.FindAll": {"ssi", "ls"},
	"regexp.Find": {"ss", "s"}, "regexp.FindSubmatch": {"ss", "ls"},
	"template.Execute": {"sa", "s"}, "template.HTMLEscape": {"s", "s"}, "html.Escape": {"s", "s"},
	"path.Base": {"s", "s"}, "path.Dir": {"s", "s"}, "path.Ext": {"s", "s"}, "net.JoinHostPort": {"aa", "s"},
	"uuid.SHA1": {"aa", "s"}, "uuid.MD5": {"aa", "s"}, "time.FormatDuration": {"i", "s"}, "time.ParseDuration": {"s", "i"}, "time.FormatString": {"ss", "s"}, "time.Unix": {"ii", "s"},
}

// letters are the types in a signature.
var letters = map[rune]types.Values{
	's': types.String, 'i': types.Integer, 'n': types.Integer | types.Number, 'b': types.Boolean,
	'l': types.List, 'm': types.Object, 'a': types.Any,
}

// call infers the result of a builtin, and checks what it is given.
func (c *Checker) call(p Part, e *ast.CallExpr) Value {
	name := syntax.SourceOf(e.Fun)
	if selector, ok := e.Fun.(*ast.SelectorExpr); ok {
		_, path := syntax.ImportedPackage(selector)
		if path == "" || strings.Contains(path, ".") { // not CUE's own
			path = "?"
		}
		function, _, _ := ast.LabelName(selector.Sel)
		name = path[strings.LastIndex(path, "/")+1:] + "." + function
	}
	known, ok := builtins[name]
	if !ok || len(known.args) < len(e.Args) && known.args != "ls" {
		for _, arg := range e.Args {
			c.visit(p.with(arg))
		}
		return Value{t: types.Unknown, isType: true}
	}
	args := []rune(known.args)
	for i, arg := range e.Args {
		c.visit(p.with(arg))
		v := c.infer(p.with(arg))
		needed := types.Any
		if i < len(args) {
			needed = letters[args[i]]
		}
		if name == "strings.Join" && i == 1 {
			needed = types.String
		}
		if name == "len" {
			needed = types.String | types.List | types.Object
		}
		if !fits(v.Kinds(), needed) {
			c.report(p.with(arg).node(), "%s needs %s, not %s", name, article(needed), v.describe(arg))
		}
		if i == 1 && (name == "div" || name == "mod" || name == "quo" || name == "rem") {
			c.divisor(p, arg, v)
		}
	}
	if v, ok := c.ofList(p, e, name); ok {
		return v
	}
	if known.result == "ls" {
		return Value{t: &types.Type{Values: types.List, Items: types.Of(types.String)}}
	}
	return Value{t: types.Of(letters[rune(known.result[0])])}
}

// ofList infers the items of lists that are computed from others.
func (c *Checker) ofList(p Part, e *ast.CallExpr, name string) (Value, bool) {
	switch name {
	case "list.Range":
		return Value{t: &types.Type{Values: types.List, Items: types.Of(types.Integer | types.Number)}}, true
	case "list.Concat", "list.FlattenN":
		joined, ok := e.Args[0].(*ast.ListLit)
		if !ok {
			break
		}
		var parts []Part
		for _, item := range c.items(p, joined) {
			list, ok := unembed(item).expr.(*ast.ListLit)
			if !ok {
				return Value{}, false
			}
			parts = append(parts, item.with(list))
		}
		if len(parts) > 0 {
			return Value{t: types.Of(types.List), parts: parts}, true
		}
	case "list.Sort", "list.Take", "list.Drop", "list.Slice", "list.Reverse":
		return c.infer(p.with(e.Args[0])), true
	}
	return Value{}, false
}

// text returns a literal, or an interpolation with its unknown parts replaced; ok is false if
// nothing is known of the text.
func (c *Checker) text(p Part, replace func(Value) string) (text string, known, ok bool) {
	v := c.infer(p)
	if literal, ok := v.literal.(string); ok {
		return literal, true, true
	}
	e, ok := p.expr.(*ast.Interpolation)
	if !ok {
		return "", false, false
	}
	var b strings.Builder
	for i, element := range e.Elts {
		if i%2 == 1 {
			inner := c.infer(p.with(element))
			if inner.literal != nil {
				fmt.Fprint(&b, inner.literal)
			} else {
				b.WriteString(replace(inner))
			}
			continue
		}
		piece, err := pieceOf(e, i)
		if err != nil {
			return "", false, false
		}
		b.WriteString(piece)
	}
	return b.String(), false, true
}

// pieceOf returns the text before or after the expressions of an interpolation.
func pieceOf(e *ast.Interpolation, i int) (string, error) {
	first, ok1 := e.Elts[0].(*ast.BasicLit)
	last, ok2 := e.Elts[len(e.Elts)-1].(*ast.BasicLit)
	piece, ok3 := e.Elts[i].(*ast.BasicLit)
	if !ok1 || !ok2 || !ok3 {
		return "", errNoText
	}
	_, start, end, err := literal.ParseQuotes(first.Value, last.Value)
	if err != nil {
		return "", err
	}
	text := piece.Value
	if i == 0 {
		text = text[start:]
	} else {
		text = strings.TrimPrefix(text, ")")
	}
	if i == len(e.Elts)-1 {
		text = text[:len(text)-end]
	} else {
		text = strings.TrimSuffix(text, `\(`)
	}
	if strings.Contains(text, `\`) {
		return "", errNoText
	}
	return text, nil
}

var errNoText = errors.New("not understood")
