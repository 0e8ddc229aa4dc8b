package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	k := fence(t)
	for name, test := range map[string]struct{ object, want string }{
		"absent ones are added": {
			`{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"name":"a"},"spec":{"posts":[{"name":"x"},{"name":"y","height":2}]}}`,
			`[{"op":"add","path":"/spec/colour","value":"green"},{"op":"add","path":"/spec/posts/0/height","value":1}]`,
		},
		"a generated name is not added": {
			`{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"generateName":"a-"},"spec":{}}`,
			`[{"op":"add","path":"/spec/colour","value":"green"}]`,
		},
		"present ones are kept": {`{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"name":"a"},"spec":{"colour":"white"}}`, ``},
		"an invalid object gets none": {
			`{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"name":"a"},"spec":{"posts":[{}]}}`, ``,
		},
		"an object that is being deleted gets none": {
			`{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"name":"a","deletionTimestamp":"2030-01-01T00:00:00Z"},"spec":{}}`, ``,
		},
		"unknown fields are kept": {
			`{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"name":"a","futureField":{"x":[1]}},"spec":{"pod":{"spec":{"futureField":1.0}}}}`,
			`[{"op":"add","path":"/spec/colour","value":"green"}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			response, err := newObjects([]*kind.Kind{k}, nil, nil).setDefaults(context.Background(), requestFor(t, k, test.object, ""))
			require.NoError(t, err)
			require.True(t, response.Allowed)
			require.Equal(t, test.want, string(response.Patch))
			if test.want == "" {
				require.Nil(t, response.PatchType)
				return
			}
			patch, err := jsonpatch.DecodePatch(response.Patch)
			require.NoError(t, err)
			patched, err := patch.Apply([]byte(test.object))
			require.NoError(t, err)
			var object map[string]any
			require.NoError(t, json.Unmarshal([]byte(test.object), &object))
			var result map[string]any
			require.NoError(t, json.Unmarshal(patched, &result))
			requireContains(t, result, object)
		})
	}
}

// requireContains checks that every leaf of part is in whole.
func requireContains(t *testing.T, whole, part any) {
	t.Helper()
	switch part := part.(type) {
	case map[string]any:
		for name, value := range part {
			require.Contains(t, whole, name)
			requireContains(t, whole.(map[string]any)[name], value)
		}
	case []any:
		require.Len(t, whole, len(part))
		for i := range part {
			requireContains(t, whole.([]any)[i], part[i])
		}
	default:
		require.Equal(t, part, whole)
	}
}

func TestDiffEscapes(t *testing.T) {
	t.Parallel()
	require.Equal(t,
		[]operation{{"replace", "/", "b"}, {"add", "/a~1b~0c", int64(1)}, {"replace", "/items/1/x", int64(2)}, {"replace", "/list", []any{int64(1)}}},
		diff(
			map[string]any{"list": []any{}, "": "a", "gone": "stays", "items": []any{"same", map[string]any{"x": int64(1)}}},
			map[string]any{"a/b~c": int64(1), "list": []any{int64(1)}, "": "b", "items": []any{"same", map[string]any{"x": int64(2)}}}))
}

func TestValidate(t *testing.T) {
	t.Parallel()
	const valid = `{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"name":"a"},"spec":{"place":"north"}}`
	k := fence(t)
	for name, test := range map[string]struct {
		object, old string
		// want are the causes, none if the object is allowed.
		want []metav1.StatusCause
	}{
		"valid":          {object: valid},
		"generateName":   {object: `{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"generateName":"a-"},"spec":{}}`},
		"a long prefix":  {object: `{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"generateName":"` + long + `"},"spec":{}}`},
		"no name at all": {object: `{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{},"spec":{}}`, want: []metav1.StatusCause{{Type: "FieldValueRequired", Message: "Required value", Field: "metadata.name"}}},
		"every error is a cause": {
			object: `{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"name":"a"},"spec":{"colour":"red","posts":[{"height":"x"}]}}`,
			want: []metav1.StatusCause{
				{Type: "FieldValueNotSupported", Message: `Unsupported value: "red": supported values: "green", "white"`, Field: "spec.colour"},
				{Type: "FieldValueTypeInvalid", Message: `Invalid value: "x": must be int, is string`, Field: "spec.posts[0].height"},
				{Type: "FieldValueRequired", Message: "Required value", Field: "spec.posts[0].name"},
			},
		},
		"immutable": {
			object: `{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"name":"a"},"spec":{"place":"south"}}`, old: valid,
			want: []metav1.StatusCause{{Type: "FieldValueInvalid", Message: `Invalid value: "south": field is immutable`, Field: "spec.place"}},
		},
		"old errors may stay": {
			object: `{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"name":"a","labels":{"a":"b"}},"spec":{"colour":"red"}}`,
			old:    `{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"name":"a","finalizers":["x.example.com/y"]},"spec":{"colour":"red"}}`,
		},
		"old errors may not change": {
			object: `{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"name":"a"},"spec":{"colour":"blue"}}`,
			old:    `{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"name":"a"},"spec":{"colour":"red"}}`,
			want:   []metav1.StatusCause{{Type: "FieldValueNotSupported", Message: `Unsupported value: "blue": supported values: "green", "white"`, Field: "spec.colour"}},
		},
		"finalizers can always be removed during deletion": {
			object: `{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"name":"a","deletionTimestamp":"2030-01-01T00:00:00Z"},"spec":{"colour":"blue"}}`, old: valid,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			response, err := newObjects([]*kind.Kind{k}, nil, nil).validate(context.Background(), requestFor(t, k, test.object, test.old))
			require.NoError(t, err)
			require.Equal(t, len(test.want) == 0, response.Allowed, "%v", response.Result)
			if len(test.want) == 0 {
				return
			}
			require.Equal(t, metav1.StatusReasonInvalid, response.Result.Reason)
			require.EqualValues(t, 422, response.Result.Code)
			require.Equal(t, test.want, response.Result.Details.Causes)
			require.Contains(t, response.Result.Message, "is invalid: ")
		})
	}
}

// long is the longest generateName that the API server does not truncate.
const long = "a123456789b123456789c123456789d123456789e123456789f12345678-"

func TestOtherRequestsAreAllowed(t *testing.T) {
	t.Parallel()
	k := fence(t)
	const broken = `{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"name":"a"},"spec":{"colour":"red"}}`
	for name, change := range map[string]func(*admissionv1.AdmissionRequest){
		"status":  func(r *admissionv1.AdmissionRequest) { r.SubResource = "status" },
		"delete":  func(r *admissionv1.AdmissionRequest) { r.Operation, r.Object.Raw = admissionv1.Delete, nil },
		"connect": func(r *admissionv1.AdmissionRequest) { r.Operation, r.Object.Raw = admissionv1.Connect, nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := requestFor(t, k, broken, "")
			change(request)
			objects := newObjects([]*kind.Kind{k}, nil, nil)
			for _, handle := range []handler{objects.setDefaults, objects.validate} {
				response, err := handle(context.Background(), request)
				require.NoError(t, err)
				require.True(t, response.Allowed)
				require.Empty(t, response.Patch)
			}
		})
	}
}

// Each version of a kind has its own schema.
func TestVersions(t *testing.T) {
	t.Parallel()
	kinds := kindtest.InCorpus(t, "versions")
	for version, allowed := range map[string]bool{"v1": true, "v1beta1": false} {
		request := requestFor(t, kinds[0], `{"apiVersion":"versions.example.com/`+version+`","kind":"Flock","metadata":{"name":"a"},"spec":{"count":11}}`, "")
		response, err := newObjects(kinds, nil, nil).validate(context.Background(), request)
		require.NoError(t, err)
		require.Equal(t, allowed, response.Allowed, version)
	}
}

// Using a deprecated field is allowed, with a warning.
func TestDeprecatedFieldsCauseWarnings(t *testing.T) {
	t.Parallel()
	k := fence(t)
	request := requestFor(t, k, `{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"name":"a"},"spec":{"paint":"x"}}`, "")
	response, err := newObjects([]*kind.Kind{k}, nil, nil).validate(t.Context(), request)
	require.NoError(t, err)
	require.True(t, response.Allowed)
	require.Equal(t, []string{"spec.paint: deprecated: use colour"}, response.Warnings)
}

// The injection of an object is checked when the object is submitted. Errors are reported at the
// fields of the object that cause them.
func TestInjectionIsValidated(t *testing.T) {
	t.Parallel()
	watcher := kindtest.Named(t, kindtest.Shipped(t), "Watcher")
	agent := kindtest.InCorpus(t, "inject")[0]
	const badSelector = `"selector":{"matchExpressions":[{"key":"a","operator":"In"}]}`
	of := func(k *kind.Kind, spec string) string {
		return `{"apiVersion":"` + k.GroupVersionKind.GroupVersion().String() + `","kind":"` + k.GroupVersionKind.Kind + `","metadata":{"name":"a"},"spec":{` + spec + `}}`
	}
	container := func(image string) string { return `"container":{"name":"a","image":"` + image + `"}` }
	for name, test := range map[string]struct {
		kind             *kind.Kind
		spec, old, field string
		message          string // none if it is allowed
	}{
		"valid":               {kind: watcher, spec: container("a")},
		"selector":            {kind: watcher, spec: container("a") + "," + badSelector, field: "spec.selector.matchExpressions[0].values", message: "Required value: must be specified when `operator` is 'In' or 'NotIn'"},
		"two sources":         {kind: watcher, spec: container("a") + `,"volume":{"name":"v","emptyDir":{},"configMap":{"name":"c","defaultMode":420}}`, field: "spec.volume.emptyDir", message: "Forbidden: a volume must have one source, and it already has configMap"},
		"removed volume":      {kind: watcher, spec: container("a") + `,"volume":{"name":"v","rbd":{"monitors":["a"],"image":"a"}}`, field: "spec.volume.rbd", message: "Forbidden: cannot be injected: Kubernetes removed this type of volume or moved it to CSI; use persistentVolumeClaim or csi"},
		"as it was":           {kind: watcher, spec: container("b") + "," + badSelector, old: container("a") + "," + badSelector},
		"not as it was":       {kind: watcher, spec: container("a") + "," + badSelector, old: container("a"), field: "spec.selector.matchExpressions[0].values", message: "Required value"},
		"unknown to a CRD":    {kind: agent, spec: `"image":"a","replicas":1,"selector":{"matchLabel":{"a":"b"}}`, field: "spec.selector", message: `Invalid value: strict decoding error: unknown field "matchLabel"`},
		"unknown operator":    {kind: agent, spec: `"image":"a","replicas":1,"selector":{"matchExpressions":[{"key":"a","operator":"Like"}]}`, field: "spec.selector.matchExpressions[0].operator", message: "not a valid selector operator"},
		"cannot be evaluated": {kind: agent, spec: `"image":"a"`, field: "spec", message: "Invalid value: nothing can be injected from it, by the rules of the kind Agent: inject.add: reads object.spec.replicas, which the object does not have"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := test.old
			if old != "" {
				old = of(test.kind, old)
			}
			request := requestFor(t, test.kind, of(test.kind, test.spec), old)
			response, err := newObjects([]*kind.Kind{test.kind}, nil, nil).validate(t.Context(), request)
			require.NoError(t, err)
			require.Equal(t, test.message == "", response.Allowed, "%v", response.Result)
			if test.message != "" {
				require.EqualValues(t, http.StatusUnprocessableEntity, response.Result.Code)
				require.Len(t, response.Result.Details.Causes, 1)
				require.Equal(t, test.field, response.Result.Details.Causes[0].Field)
				require.Contains(t, response.Result.Message, test.field+": ")
				require.Contains(t, response.Result.Details.Causes[0].Message, test.message)
			}
		})
	}
}

// Where the CRD belongs to another version of the kind, the webhooks answer as before, and warn the
// author, also of a rejection.
func TestOtherVersionIsAWarning(t *testing.T) {
	t.Parallel()
	k := fence(t)
	o := newObjects([]*kind.Kind{k}, nil, nil)
	const object = `{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"name":"a"},"spec":{"colour":"%s"}}`
	validate := func(colour string) *admissionv1.AdmissionResponse {
		response, err := o.validate(t.Context(), requestFor(t, k, fmt.Sprintf(object, colour), ""))
		require.NoError(t, err)
		return response
	}
	require.Empty(t, validate("white").Warnings)
	o.isOtherVersion = func(of *kind.Kind) bool { return of == k }
	warnings := []string{"the CRD fences.fences.example.com belongs to another version of the kind than the Fescue that answers, which may be about to be upgraded"}
	response := validate("white")
	require.True(t, response.Allowed)
	require.Equal(t, warnings, response.Warnings)
	response = validate("red")
	require.False(t, response.Allowed)
	require.Equal(t, warnings, response.Warnings)
}
