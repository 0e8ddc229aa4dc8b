package crds

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

// TestAPIServerAcceptsDefinitions asks the library that the API server itself checks
// CRDs with, for the shipped kinds, the sources' and those of the corpus.
func TestAPIServerAcceptsDefinitions(t *testing.T) {
	t.Parallel()
	for _, k := range allKinds(t) {
		t.Run(k.GroupVersionKind.String(), func(t *testing.T) {
			t.Parallel()
			var internal apiextensions.CustomResourceDefinition
			definition := k.Definition()
			apiextensionsv1.SetDefaults_CustomResourceDefinition(definition)
			apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&definition.Spec)
			definition.Status.StoredVersions = []string{k.GroupVersionKind.Version}
			require.NoError(t, apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(definition, &internal, nil))
			require.Empty(t, validation.ValidateCustomResourceDefinition(t.Context(), &internal))

			schema, err := apiextensions.GetSchemaForVersion(&internal, k.GroupVersionKind.Version)
			require.NoError(t, err)
			structural, err := structuralschema.NewStructural(schema.OpenAPIV3Schema)
			require.NoError(t, err)
			require.Empty(t, structuralschema.ValidateStructural(field.NewPath("schema"), structural))
		})
	}
}

func allKinds(t *testing.T) []*kind.Kind {
	kinds := kindtest.Shipped(t)
	sources, err := filepath.Glob("../testdata/sources/*")
	require.NoError(t, err)
	require.NotEmpty(t, sources)
	for _, dir := range sources {
		kinds = append(kinds, kindtest.FromDir(t, dir)...)
	}
	return append(kinds, kindtest.AllInCorpus(t)...)
}

func TestDefinitionOfAt(t *testing.T) {
	t.Parallel()
	version := kindtest.Named(t, kindtest.Shipped(t), "At").Definition().Spec.Versions[0]
	var columns []string
	for _, c := range version.AdditionalPrinterColumns {
		columns = append(columns, c.Name)
	}
	require.Equal(t, []string{"Schedule", "Command", "Phase", "Age"}, columns)
	require.NotNil(t, version.Subresources.Status)

	spec := version.Schema.OpenAPIV3Schema.Properties["spec"]
	require.ElementsMatch(t, []string{"schedule", "command"}, spec.Required)
	require.Equal(t, `^\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\dZ$`, spec.Properties["schedule"].Pattern)
	require.Equal(t, int64(4096), *spec.Properties["command"].MaxLength)
	require.JSONEq(t, `"busybox:1.37"`, string(spec.Properties["image"].Default.Raw))
	require.Equal(t, "schedule is the UTC time at which command runs, in RFC 3339.", spec.Properties["schedule"].Description)
	require.Len(t, version.Schema.OpenAPIV3Schema.Properties["status"].Properties["phase"].Enum, 3)
}
