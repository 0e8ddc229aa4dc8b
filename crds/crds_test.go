package crds

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind"
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
	kinds, err := kind.Shipped()
	require.NoError(t, err)
	sources, err := filepath.Glob("../testdata/sources/*")
	require.NoError(t, err)
	require.NotEmpty(t, sources)
	for _, dir := range sources {
		more, err := kind.FromDir(dir)
		require.NoError(t, err)
		kinds = append(kinds, more...)
	}
	archives, err := filepath.Glob("../testdata/kinds/*.txtar")
	require.NoError(t, err)
	for _, file := range archives {
		archive, err := txtar.ParseFile(file)
		require.NoError(t, err)
		dir := t.TempDir()
		for _, f := range archive.Files {
			if filepath.Ext(f.Name) == ".cue" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o600))
			}
		}
		// The corpus also has kinds that do not load: kind.TestCorpus says why.
		more, _ := kind.FromDir(dir)
		kinds = append(kinds, more...)
	}
	return kinds
}

func TestDefinitionOfAt(t *testing.T) {
	t.Parallel()
	kinds, err := kind.Shipped()
	require.NoError(t, err)
	version := kinds[0].Definition().Spec.Versions[0]
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
