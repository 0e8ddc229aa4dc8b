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

	"k8s.io/apimachinery/pkg/api/meta"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind/schema"
)

// LoadError explains why a kind, or the whole package if Kind is empty, fails to load.
type LoadError struct {
	// Kind is the name of the kind, as in #Kind, or that of a decorator, as in #XDecorator.
	Kind string `json:"kind,omitempty"`
	// File and Line are the place of the error; Line is 0 if there is none.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Reason describes the error.
	Reason string `json:"reason"`
}

func (e *LoadError) Error() string {
	var b strings.Builder
	if e.File != "" {
		fmt.Fprintf(&b, "%s:%d: ", e.File, e.Line)
	}
	switch {
	case strings.HasSuffix(e.Kind, decoratorSuffix):
		fmt.Fprintf(&b, "decorator %s: ", strings.TrimSuffix(e.Kind, decoratorSuffix))
	case e.Kind != "":
		fmt.Fprintf(&b, "kind %s: ", e.Kind)
	}
	b.WriteString(e.Reason)
	return b.String()
}

// newLoadError returns a LoadError for the first error that CUE reports.
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
		// The errors after the count of a disjunction's errors name the possible values.
		if first = e; !isDisjunction(messageOf(e)) {
			break
		}
	}
	path := strings.Join(first.Path(), ".")
	if inner, ok := errors.AsType[cueerrors.Error](errors.Unwrap(first)); ok && messageOf(first) == "import failed" {
		first, path = inner, "" // it names the import and the cause; the path is the module
	}
	result := &LoadError{Kind: kind, Reason: explained(reasonOf(first))}
	if _, cause, ok := strings.Cut(result.Reason, ": cannot expand module graph: "); ok {
		result.Reason, path = "the dependencies in cue.mod/module.cue cannot be fetched: "+cause, "" // no import is wrong
	}
	if path != "" && !strings.HasPrefix(result.Reason, path) {
		result.Reason = path + ": " + result.Reason
	}
	if plural := "#" + kind + controllerSuffix + ".names.plural"; strings.HasPrefix(result.Reason, plural+": field is required") {
		guessed, _ := meta.UnsafeGuessKindToResource(apischema.GroupVersionKind{Kind: kind})
		result.Reason += fmt.Sprintf(": write names: plural: %q", guessed.Resource)
	}
	result.File, result.Line = position(first)
	return result
}

// unjoined returns the errors that errors.Join has joined.
func unjoined(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// orAt places an error that has no place in the author's files at a definition of theirs.
func (e *LoadError) orAt(definition *ast.Field) *LoadError {
	if pos := definition.Pos(); pos.IsValid() && (e.File == "" || isLibrary(e.File)) {
		e.File, e.Line = relative(pos.Filename()), pos.Line()
	}
	return e
}

// position returns the first place in a CUE error that is outside the contract and the
// libraries: the one that the author of the kind has to change.
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

// workingDirectory is cached: it is needed for each position of a rule, and a kind has hundreds.
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

// errorAt returns a LoadError at the place of value.
func errorAt(value cue.Value, field, format string, args ...any) error {
	e := &LoadError{Reason: field + ": " + fmt.Sprintf(format, args...)}
	if pos := value.Pos(); pos.IsValid() {
		e.File, e.Line = relative(pos.Filename()), pos.Line()
	}
	return e
}

// errorAtNode returns a LoadError at the place of a piece of syntax.
func errorAtNode(node ast.Node, format string, args ...any) error {
	e := &LoadError{Reason: fmt.Sprintf(format, args...)}
	if pos := node.Pos(); pos.IsValid() {
		e.File, e.Line = relative(pos.Filename()), pos.Line()
	}
	return e
}

// errorAtPosition returns a LoadError at a place that a schema has noted.
func errorAtPosition(at schema.Position, format string, args ...any) error {
	return &LoadError{Reason: fmt.Sprintf(format, args...), File: at.File, Line: at.Line}
}

// positionOfValue returns the place of a value in the author's files, if it has one there.
func positionOfValue(value cue.Value) schema.Position {
	at := value.Pos()
	if _, parts := value.Expr(); isLibrary(at.Filename()) {
		for _, part := range parts {
			if pos := part.Pos(); pos.IsValid() && !isLibrary(pos.Filename()) {
				at = pos
			}
		}
	}
	if !at.IsValid() {
		return schema.Position{}
	}
	return schema.Position{File: relative(at.Filename()), Line: at.Line()}
}

// positionOf returns the place of a piece of syntax.
func positionOf(node ast.Node) schema.Position {
	if pos := node.Pos(); pos.IsValid() {
		return schema.Position{File: relative(pos.Filename()), Line: pos.Line()}
	}
	return schema.Position{}
}

// oneLine puts a text on one line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// messageOf returns the message of a CUE error without its path and positions.
func messageOf(err cueerrors.Error) string {
	format, args := err.Msg()
	return strings.TrimSuffix(fmt.Sprintf(format, args...), ":")
}

// isDisjunction reports whether a message counts the errors of a disjunction; a message
// for each of its values follows.
func isDisjunction(message string) bool {
	return strings.Contains(message, "errors in empty disjunction")
}
