package load

import (
	"regexp"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/place"
	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

const wouldReject = "the API server would reject the CRD: "

// rejectedBy returns why the API server would reject the CRD of a version, each at what the author wrote.
func rejectedBy(v *kind.Version, controller cue.Value, rejected field.ErrorList) error {
	var mistakes []*syntax.LoadError
	isPlural := func(err *field.Error) bool { return err.Field == "spec.names.plural" }
	for _, err := range rejected {
		if err.Field == "metadata.name" && slices.ContainsFunc(rejected, isPlural) {
			continue // the plural is part of it
		}
		path, at := authored(v, controller, err.Field)
		mistakes = append(mistakes, &syntax.LoadError{
			Check: mistake.RejectedCRD, File: at.File, Line: at.Line,
			Reason: wouldReject + path + ": " + err.ErrorBody(),
		})
	}
	return syntax.Joined(mistakes)
}

// schemaStep is a step of a path in the schema of a CRD: a field, or all items or other fields.
var schemaStep = regexp.MustCompile(`^\.(?:properties\[([^\]]*)\]|(items)|(additionalProperties))`)

// ofController are the parts of a CRD that a controller states, and the fields in which it does.
var ofController = [][2]string{
	{"metadata.name", "names.plural"}, {"spec.names", "names"}, {"spec.additionalPrinterColumns", "columns"},
	{"spec.subresources.scale", "scale"}, {"spec.selectableFields", "selectableFields"},
}

// fieldsOfController are what a controller calls the fields of these parts.
var fieldsOfController = strings.NewReplacer(".JSONPath", ".path", ".jsonPath", "", ".specReplicasPath", ".spec",
	".statusReplicasPath", ".status", ".labelSelectorPath", ".selector")

// authored returns the path of what the author wrote for a field of a CRD, and its place, if that is known.
func authored(v *kind.Version, controller cue.Value, path string) (string, place.Position) {
	if _, rest, ok := strings.Cut(path, ".openAPIV3Schema"); ok {
		return inSchema(v.Compiled, rest)
	}
	for _, part := range ofController {
		if rest, ok := strings.CutPrefix(path, part[0]); ok {
			path = part[1] + fieldsOfController.Replace(rest)
			return path, syntax.PositionOfValue(controller.LookupPath(cue.ParsePath(path)))
		}
	}
	return path, place.Position{}
}

// inSchema is authored for a path below the root of the schema.
func inSchema(s *schema.Schema, path string) (field string, at place.Position) {
	for {
		step := schemaStep.FindStringSubmatch(path)
		if step == nil {
			return strings.TrimPrefix(field+strings.Replace(path, ".", ": ", 1), ": "), at
		}
		path = path[len(step[0]):]
		switch {
		case step[2] != "":
			field += "[*]"
		case step[3] != "":
			field += ".{*}"
		default:
			field = strings.TrimPrefix(field+"."+step[1], ".")
		}
		if s = schemaAt(s, step); s != nil && s.Position.File != "" && !place.IsLibrary(s.Position.File) {
			at = s.Position
		}
	}
}

// schemaAt returns the schema that is a step further; nil if it is not known, as in alternatives.
func schemaAt(s *schema.Schema, step []string) *schema.Schema {
	switch {
	case s == nil:
		return nil
	case s.Reference != nil:
		return schemaAt(s.Reference, step)
	case step[2] != "":
		return s.Items
	case s.Struct == nil:
		return nil
	case step[3] != "" && len(s.Struct.Labels) > 0:
		return s.Struct.Labels[0].Schema
	}
	if f := s.Struct.Field(step[1]); f != nil {
		return f.Schema
	}
	return nil
}
