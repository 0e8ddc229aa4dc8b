package kind

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	cueerrors "cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind/schema"
)

// LoadError says why a kind, or a whole package if Kind is empty, does not load.
type LoadError struct {
	// Kind is the name of the kind, as in #Kind.
	Kind string
	// File and Line are where the reason is; Line is 0 if it is nowhere in particular.
	File string
	Line int
	// Reason is what is wrong there.
	Reason string
}

func (e *LoadError) Error() string {
	var b strings.Builder
	if e.File != "" {
		fmt.Fprintf(&b, "%s:%d: ", e.File, e.Line)
	}
	if e.Kind != "" {
		fmt.Fprintf(&b, "kind %s: ", e.Kind)
	}
	b.WriteString(e.Reason)
	return b.String()
}

// newLoadError makes a LoadError of the first of the errors that CUE reports.
func newLoadError(kind string, err error) *LoadError {
	if loadError, ok := errors.AsType[*LoadError](err); ok {
		loadError.Kind = kind
		return loadError
	}
	if _, ok := errors.AsType[cueerrors.Error](err); !ok {
		return &LoadError{Kind: kind, Reason: err.Error()}
	}
	list := cueerrors.Errors(err)
	first := list[0]
	for _, e := range list {
		// What follows the count of a disjunction's errors says which values there are.
		if first = e; !isDisjunction(messageOf(e)) {
			break
		}
	}
	path := strings.Join(first.Path(), ".")
	if inner, ok := errors.AsType[cueerrors.Error](errors.Unwrap(first)); ok && messageOf(first) == "import failed" {
		first, path = inner, "" // it says what cannot be imported, and why; the path is the module
	}
	result := &LoadError{Kind: kind, Reason: messageOf(first)}
	if path != "" && !strings.HasPrefix(result.Reason, path) {
		result.Reason = path + ": " + result.Reason
	}
	result.File, result.Line = position(first)
	return result
}

// orAt places an error that has no place in the author's files at a definition of theirs.
func (e *LoadError) orAt(definition *ast.Field) *LoadError {
	if pos := definition.Pos(); pos.IsValid() && (e.File == "" || isLibrary(e.File)) {
		e.File, e.Line = relative(pos.Filename()), pos.Line()
	}
	return e
}

// position is the place that the author of a kind has to look at: of all the places
// that a CUE error names, the first outside the contract and the libraries.
func position(err cueerrors.Error) (file string, line int) {
	positions := append([]token.Pos{err.Position()}, err.InputPositions()...)
	var chosen token.Pos
	for _, pos := range positions {
		if !pos.IsValid() || pos.Filename() == "" {
			continue
		}
		if !chosen.IsValid() {
			chosen = pos
		}
		if !isLibrary(pos.Filename()) {
			chosen = pos
			break
		}
	}
	if !chosen.IsValid() {
		return "", 0
	}
	return relative(chosen.Filename()), chosen.Line()
}

func isLibrary(file string) bool {
	dir := filepath.ToSlash(filepath.Dir(file))
	return strings.HasSuffix(dir, "cue/contract") || strings.HasSuffix(dir, "cue/k8s")
}

// workingDirectory is asked for at each position of a rule, of which a kind has hundreds.
var workingDirectory = sync.OnceValues(os.Getwd)

// relative shortens a path under the working directory, as the cue command does, and
// that of a file of Fescue's own.
func relative(file string) string {
	for _, root := range []string{shippedRoot + "/", "/cue.mod/pkg/" + modulePath + "/"} {
		if _, shipped, ok := strings.Cut(filepath.ToSlash(file), root); ok {
			return shipped
		}
	}
	wd, err := workingDirectory()
	if err != nil {
		return file
	}
	if rel, err := filepath.Rel(wd, file); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return file
}

// errorAt is a LoadError at the place of value.
func errorAt(value cue.Value, field, format string, args ...any) error {
	e := &LoadError{Reason: field + ": " + fmt.Sprintf(format, args...)}
	if pos := value.Pos(); pos.IsValid() {
		e.File, e.Line = relative(pos.Filename()), pos.Line()
	}
	return e
}

// errorAtNode is a LoadError at the place of a piece of syntax.
func errorAtNode(node ast.Node, format string, args ...any) error {
	e := &LoadError{Reason: fmt.Sprintf(format, args...)}
	if pos := node.Pos(); pos.IsValid() {
		e.File, e.Line = relative(pos.Filename()), pos.Line()
	}
	return e
}

// errorAtPosition is a LoadError at a place that the intermediate form remembers.
func errorAtPosition(at schema.Position, format string, args ...any) error {
	return &LoadError{Reason: fmt.Sprintf(format, args...), File: at.File, Line: at.Line}
}

// positionOf is the place of a piece of syntax.
func positionOf(node ast.Node) schema.Position {
	if pos := node.Pos(); pos.IsValid() {
		return schema.Position{File: relative(pos.Filename()), Line: pos.Line()}
	}
	return schema.Position{}
}

// oneLine puts a text on one line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// messageOf is the message of a CUE error without its path and positions.
func messageOf(err cueerrors.Error) string {
	format, args := err.Msg()
	return strings.TrimSuffix(fmt.Sprintf(format, args...), ":")
}

// EvaluationError says that a kind's behaviour cannot be evaluated for an object.
// The kind is at fault, or an object that its schema should have refused.
type EvaluationError struct {
	// Path is where in the #XController the failure is.
	Path string
	// Err is the failure.
	Err error
	// Value is what is wrong, if it could be evaluated and is of no use.
	Value any
}

func (e *EvaluationError) Error() string { return fmt.Sprintf("%s: %v", e.Path, e.Err) }

func (e *EvaluationError) Unwrap() error { return e.Err }
