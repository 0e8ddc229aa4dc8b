package manifest

import "fmt"

// Position is a place in a file. Line and Column count from 1 and are 0 where they are
// not known.
type Position struct {
	File         string
	Line, Column int
}

// String returns FILE:LINE:COLUMN without the unknown parts.
func (p Position) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// ErrorType is the kind of error in a file.
type ErrorType string

const (
	// Syntax is for text that is not valid YAML, or not an object.
	Syntax ErrorType = "Syntax"
	// DuplicateKey is for a duplicate name in a mapping; the API machinery silently drops one
	// of the values.
	DuplicateKey ErrorType = "DuplicateKey"
	// TooLarge is for what exceeds MaxSize.
	TooLarge ErrorType = "TooLarge"
)

// Error explains why a part of a file cannot be read, or only with a loss.
type Error struct {
	Position Position
	Type     ErrorType
	Message  string
}

func (e *Error) Error() string { return e.Position.String() + ": " + e.Message }
