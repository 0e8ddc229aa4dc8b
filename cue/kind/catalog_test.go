package kind_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// shirts has a kind with two versions, and one that fails to load.
const shirts = `package shirts

import "fescue.dev/cue/contract"

#Shirt: {apiVersion!: "acme.example/v1", kind!: "Shirt", metadata!: {...}, status?: contract.#Status}
#OldShirt: {apiVersion!: "acme.example/v1beta1", kind!: "Shirt", metadata!: {...}, status?: contract.#Status}
#ShirtController: contract.#Controller & {object!: #Shirt, names: plural: "shirts"}

#Hat: {apiVersion!: "acme.example/v1", kind!: "Hat", metadata!: {...}, status?: contract.#Status}
#HatController: contract.#Controller & {object!: #Hat, names: plural: "HATS"}
`

func gvk(group, version, kind string) apischema.GroupVersionKind {
	return apischema.GroupVersionKind{Group: group, Version: version, Kind: kind}
}

func TestCatalogFindsKinds(t *testing.T) {
	t.Parallel()
	c, err := load.All(true, corpus.Folder(t, shirts))
	require.NoError(t, err)
	require.Len(t, c.All(), 4)
	require.Len(t, c.Added(), 1)
	shirt := c.Added()[0]
	require.Same(t, shirt, c.All()[3])

	require.Same(t, shirt, c.ByGVK(gvk("acme.example", "v1", "Shirt")))
	require.Same(t, shirt, c.ByGVK(gvk("acme.example", "v1beta1", "Shirt")))
	require.Nil(t, c.ByGVK(gvk("acme.example", "v2", "Shirt")))
	require.Nil(t, c.ByGVK(gvk("acme.example", "v1", "Hat")))
	require.Same(t, shirt, c.ByGroupKind(apischema.GroupKind{Group: "acme.example", Kind: "Shirt"}))
	require.Nil(t, c.ByGroupKind(apischema.GroupKind{Group: "acme.example", Kind: "Hat"}))
	require.Same(t, shirt, c.ByName("shirts.acme.example"))
	require.Nil(t, c.ByName("hats.acme.example"))
	resource := apischema.GroupVersionResource{Group: "acme.example", Version: "v1", Resource: "shirts"}
	require.Equal(t, resource, shirt.GroupVersionResource())
	require.Same(t, shirt, c.ByResource(resource))
	resource.Version = "v1beta1"
	require.Same(t, shirt, c.ByResource(resource))
	resource.Version = "v2"
	require.Nil(t, c.ByResource(resource))

	require.Len(t, c.Broken(), 1)
	require.Equal(t, "Hat", c.Broken()[0].Kind)
	require.ErrorIs(t, c.BrokenError(), c.Broken()[0])
}

func TestCatalogReportsFolders(t *testing.T) {
	t.Parallel()
	dir, empty := corpus.Folder(t, shirts), t.TempDir()
	c, err := load.All(false, dir, empty, dir)
	require.EqualError(t, err, "kinds folder "+empty+" has no file whose name ends in .cue\n"+
		"kinds folder "+dir+": kind Shirt: the kind Shirt already has the plural and the group shirts.acme.example")
	require.Len(t, c.All(), 1)

	c, err = load.All(false, corpus.Folder(t, "package k\n#A: nowhere\n"))
	require.NoError(t, err)
	require.Empty(t, c.All())
	require.Len(t, c.Broken(), 1)
	require.Empty(t, c.Broken()[0].Kind)
}

func TestWhyUnknown(t *testing.T) {
	t.Parallel()
	c, err := load.All(false, corpus.Folder(t, shirts))
	require.NoError(t, err)
	const both = "acme.example/v1 Shirt; acme.example/v1beta1 Shirt"
	for _, tc := range []struct {
		gvk  apischema.GroupVersionKind
		want kind.Unknown
	}{
		{gvk("acme.example", "v2", "Shirt"), kind.Unknown{Field: "apiVersion", Reason: "Shirt of acme.example exists in version v1, v1beta1"}},
		{gvk("acme.example", "v1", "Shirts"), kind.Unknown{Field: "kind", Reason: "did you mean Shirt? Kinds of this group: " + both}},
		{gvk("acme.example", "v1", "shirt"), kind.Unknown{Field: "kind", Reason: "did you mean Shirt? Kinds of this group: " + both}},
		{gvk("acme.example", "v1", "Skirt"), kind.Unknown{Field: "kind", Reason: "did you mean Shirt? Kinds of this group: " + both}},
		{gvk("acme.example", "v1", "Trousers"), kind.Unknown{Field: "kind", Reason: "kinds of this group: " + both}},
		{gvk("acme.example", "v1", "Hat"), kind.Unknown{Field: "kind", Reason: "the kind Hat failed to load", NotLoaded: true}},
		{gvk("", "v1", "Pod"), kind.Unknown{Field: "kind", Reason: "known kinds: " + both, Elsewhere: true}},
	} {
		require.Equal(t, tc.want, c.WhyUnknown(tc.gvk), tc.gvk)
	}
}
