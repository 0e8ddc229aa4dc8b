package behaviour

import (
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"sync"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/pkg/crypto/hmac"
	"cuelang.org/go/pkg/crypto/md5"
	"cuelang.org/go/pkg/crypto/sha1"
	"cuelang.org/go/pkg/crypto/sha256"
	"cuelang.org/go/pkg/crypto/sha512"
	"cuelang.org/go/pkg/encoding/hex"
	"cuelang.org/go/pkg/encoding/json"
	"cuelang.org/go/pkg/encoding/yaml"
	"cuelang.org/go/pkg/list"
	"cuelang.org/go/pkg/math"
	"cuelang.org/go/pkg/math/bits"
	cuenet "cuelang.org/go/pkg/net"
	"cuelang.org/go/pkg/path"
	cueregexp "cuelang.org/go/pkg/regexp"
	cuestrconv "cuelang.org/go/pkg/strconv"
	cuestrings "cuelang.org/go/pkg/strings"
	"cuelang.org/go/pkg/text/template"
	"cuelang.org/go/pkg/time"
	"cuelang.org/go/pkg/uuid"
	"github.com/cockroachdb/apd/v3"

	"github.com/fescue-dev/fescue/cue/kind/budget"
)

// Function is a builtin of CUE.
type Function struct {
	// Name is as in strings.Fields.
	Name   string
	params int
	// optional is how many of the last arguments may be left out.
	optional int
	// isValidator means that it can be a constraint: its first argument is then the value.
	isValidator bool
	// counts means that it counts the elements of its argument, whatever is wrong within them.
	counts bool
	// isNode means that its result is unified from its arguments.
	isNode bool
	call   func(r *run, x Expr, args []any) (any, *Problem)
}

// isValidator reports whether a call is a constraint for a value that it does not name.
func (c *Call) isValidator() bool {
	return c.Function.isValidator && len(c.Args) == c.Function.params-1 && c.Function.optional == 0
}

// takes reports whether the function can be called with n arguments.
func (f *Function) takes(n int) bool {
	return n <= f.params && n >= f.params-f.optional || f.isValidator && n == f.params-1
}

// natives are the functions of CUE's packages that are plain Go.
var natives = map[string]any{
	"strings.ByteAt": cuestrings.ByteAt, "strings.ByteSlice": cuestrings.ByteSlice,
	"strings.Compare": cuestrings.Compare, "strings.Contains": cuestrings.Contains,
	"strings.ContainsAny": cuestrings.ContainsAny, "strings.Count": cuestrings.Count,
	"strings.Fields": cuestrings.Fields, "strings.HasPrefix": cuestrings.HasPrefix,
	"strings.HasSuffix": cuestrings.HasSuffix, "strings.Index": cuestrings.Index,
	"strings.IndexAny": cuestrings.IndexAny, "strings.Join": cuestrings.Join, "strings.LastIndex": cuestrings.LastIndex,
	"strings.LastIndexAny": cuestrings.LastIndexAny, "strings.MaxRunes": cuestrings.MaxRunes,
	"strings.MinRunes": cuestrings.MinRunes, "strings.Replace": cuestrings.Replace, "strings.Runes": cuestrings.Runes,
	"strings.SliceRunes": cuestrings.SliceRunes, "strings.Split": cuestrings.Split,
	"strings.SplitAfter": cuestrings.SplitAfter, "strings.SplitAfterN": cuestrings.SplitAfterN,
	"strings.SplitN": cuestrings.SplitN, "strings.ToCamel": cuestrings.ToCamel, "strings.ToLower": cuestrings.ToLower,
	"strings.ToTitle": cuestrings.ToTitle, "strings.ToUpper": cuestrings.ToUpper, "strings.Trim": cuestrings.Trim,
	"strings.TrimLeft": cuestrings.TrimLeft, "strings.TrimPrefix": cuestrings.TrimPrefix,
	"strings.TrimRight": cuestrings.TrimRight, "strings.TrimSpace": cuestrings.TrimSpace,
	"strings.TrimSuffix": cuestrings.TrimSuffix,

	"list.Avg": list.Avg, "list.Max": list.Max, "list.Min": list.Min, "list.Product": list.Product,
	"list.Sum": list.Sum, "list.IsSortedStrings": list.IsSortedStrings, "list.SortStrings": list.SortStrings,

	"math.Abs": math.Abs, "math.Acos": math.Acos, "math.Acosh": math.Acosh, "math.Asin": math.Asin,
	"math.Asinh": math.Asinh, "math.Atan": math.Atan, "math.Atan2": math.Atan2, "math.Atanh": math.Atanh,
	"math.Cbrt": math.Cbrt, "math.Ceil": math.Ceil, "math.Copysign": math.Copysign, "math.Cos": math.Cos,
	"math.Cosh": math.Cosh, "math.Dim": math.Dim, "math.Erf": math.Erf, "math.Exp": math.Exp, "math.Exp2": math.Exp2,
	"math.Floor": math.Floor, "math.Gamma": math.Gamma, "math.Hypot": math.Hypot, "math.Log": math.Log,
	"math.Log10": math.Log10, "math.Log2": math.Log2, "math.Mod": math.Mod, "math.MultipleOf": math.MultipleOf,
	"math.Pow": math.Pow, "math.Remainder": math.Remainder, "math.Round": math.Round,
	"math.RoundToEven": math.RoundToEven, "math.Signbit": math.Signbit, "math.Sin": math.Sin, "math.Sinh": math.Sinh,
	"math.Sqrt": math.Sqrt, "math.Tan": math.Tan, "math.Tanh": math.Tanh, "math.Trunc": math.Trunc,
	"math/bits.And": bits.And, "math/bits.Or": bits.Or, "math/bits.Xor": bits.Xor, "math/bits.Clear": bits.Clear,
	"math/bits.At": bits.At, "math/bits.Len": bits.Len, "math/bits.OnesCount": bits.OnesCount,
	"math/bits.Rsh": bits.Rsh,

	"time.Duration": time.Duration, "time.Format": time.Format, "time.FormatDuration": time.FormatDuration,
	"time.FormatString": time.FormatString, "time.Parse": time.Parse, "time.ParseDuration": time.ParseDuration,
	"time.Time": time.Time, "time.ToUnix": time.ToUnix, "time.ToUnixNano": time.ToUnixNano, "time.Unix": time.Unix,
	"time.Split": time.Split,

	"strconv.Atoi": cuestrconv.Atoi, "strconv.FormatBool": cuestrconv.FormatBool,
	"strconv.FormatFloat": cuestrconv.FormatFloat, "strconv.FormatInt": cuestrconv.FormatInt,
	"strconv.FormatUint": cuestrconv.FormatUint, "strconv.ParseBool": cuestrconv.ParseBool,
	"strconv.ParseFloat": cuestrconv.ParseFloat, "strconv.ParseInt": cuestrconv.ParseInt,
	"strconv.ParseNumber": cuestrconv.ParseNumber, "strconv.ParseUint": cuestrconv.ParseUint,
	"strconv.Quote": cuestrconv.Quote, "strconv.QuoteToASCII": cuestrconv.QuoteToASCII,
	"strconv.QuoteToGraphic": cuestrconv.QuoteToGraphic, "strconv.Unquote": cuestrconv.Unquote,

	"regexp.Find": cueregexp.Find, "regexp.FindAll": cueregexp.FindAll,
	"regexp.FindAllNamedSubmatch": cueregexp.FindAllNamedSubmatch, "regexp.FindAllSubmatch": cueregexp.FindAllSubmatch,
	"regexp.FindNamedSubmatch": cueregexp.FindNamedSubmatch, "regexp.FindSubmatch": cueregexp.FindSubmatch,
	"regexp.Match": cueregexp.Match, "regexp.QuoteMeta": cueregexp.QuoteMeta, "regexp.ReplaceAll": cueregexp.ReplaceAll,
	"regexp.ReplaceAllLiteral": cueregexp.ReplaceAllLiteral, "regexp.Valid": cueregexp.Valid,

	"net.AbsURL": cuenet.AbsURL, "net.URL": cuenet.URL, "net.FQDN": cuenet.FQDN,
	"net.GlobalUnicastIP": cuenet.GlobalUnicastIP, "net.IP": cuenet.IP, "net.IPCIDR": cuenet.IPCIDR,
	"net.IPString": cuenet.IPString, "net.IPv4": cuenet.IPv4, "net.IPv6": cuenet.IPv6, "net.InCIDR": cuenet.InCIDR,
	"net.InterfaceLocalMulticastIP": cuenet.InterfaceLocalMulticastIP, "net.JoinHostPort": cuenet.JoinHostPort,
	"net.LinkLocalMulticastIP": cuenet.LinkLocalMulticastIP, "net.LinkLocalUnicastIP": cuenet.LinkLocalUnicastIP,
	"net.LoopbackIP": cuenet.LoopbackIP, "net.MulticastIP": cuenet.MulticastIP, "net.ParseIP": cuenet.ParseIP,
	"net.PathEscape": cuenet.PathEscape, "net.PathUnescape": cuenet.PathUnescape, "net.QueryEscape": cuenet.QueryEscape,
	"net.QueryUnescape": cuenet.QueryUnescape, "net.SplitHostPort": cuenet.SplitHostPort, "net.ToIP16": cuenet.ToIP16,
	"net.ToIP4": cuenet.ToIP4, "net.UnspecifiedIP": cuenet.UnspecifiedIP, "net.AddIP": cuenet.AddIP,
	"net.AddIPCIDR": cuenet.AddIPCIDR, "net.CompareIP": cuenet.CompareIP,

	"path.Base": path.Base, "path.Clean": path.Clean, "path.Dir": path.Dir, "path.Ext": path.Ext,
	"path.IsAbs": path.IsAbs, "path.Join": path.Join, "path.Match": path.Match, "path.Rel": path.Rel,
	"path.Resolve": path.Resolve, "path.Split": path.Split,

	"text/template.HTMLEscape": template.HTMLEscape, "text/template.JSEscape": template.JSEscape,
	"encoding/json.Compact": json.Compact, "encoding/json.HTMLEscape": json.HTMLEscape,
	"encoding/json.Indent": json.Indent, "encoding/json.Unmarshal": json.Unmarshal,
	"encoding/json.UnmarshalStream": json.UnmarshalStream, "encoding/json.Valid": json.Valid,
	"encoding/yaml.Unmarshal": yaml.Unmarshal, "encoding/yaml.UnmarshalStream": yaml.UnmarshalStream,
	"encoding/hex.Decode": hex.Decode, "encoding/hex.DecodedLen": hex.DecodedLen, "encoding/hex.Dump": hex.Dump,
	"encoding/hex.Encode": hex.Encode, "encoding/hex.EncodedLen": hex.EncodedLen,

	"crypto/md5.Sum": md5.Sum, "crypto/sha1.Sum": sha1.Sum, "crypto/sha256.Sum224": sha256.Sum224,
	"crypto/sha256.Sum256": sha256.Sum256, "crypto/sha512.Sum384": sha512.Sum384, "crypto/sha512.Sum512": sha512.Sum512,
	"crypto/sha512.Sum512_224": sha512.Sum512_224, "crypto/sha512.Sum512_256": sha512.Sum512_256,
	"crypto/hmac.Sign": hmac.Sign,

	"uuid.FromInt": uuid.FromInt, "uuid.MD5": uuid.MD5, "uuid.Parse": uuid.Parse, "uuid.SHA1": uuid.SHA1,
	"uuid.ToInt": uuid.ToInt, "uuid.URN": uuid.URN, "uuid.Valid": uuid.Valid, "uuid.Variant": uuid.Variant,
	"uuid.Version": uuid.Version,
}

// functions are all builtins by name; those of packages by import path and name.
var functions map[string]*Function

func init() {
	functions = make(map[string]*Function, len(natives)+len(own))
	for name, f := range natives {
		functions[name] = native(name, f)
	}
	for _, f := range own {
		functions[f.Name] = f
	}
}

// FunctionsOf returns the names of the builtins of a package, given the name by which it is imported.
func FunctionsOf(pkg string) (names []string) {
	for full := range functions {
		path, name, ok := strings.Cut(full, ".")
		if ok && path[strings.LastIndex(path, "/")+1:] == pkg {
			names = append(names, name)
		}
	}
	return names
}

var (
	typeError   = reflect.TypeFor[error]()
	typeDecimal = reflect.TypeFor[*apd.Decimal]()
	typeBig     = reflect.TypeFor[*big.Int]()
	typeValue   = reflect.TypeFor[cue.Value]()
	typeOS      = reflect.TypeFor[path.OS]()
)

// outputs bound what a function produces, in bytes, before it is called: these are the builtins whose
// result can be much larger than their arguments, or take much longer.
var outputs = map[string]func(r *run, args []any) int{
	"strings.Join": func(r *run, args []any) int {
		if kindOf(args[0]) != List {
			return 0
		}
		n, problem := r.length(args[0])
		if problem != nil {
			return 0
		}
		return n * (1 + sizeOf(args[1]))
	},
	"strings.Replace": func(_ *run, args []any) int {
		text, _ := args[0].(string)
		old, _ := args[1].(string)
		return len(text) + strings.Count(text, old)*sizeOf(args[2])
	},
	"regexp.Match":                func(_ *run, args []any) int { return matching(args[0], args[1]) },
	"regexp.Find":                 func(_ *run, args []any) int { return matching(args[0], args[1]) },
	"regexp.FindSubmatch":         func(_ *run, args []any) int { return matching(args[0], args[1]) },
	"regexp.FindNamedSubmatch":    func(_ *run, args []any) int { return matching(args[0], args[1]) },
	"regexp.FindAll":              func(_ *run, args []any) int { return matching(args[0], args[1]) },
	"regexp.FindAllSubmatch":      submatches,
	"regexp.FindAllNamedSubmatch": submatches,
	"regexp.ReplaceAll":           replacement,
	"regexp.ReplaceAllLiteral":    replacement,
	"encoding/json.Indent": func(_ *run, args []any) int {
		lines, depth, deepest := 1, 0, 0
		text, _ := args[0].(string)
		for _, c := range text {
			switch c {
			case '{', '[':
				depth++
				deepest = max(deepest, depth)
				lines++
			case '}', ']':
				depth--
				lines++
			case ',':
				lines++
			}
		}
		return lines * (1 + sizeOf(args[1]) + deepest*sizeOf(args[2]))
	},
	"strconv.FormatFloat":           func(_ *run, args []any) int { n, _ := args[2].(int64); return 64 * int(max(n, 0)) },
	"math.Pow":                      func(_ *run, args []any) int { return digits(args[1]) },
	"math.Exp":                      func(_ *run, args []any) int { return digits(args[0]) },
	"math.Exp2":                     func(_ *run, args []any) int { return digits(args[0]) },
	"math.Log":                      logarithm,
	"math.Log2":                     logarithm,
	"math.Log10":                    logarithm,
	"math.Cbrt":                     logarithm,
	"uuid.ToInt":                    func(_ *run, args []any) int { return sizeOf(args[0]) * sizeOf(args[0]) },
	"encoding/json.Unmarshal":       parsing,
	"encoding/json.UnmarshalStream": parsing,
	"encoding/yaml.Unmarshal":       parsing,
	"encoding/yaml.UnmarshalStream": parsing,
	"math.Floor":                    func(_ *run, args []any) int { return exponent(args[0]) },
	"math.Ceil":                     func(_ *run, args []any) int { return exponent(args[0]) },
	"math.Round":                    func(_ *run, args []any) int { return exponent(args[0]) },
	"math.RoundToEven":              func(_ *run, args []any) int { return exponent(args[0]) },
	"math.Trunc":                    func(_ *run, args []any) int { return exponent(args[0]) },
}

// callSteps is what it takes to call a Go function by reflection.
const callSteps = 10

// reading is how many steps a function takes to read bytesPerStep of an argument.
func reading(name string) int {
	switch pkg, _, _ := strings.Cut(name, "."); pkg {
	case "net", "path", "strconv", "time", "uuid": // character by character, and errors quote the text
		return 10
	}
	return 1
}

// sizeOf is the length of a text.
func sizeOf(value any) int {
	switch v := value.(type) {
	case string:
		return len(v)
	case []byte:
		return len(v)
	}
	return 0
}

// patternSteps is what it takes to compile a byte of a pattern.
const patternSteps = 10

// searching is what it takes to match a text: its length, times that of the pattern.
func searching(pattern, text any) int {
	return sizeOf(text) * (1 + sizeOf(pattern)/16) * (bytesPerStep / budget.BytesPerMatch)
}

// matching is searching with a pattern that is compiled for it.
func matching(pattern, text any) int {
	return sizeOf(pattern)*patternSteps*bytesPerStep + searching(pattern, text)
}

func (r *run) matchesIn(args []any) (n, groups int) {
	pattern, _ := args[0].(string)
	text, _ := args[1].(string)
	re, problem := r.regexp(pattern, nil)
	if problem != nil {
		return 0, 0
	}
	return len(re.FindAllStringIndex(text, -1)), re.NumSubexp() + 1
}

func submatches(r *run, args []any) int {
	r.spend(matching(args[0], args[1]) / bytesPerStep)
	n, groups := r.matchesIn(args)
	return n * groups * bytesPerStep
}

func replacement(r *run, args []any) int {
	r.spend(matching(args[0], args[1]) / bytesPerStep)
	n, _ := r.matchesIn(args)
	repl, _ := args[2].(string)
	return sizeOf(args[1])*(1+strings.Count(repl, "$")) + n*len(repl)
}

// parsing is what it takes to make syntax of CUE of a text.
func parsing(_ *run, args []any) int { return sizeOf(args[0]) * 200 }

// logarithm is what it takes to compute with all digits of a decimal.
func logarithm(*run, []any) int { return 500 * bytesPerStep }

// digits is what it takes to compute a power: each digit of the exponent's value is work.
func digits(value any) int {
	if d, ok := toDecimal(value); ok {
		if f, err := d.Float64(); err == nil {
			return int(min(max(f, -f), maxInt)) * bytesPerStep
		}
	}
	return maxInt
}

// exponent is what it takes to write a number as an integer.
func exponent(value any) int {
	if d, ok := toDecimal(value); ok {
		return max(int(d.Exponent), 0) * bytesPerStep
	}
	return 0
}

// native makes a builtin of a Go function.
func native(name string, f any) *Function {
	value := reflect.ValueOf(f)
	t := value.Type()
	result := &Function{Name: name, params: t.NumIn()}
	result.isValidator = t.NumIn() >= 1 && (t.Out(0).Kind() == reflect.Bool || t.Out(0) == typeError)
	if last := t.NumIn() - 1; t.In(last) == typeOS && name != "path.Join" {
		result.optional = 1
	}
	size, steps := outputs[name], reading(name)
	result.call = func(r *run, x Expr, args []any) (result any, problem *Problem) {
		for _, arg := range args {
			r.spend(steps * sizeOf(arg) / bytesPerStep)
		}
		if size != nil {
			r.spend(size(r, args) / bytesPerStep)
		}
		if result, done := quick(f, args); done {
			return result, nil
		}
		r.spend(callSteps)
		c := conversion{r, x, name}
		in := make([]reflect.Value, t.NumIn())
		for i := range in {
			if i >= len(args) {
				in[i] = reflect.ValueOf(path.Unix)
				continue
			}
			if in[i], problem = c.argument(i, args[i], t.In(i)); problem != nil {
				return nil, problem
			}
		}
		defer func() { // as CUE does it
			if p := recover(); p != nil {
				if e, ok := p.(exhausted); ok {
					panic(e)
				}
				result, problem = nil, wrong(x, "error in call to %s: %v", source(name), p)
			}
		}()
		return c.results(value.Call(in))
	}
	return result
}

// quick calls the most frequent kinds of functions without reflection.
func quick(f any, args []any) (any, bool) {
	if len(args) == 0 {
		return nil, false
	}
	text, ok := args[0].(string)
	if !ok {
		return nil, false
	}
	switch f := f.(type) {
	case func(string) string:
		return f(text), true
	case func(string) []string:
		return toList(f(text)), true
	case func(string, string) bool:
		if other, ok := args[1].(string); ok {
			return f(text, other), true
		}
	case func(string, string) string:
		if other, ok := args[1].(string); ok {
			return f(text, other), true
		}
	}
	return nil, false
}

func toList[T any](values []T) []any {
	result := make([]any, len(values))
	for i, v := range values {
		result[i] = v
	}
	return result
}

// conversion converts the arguments of a call to those of a Go function, and its results back.
type conversion struct {
	*run
	x    Expr
	name string // of the function
}

// argument converts a value to the type of a parameter.
func (c conversion) argument(i int, value any, t reflect.Type) (reflect.Value, *Problem) {
	mismatch := func(want string) (reflect.Value, *Problem) {
		return reflect.Value{}, wrong(c.x, "cannot use %s (type %s) as %s in argument %d to %s", textOf(value),
			kindOf(value), source(want), i+1, source(c.name))
	}
	kind := kindOf(value)
	switch t {
	case typeDecimal:
		if d, ok := toDecimal(value); ok {
			return reflect.ValueOf(&d.Decimal), nil
		}
		return mismatch("number")
	case typeBig:
		if kind != Int {
			return mismatch("int")
		}
		return reflect.ValueOf(bigInt(value)), nil
	case typeValue:
		data, problem := c.export(value)
		if problem != nil {
			return reflect.Value{}, problem
		}
		return reflect.ValueOf(encoded(data)), nil
	}
	switch t.Kind() {
	case reflect.String:
		if kind != String {
			return mismatch("string")
		}
		return reflect.ValueOf(value).Convert(t), nil
	case reflect.Bool:
		if kind != Bool {
			return mismatch("bool")
		}
		return reflect.ValueOf(value), nil
	case reflect.Float64:
		d, ok := toDecimal(value)
		if !ok {
			return mismatch("number")
		}
		f, err := d.Float64()
		if err != nil {
			return mismatch("float64")
		}
		return reflect.ValueOf(f), nil
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint:
		n, ok := value.(int64)
		if !ok || t.Kind() == reflect.Uint && n < 0 || reflect.Zero(t).CanInt() && reflect.Zero(t).OverflowInt(n) {
			return mismatch("int")
		}
		return reflect.ValueOf(n).Convert(t), nil
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			switch v := value.(type) {
			case string:
				return reflect.ValueOf([]byte(v)), nil
			case []byte:
				return reflect.ValueOf(slices.Clone(v)), nil
			}
			return mismatch("string|bytes")
		}
		return c.listArgument(i, value, t)
	}
	return mismatch(t.String())
}

func (c conversion) listArgument(i int, value any, t reflect.Type) (reflect.Value, *Problem) {
	if kindOf(value) != List {
		return reflect.Value{}, wrong(c.x, "cannot use %s (type %s) as list in argument %d to %s", textOf(value),
			kindOf(value), i+1, source(c.name))
	}
	elements, problem := c.elements(value)
	if problem != nil {
		return reflect.Value{}, problem
	}
	c.spend(len(elements))
	result := reflect.MakeSlice(t, len(elements), len(elements))
	for j, element := range elements {
		element, problem := c.valueOf(element)
		if problem != nil {
			return reflect.Value{}, problem
		}
		converted, problem := c.argument(i, element, t.Elem())
		if problem != nil {
			return reflect.Value{}, problem
		}
		result.Index(j).Set(converted)
	}
	return result, nil
}

// elements lists the elements of a list.
func (r *run) elements(list any) ([]any, *Problem) {
	if data, ok := list.([]any); ok {
		return data, nil
	}
	length, problem := r.length(list)
	if problem != nil {
		return nil, problem
	}
	r.spend(length)
	result := make([]any, length)
	for i := range result {
		result[i] = r.element(list, i)
	}
	return result, nil
}

// results converts what a Go function returns.
func (c conversion) results(out []reflect.Value) (any, *Problem) {
	last := out[len(out)-1]
	if last.Type() == typeError {
		if err, ok := reflect.TypeAssert[error](last); ok && err != nil {
			// strconv names itself
			return nil,
				wrong(c.x, "error in call to %s: %s", source(c.name), strings.TrimPrefix(reasonOf(err), c.name+": "))
		}
		if len(out) == 1 {
			return true, nil
		}
	}
	return c.fromGo(out[0])
}

// reasonOf returns the message of an error of CUE's packages.
func reasonOf(err error) string {
	if b, ok := errors.AsType[interface {
		error
		Msg() (string, []any)
	}](err); ok {
		format, args := b.Msg()
		return strings.TrimSpace(fmt.Sprintf(format, args...))
	}
	return err.Error()
}

func (c conversion) fromGo(v reflect.Value) (any, *Problem) {
	switch value := v.Interface().(type) {
	case ast.Expr:
		p := place{compiler: newCompiler()}
		compiled := p.expr(value)
		if len(p.errors) > 0 {
			return nil, wrong(c.x, "%s", p.errors[0].Message)
		}
		return c.eval(compiled, nil)
	case *apd.Decimal:
		return integral(value), nil
	case *big.Int:
		return fromBig(value), nil
	case []byte:
		return value, nil
	case string, bool:
		return value, nil
	case *time.Parts:
		return map[string]any{
			"year": int64(value.Year), "month": int64(value.Month), "day": int64(value.Day), "hour": int64(value.Hour),
			"minute": int64(value.Minute), "second": int64(value.Second), "nanosecond": int64(value.Nanosecond),
		}, nil
	}
	switch {
	case v.CanInt():
		return v.Int(), nil
	case v.CanUint():
		return fromBig(new(big.Int).SetUint64(v.Uint())), nil
	case v.CanFloat():
		d := &Decimal{IsFloat: true}
		if _, err := d.SetFloat64(v.Float()); err != nil {
			return nil, wrong(c.x, "the result is no number: %v", err)
		}
		return d, nil
	}
	switch v.Kind() {
	case reflect.Slice:
		result := make([]any, v.Len())
		c.spend(len(result))
		for i := range result {
			element, problem := c.fromGo(v.Index(i))
			if problem != nil {
				return nil, problem
			}
			result[i] = element
		}
		return result, nil
	case reflect.Map:
		result := make(map[string]any, v.Len())
		for _, key := range v.MapKeys() {
			element, problem := c.fromGo(v.MapIndex(key))
			if problem != nil {
				return nil, problem
			}
			result[key.String()] = element
		}
		return result, nil
	}
	return nil, wrong(c.x, "its result cannot be used")
}

// integral returns a decimal of CUE's packages, which is an integer if it has no fraction.
func integral(d *apd.Decimal) any {
	var whole apd.Decimal
	result := &Decimal{}
	result.Set(d)
	if condition, _ := arithmetic.RoundToIntegralExact(&whole, d); condition.Inexact() {
		result.IsFloat = true
		return result
	}
	result.Set(&whole)
	return result.reduced()
}

var (
	encoders    sync.Mutex
	encoderOfGo = sync.OnceValue(func() *cue.Context { return cuecontext.New() })
)

// encoded returns plain data as functions of CUE's packages take it.
func encoded(data any) cue.Value {
	encoders.Lock()
	defer encoders.Unlock()
	return encoderOfGo().Encode(data)
}

// addTo unifies a node with a builtin as a constraint.
func (f *Function) addTo(r *run, n *node, x Expr, args []Expr, e *env) {
	if !f.isValidator {
		n.fail(wrong(x, "%s is a function: it must be called", source(f.Name)))
		return
	}
	limits := make([]any, 0, len(args))
	for _, arg := range args {
		value, problem := r.eval(arg, e)
		if problem != nil {
			n.fail(problem)
			return
		}
		limits = append(limits, value)
	}
	n.checks = append(n.checks, check{x, func(r *run, value any) *Problem {
		holds, problem := f.call(r, x, append([]any{value}, limits...))
		if problem != nil {
			return problem
		}
		if holds != true {
			text := f.Name
			if call, ok := x.(*Call); ok {
				text = call.Text
			}
			return wrong(x, "invalid value %s (does not satisfy %s)", textOf(value), source(text))
		}
		return nil
	}})
}

// addTo unifies a node with the result of a call, or with a validator.
func (x *Call) addTo(r *run, n *node, e *env, g *group) {
	f := x.Function
	switch {
	case f.Name == "close" && len(x.Args) == 1:
		n.add(r, conj{x: x.Args[0], env: e, group: g.closing(n, nil)})
	case f.isNode && len(x.Args) == 1:
		list, problem := r.eval(x.Args[0], e)
		if problem == nil && kindOf(list) != List {
			problem = wrong(x, "cannot use %s (type %s) as list in argument 1 to %s", textOf(list), kindOf(list),
				source(f.Name))
		}
		var elements []any
		if problem == nil {
			elements, problem = r.elements(list)
		}
		if problem != nil {
			n.fail(problem)
			return
		}
		if f.Name == "and" {
			for _, element := range elements {
				n.include(r, element, x, g)
			}
			return
		}
		if len(elements) == 0 {
			n.fail(incomplete(x, "", "empty list in call to or"))
			return
		}
		d := &Disjunction{at: x.at}
		for i := range elements {
			d.Alternatives = append(d.Alternatives, Alternative{X: &Variable{at: x.at, Up: i}})
		}
		scope := (*env)(nil)
		for _, element := range slices.Backward(elements) {
			scope = &env{up: scope, value: element}
		}
		n.add(r, conj{x: d, env: scope, group: g})
	case x.isValidator():
		f.addTo(r, n, x, x.Args, e)
	default:
		n.addResult(r, x, e, g)
	}
}

// eval computes a builtin.
func (x *Call) eval(r *run, e *env) (any, *Problem) {
	args := make([]any, len(x.Args))
	var worst *Problem
	for i, arg := range x.Args {
		value, problem := r.eval(arg, e)
		if problem == nil && !x.Function.counts {
			problem = r.unfit(value)
		}
		worst = worse(worst, problem)
		args[i] = value
	}
	if worst != nil {
		return nil, worst
	}
	result, problem := x.Function.call(r, x, args)
	switch v := result.(type) {
	case string:
		r.spend(len(v) / bytesPerStep)
	case []any:
		r.spend(len(v))
	}
	return result, problem
}
