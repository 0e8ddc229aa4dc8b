package projection

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// serializers returns the JSON serializer of a client before and after Answers.
func serializers(tb testing.TB) (usual, fast runtime.Serializer) {
	tb.Helper()
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	of := func(s runtime.NegotiatedSerializer) runtime.Serializer {
		info, ok := runtime.SerializerInfoForMediaType(s.SupportedMediaTypes(), runtime.ContentTypeJSON)
		require.True(tb, ok)
		return info.Serializer
	}
	return of(codecs), of(Answers(codecs))
}

// An answer is what client-go decodes, without managedFields, and requests are the same.
func TestAnswers(t *testing.T) {
	t.Parallel()
	usual, fast := serializers(t)
	for _, pod := range corpus.Pods(t) {
		want, got := &unstructured.Unstructured{}, &unstructured.Unstructured{}
		_, wantGVK, wantErr := usual.Decode(pod, nil, want)
		_, gotGVK, gotErr := fast.Decode(pod, nil, got)
		require.Equal(t, wantErr == nil, gotErr == nil, "%v, %v", wantErr, gotErr)
		if wantErr != nil {
			continue
		}
		want.SetManagedFields(nil)
		require.Equal(t, want, got)
		require.Equal(t, wantGVK, gotGVK)
		var wantText, gotText bytes.Buffer
		require.NoError(t, usual.Encode(want, &wantText))
		require.NoError(t, fast.Encode(got, &gotText))
		require.Equal(t, wantText.String(), gotText.String())
	}
	failure := []byte(`{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Conflict","code":409}`)
	for _, into := range []runtime.Object{nil, &unstructured.Unstructured{}} {
		want, _, wantErr := usual.Decode(failure, nil, into)
		got, _, gotErr := fast.Decode(failure, nil, into)
		require.Equal(t, want, got)
		require.Equal(t, wantErr, gotErr)
	}
	_, _, err := fast.Decode([]byte(`{"kind":`), nil, &unstructured.Unstructured{})
	require.ErrorContains(t, err, "answer: ")
	options := &metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}}
	var want, got bytes.Buffer
	require.NoError(t, usual.Encode(options, &want))
	require.NoError(t, fast.Encode(options, &got))
	require.Equal(t, want.String(), got.String())
}

// BenchmarkAnswers decodes a Pod of 5 KB, as the API server answers its creation.
func BenchmarkAnswers(b *testing.B) {
	usual, fast := serializers(b)
	pod, err := os.ReadFile("../../engine/inject/testdata/typical.json")
	require.NoError(b, err)
	for name, s := range map[string]runtime.Serializer{"client-go": usual, "projection": fast} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _, err := s.Decode(pod, nil, &unstructured.Unstructured{})
				require.NoError(b, err)
			}
		})
	}
}
