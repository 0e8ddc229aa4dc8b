package behaviour

import (
	"encoding/base64"
	gojson "encoding/json"
	"fmt"
	"math/big"
	"slices"
	"sort"
	"strings"
	"text/template"
	"text/template/parse"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"
	"cuelang.org/go/encoding/yaml"

	"github.com/fescue-dev/fescue/cue/kind/budget"
)

// orderings are the comparers of the package list.
var orderings = map[string]func() *ast.StructLit{
	"list.Comparer":   func() *ast.StructLit { return parsed("{T: _, x: T, y: T, less: bool}") },
	"list.Ascending":  func() *ast.StructLit { return parsed("{T: number | string, x: T, y: T, less: x < y}") },
	"list.Descending": func() *ast.StructLit { return parsed("{T: number | string, x: T, y: T, less: x > y}") },
}

func parsed(text string) *ast.StructLit {
	expr, err := parser.ParseExpr("list", text)
	if err != nil {
		panic(err)
	}
	return expr.(*ast.StructLit)
}

// constants are those of CUE's packages.
var constants = map[string]any{
	"path.Unix": "unix", "path.Windows": "windows", "path.Plan9": "plan9",
	"crypto/hmac.MD5": "MD5", "crypto/hmac.SHA1": "SHA1", "crypto/hmac.SHA224": "SHA224",
	"crypto/hmac.SHA256": "SHA256",
	"crypto/hmac.SHA384": "SHA384", "crypto/hmac.SHA512": "SHA512", "crypto/hmac.SHA512_224": "SHA512_224",
	"crypto/hmac.SHA512_256": "SHA512_256",
	"time.Nanosecond":        int64(1), "time.Microsecond": int64(1000), "time.Millisecond": int64(1_000_000),
	"time.Second": int64(1_000_000_000),
	"time.Minute": int64(60_000_000_000), "time.Hour": int64(3_600_000_000_000),
	"time.ANSIC": "Mon Jan _2 15:04:05 2006", "time.UnixDate": "Mon Jan _2 15:04:05 MST 2006",
	"time.RubyDate": "Mon Jan 02 15:04:05 -0700 2006",
	"time.RFC822":   "02 Jan 06 15:04 MST", "time.RFC822Z": "02 Jan 06 15:04 -0700",
	"time.RFC850":  "Monday, 02-Jan-06 15:04:05 MST",
	"time.RFC1123": "Mon, 02 Jan 2006 15:04:05 MST", "time.RFC1123Z": "Mon, 02 Jan 2006 15:04:05 -0700",
	"time.RFC3339": "2006-01-02T15:04:05Z07:00", "time.RFC3339Nano": "2006-01-02T15:04:05.999999999Z07:00",
	"time.RFC3339Date": "2006-01-02", "time.Kitchen": "3:04PM", "time.Kitchen24": "15:04",
	"math.Pi": &Decimal{Decimal: parseDecimal(
		"3.14159265358979323846264338327950288419716939937510582097494459").Decimal, IsFloat: true},
	"math.E": &Decimal{Decimal: parseDecimal(
		"2.71828182845904523536028747135266249775724709369995957496696763").Decimal, IsFloat: true},
}

// own are the builtins that work with structs and lists of any values.
var own = []*Function{
	{Name: "and", params: 1, isNode: true},
	{Name: "or", params: 1, isNode: true},
	{Name: "close", params: 1, isNode: true},
	{Name: "len", params: 1, counts: true,
		call: func(r *run, x Expr, args []any) (any, *Problem) { return r.len(x, args[0]) }},
	{Name: "div", params: 2, call: division((*big.Int).Div)},
	{Name: "mod", params: 2, call: division((*big.Int).Mod)},
	{Name: "quo", params: 2, call: division((*big.Int).Quo)},
	{Name: "rem", params: 2, call: division((*big.Int).Rem)},

	{Name: "strings.Repeat", params: 2, call: func(r *run, x Expr, args []any) (any, *Problem) {
		if kindOf(args[0]) != String {
			return nil, wrong(x, "cannot use %s (type %s) as string in argument 1 to strings.Repeat", textOf(args[0]),
				kindOf(args[0]))
		}
		return r.repeat(x, args[0], args[1])
	}},

	{Name: "list.Concat", params: 1,
		call: func(r *run, x Expr, args []any) (any, *Problem) { return r.flatten(x, args[0], 1, true) }},
	{Name: "list.FlattenN", params: 2, call: func(r *run, x Expr, args []any) (any, *Problem) {
		depth, ok := args[1].(int64)
		if !ok {
			return nil, wrong(x, "cannot use %s (type %s) as int in argument 2 to list.FlattenN", textOf(args[1]),
				kindOf(args[1]))
		}
		return r.flatten(x, args[0], int(depth), false)
	}},
	{Name: "list.Contains", params: 2, isValidator: true,
		call: onList(1, func(r *run, _ Expr, elements []any, args []any) (any, *Problem) {
			for _, element := range elements {
				r.step()
				value, problem := r.valueOf(element)
				if problem != nil {
					continue
				}
				if equal, problem := r.equal(value, args[0]); problem != nil || equal {
					return equal, problem
				}
			}
			return false, nil
		})},
	{Name: "list.Drop", params: 2, call: onList(1, func(_ *run, x Expr, elements []any, args []any) (any, *Problem) {
		n, problem := count(x, args[0], 0, maxInt)
		return elements[min(n, len(elements)):], problem
	})},
	{Name: "list.Take", params: 2, call: onList(1, func(_ *run, x Expr, elements []any, args []any) (any, *Problem) {
		n, problem := count(x, args[0], 0, maxInt)
		return elements[:min(n, len(elements))], problem
	})},
	{Name: "list.Slice", params: 3, call: onList(2, func(_ *run, x Expr, elements []any, args []any) (any, *Problem) {
		low, problem := count(x, args[0], 0, maxInt)
		high, problem2 := count(x, args[1], 0, maxInt)
		switch problem = worse(problem, problem2); {
		case problem != nil:
			return nil, problem
		case low > high:
			return nil, wrong(x, "error in call to list.Slice: invalid index: %d > %d", low, high)
		case high > len(elements):
			return nil, wrong(x, "error in call to list.Slice: slice bounds out of range [%d] with length %d", high,
				len(elements))
		}
		return elements[low:high], nil
	})},
	{Name: "list.Reverse", params: 1, call: onList(0, func(_ *run, _ Expr, elements []any, _ []any) (any, *Problem) {
		reversed := make([]any, len(elements))
		for i, element := range elements {
			reversed[len(elements)-1-i] = element
		}
		return reversed, nil
	})},
	{Name: "list.Repeat", params: 2, call: onList(1, func(r *run, x Expr, elements []any, args []any) (any, *Problem) {
		n, problem := count(x, args[0], 0, maxRepeat)
		if problem != nil {
			return nil, problem
		}
		r.spend(n * len(elements))
		repeated := make([]any, 0, n*len(elements))
		for range n {
			repeated = append(repeated, elements...)
		}
		return repeated, nil
	})},
	{Name: "list.Range", params: 3, call: sequence},
	{Name: "list.Sort", params: 2, call: sorted(sort.Sort)},
	{Name: "list.SortStable", params: 2, call: sorted(sort.Stable)},
	{Name: "list.IsSorted", params: 2,
		call: onList(1, func(r *run, x Expr, elements []any, args []any) (any, *Problem) {
			s := &sorter{r: r, x: x, elements: elements, order: args[0]}
			return sort.IsSorted(s), s.problem
		})},
	{Name: "list.UniqueItems", params: 1, isValidator: true,
		call: onList(0, func(r *run, _ Expr, elements []any, _ []any) (any, *Problem) {
			for i := range elements {
				for j := range i {
					if equal, problem := r.equalFields(elements[i], elements[j]); problem != nil || equal {
						return !equal, problem
					}
				}
			}
			return true, nil
		})},
	{Name: "list.MaxItems", params: 2, isValidator: true,
		call: onList(1, func(_ *run, x Expr, elements []any, args []any) (any, *Problem) {
			n, problem := count(x, args[0], -maxInt, maxInt)
			return len(elements) <= n, problem
		})},
	{Name: "list.MinItems", params: 2, isValidator: true,
		call: onList(1, func(_ *run, x Expr, elements []any, args []any) (any, *Problem) {
			n, problem := count(x, args[0], -maxInt, maxInt)
			return len(elements) >= n, problem
		})},
	{Name: "struct.MaxFields", params: 2, isValidator: true,
		call: onStruct(func(have, limit int) bool { return have <= limit })},
	{Name: "struct.MinFields", params: 2, isValidator: true,
		call: onStruct(func(have, limit int) bool { return have >= limit })},

	{Name: "encoding/json.Marshal", params: 1, call: func(r *run, _ Expr, args []any) (any, *Problem) {
		b, problem := inJSON.append(r, nil, args[0])
		return string(b), problem
	}},
	{Name: "encoding/json.MarshalStream", params: 1,
		call: onList(0, func(r *run, _ Expr, elements []any, _ []any) (any, *Problem) {
			var b []byte
			for _, element := range elements {
				var problem *Problem
				if b, problem = inJSON.append(r, b, element); problem != nil {
					return nil, problem
				}
				b = append(b, '\n')
			}
			return string(b), nil
		})},
	{Name: "encoding/yaml.Marshal", params: 1,
		call: func(r *run, x Expr, args []any) (any, *Problem) { return r.yaml(x, args[0]) }},
	{Name: "encoding/yaml.MarshalStream", params: 1,
		call: onList(0, func(r *run, x Expr, elements []any, _ []any) (any, *Problem) {
			texts := make([]string, len(elements))
			for i, element := range elements {
				text, problem := r.yaml(x, element)
				if problem != nil {
					return nil, problem
				}
				texts[i] = text.(string)
			}
			return strings.Join(texts, "---\n"), nil
		})},
	{Name: "encoding/base64.Encode", params: 2, call: func(_ *run, x Expr, args []any) (any, *Problem) {
		src, problem := base64Argument(x, args)
		return base64.StdEncoding.EncodeToString(src), problem
	}},
	{Name: "encoding/base64.Decode", params: 2, call: func(_ *run, x Expr, args []any) (any, *Problem) {
		src, problem := base64Argument(x, args)
		if problem != nil {
			return nil, problem
		}
		decoded, err := base64.StdEncoding.DecodeString(string(src))
		if err != nil {
			return nil, wrong(x, "error in call to encoding/base64.Decode: %v", err)
		}
		return decoded, nil
	}},
	{Name: "text/template.Execute", params: 2, call: func(r *run, x Expr, args []any) (any, *Problem) {
		text, ok := args[0].(string)
		if !ok {
			return nil, wrong(x, "cannot use %s (type %s) as string in argument 1 to text/template.Execute",
				textOf(args[0]), kindOf(args[0]))
		}
		data, problem := r.export(args[1])
		if problem != nil {
			return nil, problem
		}
		t, err := template.New("").Parse(text)
		if err != nil {
			return nil, wrong(x, "error in call to text/template.Execute: %v", err)
		}
		if problem := r.loops(x, t, data); problem != nil {
			return nil, problem
		}
		b := &bounded{r: r}
		if err := t.Execute(b, data); err != nil {
			return nil, wrong(x, "error in call to text/template.Execute: %v", err)
		}
		return b.String(), nil
	}},
}

// maxInt is larger than any list.
const maxInt = 1 << 40

// loops counts the rounds of the loops within each other of a template, which nothing interrupts.
func (r *run) loops(x Expr, t *template.Template, data any) *Problem {
	if len(t.Templates()) > 1 {
		return wrong(x, "error in call to text/template.Execute: a template cannot define others")
	}
	size := values(data)
	var visit func(node parse.Node, rounds int) bool
	visit = func(node parse.Node, rounds int) bool {
		r.spend(rounds)
		switch node := node.(type) {
		case *parse.ListNode:
			for _, n := range node.Nodes {
				if !visit(n, rounds) {
					return false
				}
			}
		case *parse.RangeNode:
			return visit(node.List, min(rounds*size, budget.Steps+1)) &&
				(node.ElseList == nil || visit(node.ElseList, rounds))
		case *parse.IfNode:
			return visit(node.List, rounds) && (node.ElseList == nil || visit(node.ElseList, rounds))
		case *parse.WithNode:
			return visit(node.List, rounds) && (node.ElseList == nil || visit(node.ElseList, rounds))
		case *parse.TemplateNode:
			return false
		}
		return true
	}
	if t.Tree != nil && !visit(t.Root, 1) {
		return wrong(x, "error in call to text/template.Execute: a template cannot call others")
	}
	return nil
}

// values is the size of the largest list or struct in data.
func values(data any) int {
	largest := 1
	switch v := data.(type) {
	case map[string]any:
		largest = len(v)
		for _, field := range v {
			largest = max(largest, values(field))
		}
	case []any:
		largest = len(v)
		for _, element := range v {
			largest = max(largest, values(element))
		}
	case int64:
		largest = int(min(max(v, 1), budget.Steps)) // a range over a number
	}
	return largest
}

// bounded is a text that counts as steps while it grows.
type bounded struct {
	strings.Builder
	r *run
}

func (b *bounded) Write(p []byte) (int, error) {
	b.r.spend(len(p) / bytesPerStep)
	return b.Builder.Write(p)
}

func base64Argument(x Expr, args []any) ([]byte, *Problem) {
	if args[0] != nil {
		return nil, wrong(x, "base64: unsupported encoding: it must be null")
	}
	switch src := args[1].(type) {
	case string:
		return []byte(src), nil
	case []byte:
		return src, nil
	}
	return nil, wrong(x, "cannot use %s (type %s) as string|bytes in argument 2", textOf(args[1]), kindOf(args[1]))
}

func (r *run) len(x Expr, value any) (any, *Problem) {
	switch v := value.(type) {
	case string:
		return int64(len(v)), nil
	case []byte:
		return int64(len(v)), nil
	case []any:
		return int64(len(v)), nil
	case map[string]any:
		return int64(len(v)), nil
	case *node:
		if kindOf(v) == List {
			n, problem := r.length(v)
			return int64(n), problem
		}
		names, problem := v.fields(r)
		return int64(len(names)), problem
	}
	return nil, wrong(x, "invalid argument type %s to len", kindOf(value))
}

func division(by func(result, a, b *big.Int) *big.Int) func(r *run, x Expr, args []any) (any, *Problem) {
	return func(_ *run, x Expr, args []any) (any, *Problem) { return divide(x, by, args[0], args[1]) }
}

// onList makes a builtin of a function of a list and n further arguments.
func onList(
	n int, f func(r *run, x Expr, elements []any, args []any) (any, *Problem),
) func(*run, Expr, []any) (any, *Problem) {
	return func(r *run, x Expr, args []any) (any, *Problem) {
		if kindOf(args[0]) != List {
			return nil, wrong(x, "cannot use %s (type %s) as list in argument 1", textOf(args[0]), kindOf(args[0]))
		}
		elements, problem := r.elements(args[0])
		if problem != nil {
			return nil, problem
		}
		return f(r, x, elements, args[1:1+n])
	}
}

func onStruct(holds func(have, limit int) bool) func(*run, Expr, []any) (any, *Problem) {
	return func(r *run, x Expr, args []any) (any, *Problem) {
		if kindOf(args[0]) != Struct {
			return nil, wrong(x, "cannot use %s (type %s) as struct in argument 1", textOf(args[0]), kindOf(args[0]))
		}
		names, problem := r.names(args[0])
		limit, problem2 := count(x, args[1], -maxInt, maxInt)
		return holds(len(names), limit), worse(problem, problem2)
	}
}

// count returns an argument that is a number within limits.
func count(x Expr, value any, least, most int) (int, *Problem) {
	n, ok := value.(int64)
	if !ok {
		return 0, wrong(x, "cannot use %s (type %s) as int", textOf(value), kindOf(value))
	}
	if n < int64(least) || n > int64(most) {
		return 0, wrong(x, "%d is out of range", n)
	}
	return int(n), nil
}

// flatten puts the lists within a list together.
func (r *run) flatten(x Expr, list any, depth int, isConcat bool) (any, *Problem) {
	if kindOf(list) != List {
		return nil, wrong(x, "cannot use %s (type %s) as list in argument 1", textOf(list), kindOf(list))
	}
	elements, problem := r.elements(list)
	if problem != nil {
		return nil, problem
	}
	var result []any
	for _, element := range elements {
		value, problem := r.valueOf(element)
		switch {
		case problem != nil && (isConcat || !problem.IsIncomplete):
			return nil, problem
		case isConcat && kindOf(value) != List:
			return nil, wrong(x, "cannot use %s (type %s) as list in list.Concat", textOf(value), kindOf(value))
		case kindOf(value) != List || depth == 0 || problem != nil:
			result = append(result, element)
			continue
		}
		if isConcat {
			inner, problem := r.elements(value)
			if problem != nil {
				return nil, problem
			}
			result = append(result, inner...)
			continue
		}
		inner, problem := r.flatten(x, value, depth-1, false)
		if problem != nil {
			return nil, problem
		}
		result = append(result, inner.([]any)...)
	}
	if result == nil {
		result = []any{}
	}
	return result, nil
}

// sequence is list.Range.
func sequence(r *run, x Expr, args []any) (any, *Problem) {
	for i, arg := range args {
		if kindOf(arg)&Number == 0 {
			return nil, wrong(x, "cannot use %s (type %s) as number in argument %d to list.Range", textOf(arg),
				kindOf(arg), i+1)
		}
	}
	start, limit, step := args[0], args[1], args[2]
	order := compareNumbers(start, limit)
	switch direction := compareNumbers(step, int64(0)); {
	case direction == 0:
		return nil, wrong(x, "error in call to list.Range: step must be non zero")
	case direction > 0 && order > 0:
		return nil, wrong(x, "error in call to list.Range: end must be greater than start when step is positive")
	case direction < 0 && order < 0:
		return nil, wrong(x, "error in call to list.Range: end must be less than start when step is negative")
	default:
		result := []any{}
		next := start
		for compareNumbers(next, limit) == -direction {
			r.spend(1)
			d, _ := toDecimal(next)
			result = append(result, integral(&d.Decimal))
			sum, problem := (&Binary{at: at{x.Pos()}, Op: token.ADD}).calculate(next, step)
			if problem != nil {
				return nil, problem
			}
			next = sum
		}
		return result, nil
	}
}

// sorter sorts by a comparer, a struct with x, y and less.
type sorter struct {
	r        *run
	x        Expr
	elements []any
	order    any
	problem  *Problem
}

func (s *sorter) Len() int      { return len(s.elements) }
func (s *sorter) Swap(i, j int) { s.elements[i], s.elements[j] = s.elements[j], s.elements[i] }
func (s *sorter) Less(i, j int) bool {
	order, ok := s.order.(*node)
	if s.problem != nil || !ok {
		return false
	}
	pair := &node{conjs: append(slices.Clip(order.conjs),
		conj{value: map[string]any{"x": s.elements[i], "y": s.elements[j]}})}
	field := pair.arc(s.r, "less")
	if field == nil {
		s.problem = wrong(s.x, "the comparer has no field less")
		return false
	}
	less, problem := field.value(s.r)
	holds, isBool := less.(bool)
	if problem == nil && !isBool {
		problem = wrong(s.x, "less must be true or false")
	}
	s.problem = problem
	return holds
}

func sorted(by func(sort.Interface)) func(*run, Expr, []any) (any, *Problem) {
	return onList(1, func(r *run, x Expr, elements []any, args []any) (any, *Problem) {
		s := &sorter{r: r, x: x, elements: append([]any{}, elements...), order: args[0]}
		if _, ok := s.order.(*node); !ok {
			return nil, wrong(x, "cannot use %s (type %s) as a comparer like list.Ascending", textOf(s.order),
				kindOf(s.order))
		}
		by(s)
		return s.elements, s.problem
	})
}

// notation is JSON, or CUE, which has other forms of some scalars.
type notation struct {
	bytes, number func(b []byte, value any) []byte
}

var (
	inJSON = notation{
		func(b []byte, value any) []byte {
			return appendText(b, base64.StdEncoding.EncodeToString(value.([]byte)))
		},
		func(b []byte, value any) []byte { return append(b, numberText(value)...) },
	}
	inCUE = notation{
		func(b []byte, value any) []byte { return literal.Bytes.Append(b, string(value.([]byte))) },
		func(b []byte, value any) []byte {
			text := numberText(value)
			if kindOf(value) == Float && !strings.ContainsAny(text, ".E") {
				text += "." // 20 is an int
			}
			return append(b, text...)
		},
	}
)

// append appends a value, with the fields in their order.
func (in notation) append(r *run, b []byte, value any) ([]byte, *Problem) {
	r.step()
	value, problem := r.valueOf(value)
	if problem != nil {
		return nil, problem
	}
	switch kindOf(value) {
	case List:
		elements, problem := r.elements(value)
		if problem != nil {
			return nil, problem
		}
		b = append(b, '[')
		for i, element := range elements {
			if i > 0 {
				b = append(b, ',')
			}
			if b, problem = in.append(r, b, element); problem != nil {
				return nil, problem
			}
		}
		return append(b, ']'), nil
	case Struct:
		names, problem := r.names(value)
		if n, ok := value.(*node); ok {
			problem = worse(problem, n.missing(r))
		}
		if problem != nil {
			return nil, problem
		}
		b = append(b, '{')
		for i, name := range names {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendText(b, shown(name)), ':')
			if b, problem = in.append(r, b, r.fieldIn(value, name)); problem != nil {
				return nil, problem
			}
		}
		return append(b, '}'), nil
	case Int, Float:
		return in.number(b, value), nil
	case Bytes:
		return in.bytes(b, value), nil
	case String:
		r.spend(len(value.(string)) / bytesPerStep)
		return appendText(b, value.(string)), nil
	}
	return fmt.Append(b, map[any]string{nil: "null", true: "true", false: "false"}[value]), nil
}

// appendText appends a text as JSON, as CUE writes it: without escapes for HTML.
func appendText(b []byte, text string) []byte {
	var buffer strings.Builder
	encoder := gojson.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string has no error
	return append(b, strings.TrimSuffix(buffer.String(), "\n")...)
}

// yamlSteps is what it takes to write a byte of JSON as YAML.
const yamlSteps = 20

// yaml returns a value as YAML, as CUE's own encoder writes it.
func (r *run) yaml(x Expr, value any) (any, *Problem) {
	text, problem := inCUE.append(r, nil, value)
	if problem != nil {
		return nil, problem
	}
	r.spend(len(text) * yamlSteps)
	expr, err := parser.ParseExpr("yaml", text)
	if err != nil {
		return nil, wrong(x, "error in call to encoding/yaml.Marshal: %v", err)
	}
	encoded, err := yaml.Encode(cuecontext.New().BuildExpr(expr)) // a context of its own is freed
	if err != nil {
		return nil, wrong(x, "error in call to encoding/yaml.Marshal: %v", err)
	}
	return string(encoded), nil
}
