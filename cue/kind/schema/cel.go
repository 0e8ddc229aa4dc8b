package schema

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// celString returns a text as a CEL literal. CEL's escapes are those of Go for what the
// characters of regular expressions and enums.
func celString(text string) string { return strconv.Quote(text) }

// relations adds the comparisons of the value with other fields: as a rule on the innermost
// struct from which all of them can be seen.
func (e *emitter) relations(s *Schema) {
	name, structs := e.slot.name, e.structs
	for _, r := range s.Relations {
		at, ok := commonStruct(structs, r.Expr)
		if !ok || name == "" {
			continue
		}
		c := celWriter{structs: structs, at: at}
		own, ok := c.reference(0, []string{name})
		if !ok || !isPlainScalar(s) {
			continue
		}
		value, ok := c.write(r.Expr)
		if !ok || !sameClass(r.Op, c.class(r.Expr), classOf(s)) {
			continue
		}
		mixed := c.isDouble(r.Expr) != (s.Types&Float != 0)
		there := c.presence(own)
		rule := conjunction(append(others(c.guards(), there), comparison(own, r.Op, value, mixed)))
		if there != "" {
			rule = negated(there) + " || " + rule
		}
		if !e.addRule(structs[at].path, structs[at].props, rule, strings.TrimPrefix(own, "self.")+" must satisfy "+
			r.Text) {
			continue
		}
		if e.Enforcers.set(r.Rule, CRDRule); r.Op == "==" && s.Types&Float != 0 {
			e.Enforcers.set(r.Rule, CRDPartly) // for CUE, 1 is not 1.0
		}
	}
}

func others(guards []string, without string) []string {
	return slices.DeleteFunc(slices.Clone(guards), func(g string) bool { return g == without })
}

// commonStruct returns the struct that the outermost reference of an expression leads into,
// if only fields lead from there to the innermost one.
func commonStruct(structs []frame, e *Expr) (int, bool) {
	at := len(structs) - 1 - e.up()
	if at < 0 {
		return 0, false
	}
	for _, s := range structs[at+1:] {
		if s.name == "" || s.nullable {
			return 0, false
		}
	}
	return at, structs[at].schema != nil
}

// up is how far the references of an expression lead.
func (e *Expr) up() int {
	furthest := 0
	if e.Op == OpReference {
		furthest = e.Up
	}
	for _, arg := range e.Args {
		furthest = max(furthest, arg.up())
	}
	return furthest
}

// isPlainScalar reports whether CEL knows a value's type for sure.
func isPlainScalar(s *Schema) bool {
	return s.isLeaf() && slices.Contains([]Types{Bool, Int, Number, String}, s.Types)
}

// celWriter writes an expression as CEL for the struct at an index of structs.
type celWriter struct {
	structs []frame
	at      int
	paths   []string
}

// guards returns the conditions that all fields that were read are present.
func (c *celWriter) guards() []string {
	var guards []string
	for _, path := range c.paths {
		if g := c.presence(path); g != "" && !slices.Contains(guards, g) {
			guards = append(guards, g)
		}
	}
	return guards
}

// presence returns the condition that a field and its parents are present; it is empty if
// they always are.
func (c *celWriter) presence(path string) string {
	var parts []string
	steps := strings.Split(path, ".")
	fields := c.structs[c.at].schema
	for i := 1; i < len(steps); i++ {
		var f *Field
		if fields != nil {
			f = fields.Field(steps[i])
		}
		if fields = nil; f == nil || !f.always() {
			parts = append(parts, "has("+strings.Join(steps[:i+1], ".")+")")
		}
		if f != nil {
			fields = f.Schema.Struct
		}
	}
	return conjunction(parts)
}

// always reports whether every object that the API server accepts has the field once defaults
// are set.
func (f *Field) always() bool {
	if f.Presence == Regular {
		value, ok := staticDefault(f.Schema)
		return !ok || value != nil
	}
	return f.Presence == Required
}

// conjunction joins conditions; more than one are put in parentheses.
func conjunction(parts []string) string {
	if len(parts) > 1 {
		return "(" + strings.Join(parts, " && ") + ")"
	}
	return strings.Join(parts, "")
}

// negated returns the opposite of a condition that is one operand.
func negated(condition string) string {
	if positive, ok := strings.CutPrefix(condition, "!"); ok {
		return positive
	}
	return "!" + condition
}

// reference writes a path from the struct that is up above the innermost one.
func (c *celWriter) reference(up int, path []string) (string, bool) {
	level := len(c.structs) - 1 - up
	steps := []string{"self"}
	for _, s := range c.structs[c.at+1 : level+1] {
		steps = append(steps, s.name)
	}
	for _, name := range path {
		if !isIdentifier(name) {
			return "", false
		}
		steps = append(steps, name)
	}
	return strings.Join(steps, "."), true
}

// find returns the schema that a reference leads to.
func (c *celWriter) find(e *Expr) *Schema {
	fields := c.structs[len(c.structs)-1-e.Up].schema
	for i, name := range e.Path {
		if fields == nil {
			return nil
		}
		f := fields.Field(name)
		if f == nil {
			return nil
		}
		if i == len(e.Path)-1 {
			return f.Schema
		}
		if f.Schema.Types != Struct || !f.Schema.isLeaf() {
			return nil // its fields may be read from null
		}
		fields = f.Schema.Struct
	}
	return nil
}

// visible reports whether CEL sees a field: its schema must have a type.
func (c *celWriter) visible(e *Expr) bool {
	p := c.structs[len(c.structs)-1-e.Up].props
	for _, name := range e.Path {
		property := p.Properties[name]
		if p = &property; !isTyped(p) || p.Nullable { // has() of null is false
			return false
		}
	}
	return true
}

// write writes an expression; it returns false if CEL cannot express it.
func (c *celWriter) write(e *Expr) (string, bool) {
	switch e.Op {
	case OpLiteral:
		return celLiteral(e.Value)
	case OpReference:
		return c.read(e)
	case OpPresent:
		arg := e.Args[0]
		if arg.Op != OpReference || c.find(arg) == nil || !c.visible(arg) {
			return "", false
		}
		path, ok := c.reference(arg.Up, arg.Path)
		return cmp.Or(c.presence(path), "true"), ok
	case OpNot:
		arg, ok := c.write(e.Args[0])
		return negated(arg), ok && c.class(e.Args[0]) == Bool
	case OpMatch, OpNoMatch:
		arg, ok := c.write(e.Args[0])
		match := arg + ".matches(" + celString(e.Regexp.String()) + ")"
		if e.Op == OpNoMatch {
			match = "!" + match
		}
		return match, ok
	case OpLen:
		arg := e.Args[0]
		if arg.Op != OpReference {
			return "", false
		}
		if s := c.find(arg); s == nil || s.Types&^(List|Struct) != 0 || !s.isLeaf() || s.Types == 0 {
			return "", false // CUE counts the bytes of a string, CEL its characters
		}
		if s := c.find(arg); s.Types&Struct != 0 &&
			(s.Struct == nil || len(s.Struct.Fields) > 0 || len(s.Struct.Conditions) > 0) {
			return "", false // CEL counts the entries of maps alone
		}
		path, ok := c.reference(arg.Up, arg.Path)
		c.paths = append(c.paths, path)
		return "size(" + path + ")", ok
	}
	return c.operator(e)
}

func (c *celWriter) read(e *Expr) (string, bool) {
	s := c.find(e)
	if s == nil || !isPlainScalar(s) {
		return "", false
	}
	path, ok := c.reference(e.Up, e.Path)
	c.paths = append(c.paths, path)
	return path, ok
}

func (c *celWriter) operator(e *Expr) (string, bool) {
	left, ok := c.write(e.Args[0])
	if !ok {
		return "", false
	}
	right, ok := c.write(e.Args[1])
	if !ok || !sameClass(string(e.Op), c.class(e.Args[0]), c.class(e.Args[1])) {
		return "", false
	}
	return "(" + comparison(left, string(e.Op), right, c.isDouble(e.Args[0]) != c.isDouble(e.Args[1])) + ")", true
}

// comparison compares two values; CEL has no == for an int and a double, but it orders
// them.
func comparison(left, op, right string, mixed bool) string {
	switch {
	case mixed && op == "==":
		return left + " <= " + right + " && " + left + " >= " + right
	case mixed && op == "!=":
		return "(" + left + " < " + right + " || " + left + " > " + right + ")"
	}
	return left + " " + op + " " + right
}

// isDouble reports whether a number is a double for CEL.
func (c *celWriter) isDouble(e *Expr) bool {
	switch e.Op {
	case OpLiteral:
		return TypeOf(e.Value) == Float
	case OpReference:
		s := c.find(e)
		return s != nil && s.Types&Float != 0
	}
	return false
}

// sameClass reports whether both sides of an operator are of one type for CEL, or both
// numbers: it does not compile other comparisons, which are false in CUE.
func sameClass(op string, a, b Types) bool {
	if op == "&&" || op == "||" {
		return a == Bool && b == Bool
	}
	return a != 0 && (a == b || (a|b)&^Number == 0)
}

func (c *celWriter) class(e *Expr) Types {
	switch e.Op {
	case OpLiteral:
		return TypeOf(e.Value)
	case OpReference:
		if s := c.find(e); s != nil {
			return classOf(s)
		}
		return 0
	case OpLen:
		return Int
	}
	return Bool
}

// classOf returns the type that CEL knows a value by: numbers that need not be integers are
// doubles.
func classOf(s *Schema) Types {
	if s.Types == Number {
		return Float
	}
	return s.Types
}

func celLiteral(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return celString(v), true
	case bool:
		return strconv.FormatBool(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		return text, true
	}
	return "", false
}
