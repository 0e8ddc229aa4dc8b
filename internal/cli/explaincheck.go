package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// errorsPage is the page with all checks of vet.
const errorsPage = "https://github.com/fescue-dev/fescue/blob/main/docs/reference/errors.md"

// explainCheck explains the check of a name; "" if vet has none.
func explainCheck(name string) string {
	all := mistake.All()
	i := slices.IndexFunc(all, func(e mistake.Explanation) bool { return string(e.Check) == name })
	if i < 0 {
		return ""
	}
	e := all[i]
	var b strings.Builder
	fmt.Fprintf(&b, "CHECK:   %s\nCAUSE:   %s\nFIX:     %s\n", e.Check, inWords(e.Cause), inWords(e.Fix))
	for _, example := range [][2]string{{"BEFORE", e.Before}, {"AFTER", e.After}} {
		if example[1] != "" {
			fmt.Fprintf(&b, "\n%s:\n    %s\n", example[0], strings.ReplaceAll(example[1], "\n", "\n    "))
		}
	}
	fmt.Fprintf(&b, "\nSEE:     %s#%s\n", errorsPage, e.Check)
	return b.String()
}

// inWords returns a text of the page for a terminal: code is in quotes.
func inWords(text string) string { return strings.ReplaceAll(text, "`", "'") }

// nearCheck ends the error about an argument of explain that looks like the name of a check, with a similar one.
func nearCheck(name string) string {
	if !strings.Contains(name, "-") {
		return ""
	}
	var known []string
	for _, e := range mistake.All() {
		known = append(known, string(e.Check))
	}
	return types.DidYouMean(name, known)
}
