package admission

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fescue-dev/fescue/internal/testing/kindtest"
	"github.com/fescue-dev/fescue/internal/testing/logtest"
)

// coopText is a kind whose older version has a list as one text. No generated object shows what is wrong with
// its conversion: it takes too long for a text of many words, makes a long note too large, and loses a place
// that is called limbo.
const coopText = `package coop

import (
	"list"
	"strings"

	"fescue.dev/cue/contract"
	"fescue.dev/cue/k8s"
)

#Coop: {
	apiVersion!: "coops.example.com/v1"
	kind!:       "Coop"
	metadata!:   k8s.#ObjectMeta
	spec!: {
		hens?:  list.MaxItems(3) & [...=~"^[a-z]+$"]
		place?: string
		owner?: string @kube(immutable)
		note?:  string
	}
	status?: contract.#Status
}
#CoopV1beta1: {
	apiVersion!: "coops.example.com/v1beta1"
	kind!:       "Coop"
	metadata!:   k8s.#ObjectMeta
	spec!: {
		hens?:  string
		place?: string
		owner?: string
		notes?: {a!: string, b!: string, c!: string, d!: string}
	}
	status?: contract.#Status
}
#CoopV1beta1Conversion: contract.#Conversion & {
	object!: #CoopV1beta1
	stored!: #Coop
	_words: strings.Split(object.spec.hens, " ")
	toStored: spec: {
		hens:  [for hen in _words if hen != "" if list.Max(list.Range(0, 100*len(_words), 1)) > 0 {hen}]
		place: object.spec.place
		note:  [for _, text in object.spec.notes {text}][0]
	}
	fromStored: spec: {
		hens: strings.Join(stored.spec.hens, " ")
		if stored.spec.place != _|_ if stored.spec.place != "limbo" {place: stored.spec.place}
		notes: {a: stored.spec.note, b: a, c: a, d: a}
	}
}
#CoopController: contract.#Controller & {
	object!: #Coop
	names: plural: "coops"
	children: config: template: {apiVersion: "v1", kind: "ConfigMap", data: hens: strings.Join(object.spec.hens, ",")}
}
`

// converting is a server for coops.
func converting(tb testing.TB) *running {
	tb.Helper()
	return serve(tb, Config{Kinds: kindtest.From(tb, coopText)})
}

// convert posts a body to the conversion webhook.
func (r *running) convert(tb testing.TB, body []byte) (int, *apiextensionsv1.ConversionResponse) {
	tb.Helper()
	request, err := http.NewRequest(http.MethodPost, r.url+ConvertPath, bytes.NewReader(body))
	require.NoError(tb, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := r.client.Do(request)
	require.NoError(tb, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(tb, err)
	var review apiextensionsv1.ConversionReview
	require.NoError(tb, json.Unmarshal(text, &review), "%s", text)
	require.Equal(tb, conversionType, review.TypeMeta)
	require.NotNil(tb, review.Response)
	return response.StatusCode, review.Response
}

// conversionOf returns a review that asks for objects in a version.
func conversionOf(apiVersion string, objects ...string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u1","desiredAPIVersion":%q,"objects":[%s]}}`,
		apiVersion, strings.Join(objects, ","))
}

func coop(version, name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"coops.example.com/%s","kind":"Coop","metadata":{"name":%q,"namespace":"default","uid":"u-%s","resourceVersion":"7"},"spec":%s}`, version, name, name, spec)
}

func TestConvert(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewRegistry()
	var log logtest.Buffer
	server := serve(t, Config{Kinds: kindtest.From(t, coopText), Metrics: metrics, Log: slog.New(slog.NewTextHandler(&log, nil))})
	code, response := server.convert(t, conversionOf("coops.example.com/v1", coop("v1beta1", "a", `{"hens":"ann"}`), coop("v1", "b", `{"hens":["bea"]}`), coop("v1beta1", "c", `{}`)))
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, metav1.StatusSuccess, response.Result.Status)
	require.EqualValues(t, "u1", response.UID)
	require.Len(t, response.ConvertedObjects, 3)
	require.JSONEq(t, coop("v1", "a", `{"hens":["ann"]}`), string(response.ConvertedObjects[0].Raw))
	require.JSONEq(t, coop("v1", "b", `{"hens":["bea"]}`), string(response.ConvertedObjects[1].Raw), "it has the version already")
	require.JSONEq(t, coop("v1", "c", `{}`), string(response.ConvertedObjects[2].Raw))

	code, response = server.convert(t, conversionOf("coops.example.com/v1beta1"))
	require.Equal(t, http.StatusOK, code)
	require.Empty(t, response.ConvertedObjects)

	// One that cannot be converted was stored while validation was off. It must not hide the others.
	code, response = server.convert(t, conversionOf("coops.example.com/v1beta1",
		coop("v1", "a", `{"hens":["ann"]}`), coop("v1", "b", `{"hens":["bea"],"place":"limbo"}`), coop("v1", "c", fmt.Sprintf(`{"note":%q}`, strings.Repeat("a", 1<<20)))))
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, metav1.StatusSuccess, response.Result.Status)
	require.Len(t, response.ConvertedObjects, 3)
	require.JSONEq(t, coop("v1beta1", "a", `{"hens":"ann"}`), string(response.ConvertedObjects[0].Raw))
	require.JSONEq(t, coop("v1beta1", "b", `{"hens":"bea"}`), string(response.ConvertedObjects[1].Raw))
	require.JSONEq(t, strings.Replace(coop("v1beta1", "c", "0"), `,"spec":0`, "", 1), string(response.ConvertedObjects[2].Raw))
	lines := log.Take()
	require.NotContains(t, lines, "object=\"Coop default/a\"")
	require.Contains(t, lines, `msg="an object is converted without a part" object="Coop default/b" error="coops.example.com/v1beta1 cannot hold spec.place"`)
	require.Contains(t, lines, `object="Coop default/c" error="coops.example.com/v1beta1 cannot hold spec"`)
	requireMetrics(t, metrics, `
# HELP fescue_admission_reviews_total Reviews (admission and conversion) by outcome.
# TYPE fescue_admission_reviews_total counter
fescue_admission_reviews_total{outcome="allowed",webhook="/default"} 0
fescue_admission_reviews_total{outcome="allowed",webhook="/validate"} 0
fescue_admission_reviews_total{outcome="converted",webhook="/convert"} 2
fescue_admission_reviews_total{outcome="failed",webhook="/convert"} 0
fescue_admission_reviews_total{outcome="failed",webhook="/default"} 0
fescue_admission_reviews_total{outcome="failed",webhook="/validate"} 0
fescue_admission_reviews_total{outcome="incomplete",webhook="/convert"} 1
fescue_admission_reviews_total{outcome="patched",webhook="/default"} 0
fescue_admission_reviews_total{outcome="patched",webhook="/validate"} 0
fescue_admission_reviews_total{outcome="rejected",webhook="/convert"} 0
fescue_admission_reviews_total{outcome="rejected",webhook="/default"} 0
fescue_admission_reviews_total{outcome="rejected",webhook="/validate"} 0
`, "fescue_admission_reviews_total")
}

// TestConvertFails requires an answer that names the object and the reason, whatever is sent.
func TestConvertFails(t *testing.T) {
	t.Parallel()
	server := converting(t)
	for _, test := range []struct {
		name, reason string
		code         int
		body         []byte
	}{
		{"an unknown version", "Coop default/a: apiVersion: coops.example.com/v7 is no version of Coop, which has coops.example.com/v1, coops.example.com/v1beta1", 200,
			conversionOf("coops.example.com/v7", coop("v1", "a", `{}`))},
		{"another group", "Coop default/a: apiVersion: apps/v1 is no version of Coop", 200, conversionOf("apps/v1", coop("v1", "a", `{}`))},
		{"an unknown kind", "Pod default/a: v1 Pod is not a kind that this server knows", 200,
			conversionOf("coops.example.com/v1", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"default"}}`)},
		{"an object without a name", "Pod default/a-: v1 Pod is not a kind", 200,
			conversionOf("coops.example.com/v1", `{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"a-","namespace":"default"}}`)},
		{"no object", "request.objects[0]: Required value", 400, conversionOf("coops.example.com/v1", `null`)},
		{"objects that are no list", "request.objects: must be a list", 400, []byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u1","objects":{}}}`)},
		{"another review", "must be apiextensions.k8s.io/v1, ConversionReview", 400, []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u1"}}`)},
		{"no JSON", "request body: ", 400, []byte(`{"request":{"uid":"u1",`)},
		{"too many values", "values: must have at most 200000", 413, conversionOf("coops.example.com/v1", `[`+strings.Repeat("1,", maxValues)+`1]`)},
		{"a huge body", "must have at most", 413, conversionOf("coops.example.com/v1", `"`+strings.Repeat("a", maxBodyBytes)+`"`)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			code, response := server.convert(t, test.body)
			require.Equal(t, test.code, code)
			require.Equal(t, metav1.StatusFailure, response.Result.Status)
			require.Contains(t, response.Result.Message, test.reason)
			require.EqualValues(t, "u1", response.UID)
			require.Empty(t, response.ConvertedObjects)
		})
	}
}

// TestNoConversion requires that kinds without conversions have no conversion webhook.
func TestNoConversion(t *testing.T) {
	t.Parallel()
	server := serve(t, Config{Kinds: kindtest.Shipped(t)})
	code, review := server.post(t, ConvertPath, conversionOf("cnat.fescue.dev/v1alpha1"))
	require.Equal(t, http.StatusNotFound, code)
	require.False(t, review.Allowed)
}

// TestValidatedAsStored requires that an object is valid in the stored version as well, and survives there
// and back, unless the old object did not either, and that the annotation of former conversions is ignored.
func TestValidatedAsStored(t *testing.T) {
	t.Parallel()
	server := converting(t)
	long, large := fmt.Sprintf(`{"hens":%q}`, strings.Repeat("hen ", 2000)), strings.Repeat("a", 1<<20)
	for _, test := range []struct {
		name, object, old, reason string
	}{
		{"valid", coop("v1beta1", "a", `{"hens":"ann"}`), "", ""},
		{"another spelling", coop("v1beta1", "a", `{"hens":"  ann bea "}`), "", ""},
		{"invalid as stored", coop("v1beta1", "a", `{"hens":"a b c d"}`), "", `spec.hens: Too many: 4: as v1: must have at most 3 items`},
		{"an unchanged error", coop("v1beta1", "a", `{"hens":"a b c d"}`), coop("v1beta1", "a", `{"hens":"a b c d"}`), ""},
		{"an immutable field", coop("v1beta1", "a", `{"owner":"bob"}`), coop("v1beta1", "a", `{"owner":"ann"}`), `spec.owner: Invalid value: "bob": as v1: field is immutable`},
		{"not convertible", coop("v1beta1", "a", long), "", `spec.hens: Invalid value: cannot be converted to v1: toStored.spec.hens: Coop takes more than 500000 steps`},
		{"not convertible before", coop("v1beta1", "a", long), coop("v1beta1", "a", long), ""},
		{"too large in another version", coop("v1", "a", fmt.Sprintf(`{"note":%q}`, large)), "", `spec: Invalid value: cannot be converted to v1beta1: it would have 4194352 bytes: must have at most 3145728`},
		{"lost in another version", coop("v1", "a", `{"place":"limbo"}`), "", `spec.place: Invalid value: "limbo": would be absent after a conversion from v1 to v1beta1 and back`},
		{"lost when it was written in that version", coop("v1beta1", "a", `{"place":"limbo"}`), "", `spec.place: Invalid value: "limbo": would be absent after a conversion from v1 to v1beta1 and back`},
		{"lost before", coop("v1", "a", `{"place":"limbo","note":"x"}`), coop("v1", "a", `{"place":"limbo"}`), ""},
		{"lost since", coop("v1", "a", `{"place":"limbo"}`), coop("v1", "a", `{"place":"here"}`), `spec.place: Invalid value: "limbo": would be absent`},
		{"an annotation for the stored version", annotated("v1beta1", "v1"), "", ""},
		{"an annotation for another version", annotated("v1", "v1beta1"), annotated("v1", "v1"), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			operation, old, version := admissionv1.Create, "null", "v1beta1"
			if strings.Contains(test.object, `"coops.example.com/v1"`) {
				version = "v1"
			}
			if test.old != "" {
				operation, old = admissionv1.Update, test.old
			}
			_, review := server.post(t, ValidatePath, fmt.Appendf(nil,
				`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u1","kind":{"group":"coops.example.com","version":%q,"kind":"Coop"},"operation":%q,"object":%s,"oldObject":%s}}`,
				version, operation, test.object, old))
			require.Equal(t, test.reason == "", review.Allowed, "%v", review.Result)
			if test.reason != "" {
				require.Contains(t, review.Result.Message, test.reason)
			}
			require.Equal(t, strings.Contains(test.object, "annotations"), len(review.Warnings) == 1 && strings.Contains(review.Warnings[0], "is ignored"), "%v", review.Warnings)
		})
	}
}

// annotated is an object with what former conversions kept for another version.
func annotated(version, other string) string {
	return fmt.Sprintf(`{"apiVersion":"coops.example.com/%s","kind":"Coop","metadata":{"name":"a","annotations":{"conversion.fescue.dev/%s":%q}},"spec":{}}`,
		version, other, `{"/spec/hens":{"value":["a","b","c","d"]},"/status/observedGeneration":{"value":7}}`)
}
