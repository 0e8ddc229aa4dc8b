package manifest

import "fmt"

// Position is a place in a file. Line and Column count from 1 and are 0 where they are
// not known.
type Position struct {
	File         string
	Line, Column int
}

// String writes FILE:LINE:COLUMN without what is not known.
func (p Position) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// ErrorType says what kind of thing is wrong with a file.
type ErrorType string

const (
	// Syntax is for text that is no YAML, or no object.
	Syntax ErrorType = "Syntax"
	// DuplicateKey is for a name that a mapping has twice; the API machinery drops one
	// of the values silently.
	DuplicateKey ErrorType = "DuplicateKey"
	// TooLarge is for what exceeds MaxSize.
	TooLarge ErrorType = "TooLarge"
)

// Error says why a part of a file cannot be read, or not without losing some of it.
type Error struct {
	Position Position
	Type     ErrorType
	Message  string
}

func (e *Error) Error() string { return e.Position.String() + ": " + e.Message }
