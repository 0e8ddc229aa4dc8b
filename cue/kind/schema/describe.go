package schema

import (
	"slices"
	"strings"
)

// describe describes the alternatives in few words.
func describe(alternatives []Alternative) string {
	var texts []string
	for _, a := range alternatives {
		texts = append(texts, a.describe())
	}
	return strings.Join(texts, " | ")
}

func (s *Schema) describe() string {
	switch {
	case s.Reference != nil:
		return s.Reference.describe()
	case len(s.Alternatives) > 0:
		return "(" + describe(s.Alternatives) + ")"
	case len(s.Matches) > 0 && (s.Struct == nil || len(s.Struct.Fields) == 0):
		return "(" + s.Matches[0].describe() + ")"
	case s.Struct != nil && len(s.Struct.Fields) > 0 || s.Types == Struct && s.Struct != nil:
		var names []string
		for _, f := range s.Struct.Fields {
			names = append(names, f.Name)
		}
		return "{" + strings.Join(names, ", ") + "}"
	}
	var texts []string
	for _, r := range s.rules() {
		if !slices.Contains(texts, r.Text) { // strings.MaxRunes(3), say, is a rule for the type as well
			texts = append(texts, r.Text)
		}
	}
	if len(texts) == 0 {
		return s.Types.String()
	}
	return strings.Join(texts, " & ")
}
