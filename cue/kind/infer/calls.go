package infer

import (
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"

	"github.com/fescue-dev/fescue/cue/kind/binding"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// signature is what a builtin takes and returns. A letter stands for a type: s string, y bytes,
// t either, i int, n number, b bool, l list, m struct, a anything; ls is a list of strings.
type signature struct{ args, result string }

// builtins are those that behaviours use. Others take and return anything.
var builtins = map[string]signature{
	"len": {"a", "i"}, "div": {"ii", "i"}, "mod": {"ii", "i"}, "quo": {"ii", "i"}, "rem": {"ii", "i"},
	"strings.ToUpper": {"s", "s"}, "strings.ToLower": {"s", "s"}, "strings.ToTitle": {"s", "s"},
	"strings.ToCamel":   {"s", "s"},
	"strings.TrimSpace": {"s", "s"}, "strings.Trim": {"ss", "s"}, "strings.TrimLeft": {"ss", "s"},
	"strings.TrimRight":  {"ss", "s"},
	"strings.TrimPrefix": {"ss", "s"}, "strings.TrimSuffix": {"ss", "s"}, "strings.Replace": {"sssi", "s"},
	"strings.Split": {"ss", "ls"}, "strings.SplitN": {"ssi", "ls"}, "strings.Fields": {"s", "ls"},
	"strings.Join":     {"ls", "s"},
	"strings.Contains": {"ss", "b"}, "strings.HasPrefix": {"ss", "b"}, "strings.HasSuffix": {"ss", "b"},
	"strings.Index": {"ss", "i"}, "strings.Count": {"ss", "i"}, "strings.Repeat": {"si", "s"},
	"strings.SliceRunes": {"sii", "s"}, "strings.Runes": {"s", "l"},
	"strconv.Atoi": {"s", "i"}, "strconv.ParseInt": {"sii", "i"}, "strconv.ParseUint": {"sii", "i"},
	"strconv.ParseFloat": {"si", "n"}, "strconv.ParseBool": {"s", "b"},
	"strconv.FormatInt": {"ii", "s"}, "strconv.FormatBool": {"b", "s"}, "strconv.Quote": {"s", "s"},
	"strconv.Unquote": {"s", "s"},
	"list.Range":      {"nnn", "l"}, "list.Sum": {"l", "n"}, "list.Max": {"l", "n"}, "list.Min": {"l", "n"},
	"list.Avg":      {"l", "n"},
	"list.Contains": {"la", "b"}, "list.Sort": {"la", "l"}, "list.SortStrings": {"l", "ls"}, "list.Repeat": {"li", "l"},
	"list.Concat": {"l", "l"}, "list.FlattenN": {"li", "l"}, "list.Take": {"li", "l"}, "list.Drop": {"li", "l"},
	"list.Slice": {"lii", "l"}, "list.Reverse": {"l", "l"},
	"list.IsSorted": {"la", "b"}, "list.IsSortedStrings": {"l", "b"},
	"math.Floor": {"n", "i"}, "math.Ceil": {"n", "i"}, "math.Round": {"n", "i"}, "math.Trunc": {"n", "i"},
	"math.Abs": {"n", "n"}, "math.MultipleOf": {"nn", "b"},
	"json.Marshal": {"a", "s"}, "json.Indent": {"tss", "s"}, "json.MarshalStream": {"a", "s"},
	"json.Unmarshal": {"t", "a"}, "json.Valid": {"t", "b"},
	"yaml.Marshal": {"a", "s"}, "yaml.MarshalStream": {"a", "s"}, "yaml.Unmarshal": {"t", "a"},
	"base64.Decode": {"at", "y"}, "hex.Decode": {"s", "y"}, "strings.ByteSlice": {"tii", "y"},
	"md5.Sum": {"t", "y"}, "sha1.Sum": {"t", "y"}, "sha256.Sum224": {"t", "y"}, "sha256.Sum256": {"t", "y"},
	"sha512.Sum384": {"t", "y"}, "sha512.Sum512": {"t", "y"},
	"base64.Encode": {"aa", "s"}, "hex.Encode": {"a", "s"}, "hex.EncodedLen": {"i", "i"},
	"regexp.Match": {"ss", "b"}, "regexp.ReplaceAll": {"sss", "s"}, "regexp.ReplaceAllLiteral": {"sss", "s"},
	"regexp.FindAll": {"ssi", "ls"},
	"regexp.Find":    {"ss", "s"}, "regexp.FindSubmatch": {"ss", "ls"},
	"template.Execute": {"sa", "s"}, "template.HTMLEscape": {"s", "s"}, "html.Escape": {"s", "s"},
	"path.Base": {"s", "s"}, "path.Dir": {"s", "s"}, "path.Ext": {"s", "s"}, "net.JoinHostPort": {"aa", "s"},
	"uuid.SHA1": {"aa", "s"}, "uuid.MD5": {"aa", "s"}, "time.FormatDuration": {"i", "s"},
	"time.ParseDuration": {"s", "i"}, "time.FormatString": {"ss", "s"}, "time.Unix": {"ii", "s"},
}

// letters are the types in a signature.
var letters = map[rune]types.Values{
	's': types.String, 'y': types.Bytes, 't': types.String | types.Bytes, 'b': types.Boolean,
	'i': types.Integer, 'n': types.Integer | types.Number,
	'l': types.List, 'm': types.Object, 'a': types.Any,
}

// call infers the result of a builtin, and checks what it is given.
func (r *Reader) call(p Part, e *ast.CallExpr) Value {
	name := syntax.SourceOf(e.Fun)
	if selector, ok := e.Fun.(*ast.SelectorExpr); ok {
		path, function := binding.Selected(selector)
		if path == "" || strings.Contains(path, ".") { // not CUE's own
			path = "?"
		}
		name = path[strings.LastIndex(path, "/")+1:] + "." + function
	}
	known, ok := builtins[name]
	if !ok || len(known.args) < len(e.Args) && known.args != "ls" {
		for _, arg := range e.Args {
			r.Visit(p.With(arg))
		}
		return Value{Type: types.Unknown, IsType: true}
	}
	args := []rune(known.args)
	for i, arg := range e.Args {
		r.Visit(p.With(arg))
		v := r.Infer(p.With(arg))
		needed := types.Any
		if i < len(args) {
			needed = letters[args[i]]
		}
		if name == "strings.Join" && i == 1 {
			needed = types.String
		}
		if name == "len" {
			needed = types.String | types.Bytes | types.List | types.Object
		}
		if !Fits(v.Kinds(), needed) {
			r.Report(mistake.WrongOperand, p.With(arg).Node(), "%s needs %s, not %s", name, Article(needed),
				v.Describe(arg))
		}
		if i == 1 && name == "list.Contains" {
			neverIn(r, p, e.Args[0], arg, v)
		}
		if i == 0 && strings.HasPrefix(name, "regexp.") {
			pattern(r, p.With(arg), v)
		}
		if i == 1 && (name == "div" || name == "mod" || name == "quo" || name == "rem") {
			divisor(r, p, arg, v)
		}
	}
	if v, ok := r.ofList(p, e, name); ok {
		return v
	}
	if known.result == "ls" {
		return Value{Type: &types.Type{Values: types.List, Items: types.Of(types.String)}}
	}
	return Value{Type: types.Of(letters[rune(known.result[0])])}
}

// ofList infers the items of lists that are computed from others.
func (r *Reader) ofList(p Part, e *ast.CallExpr, name string) (Value, bool) {
	if len(e.Args) == 0 {
		return Value{}, false
	}
	switch name {
	case "list.Range":
		return Value{Type: &types.Type{Values: types.List, Items: types.Of(types.Integer | types.Number)}}, true
	case "list.Concat", "list.FlattenN":
		joined, ok := e.Args[0].(*ast.ListLit)
		if !ok {
			break
		}
		all := &ast.ListLit{Lbrack: joined.Lbrack, Rbrack: joined.Rbrack}
		for _, item := range r.Items(p, joined) {
			list, ok := Unembedded(item).Expr.(*ast.ListLit)
			if !ok || item.Conditional {
				return Value{}, false
			}
			all.Elts = append(all.Elts, list.Elts...)
		}
		if len(all.Elts) > 0 {
			return Value{Type: types.Of(types.List), Parts: []Part{p.With(all)}}, true
		}
	case "list.Sort", "list.Take", "list.Drop", "list.Slice", "list.Reverse":
		v := r.Infer(p.With(e.Args[0]))
		v.Parts = slices.Clone(v.Parts)
		for i := range v.Parts {
			v.Parts[i].Partial = true // which items are left, and where, is not known
		}
		return v, true
	}
	return Value{}, false
}
