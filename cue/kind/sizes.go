package kind

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind/schema"
)

// An evaluation cannot be interrupted, so what it may build is bounded before: these are the
// largest sizes that a kind may compute from its object.
const (
	// maxComputedItems bounds the items of a list, the digits of a number, and counts.
	maxComputedItems = 10_000
	// maxLoopRounds bounds the rounds of loops within each other, to as many as a loop over all
	// values of an object can have. A list of that length takes CUE v0.17.1 half a second, and one
	// of four times the length ten.
	maxLoopRounds = 20_000
	// maxParts bounds the items of a list that a text is split into.
	maxParts = 100_000
	// maxComputedText bounds a text, in bytes.
	maxComputedText = 64 << 20
	// maxObjectText is the size of the largest text in an object, in bytes: the API server
	// accepts requests of 3 MiB.
	maxObjectText = 3 << 20
)

// checkSizes returns an error if the behaviour of a kind computes something whose size depends on
// a part of the object that has no upper bound in the schema. It also returns the paths of texts
// without a bound that the behaviour splits: checkSplit has to check them in each object.
func checkSizes(instance *build.Instance, name string, schema *schema.Schema) (split [][]string, err error) {
	c := &sizeChecker{schema: schema, packages: newCompiler(), seen: make(map[ast.Node]bool)}
	for _, definition := range []string{"#" + name, "#" + name + controllerSuffix} {
		for _, f := range c.packages.fieldsOf(instance)[definition] {
			c.visit(instance, f.Value)
		}
	}
	return c.split, c.found
}

// checkSplit returns an error if a text in an object is too long to be split.
func checkSplit(object map[string]any, split [][]string) *field.Error {
	for _, names := range split {
		if err := checkText(object, names, nil); err != nil {
			return err
		}
	}
	return nil
}

// checkText checks the texts at a path, of which "[]" is each item or field.
func checkText(value any, names []string, path *field.Path) *field.Error {
	if len(names) == 0 {
		if text, ok := value.(string); ok && len(text) > maxParts {
			return field.Invalid(path, field.OmitValueType{}, fmt.Sprintf("must not be longer than %d bytes, because the behaviour splits it", maxParts))
		}
		return nil
	}
	switch value := value.(type) {
	case map[string]any:
		if v, ok := value[names[0]]; ok {
			return checkText(v, names[1:], path.Child(names[0]))
		}
		if names[0] != "[]" {
			return nil
		}
		for name, v := range value {
			if err := checkText(v, names[1:], path.Key(name)); err != nil {
				return err
			}
		}
	case []any:
		for i, v := range value {
			if err := checkText(v, names[1:], path.Index(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// sizeChecker visits the CUE that a behaviour is made of.
type sizeChecker struct {
	schema   *schema.Schema // of the object
	packages *compiler      // finds the fields of packages
	seen     map[ast.Node]bool
	found    error // the first one
	split    [][]string
	// rounds are those of the loops around, and loops their variables.
	rounds float64
	loops  []loopVariable
	// depth is that of the references being followed.
	depth int
}

// loopVariable is a name that a comprehension binds.
type loopVariable struct {
	name   string
	value  extent
	within bool // whether it is a part of what an outer loop loops over
}

// extent is what is known of the size of a value: of a number its value, of a text its bytes, of
// a list its items.
type extent struct {
	low, high float64
	// unbounded names the part of the object that has no bound, and advice what to write
	// there.
	unbounded, advice string
	// types are those that the value may have; 0 is unknown.
	types schema.Types
	// text is the path of a field of the object that is a text without a bound, if that is
	// where the value comes from.
	text []string
}

func exactly(n float64, types schema.Types) extent { return extent{low: n, high: n, types: types} }

// unknown is the extent of an expression that is not understood.
func unknown(e ast.Node) extent {
	return extent{low: math.Inf(-1), high: math.Inf(1), unbounded: sourceOf(e), advice: "write it with literals and fields of object.spec that have an upper bound, or as list.Min([…, 10000])"}
}

func (c *sizeChecker) visit(instance *build.Instance, node ast.Node) {
	ast.Walk(node, func(n ast.Node) bool {
		if c.found != nil {
			return false
		}
		switch n := n.(type) {
		case *ast.Field:
			// The label is no reference.
			if _, _, err := ast.LabelName(n.Label); err != nil {
				c.visit(instance, n.Label)
			}
			c.visit(instance, n.Value)
			return false
		case *ast.Comprehension:
			c.comprehension(instance, n)
			return false
		case *ast.CallExpr:
			c.call(n)
		case *ast.BinaryExpr:
			if n.Op == token.MUL {
				c.multiplication(n)
			}
		case *ast.Ident:
			c.follow(instance, n)
		case *ast.SelectorExpr:
			if imported, name := importedDefinition(instance, n); imported != nil {
				for _, f := range c.packages.fieldsOf(imported)[name] {
					c.once(imported, f)
				}
				return false
			}
		}
		return true
	}, nil)
}

// follow visits the field of the package that an identifier names.
func (c *sizeChecker) follow(instance *build.Instance, n *ast.Ident) {
	for _, f := range c.packages.fieldsOf(instance)[n.Name] {
		if f.Label != n {
			c.once(instance, f)
		}
	}
}

func (c *sizeChecker) once(instance *build.Instance, f *ast.Field) {
	if c.seen[f] || isLibrary(f.Pos().Filename()) {
		return
	}
	c.seen[f] = true
	rounds, loops := c.rounds, c.loops
	c.rounds, c.loops = 0, nil
	c.visit(instance, f.Value)
	c.rounds, c.loops = rounds, loops
}

// comprehension bounds the rounds of loops within each other. A loop over a part of what an
// outer loop loops over adds none: together they visit each value once.
func (c *sizeChecker) comprehension(instance *build.Instance, n *ast.Comprehension) {
	rounds, variables := c.rounds, len(c.loops)
	defer func() { c.rounds, c.loops = rounds, c.loops[:variables] }()
	bind := func(name *ast.Ident, value extent, within bool) {
		if name != nil {
			c.loops = append(c.loops, loopVariable{name.Name, value, within})
		}
	}
	for _, clause := range n.Clauses {
		switch clause := clause.(type) {
		case *ast.ForClause:
			c.visit(instance, clause.Source)
			isPart := c.isPart(clause.Source)
			size := c.extentOf(clause.Source)
			if s, ok := clause.Source.(*ast.StructLit); ok && !slices.ContainsFunc(s.Elts, func(d ast.Decl) bool { _, isField := d.(*ast.Field); return !isField }) {
				size = exactly(float64(len(s.Elts)), schema.Struct) // nothing can add to it
			}
			if !isPart {
				outer := max(c.rounds, 1)
				c.rounds = outer * min(max(size.high, 1), float64(evaluatorLimits.values))
				if c.rounds > maxLoopRounds && outer > 1 {
					c.reject(clause.Source, size, "loops within each other", fmt.Sprint(maxLoopRounds, " rounds"))
				}
			}
			bind(clause.Key, extent{low: math.Inf(-1), high: max(size.high, 0), unbounded: sourceOf(clause.Source), advice: size.advice}, false)
			bind(clause.Value, c.elementOf(clause.Source), true)
		case *ast.LetClause:
			c.visit(instance, clause.Expr)
			bind(clause.Ident, c.extentOf(clause.Expr), c.isPart(clause.Expr))
		default:
			c.visit(instance, clause)
		}
	}
	c.visit(instance, n.Value)
}

// isPart reports whether an expression selects from the variable of a loop.
func (c *sizeChecker) isPart(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return c.isPart(e.X)
	case *ast.SelectorExpr:
		return c.isPart(e.X)
	case *ast.IndexExpr:
		return c.isPart(e.X)
	case *ast.Ident:
		v := c.variable(e.Name)
		return v != nil && v.within
	}
	return false
}

func (c *sizeChecker) variable(name string) *loopVariable {
	for i := range slices.Backward(c.loops) {
		if c.loops[i].name == name {
			return &c.loops[i]
		}
	}
	return nil
}

// reject reports something that may grow beyond a limit, like "10000 items".
func (c *sizeChecker) reject(at ast.Node, e extent, what, limit string) {
	reason := "; that is the limit for what a kind computes"
	switch {
	case e.unbounded != "":
		reason = ": " + e.unbounded + " has no upper bound: " + e.advice
	case e.advice != "":
		reason = ": " + e.advice
	}
	if c.found == nil {
		c.found = errorAtNode(at, "%s may have more than %s%s", what, limit, reason)
	}
}

// multiplication bounds a text that is repeated by an operator.
func (c *sizeChecker) multiplication(n *ast.BinaryExpr) {
	x, y := c.extentOf(n.X), c.extentOf(n.Y)
	if (x.types|y.types)&schema.String == 0 || x.types&schema.String != 0 && y.types&schema.String != 0 {
		return
	}
	c.text(n, sourceOf(n), x, y)
}

// text bounds a text that is as long as the product of sizes.
func (c *sizeChecker) text(at ast.Node, what string, factors ...extent) {
	c.product(at, what, maxComputedText, "64 MiB", factors...)
}

// product bounds a size that is the product of others. An unbounded number is named before an
// unbounded text, which is limited by the size of the object.
func (c *sizeChecker) product(at ast.Node, what string, limit float64, limitText string, factors ...extent) {
	size, cause := 1.0, extent{}
	for _, f := range factors {
		size *= max(f.high, 0)
		if f.advice != "" && (cause.advice == "" || f.high > cause.high) {
			cause = f
		}
	}
	if size > limit || math.IsNaN(size) { // NaN: nothing, times anything
		c.reject(at, cause, what, limitText)
	}
}

// builtin returns the package and the name of a builtin that is called, as in list.Range.
func builtin(n *ast.CallExpr) string {
	switch f := n.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		name, _, err := ast.LabelName(f.Sel)
		if _, path := importedPackage(f); path != "" && err == nil {
			return path + "." + name
		}
	}
	return ""
}

// call bounds what a builtin returns. These are all builtins of CUE v0.17.1 whose result can be
// much larger than their arguments.
func (c *sizeChecker) call(n *ast.CallExpr) {
	if len(n.Args) == 0 {
		return
	}
	args := make([]extent, 5) // none of them has more
	for i, arg := range n.Args[:min(len(n.Args), len(args))] {
		args[i] = c.extentOf(arg)
	}
	name := builtin(n)
	switch name {
	case "list.Range":
		size := rangeSize(args)
		c.product(n, name, maxComputedItems, "10000 items", size)
	case "list.Repeat":
		c.product(n, name, maxComputedItems, "10000 items", args[0], args[1])
	case "strings.Repeat":
		c.text(n, name, args[0], args[1])
	case "strings.Replace": // a text to replace that is empty is found before each character
		places := plus(args[0], exactly(1, 0))
		places.high /= max(args[1].low, 1)
		c.text(n, name, places, args[2])
	case "regexp.ReplaceAll", "regexp.ReplaceAllLiteral":
		c.text(n, name, plus(args[1], exactly(1, 0)), args[2])
	case "strings.Join":
		if args[1].high > 1 {
			c.text(n, name, args[0], args[1])
		}
	case "encoding/json.Indent":
		c.text(n, name, args[0], plus(args[1], args[2]))
	case "math/bits.Lsh", "math/bits.Set", "math.Pow", "math.Pow10", "math.Exp", "math.Exp2", "math.Expm1", "math.Gamma", "math.Sinh", "math.Cosh", "math.Ldexp":
		exponent := args[max(len(n.Args)-1, 0)]
		if name == "math/bits.Set" {
			exponent = args[1]
		}
		c.product(n, name, maxComputedItems, "10000 digits", exponent)
	case "strconv.FormatFloat":
		c.product(n, name, maxComputedItems, "10000 digits", args[2])
	case "strings.Runes", "strings.Split", "strings.SplitN", "strings.SplitAfter", "strings.SplitAfterN", "strings.Fields":
		switch {
		case args[0].text != nil:
			c.split = append(c.split, args[0].text)
		case args[0].unbounded != "":
			c.product(n, name, maxParts, "100000 items", args[0])
		}
	case "text/template.Execute":
		if literal, ok := n.Args[0].(*ast.BasicLit); !ok || literal.Kind != token.STRING {
			c.found = errorAtNode(n, "%s: the template must be a literal: what one does that is computed has no bound", name)
		}
	}
}

// rangeSize returns the number of items of list.Range(start, limit, step).
func rangeSize(args []extent) extent {
	start, limit, step := args[0], args[1], args[2]
	size := extent{high: math.Inf(1), unbounded: step.unbounded, advice: step.advice, types: schema.List}
	switch {
	case step.low > 0:
		size.high = (limit.high - start.low) / step.low
		size.unbounded, size.advice = worst(limit.high, limit, -start.low, start)
	case step.high < 0:
		size.high = (start.high - limit.low) / -step.high
		size.unbounded, size.advice = worst(start.high, start, -limit.low, limit)
	case size.unbounded == "":
		size.advice = "the step must always be above 0, or always below"
	}
	return size
}

// worst returns the cause of the larger of two numbers.
func worst(a float64, x extent, b float64, y extent) (unbounded, advice string) {
	if b > a {
		x = y
	}
	if math.IsInf(b, 1) {
		return x.unbounded, strings.ReplaceAll(x.advice, "<=", ">=0 & <=")
	}
	return x.unbounded, x.advice
}

func plus(x, y extent) extent {
	sum := extent{low: x.low + y.low, high: x.high + y.high, types: x.types | y.types}
	sum.unbounded, sum.advice = x.unbounded, x.advice
	if y.unbounded != "" && (x.unbounded == "" || y.high > x.high) {
		sum.unbounded, sum.advice = y.unbounded, y.advice
	}
	return sum
}

func negated(x extent) extent {
	x.low, x.high = -x.high, -x.low
	return x
}

// either is the extent of a value that has one of two.
func either(x, y extent) extent {
	both := plus(x, y)
	both.low, both.high = min(x.low, y.low), max(x.high, y.high)
	return both
}

// both is the extent of a value that has both of two.
func both(x, y extent) extent {
	narrow := extent{low: max(x.low, y.low), high: min(x.high, y.high), types: x.types & y.types}
	if x.types == 0 || y.types == 0 {
		narrow.types = x.types | y.types
	}
	tighter := x
	if y.high < x.high {
		tighter = y
	}
	narrow.unbounded, narrow.advice = tighter.unbounded, tighter.advice
	return narrow
}

func times(x, y extent) extent {
	product := plus(x, y)
	ends := []float64{x.low * y.low, x.low * y.high, x.high * y.low, x.high * y.high}
	product.low, product.high = slices.Min(ends), slices.Max(ends)
	if slices.ContainsFunc(ends, math.IsNaN) {
		product.low, product.high = math.Inf(-1), math.Inf(1)
	}
	return product
}

// maxFollowed bounds how many references to fields are followed to find a size.
const maxFollowed = 20

// extentOf returns what is known of the size of an expression.
func (c *sizeChecker) extentOf(e ast.Expr) extent {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return c.extentOf(e.X)
	case *ast.BasicLit:
		return extentOfLiteral(e)
	case *ast.Interpolation:
		sum := exactly(0, schema.String)
		for i, part := range e.Elts {
			if i%2 == 0 {
				sum.high += float64(len(part.(*ast.BasicLit).Value))
				continue
			}
			if x := c.extentOf(part); x.types&schema.String != 0 || x.types == 0 {
				sum = plus(sum, x)
			} else {
				sum.high += 400 // digits of the largest float64, and more
			}
		}
		sum.types = schema.String
		return sum
	case *ast.ListLit:
		return c.extentOfList(e)
	case *ast.UnaryExpr:
		return c.extentOfUnary(e)
	case *ast.BinaryExpr:
		return c.extentOfBinary(e)
	case *ast.CallExpr:
		return c.extentOfCall(e)
	case *ast.Ident:
		return c.extentOfIdent(e)
	case *ast.SelectorExpr, *ast.IndexExpr:
		if names := objectPath(e); names != nil {
			return c.extentOfField(names)
		}
		if names := pathFrom(observedName, e); names != nil { // a list or a text of a child
			return extent{low: math.Inf(-1), high: math.Inf(1), unbounded: sourceOf(e), advice: "write list.Min([…, 10000]), because nothing bounds a child"}
		}
	}
	return unknown(e)
}

func extentOfLiteral(e *ast.BasicLit) extent {
	switch e.Kind {
	case token.INT, token.FLOAT:
		var number literal.NumInfo
		if literal.ParseNum(e.Value, &number) == nil {
			if n, err := strconv.ParseFloat(number.String(), 64); err == nil {
				return exactly(n, schema.Number)
			}
		}
	case token.STRING:
		if text, err := literal.Unquote(e.Value); err == nil {
			return exactly(float64(len(text)), schema.String)
		}
	}
	return exactly(0, 0)
}

func (c *sizeChecker) extentOfList(e *ast.ListLit) extent {
	sum := exactly(0, schema.List)
	for _, element := range e.Elts {
		switch element := element.(type) {
		case *ast.Comprehension:
			rounds := exactly(1, schema.List)
			for _, clause := range element.Clauses {
				if loop, ok := clause.(*ast.ForClause); ok {
					rounds = times(rounds, c.extentOf(loop.Source))
				}
			}
			rounds.low = 0
			sum = plus(sum, rounds)
		case *ast.Ellipsis:
			sum.high, sum.unbounded, sum.advice = math.Inf(1), sourceOf(e), "give the list a fixed length"
		default:
			sum.low, sum.high = sum.low+1, sum.high+1
		}
	}
	sum.types = schema.List
	return sum
}

func (c *sizeChecker) extentOfUnary(e *ast.UnaryExpr) extent {
	x := c.extentOf(e.X)
	switch e.Op {
	case token.SUB:
		return negated(x)
	case token.ADD, token.MUL: // *x is a default
		return x
	case token.LEQ, token.LSS:
		x.low = math.Inf(-1)
		return x
	case token.GEQ, token.GTR:
		return extent{low: x.low, high: math.Inf(1), unbounded: sourceOf(e), advice: "give it an upper bound, as in & <=10000", types: x.types}
	}
	return unknown(e)
}

func (c *sizeChecker) extentOfBinary(e *ast.BinaryExpr) extent {
	x, y := c.extentOf(e.X), c.extentOf(e.Y)
	switch e.Op {
	case token.AND:
		return both(x, y)
	case token.OR:
		return either(x, y)
	case token.ADD:
		return plus(x, y)
	case token.SUB:
		return plus(x, negated(y))
	case token.MUL:
		return times(x, y)
	case token.QUO:
		if y.low >= 1 || y.high <= -1 {
			return either(x, negated(x))
		}
	}
	return unknown(e)
}

func (c *sizeChecker) extentOfCall(e *ast.CallExpr) extent {
	if len(e.Args) == 0 {
		return unknown(e)
	}
	name := builtin(e)
	arg := func(i int) extent {
		if i < len(e.Args) {
			return c.extentOf(e.Args[i])
		}
		return unknown(e)
	}
	switch name {
	case "len":
		x := arg(0)
		x.low, x.types = 0, schema.Int
		return x
	case "div", "quo":
		if y := arg(1); y.low >= 1 {
			return either(arg(0), exactly(0, schema.Int))
		}
	case "mod", "rem":
		y := arg(1)
		return either(y, negated(y))
	case "list.Range":
		return rangeSize([]extent{arg(0), arg(1), arg(2)})
	case "list.Repeat", "strings.Repeat":
		return times(arg(0), arg(1))
	case "list.Min", "list.Max":
		if list, ok := e.Args[0].(*ast.ListLit); ok && len(list.Elts) > 0 {
			return c.extentOfExtreme(list, name == "list.Min")
		}
	case "math.Abs":
		x := arg(0)
		return either(x, negated(x))
	case "math.Floor", "math.Ceil", "math.Round", "math.Trunc":
		return plus(arg(0), extent{low: -1, high: 1})
	case "list.Concat", "list.FlattenN", "strings.Join":
		list, ok := e.Args[0].(*ast.ListLit)
		if !ok {
			break
		}
		sum := exactly(0, schema.List)
		for _, element := range list.Elts {
			sum = plus(sum, c.extentOf(element))
		}
		return sum
	case "list.Slice", "list.Take", "list.Drop", "list.Reverse", "list.Sort", "list.SortStrings", "list.SortStable",
		"strings.TrimSpace", "strings.Trim", "strings.TrimPrefix", "strings.TrimSuffix", "strings.TrimLeft", "strings.TrimRight",
		"strings.ToLower", "strings.ToUpper", "strings.ToTitle", "strings.ToCamel", "strings.ByteSlice", "strings.SliceRunes":
		return arg(0)
	case "strings.Split", "strings.Fields", "strings.Runes":
		x := arg(0)
		x.types = schema.List
		return x
	}
	return unknown(e)
}

// extentOfExtreme is the extent of the least or the greatest item of a list.
func (c *sizeChecker) extentOfExtreme(list *ast.ListLit, least bool) extent {
	result := c.extentOf(list.Elts[0])
	for _, element := range list.Elts[1:] {
		x := c.extentOf(element)
		low, high := max(result.low, x.low), max(result.high, x.high)
		if least {
			low, high = min(result.low, x.low), min(result.high, x.high)
			result = both(result, x)
		} else {
			result = either(result, x)
		}
		result.low, result.high = low, high
	}
	return result
}

func (c *sizeChecker) extentOfIdent(e *ast.Ident) extent {
	if v := c.variable(e.Name); v != nil {
		return v.value
	}
	switch e.Name {
	case "int8", "uint8", "int16", "uint16":
		return extent{low: math.MinInt16, high: math.MaxUint16, types: schema.Int, unbounded: e.Name, advice: "write & <=10000"}
	case "int", "uint", "int32", "uint32", "int64", "uint64", "number", "float":
		return extent{low: math.Inf(-1), high: math.Inf(1), types: schema.Number, unbounded: e.Name, advice: "write & <=10000"}
	case "string":
		return extent{high: maxObjectText, types: schema.String, unbounded: e.Name, advice: "write & strings.MaxRunes(1000)"}
	}
	if c.depth >= maxFollowed {
		return unknown(e)
	}
	c.depth++
	defer func() { c.depth-- }()
	switch node := e.Node.(type) {
	case *ast.Field:
		return c.extentOf(node.Value)
	case *ast.LetClause:
		return c.extentOf(node.Expr)
	case ast.Expr: // the resolver notes the value of a field
		return c.extentOf(node)
	}
	return unknown(e)
}

// elementOf returns what is known of the elements of a list that is looped over.
func (c *sizeChecker) elementOf(e ast.Expr) extent {
	if call, ok := e.(*ast.CallExpr); ok && builtin(call) == "list.Range" && len(call.Args) == 3 {
		return either(c.extentOf(call.Args[0]), c.extentOf(call.Args[1]))
	}
	if names := objectPath(e); names != nil {
		return c.extentOfField(append(slices.Clone(names), "[]"))
	}
	return unknown(e)
}

// objectPath returns the names of a selection from object; nil if it is something else.
func objectPath(e ast.Expr) []string { return pathFrom(objectName, e) }

func pathFrom(rootName string, e ast.Expr) []string {
	var names []string
	for {
		switch x := e.(type) {
		case *ast.ParenExpr:
			e = x.X
			continue
		case *ast.SelectorExpr:
			name, _, err := ast.LabelName(x.Sel)
			if err != nil {
				return nil
			}
			names, e = append(names, name), x.X
			continue
		case *ast.IndexExpr:
			name := "[]"
			if literal, ok := x.Index.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				name, _, _ = ast.LabelName(literal)
			}
			names, e = append(names, name), x.X
			continue
		case *ast.Ident:
			if x.Name != rootName || len(names) == 0 {
				return nil
			}
			slices.Reverse(names)
			return names
		}
		return nil
	}
}

// extentOfField returns what the schema says of the size of a field of the object.
func (c *sizeChecker) extentOfField(names []string) extent {
	limits := c.schema.LimitsAt(names)
	name := strings.ReplaceAll(strings.Join(names, "."), ".[]", "[]")
	e := extent{low: limits.Low, high: limits.High, types: limits.Types}
	switch {
	case limits.Types&schema.Number != 0 && limits.High > maxComputedItems:
		e.unbounded, e.advice = name, fmt.Sprintf("write int & <=%d in the schema", maxComputedItems)
	case limits.Types&schema.Number != 0 && math.IsInf(limits.Low, -1):
		e.unbounded, e.advice = name, fmt.Sprintf("write int & <=%d in the schema", maxComputedItems)
	case limits.Types&schema.String != 0 && math.IsInf(limits.High, 1):
		e.high, e.unbounded, e.advice = maxObjectText, name, "write strings.MaxRunes(1000) in the schema"
		e.text = names
	case limits.Types&(schema.List|schema.Struct) != 0 && math.IsInf(limits.High, 1):
		e.high, e.unbounded, e.advice = float64(evaluatorLimits.values), name, "write list.MaxItems(100) in the schema"
		if limits.Types&schema.List == 0 {
			e.advice = "write struct.MaxFields(100) in the schema"
		}
	}
	return e
}
