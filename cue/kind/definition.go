package kind

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// Definition returns the CustomResourceDefinition of the kind.
func (k *Kind) Definition() *apiextensionsv1.CustomResourceDefinition {
	definition := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: k.Name()},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: k.GroupVersionKind.Group,
			Names: k.Names,
			Scope: k.Scope,
		},
	}
	if k.Approval != "" {
		definition.Annotations = map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: k.Approval}
	}
	for _, v := range k.Versions {
		definition.Spec.Versions = append(definition.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name:                     v.GroupVersionKind.Version,
			Served:                   v.Served,
			Storage:                  v.GroupVersionKind == k.GroupVersionKind,
			Deprecated:               v.Deprecated,
			DeprecationWarning:       warningOf(v),
			Schema:                   &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: v.Schema},
			Subresources:             &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}, Scale: k.Scale},
			AdditionalPrinterColumns: k.columnsIn(v),
			SelectableFields:         k.selectableIn(v),
		})
	}
	definition = definition.DeepCopy()
	for i, v := range k.Versions {
		schema := definition.Spec.Versions[i].Schema.OpenAPIV3Schema
		if status, ok := schema.Properties["status"]; ok && v.InitialStatus {
			status.Default = &apiextensionsv1.JSON{Raw: []byte(`{"observedGeneration":-1}`)}
			schema.Properties["status"] = status
		}
	}
	return definition
}

// warningOf returns the text of a version that is deprecated; nil leaves it to the API server.
func warningOf(v *Version) *string {
	if v.DeprecationWarning == "" {
		return nil
	}
	return &v.DeprecationWarning
}

// columnsIn lists the columns whose fields a version has, as far as their paths show.
func (k *Kind) columnsIn(v *Version) []apiextensionsv1.CustomResourceColumnDefinition {
	if v.GroupVersionKind == k.GroupVersionKind {
		return k.Columns
	}
	return slices.DeleteFunc(slices.Clone(k.Columns), func(c apiextensionsv1.CustomResourceColumnDefinition) bool {
		if strings.HasPrefix(c.JSONPath, ".metadata.") || strings.ContainsAny(c.JSONPath, "[]()@'\\\"") {
			return false
		}
		_, _, ok := v.missing(c.JSONPath)
		return !ok
	})
}

// selectableIn lists the selectable fields that a version has. A further version that has all of them lists
// none: the API server rejects a CRD whose versions have the same ones and different schemas.
func (k *Kind) selectableIn(v *Version) []apiextensionsv1.SelectableField {
	if v.GroupVersionKind == k.GroupVersionKind {
		return k.SelectableFields
	}
	found := slices.DeleteFunc(slices.Clone(k.SelectableFields), func(f apiextensionsv1.SelectableField) bool {
		return v.property(f.JSONPath).Type == ""
	})
	if len(found) == len(k.SelectableFields) {
		return nil
	}
	return found
}

// property returns the schema of the field at a JSONPath like ".spec.count".
func (v *Version) property(path string) apiextensionsv1.JSONSchemaProps {
	at := *v.Schema
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "."), ".") {
		at = at.Properties[name]
	}
	return at
}

// missing returns the first field of a path that the schema does not have, and what is around it.
func (v *Version) missing(path string) (field string, around apiextensionsv1.JSONSchemaProps, ok bool) {
	around = *v.Schema
	names := strings.Split(strings.TrimPrefix(path, "."), ".")
	for i, name := range names {
		next, ok := around.Properties[name]
		if !ok && around.XPreserveUnknownFields == nil {
			return strings.Join(names[:i+1], "."), around, false
		}
		around = next
	}
	return "", around, true
}

// checkScale rejects a scale subresource whose fields do not exist or have the wrong type, or whose numbers could be
// negative, because the API server rejects negative numbers.
func checkScale(k *Kind, pkg *kindsPackage, v *Version, controller cue.Value) error {
	if k.Scale == nil {
		return nil
	}
	for _, number := range []struct{ name, path string }{{"scale.spec", k.Scale.SpecReplicasPath}, {"scale.status", k.Scale.StatusReplicasPath}} {
		at, p, err := pkg.scaled(v, controller, number.name, number.path)
		if err != nil {
			return err
		}
		if p.Type != "integer" || p.Minimum == nil || *p.Minimum < 0 {
			return errorAt(at, number.name, "%s of %s must be an integer of at least 0; %s", number.path, v.GroupVersionKind.Version, countInstead(p))
		}
	}
	if k.Scale.LabelSelectorPath == nil {
		return nil
	}
	path := *k.Scale.LabelSelectorPath
	at, p, err := pkg.scaled(v, controller, "scale.selector", path)
	if err == nil && p.Type != "string" {
		err = errorAt(at, "scale.selector", `%s of %s must be a string, a label selector as text like "app=hello"`, path, v.GroupVersionKind.Version)
	}
	return err
}

// scaled returns the schema at a path of the scale subresource, and what an error about it is reported at: the field,
// or the path if CUE does not know the field or it is not the kind's own.
func (pkg *kindsPackage) scaled(v *Version, controller cue.Value, name, path string) (at cue.Value, p apiextensionsv1.JSONSchemaProps, err error) {
	at = controller.LookupPath(cue.ParsePath(name))
	if field, around, ok := v.missing(path); !ok {
		return at, p, errorAt(at, name, "#%s has no field %s%s", v.GroupVersionKind.Kind, field, types.DidYouMean(field[strings.LastIndex(field, ".")+1:], slices.Sorted(maps.Keys(around.Properties))))
	}
	if field := pkg.valueAt(v.DefinitionName, path); field.Exists() && !isLibrary(field.Pos().Filename()) {
		at = field
	}
	return at, v.property(path), nil
}

// valueAt returns the CUE of the field of a definition at a JSONPath like ".spec.count"; it does not exist if CUE knows the field
// under a condition only.
func (pkg *kindsPackage) valueAt(name, path string) cue.Value {
	at := pkg.definition(name)
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "."), ".") {
		var next cue.Value
		for _, label := range []cue.Selector{cue.Str(name), cue.Str(name).Required(), cue.Str(name).Optional()} {
			if next = at.LookupPath(cue.MakePath(label)); next.Exists() {
				break
			}
		}
		at = next
	}
	return at
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
	return fmt.Sprintf("a disjunction of values is not supported here: write their range, as in int32 & >=%v & <=%v", slices.Min(values), slices.Max(values))
}

// collectOpenAPI sets the OpenAPI schema of a version. The API server estimates the cost of
// each CEL rule and rejects rules that could cost too much: those are left to admission and
// the controller.
//
// A new object gets a status that describes no generation, so that tools that wait by kstatus
// do not take it for done before the first reconcile. This is not possible if the status has
// required fields.
func collectOpenAPI(k *Kind, v *Version) error {
	without := sets.New[string]()
	v.InitialStatus = true
	for {
		crd := setOpenAPI(v, without)
		rejected := rejections(definitionOf(k, v))
		if len(rejected) == 0 {
			return setStructural(v)
		}
		dropped := without.Len()
		for _, err := range rejected {
			if i := slices.IndexFunc(crd.Rules, func(r schema.CELRule) bool { return strings.HasSuffix(err.Field, "."+r.Path+".rule") }); i >= 0 && isTooCostly(err) {
				without.Insert(crd.Rules[i].ID)
			}
		}
		if without.Len() > dropped {
			continue
		}
		if !v.InitialStatus || !slices.ContainsFunc(rejected, isAboutInitialStatus) {
			return rejected.ToAggregate()
		}
		v.InitialStatus = false
	}
}

func isAboutInitialStatus(err *field.Error) bool {
	return strings.Contains(err.Field, ".properties[status].default")
}

// definitionOf returns the definition with one version alone.
func definitionOf(k *Kind, v *Version) *apiextensionsv1.CustomResourceDefinition {
	alone := *k
	alone.Versions = []*Version{v}
	definition := alone.Definition()
	definition.Spec.Versions[0].Storage = true
	return definition
}

// isTooCostly reports whether a rejection is about cost. The library shows it only in the message.
func isTooCostly(err *field.Error) bool {
	return err.Type == field.ErrorTypeForbidden && (strings.Contains(err.Detail, "exceeds budget") || strings.Contains(err.Detail, "exceeding cost limit"))
}

// rejections returns why the API server would reject a definition, as far as its library
// shows.
func rejections(definition *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	apiextensionsv1.SetDefaults_CustomResourceDefinition(definition)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&definition.Spec)
	for _, v := range definition.Spec.Versions {
		if v.Storage {
			definition.Status.StoredVersions = []string{v.Name}
		}
	}
	var internal apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(definition, &internal, nil); err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return validation.ValidateCustomResourceDefinition(context.Background(), &internal)
}

// setOpenAPI sets the OpenAPI schema of a version, without some CEL rules.
func setOpenAPI(v *Version, without sets.Set[string]) *schema.CRD {
	crd := schema.OpenAPI(v.Compiled, schema.Options{
		Without: without, IsLibrary: func(at schema.Position) bool { return isLibrary(at.File) },
	})
	v.Schema, v.Enforcers = crd.Schema, crd.Enforcers
	return crd
}
