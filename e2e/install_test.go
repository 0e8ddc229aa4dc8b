package e2e

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// The plurals that `fescue manifests` guesses without a cluster are those of the API server.
func TestPluralsOfBuiltInTypes(t *testing.T) {
	t.Parallel()
	_, lists, err := newCluster(t).typed.Discovery().ServerGroupsAndResources()
	require.NoError(t, err)
	compared := 0
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		require.NoError(t, err)
		for _, served := range list.APIResources {
			gvk := gv.WithKind(served.Kind)
			if strings.Contains(served.Name, "/") || !scheme.Scheme.Recognizes(gvk) {
				continue
			}
			plural, _ := meta.UnsafeGuessKindToResource(gvk)
			require.Equal(t, served.Name, plural.Resource, gvk)
			compared++
		}
	}
	require.Greater(t, compared, 50)
}

// warnings collects the warnings of the API server.
type warnings struct {
	mu  sync.Mutex
	all []string
}

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

// Everything that `fescue manifests` prints is accepted where Pod Security enforces its restricted
// profile, and so are the Pods of its workloads. The printed namespace enforces that profile.
func TestManifestsMeetPodSecurity(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	kinds := kindtest.From(t, rightsKind)
	source := install.Source{"kinds.cue": rightsKind}
	o := c.installation(true)
	o.InstallCRDs = true
	o.Namespaces = nil // one that it worked in would be its users'
	parts, err := o.parts(append(kindtest.Shipped(t), kinds...), []install.Source{source})
	require.NoError(t, err)
	var warned warnings
	config := testcluster.Config(t)
	config.WarningHandler = &warned
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)

	workloads := 0
	for _, object := range install.Objects(parts) {
		options := metav1.ApplyOptions{FieldManager: "test", Force: true, DryRun: dryRun.DryRun}
		switch object.GetKind() {
		case "Namespace", "ServiceAccount": // the others need them
			options.DryRun = nil
		}
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		_, err := client.Resource(resource).Namespace(object.GetNamespace()).Apply(t.Context(), object.GetName(), object, options)
		require.NoError(t, err, "%s %s", object.GetKind(), object.GetName())
		template, found, err := unstructured.NestedMap(object.Object, "spec", "template")
		require.NoError(t, err)
		if !found {
			continue
		}
		workloads++
		pod := &unstructured.Unstructured{Object: template}
		pod.SetAPIVersion("v1")
		pod.SetKind("Pod")
		pod.SetName("p")
		create := func() error {
			_, err := client.Resource(pods).Namespace(object.GetNamespace()).Create(t.Context(), pod, dryRun)
			return err
		}
		require.NoError(t, create())
		unstructured.RemoveNestedField(pod.Object, "spec", "securityContext", "seccompProfile")
		require.True(t, testcluster.WaitUntil(func() bool { err = create(); return err != nil }), "the label of the namespace has no effect")
		require.ErrorContains(t, err, `violates PodSecurity "restricted:latest": seccompProfile`)
	}
	require.Equal(t, 1, workloads)
	require.Empty(t, warned.all)
}
