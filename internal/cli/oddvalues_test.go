package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// oddObject is an object with one odd value.
type oddObject struct {
	object *unstructured.Unstructured
	text   string // what is odd about it
}

// TestOddValues makes one value of a manifest odd, or removes it, and compares what vet says of a kind that has it as the
// template of a child with what an API server says of the object. What vet calls wrong is, and vet finds most of what the
// API server rejects; -v lists the rest.
func TestOddValues(t *testing.T) {
	t.Parallel()
	create := dryRun(t)
	text, err := os.ReadFile(corpus.Path(t, "testdata/templates/objects.yaml"))
	require.NoError(t, err)
	var all []oddObject
	for _, document := range strings.Split(string(text), "\n---\n")[1:] {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.UnmarshalStrict([]byte(document), object))
		require.NoError(t, create(object), "%s has no odd value yet", object.GetKind())
		all = append(all, oddObject{object: object.DeepCopy(), text: object.GetKind() + " as it is"})
		content := object.UnstructuredContent()
		for _, name := range slices.Sorted(maps.Keys(content)) {
			if name == "apiVersion" || name == "kind" {
				continue
			}
			makeOdd(content[name], "."+name, func(v any) { content[name] = v }, func(text string) {
				if object.GetName() == "odd-value" { // a name is the engine's
					all = append(all, oddObject{object: object.DeepCopy(), text: object.GetKind() + text})
				}
			})
		}
	}
	rejected, found := 0, 0
	for together := range slices.Chunk(all, 20) {
		mistakes := mistakesOf(t, together)
		for i, odd := range together {
			err := create(odd.object)
			isStrict := func(check mistake.Check) bool { return slices.Contains(stricter, check) }
			wrong := slices.DeleteFunc(slices.Clone(mistakes[i]), isStrict)
			switch {
			case err == nil && len(wrong) > 0:
				t.Errorf("%s: vet finds %v, and the API server accepts it", odd.text, wrong)
			case err != nil && len(mistakes[i]) == 0:
				t.Logf("%s: vet finds nothing: %v", odd.text, err)
			}
			if err != nil {
				rejected++
			}
			if err != nil && len(mistakes[i]) > 0 {
				found++
			}
		}
	}
	t.Logf("of %d odd values, the API server rejects %d, and vet finds %d of them", len(all), rejected, found)
	require.Greater(t, found, rejected*3/4)
}

// stricter are checks of what the API server accepts, although it is of no use: it drops a second item of a list,
// nothing can be scaled that has no type, and a Service without Pods serves nothing; and of fields that only its OpenAPI
// document requires.
var stricter = []mistake.Check{mistake.DuplicateItem, mistake.UnknownType, mistake.SelectorWithoutPods,
	mistake.MissingField}

// dryRun returns what asks an API server whether it would create an object.
func dryRun(t *testing.T) func(*unstructured.Unstructured) error {
	config := testcluster.Config(t)
	config.WarningHandler = rest.NoWarnings{}
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	discovered, err := discovery.NewDiscoveryClientForConfig(config)
	require.NoError(t, err)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovered))
	return func(object *unstructured.Unstructured) error {
		gvk := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		require.NoError(t, err)
		resource := dynamic.ResourceInterface(client.Resource(mapping.Resource))
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			resource = client.Resource(mapping.Resource).Namespace(metav1.NamespaceDefault)
		}
		_, err = resource.Create(t.Context(), object.DeepCopy(),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
		return err
	}
}

// makeOdd calls try with each odd value in place of one in a value, which set sets.
func makeOdd(value any, path string, set func(any), try func(text string)) {
	odd := func(values ...any) {
		for _, v := range values {
			set(v)
			try(fmt.Sprintf("%s = %.40v", path, v))
		}
		set(value)
	}
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			inner := v[name]
			makeOdd(inner, path+"."+name, func(odd any) { v[name] = odd }, try)
			delete(v, name)
			try(path + " without " + name)
			v[name] = inner
		}
		v["a b"] = "c"
		try(path + " with a b")
		delete(v, "a b")
	case []any:
		for i, inner := range v {
			makeOdd(inner, fmt.Sprintf("%s[%d]", path, i), func(odd any) { v[i] = odd }, try)
		}
		odd([]any{}, append(slices.Clone(v), v[0]))
	case string:
		odd("A_b c", "x/y", "", "-1", strings.Repeat("a", 300), "200%")
	case int64, float64:
		odd(int64(-1), int64(0), int64(70000), int64(1<<33))
	case bool:
		odd(!v)
	}
}

// mistakesOf returns the checks by which vet finds mistakes in the children of a kind, of which each has one of the
// objects as its template.
func mistakesOf(t *testing.T, objects []oddObject) [][]mistake.Check {
	t.Helper()
	var children strings.Builder
	for i, odd := range objects {
		template := odd.object.DeepCopy()
		unstructured.RemoveNestedField(template.Object, "metadata", "name")
		text, err := json.Marshal(template)
		require.NoError(t, err)
		fmt.Fprintf(&children, "children: c%d: template: %s\n", i, text)
	}
	found := make([][]mistake.Check, len(objects))
	printed := vetted(t, fmt.Sprintf(`
package kinds

import "fescue.dev/cue/contract"

#Odd: {apiVersion!: "example.com/v1", kind!: "Odd", metadata!: {...}}
#OddController: contract.#Controller & {
	object!: #Odd
	scope: "Cluster"
	names: plural: "odds"
	%s
}
`, children.String()))
	for _, line := range regexp.MustCompile(`(?m)^kind\.cue:\d+: kind Odd: children\.c(\d+)\..* \[([a-z-]+)\]$`).FindAllStringSubmatch(printed, -1) {
		var i int
		_, err := fmt.Sscan(line[1], &i)
		require.NoError(t, err)
		if check := mistake.Check(line[2]); check != mistake.MissingNamespace {
			found[i] = append(found[i], check)
		}
	}
	return found
}
