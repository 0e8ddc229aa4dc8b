package kind

import (
	"errors"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	cueerrors "cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind/schema"
)

// EvaluationError means that a kind's controller cannot be evaluated for an object. Either
// the kind is wrong, or its schema should have rejected the object.
type EvaluationError struct {
	// Path is where in the #XController the failure is.
	Path string
	// Err is the failure.
	Err error
	// Position is the place in CUE; it may be unknown.
	Position schema.Position
	// Value is the wrong value, if there is one.
	Value any
}

func (e *EvaluationError) Error() string {
	return e.Path + ": " + e.Err.Error() + suffix(e.Position)
}

func (e *EvaluationError) Unwrap() error { return e.Err }

// evaluationError names the place that CUE names, or path if it names none.
func evaluationError(path string, err error) error {
	if already, ok := errors.AsType[*EvaluationError](err); ok {
		return already
	}
	failure := &EvaluationError{Path: path, Err: err}
	if list, ok := errors.AsType[cueerrors.Error](err); ok {
		first := cueerrors.Errors(list)[0]
		if elements := first.Path(); len(elements) > 1 {
			failure.Path = strings.Join(elements[1:], ".")
		}
		failure.Err = errors.New(reasonOf(first))
		failure.Position.File, failure.Position.Line = position(first)
	}
	return failure
}

// reasonOf returns the message of a CUE error with those of its causes, such as the reason why a
// builtin failed.
func reasonOf(err cueerrors.Error) string {
	reason := messageOf(err)
	for cause := errors.Unwrap(err); cause != nil; cause = errors.Unwrap(cause) {
		text := cause.Error()
		if e, ok := errors.AsType[cueerrors.Error](cause); ok {
			text = messageOf(e)
		}
		if !strings.Contains(reason, text) {
			reason += ": " + text
		}
	}
	if _, call, ok := strings.Cut(reason, "error in call to "); ok { // strconv names the function again
		function, _, _ := strings.Cut(call, ":")
		reason = strings.Replace(reason, function+": "+function+": ", function+": ", 1)
	}
	return reason
}

// expressions are the references in the CUE of a package and of those that it imports, by which
// an error of CUE is told what it is about.
type expressions struct {
	// selections are the selectors and indexes, by the place of what they select.
	selections map[place]ast.Expr
	// observed are the declarations of what the children look like, and declared is the first place
	// of one.
	observed passages
	declared schema.Position
	// phases are the values of the fields of that name.
	phases passages
	// guardsChildren reports that an if stands around the field children, or phases, itself.
	guardsChildren bool
}

// place is a position in a file.
type place struct {
	file   string
	offset int
}

func placeOf(pos token.Pos) place { return place{pos.Filename(), pos.Offset()} }

// expressionsOf collects the references in a package.
func expressionsOf(instance *build.Instance) *expressions {
	x := &expressions{selections: make(map[place]ast.Expr)}
	eachPackage(instance, func(of *build.Instance) bool {
		if of.ImportPath == contractPackage || of.ImportPath == libraryPackage {
			return false
		}
		for _, file := range of.Files {
			ast.Walk(file, x.visit, nil)
		}
		return true
	})
	return x
}

func (x *expressions) visit(node ast.Node) bool {
	switch node := node.(type) {
	case *ast.SelectorExpr:
		x.selections[placeOf(node.Sel.Pos())] = node
	case *ast.IndexExpr:
		x.selections[placeOf(node.Index.Pos())] = node
	case *ast.Comprehension:
		if len(valuesOf(node.Value, "children"))+len(valuesOf(node.Value, "phases")) > 0 {
			x.guardsChildren = true
		}
	case *ast.Field:
		if name, _, err := ast.LabelName(node.Label); err == nil && name == observedName {
			if len(x.observed) == 0 {
				x.declared = positionOf(node)
			}
			x.observed = append(x.observed, passageOf(node))
		} else if err == nil && name == "phases" {
			x.phases = append(x.phases, passageOf(node.Value))
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
func (x *expressions) absent(value cue.Value, path string, err error) ([]Absence, error) {
	if err == nil {
		return nil, nil
	}
	failed := value.Validate(cue.Concrete(true))
	if failed == nil {
		return nil, evaluationError(path, err)
	}
	isIncomplete := cue.IsIncomplete(failed)
	var absent []Absence
	for _, each := range cueerrors.Errors(failed) {
		absence, ok := x.absence(each)
		// What a builtin returns is closed in a definition, so that CUE counts a field that it lacks as
		// wrong. A behaviour waits for it, as for one of the object.
		if !ok || !isIncomplete && !strings.HasPrefix(messageOf(each), undefinedField) {
			return nil, evaluationError(path, each)
		}
		absent = append(absent, absence)
	}
	return absent, nil
}

// guards returns what the ifs and loops at the top of a struct or list read that is absent. One
// that is wrong is an error.
func (x *expressions) guards(owner cue.Value, path string) (absent []Absence, err error) {
	failed := owner.Err()
	if failed == nil || !owner.Exists() {
		return nil, nil
	}
	// Errors within the struct have longer paths and are found where the value is read.
	depth := len(owner.Path().Selectors())
	for _, each := range cueerrors.Errors(failed) {
		if len(each.Path()) > depth || path == "" && x.phases.contain(each.Position()) {
			continue // CUE knows no path for what is wrong within a list that is an argument
		}
		absence, ok := x.absence(each)
		if !ok {
			return nil, evaluationError(path, each)
		}
		absent = append(absent, absence)
	}
	return absent, nil
}

const undefinedField = "undefined field: "

// absentMessages begin the errors of CUE v0.17.1 for a reference to an absent field; the name
// follows. CUE counts other errors as incomplete as well, and has no code for these.
var absentMessages = []string{undefinedField, "cannot reference optional field: ", "required field missing: "}

// absence returns what an incomplete expression reads that is absent.
func (x *expressions) absence(err cueerrors.Error) (Absence, bool) {
	var a Absence
	a.Position.File, a.Position.Line = position(err)
	if elements := err.Path(); len(elements) > 1 && elements[1] == observedName {
		a.Path = strings.Join(elements[1:], ".") // declared, and not part of the child
		return a, true
	}
	for cause := error(err); cause != nil; cause = errors.Unwrap(cause) {
		e, ok := errors.AsType[cueerrors.Error](cause)
		if !ok {
			break
		}
		message := messageOf(e)
		for _, prefix := range absentMessages {
			name, isAbsent := strings.CutPrefix(message, prefix)
			if !isAbsent {
				continue
			}
			a.Path = name
			if selection, ok := x.selections[placeOf(e.Position())]; ok {
				a.Path = sourceOf(selection)
			}
			return a, true
		}
		for _, pos := range e.InputPositions() {
			if strings.HasPrefix(message, "non-concrete value ") && x.observed.contain(pos) {
				a.Path = observedName
				return a, true
			}
		}
	}
	return a, false
}
