package load

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/place"
	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// checkScale rejects a scale subresource whose fields do not exist or have the wrong type, or whose numbers could be
// negative, because the API server rejects negative numbers.
func checkScale(k Draft, v *kind.Version, controller cue.Value) error {
	if k.Scale == nil {
		return nil
	}
	for _, number := range []struct{ name, path string }{{"scale.spec", k.Scale.SpecReplicasPath},
		{"scale.status", k.Scale.StatusReplicasPath}} {
		at, p, err := scaled(k.Source, v, controller, number.name, number.path)
		if err != nil {
			return err
		}
		if p.Type != "integer" || p.Minimum == nil || *p.Minimum < 0 {
			return syntax.ErrorAt(mistake.InvalidScale, at, number.name,
				"%s of %s must be an integer of at least 0; %s", number.path, v.GroupVersionKind.Version,
				countInstead(p))
		}
	}
	if k.Scale.LabelSelectorPath == nil {
		return nil
	}
	path := *k.Scale.LabelSelectorPath
	at, p, err := scaled(k.Source, v, controller, "scale.selector", path)
	if err == nil && p.Type != "string" {
		err = syntax.ErrorAt(mistake.InvalidScale, at, "scale.selector",
			`%s of %s must be a string, a label selector as text like "app=hello"`, path, v.GroupVersionKind.Version)
	}
	return err
}

// scaled returns the schema at a path of the scale subresource, and what an error about it is reported at: the field,
// or the path if CUE does not know the field or it is not the kind's own.
func scaled(
	pkg *syntax.Package, v *kind.Version, controller cue.Value, name, path string,
) (at cue.Value, p apiextensionsv1.JSONSchemaProps, err error) {
	at = controller.LookupPath(cue.ParsePath(name))
	if field, around, ok := v.Missing(path); !ok {
		return at, p, syntax.ErrorAt(mistake.InvalidScale,
			at,
			name,
			"#%s has no field %s%s",
			v.GroupVersionKind.Kind,
			field,
			types.DidYouMean(field[strings.LastIndex(field, ".")+1:], slices.Sorted(maps.Keys(around.Properties))),
		)
	}
	if field := pkg.ValueAt(v.DefinitionName, path); field.Exists() && !place.IsLibrary(field.Pos().Filename()) {
		at = field
	}
	return at, v.Property(path), nil
}

// countInstead says what to write instead of the schema of a field that cannot be a number of replicas.
func countInstead(p apiextensionsv1.JSONSchemaProps) string {
	var values []float64
	for _, value := range p.Enum {
		var n float64
		if json.Unmarshal(value.Raw, &n) == nil && n >= 0 {
			values = append(values, n)
		}
	}
	if p.Type != "integer" || len(values) < 2 {
		return "write int32 & >=0"
	}
	return fmt.Sprintf("a disjunction of values is not supported here: write their range, as in int32 & >=%v & <=%v",
		slices.Min(values), slices.Max(values))
}

// collectOpenAPI sets the OpenAPI schema of a version. The API server estimates the cost of
// each CEL rule and rejects rules that could cost too much: those are left to admission and
// the controller.
//
// A new object gets a status that describes no generation, so that tools that wait by kstatus
// do not take it for done before the first reconcile. This is not possible if the status has
// required fields.
func collectOpenAPI(k *kind.Kind, v *kind.Version, controller cue.Value) error {
	without := sets.New[string]()
	v.InitialStatus = true
	for {
		crd := SetOpenAPI(v, without)
		rejected := rejections(definitionOf(k, v))
		if len(rejected) == 0 {
			if err := setStructural(v); err != nil {
				return syntax.ErrorAtPosition(mistake.RejectedCRD, place.Position{}, "%s%v", wouldReject, err)
			}
			return nil
		}
		dropped := without.Len()
		for _, err := range rejected {
			if i := slices.IndexFunc(crd.Rules,
				func(r schema.CELRule) bool { return strings.HasSuffix(err.Field, "."+r.Path+".rule") }); i >= 0 &&
				isTooCostly(err) {
				without.Insert(crd.Rules[i].ID)
			}
		}
		if without.Len() > dropped {
			continue
		}
		if !v.InitialStatus || !slices.ContainsFunc(rejected, isAboutInitialStatus) {
			return rejectedBy(v, controller, rejected)
		}
		v.InitialStatus = false
	}
}

func isAboutInitialStatus(err *field.Error) bool {
	return strings.Contains(err.Field, ".properties[status].default")
}

// definitionOf returns the definition with one version alone.
func definitionOf(k *kind.Kind, v *kind.Version) *apiextensionsv1.CustomResourceDefinition {
	alone := *k
	alone.Versions = []*kind.Version{v}
	definition := alone.Definition()
	definition.Spec.Versions[0].Storage = true
	return definition
}

// isTooCostly reports whether a rejection is about cost. The library shows it only in the message.
func isTooCostly(err *field.Error) bool {
	return err.Type == field.ErrorTypeForbidden &&
		(strings.Contains(err.Detail, "exceeds budget") || strings.Contains(err.Detail, "exceeding cost limit"))
}

// SetOpenAPI sets the OpenAPI schema of a version, without some CEL rules.
func SetOpenAPI(v *kind.Version, without sets.Set[string]) *schema.CRD {
	crd := schema.OpenAPI(v.Compiled, schema.Options{
		Without: without, IsLibrary: func(at place.Position) bool { return place.IsLibrary(at.File) },
	})
	v.Schema, v.Enforcers = crd.Schema, crd.Enforcers
	return crd
}

func setStructural(v *kind.Version) error {
	var internal apiextensions.JSONSchemaProps
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema, &internal, nil)
	if err == nil {
		v.Structural, err = structuralschema.NewStructural(&internal)
	}
	return err
}
