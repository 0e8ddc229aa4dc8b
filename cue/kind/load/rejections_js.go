package load

import (
	"encoding/json"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// rejections reports in a browser only a default of the status without its required fields: the API server's library,
// which knows all reasons, would add a third to what a page loads (docs/decisions/0076-playground.md).
func rejections(definition *apiextensionsv1.CustomResourceDefinition) (errs field.ErrorList) {
	for _, v := range definition.Spec.Versions {
		status := v.Schema.OpenAPIV3Schema.Properties["status"]
		var initial map[string]any
		if status.Default == nil || json.Unmarshal(status.Default.Raw, &initial) != nil {
			continue
		}
		for _, name := range status.Required {
			if _, ok := initial[name]; !ok {
				errs = append(errs,
					field.Required(field.NewPath("spec", "schema").Key(v.Name).Child("properties").Key("status").Child(
						"default", name), ""))
			}
		}
	}
	return errs
}
