package kind

import (
	"errors"
	"strings"

	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/place"
)

// compiledPiece is a part of a compiled behaviour.
type compiledPiece struct{ value behaviour.Value }

func (p compiledPiece) Member(index int) Piece { return compiledPiece{p.value.Member(index)} }

func (p compiledPiece) Field(name string) Piece { return compiledPiece{p.value.Lookup(name)} }

func (p compiledPiece) Exists() bool { return p.value.Exists() }

func (p compiledPiece) IsStruct() bool { return p.value.IsStruct() }

func (p compiledPiece) Data(path, name string) (any, []Absence, error) {
	data, problem := p.value.Data()
	if problem == nil {
		return data, nil, nil
	}
	absent, err := p.absences(problem, FieldPath(path, name))
	return nil, absent, err
}

func (p compiledPiece) Guards(path string) ([]Absence, error) {
	return p.absences(p.value.Guards(), path)
}

func (p compiledPiece) Names() ([]string, error) {
	names, _ := p.value.Fields()
	return names, nil
}

func (p compiledPiece) Elements() []Piece {
	elements, _ := p.value.Elements()
	parts := make([]Piece, len(elements))
	for i, element := range elements {
		parts[i] = compiledPiece{element}
	}
	return parts
}

func (p compiledPiece) Fits(path string) error {
	if problem := p.value.Fits(); problem != nil && !problem.IsIncomplete {
		_, err := p.absences(problem, path)
		return err
	}
	return nil
}

// Position returns a place in the author's files, if there is one.
func (p compiledPiece) Position() (at place.Position) {
	for _, pos := range p.value.Positions() {
		if at.File == "" || place.IsLibrary(at.File) {
			at = place.At(pos)
		}
	}
	return at
}

// absences returns what is absent, or the error of a problem that is about something else. path
// is where the value is.
func (p compiledPiece) absences(problem *behaviour.Problem, path string) ([]Absence, error) {
	if problem == nil {
		return nil, nil
	}
	var absent []Absence
	for _, each := range append([]*behaviour.Problem{problem}, problem.More...) {
		a := Absence{Path: each.Absent, Position: place.At(each.At)}
		if a.Path == "" && strings.HasPrefix(each.Path, behaviour.ObservedName+".") {
			a.Path = each.Path // declared, and not part of the child
		}
		if a.Path == "" || !each.IsIncomplete {
			failure := &EvaluationError{Path: each.Path, Err: errors.New(each.Message), Rule: each.Rule(),
				Position: a.Position}
			if failure.Path == "" {
				failure.Path = path
			}
			if at := p.Position(); at.File != "" &&
				(failure.Position.File == "" || place.IsLibrary(failure.Position.File)) {
				failure.Position = at
			}
			return nil, failure
		}
		absent = append(absent, a)
	}
	return absent, nil
}

// FieldPath returns the path of a field, or of the whole if the name is empty.
func FieldPath(path, name string) string {
	if name == "" {
		return path
	}
	return path + "." + name
}
