package syntax

import (
	"errors"
	"fmt"
	"regexp"
	resyntax "regexp/syntax"
)

// CompilePattern compiles a regular expression of a kind. CUE and the API server match with RE2, as Go does; the error
// says so if that is why a pattern is invalid.
func CompilePattern(pattern string) (*regexp.Regexp, error) {
	compiled, err := regexp.Compile(pattern)
	if e, ok := errors.AsType[*resyntax.Error](err); ok && e.Code == resyntax.ErrInvalidPerlOp {
		err = fmt.Errorf("%w: CUE matches with RE2, which cannot look ahead or behind", err)
	}
	return compiled, err
}
