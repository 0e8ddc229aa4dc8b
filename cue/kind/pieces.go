package kind

import (
	"errors"
	"strings"

	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/schema"
)

// compiledPiece is a part of a compiled behaviour.
type compiledPiece struct{ value behaviour.Value }

func (p compiledPiece) member(index int) piece { return compiledPiece{p.value.Member(index)} }

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
			failure := &EvaluationError{Path: each.Path, Err: errors.New(each.Message), Rule: each.Rule(), Position: a.Position}
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
