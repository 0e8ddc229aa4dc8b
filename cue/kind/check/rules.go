package check

import (
	"github.com/fescue-dev/fescue/cue/kind/infer"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
)

// mustParse reports a text that is known and wrong.
func mustParse(check mistake.Check, s *infer.Structure, name, path string, parse func(string) error) {
	text, ok := s.Text(name)
	if !ok {
		return
	}
	if err := parse(text); err != nil {
		s.Report(check, s.ValueNode(name), "%s.%s: %v", path, name, err)
	}
}

// onlyOne reports two fields of which the API server takes one. A field that an if may drop is none.
func onlyOne(s *infer.Structure, path string, names ...string) {
	var set []string
	for _, name := range names {
		if s.Has(name) {
			set = append(set, name)
		}
	}
	if len(set) > 1 {
		s.Report(mistake.MutuallyExclusive, s.Fields[set[1]].Node,
			"%s.%s: cannot be set together with %s: remove one of them", path, set[1], set[0])
	}
}

// notWith reports a field that the API server takes only with another type of the structure than a known one.
func notWith(s *infer.Structure, ofType, name, path string) {
	if text, _ := s.OnlyText("type"); text == ofType && s.Has(name) {
		s.Report(mistake.MutuallyExclusive, s.Fields[name].Node,
			"%s.%s: cannot be set with the type %s: remove one of them", path, name, ofType)
	}
}

// mustHave reports a field that a structure lacks, if all its fields are known.
func mustHave(s *infer.Structure, name, path, why string) {
	if s.Fields[name] == nil && !s.IsOpen() && len(s.Literals) > 0 {
		s.Report(mistake.MissingField, s.Literals[0], "%s.%s: is missing: %s", path, name, why)
	}
}

// requires reports a field that a structure lacks beside another, if all its fields are known.
func requires(s *infer.Structure, given, name, path string) {
	if s.Fields[name] == nil && !s.IsOpen() {
		s.Report(mistake.MissingField, s.Fields[given].Node, "%s.%s: is missing: Kubernetes requires it with this %s", path,
			name, given)
	}
}
