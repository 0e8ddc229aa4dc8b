package proof

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	cueerrors "cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/token"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/place"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// evaluated is the behaviour by CUE's evaluator.
func (k *comparison) evaluated(object, observed map[string]any) (kind.Piece, error) {
	given := map[string]any{behaviour.ObjectName: k.Status.WithoutAdded(object)}
	if observed != nil {
		given[behaviour.ObservedName] = k.Reads.Observed.In(observed)
	}
	// Unify and BuildExpr would open what definitions close. Paths begin with the field, as in the package with the
	// definition.
	const field = "behaviour"
	unified := ast.NewBinExpr(token.AND, ast.NewIdent(syntax.BehaviourOf(k.LoadName())), openData(given))
	file := &ast.File{Decls: []ast.Decl{&ast.Field{Label: ast.NewIdent(field), Value: unified}}}
	value := k.Source.Context.BuildFile(file, cue.Scope(k.Source.Value)).LookupPath(cue.ParsePath(field))
	if err := value.LookupPath(cue.ParsePath(behaviour.ObjectName)).Err(); err != nil {
		return nil, evaluationError(behaviour.ObjectName, err)
	}
	return evaluatedPiece{value, k.expressions()}, nil
}

// openData returns data as syntax in which each struct ends in "...". What is filled into a
// definition is closed otherwise, and CUE counts a reference to an absent field of a closed struct
// as wrong, not as incomplete. The context does not keep such an expression.
func openData(value any) ast.Expr {
	switch value := value.(type) {
	case nil:
		return ast.NewNull()
	case bool:
		return ast.NewBool(value)
	case string:
		return ast.NewString(value)
	case float64:
		text := strconv.FormatFloat(value, 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0" // 3 is an int
		}
		return ast.NewLit(token.FLOAT, text)
	case map[string]any:
		open := &ast.StructLit{Elts: make([]ast.Decl, 0, len(value)+1)}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			open.Elts = append(open.Elts, &ast.Field{Label: ast.NewString(name), Value: openData(value[name])})
		}
		open.Elts = append(open.Elts, &ast.Ellipsis{})
		return open
	case []any:
		list := &ast.ListLit{Elts: make([]ast.Expr, len(value))}
		for i, element := range value {
			list.Elts[i] = openData(element)
		}
		return list
	}
	return ast.NewLit(token.INT, fmt.Sprint(value))
}

// evaluatedPiece is a value of CUE's evaluator.
type evaluatedPiece struct {
	value       cue.Value
	expressions *expressions
}

func (p evaluatedPiece) of(value cue.Value) evaluatedPiece {
	return evaluatedPiece{value, p.expressions}
}

func (p evaluatedPiece) Member(index int) kind.Piece {
	return p.of(p.value.FillPath(cue.ParsePath(behaviour.IndexName), index))
}

func (p evaluatedPiece) Field(name string) kind.Piece {
	return p.of(p.value.LookupPath(cue.MakePath(cue.Str(name))))
}

func (p evaluatedPiece) Exists() bool { return p.value.Exists() }

// IsStruct holds also for a struct with an if that waits and a field, for which CUE knows no kind.
func (p evaluatedPiece) IsStruct() bool {
	fields, err := p.value.Fields()
	return p.value.IncompleteKind() == cue.StructKind || err == nil && fields.Next()
}

func (p evaluatedPiece) Data(path, name string) (any, []kind.Absence, error) {
	if !p.Exists() {
		return nil, nil, nil
	}
	path = kind.FieldPath(path, name)
	var data any
	err := decodeInto(p.value, path, &data)
	if err != nil {
		absent, err := p.expressions.absent(p.value, path, err)
		return nil, absent, err
	}
	return data, nil, nil
}

func (p evaluatedPiece) Guards(path string) ([]kind.Absence, error) {
	absent, err := p.expressions.guards(p.value, path)
	if failed := p.value.Err(); err == nil && len(absent) == 0 && p.expressions.guardsChildren && p.Exists() &&
		failed != nil {
		return nil, evaluationError(path, failed) // something wrong within hides whether an if is undecided
	}
	return absent, err
}

func (p evaluatedPiece) Names() (names []string, err error) {
	err = syntax.EachField(p.value, func(name string, _ cue.Value) error {
		names = append(names, name)
		return nil
	})
	return names, err
}

func (p evaluatedPiece) Elements() (elements []kind.Piece) {
	for i := 0; ; i++ {
		value := p.value.LookupPath(cue.MakePath(cue.Index(i)))
		if !value.Exists() {
			return elements
		}
		elements = append(elements, p.of(value))
	}
}

func (p evaluatedPiece) Fits(path string) error {
	if err := p.value.Validate(); err != nil {
		return evaluationError(path, err)
	}
	return nil
}

func (p evaluatedPiece) Position() place.Position { return syntax.PositionOfValue(p.value) }

// decodeInto turns a concrete value into plain Go values, with the integers as int64 that unstructured
// objects have.
func decodeInto(value cue.Value, path string, result any) error {
	b, err := value.MarshalJSON()
	if err != nil {
		return evaluationError(path, err)
	}
	if err := json.Unmarshal(bytes.TrimSpace(b), result); err != nil {
		return evaluationError(path, err)
	}
	return nil
}

// evaluationError names the place that CUE names, or path if it names none.
func evaluationError(path string, err error) error {
	if already, ok := errors.AsType[*kind.EvaluationError](err); ok {
		return already
	}
	failure := &kind.EvaluationError{Path: path, Err: err}
	if list, ok := errors.AsType[cueerrors.Error](err); ok {
		first := cueerrors.Errors(list)[0]
		if elements := first.Path(); len(elements) > 1 {
			failure.Path = strings.Join(elements[1:], ".")
		}
		failure.Err = errors.New(syntax.ReasonOf(first))
		failure.Position = syntax.PositionOfError(first)
	}
	return failure
}

// expressions are the references in the CUE of a package and of those that it imports, by which
// an error of CUE is told what it is about.
type expressions struct {
	// selections are the selectors and indexes, by the place of what they select.
	selections map[spot]ast.Expr
	// observed are the declarations of what the children look like.
	observed passages
	// members are the values of the fields in structs, by the names of the structs; of definitions, by "". Ifs may read
	// hidden ones.
	members map[string]passages
	// guardsChildren reports that an if stands around the field children, or phases, itself.
	guardsChildren bool
}

// spot is a position in a file.
type spot struct {
	file   string
	offset int
}

func placeOf(pos token.Pos) spot { return spot{pos.Filename(), pos.Offset()} }

// expressionsOf collects the references in a package.
func expressionsOf(instance *build.Instance) *expressions {
	x := &expressions{selections: make(map[spot]ast.Expr), members: make(map[string]passages)}
	syntax.WalkSources(instance, x.visit)
	return x
}

func (x *expressions) visit(node ast.Node) bool {
	switch node := node.(type) {
	case *ast.SelectorExpr:
		x.selections[placeOf(node.Sel.Pos())] = node
	case *ast.IndexExpr:
		x.selections[placeOf(node.Index.Pos())] = node
	case *ast.Comprehension:
		if len(syntax.ValuesOf(node.Value, "children"))+len(syntax.ValuesOf(node.Value, "phases")) > 0 {
			x.guardsChildren = true
		}
	case *ast.Field:
		name, _, err := ast.LabelName(node.Label)
		if err != nil {
			break // a computed one
		}
		if name == behaviour.ObservedName {
			x.observed = append(x.observed, passageOf(node))
		}
		if strings.HasPrefix(name, "#") {
			name = ""
		}
		for _, member := range syntax.FieldsIn(node.Value) {
			if label, _, err := ast.LabelName(member.Label); err != nil || !strings.HasPrefix(label, "#") &&
				!strings.HasPrefix(label, "_") {
				x.members[name] = append(x.members[name], passageOf(member.Value))
			}
		}
	}
	return true
}

// passages are parts of CUE files.
type passages []passage

type passage struct {
	file     string
	from, to int // offsets in bytes
}

func passageOf(node ast.Node) passage {
	return passage{node.Pos().Filename(), node.Pos().Offset(), node.End().Offset()}
}

func (p passages) contain(at token.Pos) bool {
	return slices.ContainsFunc(p, func(p passage) bool {
		return at.Filename() == p.file && p.from <= at.Offset() && at.Offset() <= p.to
	})
}

// absent finds out why a value could not be read as concrete data: because of what is absent, or
// because of something wrong, which is an error. err is that of the attempt; with nil, nothing is
// absent. path is where the value is.
func (x *expressions) absent(value cue.Value, path string, err error) ([]kind.Absence, error) {
	if err == nil {
		return nil, nil
	}
	failed := value.Validate(cue.Concrete(true))
	if failed == nil {
		return nil, evaluationError(path, err)
	}
	isIncomplete := cue.IsIncomplete(failed)
	var absent []kind.Absence
	for _, each := range x.alternatives(cueerrors.Errors(failed), isIncomplete) {
		absence, ok := x.absence(each)
		// What a builtin returns is closed in a definition, so that CUE counts a field that it lacks as
		// wrong. A behaviour waits for it, as for one of the object.
		if !ok || !isIncomplete && !strings.HasPrefix(syntax.MessageOf(each), undefinedField) {
			return nil, evaluationError(path, each)
		}
		absent = append(absent, absence)
	}
	return absent, nil
}

// alternatives returns errors without those of disjunctions that are incomplete because one of their alternatives is:
// CUE counts them, and lists the others as well.
func (x *expressions) alternatives(errs []cueerrors.Error, isIncomplete bool) []cueerrors.Error {
	if !isIncomplete ||
		!slices.ContainsFunc(errs, func(e cueerrors.Error) bool { return syntax.IsDisjunction(syntax.MessageOf(e)) }) {
		return errs
	}
	absent := slices.DeleteFunc(slices.Clone(errs), func(e cueerrors.Error) bool {
		_, isAbsent := x.absence(e)
		return !isAbsent
	})
	if len(absent) == 0 {
		return errs
	}
	return absent
}

// guards returns what the ifs and loops at the top of a struct or list read that is absent. One
// that is wrong is an error.
func (x *expressions) guards(owner cue.Value, path string) (absent []kind.Absence, err error) {
	failed := owner.Err()
	if failed == nil || !owner.Exists() {
		return nil, nil
	}
	// Errors within the struct are found where the value is read.
	within := owner.Path().Selectors()
	isWithin := func(path []string) bool {
		return len(path) > len(within) && slices.EqualFunc(within, path[:len(within)], isNamedSelector)
	}
	of := "" // the whole behaviour
	if path != "" {
		of = within[len(within)-1].String()
	}
	var elsewhere error
	for _, each := range x.alternatives(cueerrors.Errors(failed), cue.IsIncomplete(failed)) {
		// CUE knows no path for what is wrong within an operand or a list that is an argument.
		if isWithin(each.Path()) || x.members[of].contain(each.Position()) {
			continue
		}
		absence, ok := x.absence(each)
		isHere := len(each.Path()) <= len(within) && slices.EqualFunc(within[:len(each.Path())], each.Path(),
			isNamedSelector)
		switch {
		case ok && (isHere || cue.IsIncomplete(failed)):
			absent = append(absent, absence)
		case !ok && len(each.Path()) <= len(within):
			return nil, evaluationError(path, each)
		default:
			elsewhere = fmt.Errorf("%w: it is not known whether an if reads what is wrong elsewhere: %w",
				errNotCompared, evaluationError(path, each))
		}
	}
	return absent, elsewhere
}

func isNamedSelector(s cue.Selector, name string) bool {
	return s.String() == name || s.Type().LabelType() == cue.IndexLabel && strconv.Itoa(s.Index()) == name
}

const undefinedField = "undefined field: "

// absentMessages begin the errors of CUE v0.17.1 for a reference to an absent field; the name
// follows. CUE counts other errors as incomplete as well, and has no code for these.
var absentMessages = []string{undefinedField, "cannot reference optional field: ", "required field missing: ",
	"cannot convert non-concrete value "}

// operandMessage begins an error that has that of an operand within its text.
var operandMessage = regexp.MustCompile(`^invalid (left|right)-hand value to `)

// absence returns what an incomplete expression reads that is absent.
func (x *expressions) absence(err cueerrors.Error) (kind.Absence, bool) {
	var a kind.Absence
	a.Position = syntax.PositionOfError(err)
	if elements := err.Path(); len(elements) > 1 && elements[1] == behaviour.ObservedName {
		a.Path = strings.Join(elements[1:], ".") // declared, and not part of the child
		return a, true
	}
	for cause := error(err); cause != nil; cause = errors.Unwrap(cause) {
		e, ok := errors.AsType[cueerrors.Error](cause)
		if !ok {
			break
		}
		message := syntax.MessageOf(e)
		for _, prefix := range absentMessages {
			before, name, isAbsent := strings.Cut(message, prefix)
			if !isAbsent || before != "" && !operandMessage.MatchString(before) {
				continue
			}
			a.Path = name
			if selection, ok := x.selections[placeOf(e.Position())]; ok {
				a.Path = syntax.SourceOf(selection)
			}
			return a, true
		}
		if errors.Unwrap(cause) == nil &&
			(message == "invalid interpolation" || strings.HasPrefix(message, "error in call to ")) {
			return a, true // that is unified with a disjunction, which loses what is absent
		}
		for _, pos := range e.InputPositions() {
			if strings.HasPrefix(message, "non-concrete value ") && x.observed.contain(pos) {
				a.Path = behaviour.ObservedName
				return a, true
			}
		}
	}
	return a, false
}
