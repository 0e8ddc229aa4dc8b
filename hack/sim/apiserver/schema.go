package apiserver

import (
	"context"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// crdRules are those of a version of a CRD for its objects, in the steps in which the API server takes them: it has
// them in a package that links etcd.
type crdRules struct {
	structural *structuralschema.Structural
	whole      validation.SchemaValidator
	status     validation.SchemaValidator // nil is none
	cel        *cel.Validator
}

func rulesOf(crd *apiextensionsv1.CustomResourceDefinition, version string) (*crdRules, error) {
	var internal apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd,
		&internal, nil); err != nil {
		return nil, err
	}
	of, err := apiextensions.GetSchemaForVersion(&internal, version)
	if err != nil {
		return nil, err
	}
	r := new(crdRules)
	if r.structural, err = structuralschema.NewStructural(of.OpenAPIV3Schema); err != nil {
		return nil, err
	}
	if r.whole, _, err = validation.NewSchemaValidator(of.OpenAPIV3Schema); err != nil {
		return nil, err
	}
	if status, exists := of.OpenAPIV3Schema.Properties["status"]; exists {
		if r.status, _, err = validation.NewSchemaValidator(&status); err != nil {
			return nil, err
		}
	}
	compilePatterns(of.OpenAPIV3Schema)
	r.cel = cel.NewValidator(r.structural, true, celconfig.PerCallLimit)
	return r, nil
}

// compilePatterns compiles the patterns of a schema. The library has a cache of them for the process, and locks it when
// it compiles one: then a history would go on in another way than after one that has compiled the same.
func compilePatterns(of *apiextensions.JSONSchemaProps) {
	_ = validate.Pattern("", "", "", of.Pattern)
	each := func(all map[string]apiextensions.JSONSchemaProps) {
		for _, property := range all {
			compilePatterns(&property)
		}
	}
	each(of.Properties)
	each(of.PatternProperties)
	each(of.Definitions)
	for _, some := range [][]apiextensions.JSONSchemaProps{of.AllOf, of.AnyOf, of.OneOf} {
		for i := range some {
			compilePatterns(&some[i])
		}
	}
	if of.Not != nil {
		compilePatterns(of.Not)
	}
	if of.Items != nil && of.Items.Schema != nil {
		compilePatterns(of.Items.Schema)
	}
	if of.AdditionalProperties != nil && of.AdditionalProperties.Schema != nil {
		compilePatterns(of.AdditionalProperties.Schema)
	}
}

// decode changes an object as the API server does when it decodes it: it drops fields that the schema does not know,
// which it returns, and nulls, and sets defaults.
func (r *crdRules) decode(object *unstructured.Unstructured) (unknown []string, err error) {
	metadata := object.Object["metadata"]
	unknown = pruning.PruneWithOptions(object.Object, r.structural, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.PruneNonNullableNullsWithoutDefaults(object.Object, r.structural)
	if err, _ := objectmeta.CoerceWithOptions(nil, object.Object, r.structural, false,
		objectmeta.CoerceOptions{}); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if metadata != nil {
		object.Object["metadata"] = metadata
	}
	defaulting.Default(object.Object, r.structural)
	return unknown, nil
}

// Default implements runtime.ObjectDefaulter.
func (r *crdRules) Default(object runtime.Object) {
	defaulting.Default(object.(*unstructured.Unstructured).Object, r.structural)
}

// problems returns why an object, or its status, cannot be stored. live is what it replaces; nil is nothing.
func (r *crdRules) problems(status bool, object, live *unstructured.Unstructured) (found field.ErrorList) {
	var old map[string]any
	var validating []validation.ValidationOption
	var evaluating []cel.Option
	if live != nil { // what was invalid before may stay
		old = live.Object
		both := common.NewCorrelatedObject(object.Object, old, &model.Structural{Structural: r.structural})
		evaluating = append(evaluating, cel.WithRatcheting(both))
		if status {
			both = both.Key("status")
		}
		validating = append(validating, validation.WithRatcheting(both))
	}
	switch value, exists := object.Object["status"]; {
	case live == nil:
		found = validation.ValidateCustomResource(nil, object.Object, r.whole)
	case !status:
		found = validation.ValidateCustomResourceUpdate(nil, object.Object, old, r.whole, validating...)
	case exists && r.status != nil:
		found = validation.ValidateCustomResourceUpdate(field.NewPath("status"), value, old["status"], r.status,
			validating...)
	}
	ctx := context.Background()
	if !status {
		found = append(found, objectmeta.Validate(ctx, nil, object.Object, r.structural, false)...)
	}
	if live == nil || len(listtype.ValidateListSetsAndMaps(nil, r.structural, old)) == 0 {
		found = append(found, listtype.ValidateListSetsAndMaps(nil, r.structural, object.Object)...)
	}
	if slices.ContainsFunc(found, isBlocking) {
		return append(found, field.Invalid(nil, nil, "rules of CEL are not evaluated"))
	}
	wrong, _ := r.cel.Validate(ctx, nil, r.structural, object.Object, old, celconfig.RuntimeCELCostBudget,
		evaluating...)
	return append(found, wrong...)
}

// blocking are the errors after which no rule of CEL is evaluated.
var blocking = []field.ErrorType{field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong,
	field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid}

func isBlocking(err *field.Error) bool { return slices.Contains(blocking, err.Type) }
