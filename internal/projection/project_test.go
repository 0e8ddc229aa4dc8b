package projection

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
	"unsafe"
	"weak"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	k8sjson "sigs.k8s.io/json"

	"github.com/fescue-dev/fescue/internal/jsontext"
	"github.com/fescue-dev/fescue/internal/parts"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// kept is what of a decoded value is kept, as the documentation of parts.Set says.
func kept(value any, f *parts.Set) any {
	if f.Whole {
		return value
	}
	switch value := value.(type) {
	case map[string]any:
		part := make(map[string]any)
		for name, field := range value {
			if below := f.Fields[name].Union(f.Elements); below != nil {
				part[name] = kept(field, below)
			}
		}
		return part
	case []any:
		part := make([]any, len(value))
		for i := range value {
			part[i] = kept(value[i], f.AtElement())
		}
		return part
	}
	return value
}

// keptOf is what is kept of an object that client-go has decoded.
func keptOf(object map[string]any, f *parts.Set) map[string]any {
	object = k8sruntime.DeepCopyJSON(object)
	if metadata, ok := object["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
	}
	return kept(object, f.Union(identity)).(map[string]any)
}

// requireSame compares what is kept of a text with what is kept of the object that client-go decodes.
func requireSame(t *testing.T, text []byte, f *parts.Set) {
	t.Helper()
	var whole map[string]any
	errs, err := k8sjson.UnmarshalStrict(text, &whole) // the strict errors are duplicates
	_ = errs
	got, gotErr := To(f).Parse(text)
	if err != nil {
		return // of a number that is too large, nothing else is read; of others see FuzzProject
	}
	require.NoError(t, gotErr)
	want := keptOf(whole, f)
	require.Equal(t, want, got.Unstructured().Object)
	u := &unstructured.Unstructured{Object: want}
	require.Equal(t, []string{u.GetNamespace(), u.GetName(), string(u.GetUID()), u.GetResourceVersion()},
		[]string{got.GetObjectMeta().GetNamespace(), got.GetObjectMeta().GetName(), string(got.GetObjectMeta().GetUID()), got.GetObjectMeta().GetResourceVersion()})
}

var selections = map[string]*parts.Set{
	"nothing":    parts.Of(),
	"everything": parts.Everything(),
	"metadata":   parts.Of([]string{"metadata"}),
	"pod":        parts.Of([]string{"metadata", "labels"}, []string{"status", "phase"}, []string{"status", "conditions", parts.Each, "type"}, []string{"spec", "containers"}),
	"each":       parts.Of([]string{"spec", parts.Each, "name"}, []string{"spec", "containers", parts.Each, "image"}, []string{"status", "conditions"}, []string{parts.Each, "a"}),
	"lengths":    parts.Of([]string{"spec", "containers", parts.Each}).Union(parts.Of([]string{"status", "containerStatuses", parts.Each, "name"})),
}

// What is kept of real objects is the same as decoding everything and leaving out the rest.
func TestSameAsDecodingEverything(t *testing.T) {
	t.Parallel()
	typical, err := os.ReadFile("../../engine/inject/testdata/typical.json")
	require.NoError(t, err)
	pods := append(corpus.Pods(t), typical)
	require.Greater(t, len(pods), 10)
	for name, f := range selections {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, pod := range pods {
				requireSame(t, pod, f)
			}
		})
	}
}

// FuzzProject compares what is kept of any object with what is kept after decoding everything.
func FuzzProject(f *testing.F) {
	for _, pod := range corpus.Pods(f) {
		f.Add(pod, "metadata/labels\nstatus/conditions/*/type")
	}
	for _, text := range []string{
		`{"metadata":{"name":"a","name":"b","managedFields":[1],"managedFields":2}}`, `{"a":1.5,"b":-0,"c":1e3,"d":9223372036854775808,"e":[null,true,false]}`,
		`{"a\u0062":{"c":"\ud800 \n"}, "metadata" : null }`, `{"metadata":[{"managedFields":1}],"spec":{"a":[[{"b":1}],{}]}}`, ` {} `, `{"a":1e999}`,
	} {
		f.Add([]byte(text), "ab/c\nspec/*/*/b\n*\na")
	}
	f.Fuzz(func(t *testing.T, text []byte, paths string) {
		if !json.Valid(text) || !utf8.Valid(text) || !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
			_, err := To(parts.Everything()).Parse(text)
			require.True(t, err != nil || !utf8.Valid(text))
			return
		}
		fields := &parts.Set{}
		for path := range strings.SplitSeq(paths, "\n") {
			fields = fields.Union(parts.Of(strings.Split(path, "/")))
		}
		requireSame(t, text, fields)
	})
}

// An object that is decoded is kept no longer than somebody holds it.
func TestDecodedObjectsAreCollected(t *testing.T) {
	t.Parallel()
	o, err := To(parts.Everything()).Parse([]byte(`{"metadata":{"name":"a"}}`))
	require.NoError(t, err)
	u := o.Unstructured()
	require.Same(t, u, o.Unstructured())
	runtime.KeepAlive(u)
	require.Eventually(t, func() bool {
		runtime.GC()
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.decoded.Value() == nil
	}, 1e10, 1e6)
	require.Equal(t, "a", o.Unstructured().GetName())
}

// Who remembers what an object is does not keep its text.
func TestIdentityDoesNotKeepTheText(t *testing.T) {
	t.Parallel()
	identify := func() (weak.Pointer[byte], []string) {
		o, err := To(parts.Everything()).Parse([]byte(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"namespace":"n","name":"a","uid":"u","resourceVersion":"7","labels":{"x":"y"}}}`))
		require.NoError(t, err)
		u, m := o.Unstructured(), o.GetObjectMeta()
		return weak.Make(unsafe.StringData(o.Text())), []string{
			u.GetAPIVersion(), u.GetKind(), u.GetNamespace(), u.GetName(), string(u.GetUID()), u.GetResourceVersion(),
			m.GetNamespace(), m.GetName(), string(m.GetUID()), m.GetResourceVersion(),
		}
	}
	text, identity := identify()
	require.Eventually(t, func() bool {
		runtime.GC()
		return text.Value() == nil
	}, 1e10, 1e6)
	require.Equal(t, []string{"example.com/v1", "Thing", "n", "a", "u", "7", "n", "a", "u", "7"}, identity)
}

func TestObjectsOfCaches(t *testing.T) {
	t.Parallel()
	bookmark, err := To(parts.Of()).Parse([]byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}`))
	require.NoError(t, err)
	require.Equal(t, "true", bookmark.GetObjectMeta().GetAnnotations()[metav1.InitialEventsAnnotationKey])
	require.Equal(t, "7", bookmark.GetObjectMeta().GetResourceVersion())
	require.Equal(t, "Pod", bookmark.GetObjectKind().GroupVersionKind().Kind)
	_, err = To(parts.Of()).Parse([]byte(`[]`))
	require.EqualError(t, err, `"[]" is not an object`)
	_, err = To(parts.Of()).Parse([]byte(`{`))
	require.EqualError(t, err, "object: is not valid JSON")

	o, err := To(parts.Of([]string{"metadata"})).Parse([]byte(`{"metadata":{"name":"a","managedFields":[]},"spec":1}`))
	require.NoError(t, err)
	require.Equal(t, "a", o.GetObjectMeta().GetName())
	require.NotContains(t, o.Text(), "managedFields")
	require.NotContains(t, o.Text(), "spec")
	require.Equal(t, o.Text(), o.DeepCopyObject().(*Object).Text())
}

func BenchmarkPod(b *testing.B) {
	text, err := os.ReadFile(filepath.FromSlash("../../engine/inject/testdata/typical.json"))
	require.NoError(b, err)
	b.Run("client-go", func(b *testing.B) {
		for b.Loop() {
			_, _, err := unstructured.UnstructuredJSONScheme.Decode(text, nil, nil)
			require.NoError(b, err)
		}
	})
	for _, name := range []string{"pod", "everything"} {
		b.Run(name, func(b *testing.B) {
			p := To(selections[name])
			for b.Loop() {
				_, err := p.Parse(text)
				require.NoError(b, err)
			}
		})
	}
	b.Run("tokens", func(b *testing.B) {
		for b.Loop() {
			v, _ := jsontext.Parse(text)
			v.Release()
		}
	})
}
