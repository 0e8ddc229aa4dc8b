package check

import (
	"encoding/json"
	"slices"
	"strings"

	"cuelang.org/go/cue/build"
	cuejson "cuelang.org/go/encoding/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind/infer"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// accepted are mistakes in a child for which the API server does not reject it.
var accepted = []mistake.Check{mistake.UnknownPort, mistake.UnknownType}

// Object returns for which relations between its fields, and for which texts, the API server rejects an object that
// fits its type: what Behaviour finds in templates that are the same for all objects. If the object is applied by
// server-side apply, as children are, two items of a list with the same keys are an error as well.
func Object(known *types.Catalog, object map[string]any, isApplied bool) (errs field.ErrorList) {
	text, err := json.Marshal(map[string]any{"template": object})
	if err != nil {
		panic(err) // it was read from JSON, or from CUE
	}
	source, err := cuejson.Extract("", text)
	if err != nil {
		panic(err) // CUE reads all of JSON
	}
	c := &Checker{fitter: newFitter(infer.New(&build.Instance{}, "", "")), types: known}
	child := c.newChild(c.Gather(nil), "", "", "", source, []infer.Part{{Expr: source}}, false)
	checkPodSelector(child)
	c.relations(child)
	if isApplied && child.known {
		c.check(child.body.Fields["template"].Parts, child.resource.Type, ".template")
	}
	for _, m := range c.Mistakes {
		if slices.Contains(accepted, m.Check) {
			continue
		}
		path, detail, _ := strings.Cut(strings.TrimPrefix(m.Reason, ".template."), ": ")
		errs = append(errs, &field.Error{
			Type: field.ErrorTypeInvalid, Field: path, BadValue: field.OmitValueType{}, Detail: detail,
		})
	}
	return errs
}
