package proof

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	structuralpruning "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/cue/kind/schema"
)

// crdOracle does with objects what the API server does by a CRD.
type crdOracle struct {
	structural *structuralschema.Structural
	validator  validation.SchemaValidator
	cel        *cel.Validator
}

func newCRDOracle(schema *apiextensionsv1.JSONSchemaProps) (*crdOracle, error) {
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(schema, &internal, nil); err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(&internal)
	if err != nil {
		return nil, err
	}
	if errs := structuralschema.ValidateStructural(nil, structural); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	validator, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		return nil, err
	}
	return &crdOracle{structural, validator, cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// admit returns the object as the API server would store it, and what it rejects.
func (o *crdOracle) admit(object map[string]any) (map[string]any, field.ErrorList) {
	stored := runtime.DeepCopyJSON(object)
	errs := o.admitInPlace(stored)
	if len(errs) == 0 && o.cel != nil {
		celErrs, _ := o.cel.Validate(context.Background(), nil, o.structural, stored, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, celErrs...)
	}
	return stored, errs
}

// admitInPlace returns admit without CEL, on an object that it changes.
func (o *crdOracle) admitInPlace(object map[string]any) field.ErrorList {
	structuralpruning.Prune(object, o.structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(object, o.structural)
	defaulting.Default(object, o.structural)
	errs := validation.ValidateCustomResource(nil, object, o.validator)
	return append(errs, listtype.ValidateListSetsAndMaps(nil, o.structural, object)...)
}

// disagreement returns how the compiled form, CUE's evaluator and the CRD differ about an
// object; nil if they agree.
func disagreement(k load.Draft, crd *crdOracle, object map[string]any) error {
	for _, form := range []map[string]any{object, k.WithoutNulls(object)} {
		if err := load.Disagrees(k.Version, ofSchema(k, form), form, load.Evaluate(k.Source, k.Version, form)); err != nil {
			return err
		}
	}
	return crdDisagrees(k, crd, k.Problems(object), object)
}

// ofSchema returns what the compiled form finds in an object as it is, with the nulls that the API
// server would drop.
func ofSchema(k load.Draft, object map[string]any) []kind.Problem {
	if err := kind.CheckLimits(object); err != nil {
		return []kind.Problem{{Error: err}}
	}
	return schema.Validate(k.NewBudget(), k.Compiled, schema.Default(k.NewBudget(), k.Compiled, object))
}

// crdDisagrees returns how the compiled form, which found the problems, and the CRD differ
// about an object.
func crdDisagrees(k load.Draft, crd *crdOracle, problems []kind.Problem, object map[string]any) error {
	stored, rejected := crd.admit(object)
	if len(rejected) > 0 && len(problems) == 0 {
		return fmt.Errorf("only the CRD rejects it: %v", rejected)
	}
	if len(rejected) == 0 {
		// What the API server dropped, unknown fields and nulls, is no longer wrong.
		for _, p := range k.Problems(stored) {
			if k.Versions.RejectedBy(p) >= schema.CRDSchema {
				return fmt.Errorf("the CRD should reject it too: %w (%s)", p.Error, p.Rule.Text)
			}
		}
	}
	if len(problems) > 0 {
		return nil
	}
	return kind.SameJSON("the CRD's defaults differ", k.Default(object), k.Default(stored))
}

func text(object map[string]any) string {
	b, err := json.Marshal(object)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
