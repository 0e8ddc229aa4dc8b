package crds

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

// TestWatcherHasWhatControllerGenGenerates compares the CRD of Watcher field by field with
// the one that controller-gen generates from a Go struct of the same content, which
// hack/k8stypes writes. Ours may contain more.
func TestWatcherHasWhatControllerGenGenerates(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/controller-gen/watch.fescue.dev_watchers.yaml")
	require.NoError(t, err)
	var theirs apiextensionsv1.CustomResourceDefinition
	require.NoError(t, yaml.Unmarshal(text, &theirs))
	ours := kindtest.Named(t, kindtest.Shipped(t), "Watcher").Definition()
	require.Equal(t, theirs.Spec.Group, ours.Spec.Group)
	require.Equal(t, theirs.Spec.Names, ours.Spec.Names)

	var c comparison
	for _, field := range []string{"spec", "status"} {
		c.compare(field, asMap(t, theirs, field), asMap(t, *ours, field))
	}
	require.Empty(t, c.missing)
	require.Greater(t, c.equal, 500, "fields compared")
	t.Logf("%d schemas equal those of controller-gen; ours contain more in %d", c.equal, c.more)
}

// asMap returns the schema of a top-level field of the only version as plain JSON.
func asMap(t *testing.T, crd apiextensionsv1.CustomResourceDefinition, field string) map[string]any {
	schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties[field]
	plain, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&schema)
	require.NoError(t, err)
	return plain
}

// comparison counts the schemas that have at least what others have.
type comparison struct {
	equal, more int
	missing     []string
}

func (c *comparison) compare(path string, theirs, ours map[string]any) {
	if ours == nil {
		c.missing = append(c.missing, path)
		return
	}
	c.equal++
	if len(ours) > len(theirs) {
		c.more++
	}
	for key, their := range theirs {
		switch key {
		case "properties":
			properties, _ := ours[key].(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(their.(map[string]any))) {
				our, _ := properties[name].(map[string]any)
				c.compare(path+"."+name, their.(map[string]any)[name].(map[string]any), our)
			}
		case "items", "additionalProperties":
			our, _ := ours[key].(map[string]any)
			c.compare(path+"."+key, their.(map[string]any), our)
		case "required":
			c.required(path, their.([]any), ours)
		case "description":
			if strings.HasPrefix(path, "spec.container.securityContext.capabilities.") {
				continue // Capability is a string here
			}
			c.same(path, key, squeezed(their), squeezed(ours[key]))
		default:
			c.same(path, key, their, ours[key])
		}
	}
}

// required accepts a default instead of required: the field is set either way.
func (c *comparison) required(path string, theirs []any, ours map[string]any) {
	required, _ := ours["required"].([]any)
	properties, _ := ours["properties"].(map[string]any)
	for _, name := range theirs {
		property, _ := properties[name.(string)].(map[string]any)
		if !slices.Contains(required, name) && property["default"] == nil {
			c.missing = append(c.missing, fmt.Sprintf("%s: required %s", path, name))
		}
	}
}

func (c *comparison) same(path, key string, their, our any) {
	if !reflect.DeepEqual(their, our) {
		c.missing = append(c.missing, fmt.Sprintf("%s: %s: %v, not %v", path, key, our, their))
	}
}

// squeezed returns a text without its line breaks and indentation.
func squeezed(text any) string { return strings.Join(strings.Fields(fmt.Sprint(text)), " ") }
