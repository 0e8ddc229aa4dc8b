package kind

import (
	"errors"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/schema"
)

// compiledPiece is a part of a compiled behaviour.
type compiledPiece struct{ value behaviour.Value }

func (p compiledPiece) member(index int, former piece) piece {
	return compiledPiece{p.value.Member(index, former.(compiledPiece).value)}
}

func (p compiledPiece) field(name string) piece { return compiledPiece{p.value.Lookup(name)} }
func (p compiledPiece) exists() bool            { return p.value.Exists() }
func (p compiledPiece) isStruct() bool          { return p.value.IsStruct() }

func (p compiledPiece) data(path, name string) (any, []Absence, error) {
	data, problem := p.value.Data()
	if problem == nil {
		return data, nil, nil
	}
	absent, err := p.absences(problem, fieldPath(path, name))
	return nil, absent, err
}

func (p compiledPiece) guards(path string) ([]Absence, error) {
	return p.absences(p.value.Guards(), path)
}

func (p compiledPiece) names() ([]string, error) {
	names, _ := p.value.Fields()
	return names, nil
}

func (p compiledPiece) elements() []piece {
	elements, _ := p.value.Elements()
	parts := make([]piece, len(elements))
	for i, element := range elements {
		parts[i] = compiledPiece{element}
	}
	return parts
}

func (p compiledPiece) fits(path string) error {
	if problem := p.value.Fits(); problem != nil && !problem.IsIncomplete {
		_, err := p.absences(problem, path)
		return err
	}
	return nil
}

// position returns a place in the author's files, if there is one.
func (p compiledPiece) position() (at schema.Position) {
	for _, pos := range p.value.Positions() {
		if at.File == "" || isLibrary(at.File) {
			at = positionAt(pos)
		}
	}
	return at
}

// positionAt returns the place of a position of CUE.
func positionAt(pos token.Pos) schema.Position {
	if !pos.IsValid() {
		return schema.Position{}
	}
	return schema.Position{File: relative(pos.Filename()), Line: pos.Line()}
}

// absences returns what is absent, or the error of a problem that is about something else. path
// is where the value is.
func (p compiledPiece) absences(problem *behaviour.Problem, path string) ([]Absence, error) {
	if problem == nil {
		return nil, nil
	}
	var absent []Absence
	for _, each := range append([]*behaviour.Problem{problem}, problem.More...) {
		a := Absence{Path: each.Absent, Position: positionAt(each.At)}
		if a.Path == "" && strings.HasPrefix(each.Path, observedName+".") {
			a.Path = each.Path // declared, and not part of the child
		}
		if a.Path == "" || !each.IsIncomplete {
			failure := &EvaluationError{Path: each.Path, Err: errors.New(each.Message), Position: a.Position}
			if failure.Path == "" {
				failure.Path = path
			}
			if at := p.position(); at.File != "" && (failure.Position.File == "" || isLibrary(failure.Position.File)) {
				failure.Position = at
			}
			return nil, failure
		}
		absent = append(absent, a)
	}
	return absent, nil
}

// fieldPath returns the path of a field, or of the whole if the name is empty.
func fieldPath(path, name string) string {
	if name == "" {
		return path
	}
	return path + "." + name
}

// evaluatedPiece is a value of CUE's evaluator.
type evaluatedPiece struct {
	value     cue.Value
	evaluator *cueEvaluator
	standIns  *standIns
}

func (p evaluatedPiece) of(value cue.Value) evaluatedPiece {
	return evaluatedPiece{value, p.evaluator, p.standIns}
}

func (p evaluatedPiece) member(index int, _ piece) piece {
	return p.of(p.value.FillPath(pathIndex, index))
}

// field returns the field of a name. One that the behaviour computes from a text has that name itself, also if
// the object has a field of the name, for which there is a stand-in.
func (p evaluatedPiece) field(name string) piece {
	if p.standIns != nil {
		if standIn, ok := p.standIns.standIn[name]; ok {
			if value := p.value.LookupPath(cue.MakePath(cue.Str(standIn))); value.Exists() {
				return p.of(value)
			}
		}
	}
	return p.of(p.value.LookupPath(cue.MakePath(cue.Str(name))))
}

func (p evaluatedPiece) exists() bool   { return p.value.Exists() }
func (p evaluatedPiece) isStruct() bool { return p.value.IncompleteKind() == cue.StructKind }

func (p evaluatedPiece) data(path, name string) (any, []Absence, error) {
	if !p.exists() {
		return nil, nil, nil
	}
	path = fieldPath(path, name)
	var data any
	err := decodeInto(p.value, path, &data)
	if err != nil {
		absent, err := p.evaluator.expressions.absent(p.value, path, err)
		return nil, absent, err
	}
	switch value := data.(type) {
	case map[string]any:
		data = p.standIns.restore(value)
	case string:
		data = p.standIns.text(value)
	}
	return data, nil, nil
}

func (p evaluatedPiece) guards(path string) ([]Absence, error) {
	absent, err := p.evaluator.expressions.guards(p.value, path)
	if failed := p.value.Err(); err == nil && len(absent) == 0 && p.evaluator.expressions.guardsChildren && p.exists() && failed != nil {
		return nil, evaluationError(path, failed) // something wrong within hides whether an if is undecided
	}
	return absent, err
}

func (p evaluatedPiece) names() (names []string, err error) {
	err = eachField(p.value, func(name string, _ cue.Value) error {
		names = append(names, p.standIns.text(name))
		return nil
	})
	return names, err
}

func (p evaluatedPiece) elements() (elements []piece) {
	for i := 0; ; i++ {
		value := p.value.LookupPath(cue.MakePath(cue.Index(i)))
		if !value.Exists() {
			return elements
		}
		elements = append(elements, p.of(value))
	}
}

func (p evaluatedPiece) fits(path string) error {
	if err := p.value.Validate(); err != nil {
		return evaluationError(path, err)
	}
	return nil
}

func (p evaluatedPiece) position() schema.Position { return positionOfValue(p.value) }
