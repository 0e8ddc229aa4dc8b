package types

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestBuiltIn(t *testing.T) {
	t.Parallel()
	c, err := New()
	require.NoError(t, err)
	deployment, ok, err := c.Find(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	require.NoError(t, err)
	require.True(t, ok)
	require.True(t, deployment.Namespaced)
	spec := deployment.Type.Field("spec")
	require.ElementsMatch(t, []string{"selector", "template"}, spec.Required)
	require.Equal(t, Integer, spec.Field("replicas").Values)
	containers := spec.Field("template").Field("spec").Field("containers")
	require.Equal(t, List, containers.Values)
	require.Equal(t, []string{"name"}, containers.Keys)
	container := containers.Item()
	require.Equal(t, []string{"name"}, container.Required)
	require.Equal(t, []string{"Always", "IfNotPresent", "Never"}, container.Field("imagePullPolicy").Enum)
	require.Nil(t, container.Field("imagePullpolicy"))
	limits := container.Field("resources").Field("limits")
	require.True(t, limits.Field("cpu").Quantity)
	require.Equal(t, Integer|String, container.Field("readinessProbe").Field("httpGet").Field("port").Values)
	labels := deployment.Type.Field("metadata").Field("labels")
	require.Equal(t, String, labels.Field("app").Values)
	require.Equal(t, Unknown, Unknown.Field("any").Item())

	namespace, _, err := c.Find(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
	require.NoError(t, err)
	require.False(t, namespace.Namespaced)
	crd, _, err := c.Find(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	require.NoError(t, err)
	props := crd.Type.Field("spec").Field("versions").Item().Field("schema").Field("openAPIV3Schema")
	require.Same(t, props, props.Field("properties").Field("a"), "it contains itself")
}

func TestWhyNotFound(t *testing.T) {
	t.Parallel()
	c, err := New()
	require.NoError(t, err)
	for gvk, want := range map[schema.GroupVersionKind]string{
		{Version: "v1", Kind: "Deployment"}:                                  `"v1" has no kind Deployment: write "apps/v1"`,
		{Group: "batch", Version: "v1beta1", Kind: "CronJob"}:                `"batch/v1beta1" has no kind CronJob: write "batch/v1"`,
		{Group: "apps", Version: "v1", Kind: "Deploymnet"}:                   `"apps/v1" has no kind Deploymnet; did you mean Deployment?`,
		{Group: "apps", Version: "v1", Kind: "Gadget"}:                       `"apps/v1" has no kind Gadget in Kubernetes v1.37.2`,
		{Group: "networking.k8s.io", Version: "v1", Kind: "ingress"}:         `"networking.k8s.io/v1" has no kind ingress; did you mean Ingress?`,
		{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "Gateway"}: "",
		{Group: "db.example.com", Version: "v1", Kind: "Database"}:           "",
		{Group: "serving.knative.dev", Version: "v1", Kind: "Service"}:       "",
		{Group: "extensions", Version: "v1beta1", Kind: "Ingress"}:           `"extensions/v1beta1" has no kind Ingress: write "networking.k8s.io/v1"`,
	} {
		_, found, err := c.Find(gvk)
		require.False(t, found)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, want)
	}
}

func TestTypesOfFiles(t *testing.T) {
	t.Parallel()
	c, err := New()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "db.yaml"), []byte(`
# A comment alone.
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: databases.db.example.com}
spec:
  group: db.example.com
  scope: Cluster
  names: {plural: databases, kind: Database}
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [size]
            properties:
              size: {type: integer, minimum: 1}
              mode: {type: string, enum: [fast, safe]}
              port: {x-kubernetes-int-or-string: true}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, properties: {phase: {type: string}}}
`), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "api.json"), []byte(`{"swagger": "2.0", "info": {"version": "v1.99.0"},
  "paths": {"/apis/new.k8s.io/v1/things": {"post": {"x-kubernetes-group-version-kind": {"group": "new.k8s.io", "version": "v1", "kind": "Thing"}}}},
  "definitions": {"Thing": {"type": "object", "properties": {"level": {"type": "integer", "enum": [1, 2]}},
    "x-kubernetes-group-version-kind": [{"group": "new.k8s.io", "version": "v1", "kind": "Thing"}]}}}`), 0o600))
	require.NoError(t, c.AddPath(dir))
	db, ok, err := c.Find(schema.GroupVersionKind{Group: "db.example.com", Version: "v1", Kind: "Database"})
	require.NoError(t, err)
	require.True(t, ok)
	require.False(t, db.Namespaced)
	spec := db.Type.Field("spec")
	require.Equal(t, []string{"size"}, spec.Required)
	require.InDelta(t, 1, *spec.Field("size").Minimum, 0)
	require.Equal(t, []string{"fast", "safe"}, spec.Field("mode").Enum)
	require.Equal(t, Integer|String, spec.Field("port").Values)
	require.Equal(t, Unknown, spec.Field("free").Field("x"))
	require.NotNil(t, db.Type.Field("metadata").Field("labels"))
	thing, ok, err := c.Find(schema.GroupVersionKind{Group: "new.k8s.io", Version: "v1", Kind: "Thing"})
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, Integer, thing.Type.Field("level").Values)
	_, _, err = c.Find(schema.GroupVersionKind{Group: "db.example.com", Version: "v2", Kind: "Database"})
	require.EqualError(t, err, `"db.example.com/v2" has no kind Database: write "db.example.com/v1"`)
	require.Error(t, c.AddPath(filepath.Join(dir, "none")))
}

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"image", "imagePullPolicy", "name", "env", "envFrom"}
	for name, want := range map[string]string{
		"imagePullpolicy": "imagePullPolicy", "imgae": "image", "Image": "image", "namme": "name", "evn": "env", "x": "", "volumes": "", "name": "", "imagePull": "imagePullPolicy",
	} {
		require.Equal(t, want, Nearest(name, known), name)
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		if _, err := New(); err != nil {
			b.Fatal(err)
		}
	}
}
