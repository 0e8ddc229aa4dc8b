package syntax

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	cueerrors "cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/token"
	"k8s.io/apimachinery/pkg/api/meta"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/place"
)

// LoadError explains why a kind, or the whole package if Kind is empty, fails to load.
type LoadError struct {
	// Check is what found the error; empty if no check of vet did.
	Check mistake.Check `json:"check,omitempty"`
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
	case strings.HasSuffix(e.Kind, behaviour.DecoratorSuffix):
		fmt.Fprintf(&b, "decorator %s: ", strings.TrimSuffix(e.Kind, behaviour.DecoratorSuffix))
	case e.Kind != "":
		fmt.Fprintf(&b, "kind %s: ", e.Kind)
	}
	b.WriteString(e.Reason)
	return b.String()
}

// NewLoadError returns a LoadError for the first error that CUE reports.
func NewLoadError(kind string, err error) *LoadError {
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
		if first = e; !IsDisjunction(MessageOf(e)) {
			break
		}
	}
	path := strings.Join(first.Path(), ".")
	result := &LoadError{Kind: kind}
	if inner, ok := errors.AsType[cueerrors.Error](errors.Unwrap(first)); ok && MessageOf(first) == "import failed" {
		first, path = inner, "" // it names the import and the cause; the path is the module
		result.Check = mistake.FailedImport
	}
	var check mistake.Check
	result.Reason, check = explained(ReasonOf(first), first.Path())
	result.Check = cmp.Or(result.Check, check)
	if _, cause, ok := strings.Cut(result.Reason, ": cannot expand module graph: "); ok {
		// no import is wrong
		result.Reason, path = "the dependencies in cue.mod/module.cue cannot be fetched: "+cause, ""
	}
	if path != "" && !strings.HasPrefix(result.Reason, path) {
		result.Reason = path + ": " + result.Reason
	}
	if plural := "#" + kind + behaviour.ControllerSuffix +
		".names.plural"; strings.HasPrefix(result.Reason, plural+": field is required") {
		guessed, _ := meta.UnsafeGuessKindToResource(apischema.GroupVersionKind{Kind: kind})
		result.Reason += fmt.Sprintf(": write names: plural: %q", guessed.Resource)
	}
	at := PositionOfError(first)
	result.File, result.Line = at.File, at.Line
	return result
}

// Joined returns mistakes as one error; nil if there are none.
func Joined(mistakes []*LoadError) error {
	errs := make([]error, len(mistakes))
	for i, mistake := range mistakes {
		errs[i] = mistake
	}
	return errors.Join(errs...)
}

// Unjoined returns the errors that are joined in one, however deep; none if it is nil.
func Unjoined(err error) (all []error) {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	for _, e := range joined.Unwrap() {
		all = append(all, Unjoined(e)...)
	}
	return all
}

// OrAt places an error that has no place in the author's files at a definition of theirs.
func (e *LoadError) OrAt(definition *ast.Field) *LoadError {
	if at := PositionOf(definition); at.File != "" && (e.File == "" || place.IsLibrary(e.File)) {
		e.File, e.Line = at.File, at.Line
	}
	return e
}

// PositionOfError returns the first place in a CUE error that is outside the contract and the
// libraries: the one that the author of the kind has to change.
func PositionOfError(err cueerrors.Error) place.Position {
	positions := append([]token.Pos{err.Position()}, err.InputPositions()...)
	var chosen token.Pos
	for _, pos := range positions {
		if !pos.IsValid() || pos.Filename() == "" {
			continue
		}
		if !chosen.IsValid() {
			chosen = pos
		}
		if !place.IsLibrary(pos.Filename()) {
			chosen = pos
			break
		}
	}
	return place.At(chosen)
}

// ErrorAt returns a LoadError at the place of value.
func ErrorAt(check mistake.Check, value cue.Value, field, format string, args ...any) error {
	return ErrorAtPosition(check, place.At(value.Pos()), "%s: %s", field, fmt.Sprintf(format, args...))
}

// ErrorAtNode returns a LoadError at the place of a piece of syntax.
func ErrorAtNode(check mistake.Check, node ast.Node, format string, args ...any) error {
	return ErrorAtPosition(check, PositionOf(node), format, args...)
}

// ErrorAtPosition returns a LoadError at a place that a schema has noted.
func ErrorAtPosition(check mistake.Check, at place.Position, format string, args ...any) error {
	return &LoadError{Check: check, Reason: fmt.Sprintf(format, args...), File: at.File, Line: at.Line}
}

// PositionOfValue returns the place of a value in the author's files, if it has one there.
func PositionOfValue(value cue.Value) place.Position {
	at := value.Pos()
	if _, parts := value.Expr(); place.IsLibrary(at.Filename()) {
		for _, part := range parts {
			if pos := part.Pos(); pos.IsValid() && !place.IsLibrary(pos.Filename()) {
				at = pos
			}
		}
	}
	return place.At(at)
}

// PositionOf returns the place of a piece of syntax.
func PositionOf(node ast.Node) place.Position { return place.At(node.Pos()) }

// oneLine puts a text on one line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// MessageOf returns the message of a CUE error without its path and positions.
func MessageOf(err cueerrors.Error) string {
	format, args := err.Msg()
	return strings.TrimSuffix(fmt.Sprintf(format, args...), ":")
}

// IsDisjunction reports whether a message counts the errors of a disjunction; a message
// for each of its values follows.
func IsDisjunction(message string) bool {
	return strings.Contains(message, "errors in empty disjunction")
}

// ReasonOf returns the message of a CUE error with those of its causes, such as the reason why a
// builtin failed.
func ReasonOf(err cueerrors.Error) string {
	reason := MessageOf(err)
	for cause := errors.Unwrap(err); cause != nil; cause = errors.Unwrap(cause) {
		text := cause.Error()
		if e, ok := errors.AsType[cueerrors.Error](cause); ok {
			text = MessageOf(e)
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
